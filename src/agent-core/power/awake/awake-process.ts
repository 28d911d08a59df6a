import { spawn, type ChildProcess } from 'node:child_process'
import { commandEnvironment } from '../../platform/command.ts'
import type { AwakeProgram } from '../../platform/power-supply.ts'
import type { AwakeHold, HowItEnded } from './awake-hold.ts'

/**
 * A process that holds the system awake. It has the end of a pipe as its input, which ends with this process, and knows its number, so that
 * it outlives neither a release nor a crash. It gets nothing of our environment, in which there may be secrets.
 */
export function holdByProcess({ command, args }: AwakeProgram, onEnded: (how: HowItEnded) => void): AwakeHold {
  let isHeld = true
  const ended = (how: HowItEnded): void => {
    if (!isHeld) return
    isHeld = false
    onEnded(how)
  }
  const child: ChildProcess = spawn(command, args, { stdio: ['pipe', 'ignore', 'ignore'], env: commandEnvironment })
  child.on('error', (error) => ended({ error }))
  child.on('exit', (code, signal) => ended({ code, signal }))
  // Absent where no descriptor is left, which is told as an error; and it may end before its input does.
  child.stdin?.on('error', () => undefined)
  child.unref()
  return {
    get isHeld() {
      return isHeld
    },
    release: () => {
      isHeld = false
      child.stdin?.destroy()
      child.kill()
    },
  }
}
