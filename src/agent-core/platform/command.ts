import { execa } from 'execa'
import { PlatformError } from './platform.ts'

export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
}

/** Runs a system command given by its absolute path. Throws PlatformError when it cannot be run or takes too long. */
export type CommandRunner = (command: string, args: readonly string[]) => Promise<CommandResult>

/** The slowest command here, system_profiler, takes about a second; one that takes ten hangs. */
export const commandTimeLimitMs = 10_000

/** A process table of thousands of long command lines stays below this. */
const maxOutputBytes = 16 * 1024 * 1024

export const runCommand =
  (timeLimitMs: number = commandTimeLimitMs): CommandRunner =>
  async (command, args) => {
    const result = await execa(command, args, {
      stdin: 'ignore',
      extendEnv: false,
      env: { LC_ALL: 'C' },
      reject: false,
      timeout: timeLimitMs,
      forceKillAfterDelay: 1_000,
      maxBuffer: maxOutputBytes,
    })
    if (result.timedOut) throw new PlatformError(`${command} did not answer within ${timeLimitMs} ms.`)
    if (result.exitCode === undefined || result.isMaxBuffer) {
      throw new PlatformError(`${command} could not be run: ${result.originalMessage ?? result.shortMessage ?? ''}.`, {
        cause: result.cause,
      })
    }
    return { exitCode: result.exitCode, stdout: result.stdout }
  }
