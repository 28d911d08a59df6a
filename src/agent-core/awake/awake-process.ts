import { spawn } from 'node:child_process'
import type { AwakeProgram } from '../platform/power-supply.ts'
import type { AwakeHold } from './awake-hold.ts'

/** Of a process that ended although it was not released. */
export type HowItEnded =
  { readonly error: Error } | { readonly code: number | null; readonly signal: NodeJS.Signals | null }

/**
 * A process that holds the system awake. It has the end of a pipe as its input, which ends with this process, and knows its number, so that
 * it outlives neither a release nor a crash.
 */
export function holdByProcess({ command, args }: AwakeProgram, onEnded: (how: HowItEnded) => void): AwakeHold {
  let isHeld = true
  const ended = (how: HowItEnded): void => {
    if (!isHeld) return
    isHeld = false
    onEnded(how)
  }
  const child = spawn(command, args, { stdio: ['pipe', 'ignore', 'ignore'] })
  child.on('error', (error) => ended({ error }))
  child.on('exit', (code, signal) => ended({ code, signal }))
  // It may end before its input does.
  child.stdin.on('error', () => undefined)
  child.unref()
  return {
    get isHeld() {
      return isHeld
    },
    release: () => {
      isHeld = false
      child.stdin.destroy()
      child.kill()
    },
  }
}
