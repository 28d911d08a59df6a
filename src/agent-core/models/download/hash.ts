import { open } from 'node:fs/promises'
import { untilAborted } from '../../util/until-aborted.ts'
import { startWorker } from '../../util/worker.ts'

export interface HashOptions {
  readonly signal?: AbortSignal
  /** Told several times a second how many bytes are hashed. */
  readonly onProgress?: (bytes: number) => void
}

/** SHA-256 (hex) of a file, computed in a thread of its own. Throws what the disk answers, with its `code`, or the signal's reason. */
export async function hashFile(path: string, options: HashOptions = {}): Promise<string> {
  options.signal?.throwIfAborted()
  const file = await open(path)
  try {
    return await hashOpenFile(file.fd, options)
  } finally {
    await file.close()
  }
}

/** SHA-256 (hex) of all of an open file; see {@link hashFile}. `fd` stays the caller's. */
export async function hashOpenFile(fd: number, { signal, onProgress }: HashOptions): Promise<string> {
  signal?.throwIfAborted()
  const worker = startWorker(new URL('./hash-worker.ts', import.meta.url), { input: { fd }, heapMiB: 16 })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  worker.on('message', (news: number | string) => (typeof news === 'string' ? resolve(news) : onProgress?.(news)))
  worker.on('error', reject)
  worker.on('exit', () => reject(new Error('The thread that computes a checksum ended without one.')))
  try {
    return await (signal ? untilAborted(promise, signal) : promise)
  } finally {
    const ended = worker.terminate()
    // The volume may be dead, and the thread waits for it.
    if (signal?.aborted !== true) await ended
  }
}
