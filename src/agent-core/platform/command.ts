import { askProgram, ProgramError } from '../util/ask-program.ts'
import { PlatformError } from './platform.ts'

export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
  /** Empty where a recording has none. */
  readonly stderr?: string
}

/** Runs a system command given by its absolute path. Throws PlatformError when it cannot be run or takes too long. */
export type CommandRunner = (command: string, args: readonly string[]) => Promise<CommandResult>

/** The slowest command here, system_profiler, takes about a second; a command that takes ten hangs. */
export const commandTimeLimitMs = 10_000

/** A process table of thousands of long command lines stays below this. */
const maxOutputBytes = 16 * 1024 * 1024

/** Start times and numbers come as they are written in one place and one language, wherever the Mac is taken. */
export const commandEnvironment = { LC_ALL: 'C', TZ: 'UTC' }

export const runCommand =
  (timeLimitMs: number = commandTimeLimitMs): CommandRunner =>
  async (command, args) => {
    try {
      const answer = await askProgram({ command, args, env: commandEnvironment, timeLimitMs, maxOutputBytes })
      if (answer.exitCode === null) throw new PlatformError(`${command} was ended by a signal.`)
      return { exitCode: answer.exitCode, stdout: answer.stdout.replace(/\n$/, ''), stderr: answer.stderr }
    } catch (error) {
      if (error instanceof ProgramError) throw new PlatformError(error.message, { cause: error })
      throw error
    }
  }
