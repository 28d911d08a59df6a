import { spawn, type ChildProcess } from 'node:child_process'
import { messageOf } from './message-of.ts'
import { signalGroup } from './signal-group.ts'

interface ProgramQuestion {
  readonly command: string
  readonly args?: readonly string[]
  /** The whole environment: nothing of ours is added. */
  readonly env: Readonly<Record<string, string>>
  readonly timeLimitMs: number
  /** Of standard output and of standard error, each. */
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

/** A process that left the group may hold the pipe open for ever: what the program itself wrote is here by then. */
const drainMs = 1_000

/**
 * Runs a short-lived program to its end: standard input is closed, and it leads a process group of its own, of which
 * nothing is left when this settles, whether the program ended, its time was up or the signal was aborted.
 * Throws {@link ProgramError}, or the reason of the signal.
 */
export async function askProgram(question: ProgramQuestion): Promise<ProgramAnswer> {
  const { command, args = [], env, timeLimitMs, maxOutputBytes = defaultOutputBytes, signal } = question
  signal?.throwIfAborted()
  const child = start(command, args, env)
  const { promise: given, reject: giveUp } = Promise.withResolvers<never>()
  const fail = (why: string): void => giveUp(new ProgramError(`${command} ${why}.`))
  const onAbort = (): void => giveUp(signal?.reason)
  const timer = setTimeout(() => fail(`did not answer within ${timeLimitMs} ms`), timeLimitMs)
  signal?.addEventListener('abort', onAbort, { once: true })
  const stdout = collected(child.stdout, maxOutputBytes, () => fail(`printed more than ${maxOutputBytes} bytes`))
  const stderr = collected(child.stderr, maxOutputBytes, () => fail(`printed more than ${maxOutputBytes} bytes`))
  try {
    const exitCode = await Promise.race([ended(child), given])
    return { exitCode, stdout: stdout(), stderr: stderr() }
  } catch (error) {
    if (error instanceof ProgramError || signal?.aborted === true) throw error
    throw new ProgramError(`${command} could not be run: ${messageOf(error)}.`, { cause: error })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    killGroup(child)
    child.stdout?.destroy()
    child.stderr?.destroy()
  }
}

function start(command: string, args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  try {
    const child = spawn(command, args, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    asked.add(child)
    return child
  } catch (error) {
    throw new ProgramError(`${command} could not be run: ${messageOf(error)}.`, { cause: error })
  }
}

/** Resolves once its output is complete. Processes that it started and left in its group are ended with it. */
function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => {
      killGroup(child)
      const drained = setTimeout(() => resolve(code), drainMs)
      child.once('close', () => {
        clearTimeout(drained)
        resolve(code)
      })
    })
  })
}

function collected(stream: ChildProcess['stdout'], maxBytes: number, onTooMuch: () => void): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  stream?.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxBytes) onTooMuch()
    else chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

/** Children whose group was not ended yet. */
const asked = new Set<ChildProcess>()

/** An agent that ends leaves no program behind. */
process.on('exit', () => asked.forEach(killGroup))

/** Once only: afterwards the group's number may belong to another process. */
function killGroup(child: ChildProcess): void {
  if (asked.delete(child) && child.pid !== undefined) signalGroup(child.pid, 'SIGKILL')
}
