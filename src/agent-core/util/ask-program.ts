import type { Options } from 'execa'
import { messageOf } from './message-of.ts'
import { signalGroup } from './signal-group.ts'

interface ProgramQuestion {
  readonly command: string
  readonly args?: readonly string[]
  /** The whole environment: nothing of ours is added. */
  readonly env: Readonly<Record<string, string>>
  readonly timeLimitMs: number
  /** The most that it may print on standard output, and the most on standard error. */
  readonly maxOutputBytes?: number
  readonly signal?: AbortSignal | undefined
}

interface ProgramAnswer {
  /** Null where a signal ended it. */
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** One sentence why a program gave no answer. */
export class ProgramError extends Error {
  override readonly name = 'ProgramError'
}

const defaultOutputBytes = 1024 * 1024

/**
 * How long we wait for the output of a program that has ended, since a process that left its group may hold the pipe open for ever; and for
 * the end of one that was killed, which never comes where it waits for a dead disk or runs as root.
 */
const patienceMs = 1_000

const rules = {
  extendEnv: false,
  stdin: 'ignore',
  // Decoded here, so that maxBuffer counts bytes.
  encoding: 'buffer',
  stripFinalNewline: false,
  reject: false,
  killSignal: 'SIGKILL',
  forceKillAfterDelay: false,
  killDescendants: true,
  // It would add listeners for every signal that can end us, for each program.
  cleanup: false,
} as const satisfies Options

/**
 * Runs a short-lived program to its end: standard input is closed, and it leads a process group of its own, of which nothing is left when
 * this settles, whether the program ended, its time was up or the signal was aborted. All programs that are asked once are run here.
 * Throws {@link ProgramError}, or the reason of the signal.
 */
export async function askProgram(question: ProgramQuestion): Promise<ProgramAnswer> {
  const { command, args = [], env, timeLimitMs, maxOutputBytes = defaultOutputBytes, signal } = question
  signal?.throwIfAborted()
  // Loaded with the first program: the command starts without it, and an agent on Linux reads files in place of asking programs.
  const { execa } = await import('execa')
  const limits = { timeout: timeLimitMs, maxBuffer: maxOutputBytes, ...(signal && { cancelSignal: signal }) }
  const program = execa(command, args, { ...rules, ...limits, env })
  const { nodeChildProcess: child } = program
  const { promise: givenUp, resolve: giveUp } = Promise.withResolvers<undefined>()
  if (child.pid !== undefined) running.add(child.pid)
  let patience = setTimeout(() => giveUp(undefined), timeLimitMs + patienceMs)
  child.once('exit', () => {
    killGroup(child.pid)
    clearTimeout(patience)
    patience = setTimeout(letGo, patienceMs)
  })
  const letGo = (): void => {
    child.stdout?.destroy()
    child.stderr?.destroy()
  }
  const result = await Promise.race([program, givenUp])
  clearTimeout(patience)
  killGroup(child.pid)
  letGo()
  if (result?.isCanceled === true) throw signal?.reason
  if (result === undefined || result.timedOut) {
    throw new ProgramError(`${command} did not answer within ${timeLimitMs} ms.`)
  }
  if (result.isMaxBuffer) throw new ProgramError(`${command} printed more than ${maxOutputBytes} bytes.`)
  if (result.exitCode === undefined && result.signal === undefined) {
    throw new ProgramError(`${command} could not be run: ${messageOf(result.cause)}.`, { cause: result.cause })
  }
  return { exitCode: result.exitCode ?? null, stdout: textOf(result.stdout), stderr: textOf(result.stderr) }
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8')

/** Groups that were not ended yet. */
const running = new Set<number>()

/** An agent that ends leaves no program behind. */
process.on('exit', () => running.forEach(killGroup))

/** Once only: afterwards the group's number may belong to another process. */
function killGroup(pid: number | undefined): void {
  if (pid !== undefined && running.delete(pid)) signalGroup(pid, 'SIGKILL')
}
