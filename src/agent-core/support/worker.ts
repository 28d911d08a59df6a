import { Worker, type Transferable } from 'node:worker_threads'

export interface WorkerOptions {
  /** What the worker finds as `workerData`. */
  readonly input?: unknown
  readonly transfer?: readonly Transferable[]
  /** The thread ends with an error when its JavaScript objects need more. */
  readonly heapMiB?: number
}

/**
 * Starts a worker thread with an empty environment and none of this process's options.
 * The file is always written out as `new URL(…, import.meta.url)` of a literal that begins with a dot and ends with
 * -worker.ts: Node.js runs it as it is, and a build finds the expression, bundles the file and puts the bundle's
 * address there (tasks/worker-files.ts).
 */
export function startWorker(file: URL, { input, transfer = [], heapMiB }: WorkerOptions = {}): Worker {
  return new Worker(file, {
    workerData: input,
    transferList: [...transfer],
    env: {},
    execArgv: [],
    ...(heapMiB !== undefined && { resourceLimits: { maxOldGenerationSizeMb: heapMiB } }),
  })
}

/** The one message of a worker that answers once. Rejects when it crashes or ends without; an abort ends it at once. */
export async function answerOfWorker(
  file: URL,
  { signal, ...options }: WorkerOptions & { readonly signal?: AbortSignal | undefined },
): Promise<unknown> {
  signal?.throwIfAborted()
  const worker = startWorker(file, options)
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const abort = (): void => reject(signal?.reason)
  worker.once('message', resolve)
  worker.once('messageerror', reject)
  worker.once('error', reject)
  worker.once('exit', (code) => reject(new Error(`The worker thread ended with code ${code} before it answered.`)))
  signal?.addEventListener('abort', abort, { once: true })
  try {
    return await promise
  } finally {
    signal?.removeEventListener('abort', abort)
    const ended = worker.terminate()
    // A thread inside a system call ends only after it: whoever aborts does not wait for a dead volume.
    if (signal?.aborted !== true) await ended
  }
}
