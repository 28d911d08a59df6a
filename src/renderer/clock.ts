import { useCallback, useSyncExternalStore } from 'react'
import { useWindow } from './store.ts'

const tickMs = 1_000
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/** This computer's time in milliseconds, anew every second while a component uses it. */
export const useNow = (): number => useSyncExternalStore(subscribe, wholeSecond)

/** The agent's time in milliseconds, by which its timestamps are read. */
export function useAgentNow(): number {
  const lead = useWindow((state) => state.clockLead)
  return useSyncExternalStore(
    subscribe,
    useCallback(() => wholeSecond(lead), [lead]),
  )
}

const wholeSecond = (lead = 0) => Math.floor((Date.now() + lead) / tickMs) * tickMs

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(tick, tickMs)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

function tick(): void {
  if (document.visibilityState === 'hidden') return
  for (const listener of listeners) listener()
}
