import { readFileSync } from 'node:fs'
import { Worker, type Transferable } from 'node:worker_threads'
import { embeddedText, isEmbedded } from './embedded.ts'

export interface WorkerOptions {
  /** What the worker finds as `workerData`. */
  readonly input?: unknown
  readonly transfer?: readonly Transferable[]
  /** The thread ends with an error when its JavaScript objects need more. */
  readonly heapMiB?: number
}

interface Abortable {
  readonly signal?: AbortSignal | undefined
}

/**
 * Starts a worker thread with an empty environment and none of this process's options.
 * The file is always written out as `new URL(…, import.meta.url)` of a literal that begins with a dot and ends with
 * -worker.ts: Node.js runs it as it is, and a build finds the expression, bundles the file and puts the bundle's
 * address there (tasks/worker-files.ts, for the app tasks/worker-texts.ts, for the self-contained command
 * tasks/package/embedded-workers.ts).
 */
export function startWorker(file: URL, { input, transfer = [], heapMiB }: WorkerOptions = {}): Worker {
  const text = textOf(file)
  return new Worker(text ?? file, {
    eval: text !== undefined,
    workerData: input,
    transferList: [...transfer],
    env: {},
    execArgv: [],
    ...(heapMiB !== undefined && { resourceLimits: { maxOldGenerationSizeMb: heapMiB } }),
  })
}

/** The source of a worker that is run from its text; undefined if Node.js can open the file itself, which it cannot in Electron's archive. */
function textOf(file: URL): string | undefined {
  if (isEmbedded(file.href)) return embeddedText(file.href)
  return file.pathname.endsWith('.cjs') ? readFileSync(file, 'utf8') : undefined
}

/** The one message of a worker that answers once. Rejects when it crashes or ends without; an abort ends it at once. */
export async function answerOfWorker(file: URL, { signal, ...options }: WorkerOptions & Abortable): Promise<unknown> {
  signal?.throwIfAborted()
  const worker = startWorker(file, options)
  try {
    return await nextMessage(worker, signal)
  } finally {
    await end(worker, signal)
  }
}

/**
 * Threads that answer each message with one message. To start one costs more than most answers (30 ms of a core), so
 * one without work is kept for a while; it does not keep the process alive.
 */
export class KeptWorkers {
  readonly #start: () => Worker
  readonly #keepMs: number
  /** Idle workers, each with the function that takes it back into use. */
  readonly #idle = new Map<Worker, () => void>()

  constructor(start: () => Worker, { keepMs = 10_000 }: { keepMs?: number } = {}) {
    this.#start = start
    this.#keepMs = keepMs
  }

  /** Rejects when the thread crashes or ends instead; an abort ends it at once. */
  async ask(message: unknown, { signal }: Abortable = {}): Promise<unknown> {
    signal?.throwIfAborted()
    const worker = this.#take()
    try {
      worker.postMessage(message)
      const answer = await nextMessage(worker, signal)
      this.#keep(worker)
      return answer
    } catch (error) {
      await end(worker, signal)
      throw error
    }
  }

  #take(): Worker {
    const [kept] = this.#idle
    if (kept === undefined) return this.#start()
    const [worker, wake] = kept
    wake()
    worker.ref()
    return worker
  }

  #keep(worker: Worker): void {
    const wake = (): void => {
      clearTimeout(timer)
      worker.off('error', wake).off('exit', wake)
      this.#idle.delete(worker)
    }
    const dismiss = (): void => {
      wake()
      void end(worker, undefined)
    }
    const timer = setTimeout(dismiss, this.#keepMs).unref()
    // A thread that fails without work does no harm: the next question starts another.
    worker.on('error', wake).on('exit', wake).unref()
    this.#idle.set(worker, wake)
  }
}

async function nextMessage(worker: Worker, signal: AbortSignal | undefined): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const exit = (code: number): void =>
    reject(new Error(`The worker thread ended with code ${code} before it answered.`))
  const abort = (): void => reject(signal?.reason)
  worker.once('message', resolve).once('messageerror', reject).once('error', reject).once('exit', exit)
  signal?.addEventListener('abort', abort, { once: true })
  try {
    return await promise
  } finally {
    signal?.removeEventListener('abort', abort)
    worker.off('message', resolve).off('messageerror', reject).off('error', reject).off('exit', exit)
  }
}

async function end(worker: Worker, signal: AbortSignal | undefined): Promise<void> {
  // Whatever it still has to say, its answer is no longer wanted.
  worker.on('error', () => undefined)
  const ended = worker.terminate()
  // A thread inside a system call ends only after the call, so an abort does not wait for it: the volume may be dead.
  if (signal?.aborted !== true) await ended
}
