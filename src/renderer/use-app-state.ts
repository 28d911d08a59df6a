import { useCallback, useEffect, useState } from 'react'
import type { AppBridge, AppState } from '../contract/app-bridge.ts'
import type { BridgeReply } from '../contract/bridge-reply.ts'

/** What there is of the app beside its agent, asked anew when a person comes back to the window, as from System Settings. */
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
  return { state, problem, take }
}
