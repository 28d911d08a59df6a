import { open } from 'node:fs/promises'
import type { Worker } from 'node:worker_threads'
import { asError } from '../../util/message-of.ts'
import { untilAborted } from '../../util/until-aborted.ts'
import { startWorker } from '../../util/worker.ts'

export type HashRequest =
  | { readonly kind: 'advance'; readonly to: number }
  /** Without `at`: wherever it is. */
  | { readonly kind: 'digest'; readonly id: number; readonly at?: number }

export type HashAnswer =
  | { readonly kind: 'position'; readonly bytes: number }
  | ({ readonly kind: 'digest'; readonly id: number } & PrefixDigest)

/** SHA-256 (hex) of the first `bytes` of a file. */
export interface PrefixDigest {
  readonly bytes: number
  readonly sha256: string
}

/** Follows the growing beginning of a file in a worker thread, which reads it back: memory stays bounded, and this thread free. */
export class PrefixHash implements AsyncDisposable {
  readonly #worker: Worker
  readonly #waiting = new Map<number, PromiseWithResolvers<PrefixDigest>>()
  #asked = 0
  #hashedBytes = 0
  #failure: Error | undefined

  /** `fd` stays the caller's, and open until this is disposed of. */
  constructor(fd: number) {
    this.#worker = startWorker(new URL('./hash-worker.ts', import.meta.url), { input: { fd }, heapMiB: 16 })
    this.#worker.on('message', (answer: HashAnswer) => {
      this.#hashedBytes = answer.bytes
      if (answer.kind !== 'digest') return
      this.#waiting.get(answer.id)?.resolve({ bytes: answer.bytes, sha256: answer.sha256 })
      this.#waiting.delete(answer.id)
    })
    this.#worker.on('error', (error: unknown) => this.#fail(error))
    this.#worker.on('exit', (code) => this.#fail(new Error(`The hash's worker thread ended with code ${code}.`)))
  }

  get hashedBytes(): number {
    return this.#hashedBytes
  }

  /** The file's first `bytes` are written for good. */
  advance(bytes: number): void {
    this.#worker.postMessage({ kind: 'advance', to: bytes } satisfies HashRequest)
  }

  /** The digest of what is hashed by now; with `at` of exactly so many bytes, for which the hash waits until `advance` went so far. */
  digest(at?: number): Promise<PrefixDigest> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    const id = ++this.#asked
    const waiting = Promise.withResolvers<PrefixDigest>()
    this.#waiting.set(id, waiting)
    this.#worker.postMessage({ kind: 'digest', id, ...(at !== undefined && { at }) } satisfies HashRequest)
    return waiting.promise
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#fail(new Error('The hash was cancelled.'))
    await this.#worker.terminate()
  }

  #fail(error: unknown): void {
    this.#failure ??= asError(error)
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure)
    this.#waiting.clear()
  }
}

/** SHA-256 (hex) of a file, computed in a thread of its own. Throws what the disk answers, with its `code`, or the signal's reason. */
export async function hashFile(path: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<string> {
  signal?.throwIfAborted()
  const file = await open(path)
  const hash = new PrefixHash(file.fd)
  try {
    const { size } = await file.stat()
    hash.advance(size)
    const whole = hash.digest(size)
    return (await (signal ? untilAborted(whole, signal) : whole)).sha256
  } finally {
    const ended = hash[Symbol.asyncDispose]().then(() => file.close())
    // The volume may be dead, and its thread with it.
    if (signal?.aborted === true) ended.catch(() => undefined)
    else await ended
  }
}
