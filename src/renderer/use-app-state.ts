import { useCallback, useEffect, useState } from 'react'
import type { AppBridge, AppState, BridgeReply } from '../contract/app-bridge.ts'

/** So often an update that is under way is asked about, in milliseconds. */
const lookMs = 500

/**
 * What there is of the app beside its agent, asked anew when a person comes back to the window, as from System Settings, and while an update
 * is under way.
 */
export function useAppState(app: AppBridge) {
  const [state, setState] = useState<AppState>()
  const [problem, setProblem] = useState<string>()
  /** Answers whether it was done. */
  const take = useCallback(async (asked: Promise<BridgeReply<AppState | null>>): Promise<boolean> => {
    const reply = await asked
    if (reply.ok && reply.value !== null) setState(reply.value)
    setProblem(reply.ok ? undefined : reply.failure.message)
    return reply.ok
  }, [])
  useEffect(() => {
    const look = () => void take(app.appState())
    look()
    window.addEventListener('focus', look)
    return () => window.removeEventListener('focus', look)
  }, [app, take])
  const step = state?.update.step
  const isUnderWay = step === 'looking' || step === 'downloading' || step === 'installing'
  useEffect(() => {
    if (!isUnderWay) return undefined
    const timer = setInterval(() => void take(app.appState()), lookMs)
    return () => clearInterval(timer)
  }, [app, take, isUnderWay])
  return { state, problem, take }
}
