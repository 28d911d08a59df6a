import { stat } from 'node:fs/promises'
import { z } from 'zod'
import { answerOfWorker } from '../util/worker.ts'

const answer = z.union([z.object({ sha256: z.string() }), z.object({ failed: z.string(), code: z.string() })])

/** SHA-256 of files (hex), each computed once in a thread of its own as long as the file stays the same. */
export class FileHashes {
  readonly #known = new Map<string, Promise<string>>()

  /** Throws what the disk answers, with its `code`. */
  async of(path: string): Promise<string> {
    const { size, mtimeMs, ino } = await stat(path)
    const key = [path, size, mtimeMs, ino].join('\n')
    const known = this.#known.get(key)
    if (known) return known
    const computed = hashFile(path)
    this.#known.set(key, computed)
    computed.catch(() => this.#known.delete(key))
    return computed
  }
}

/** SHA-256 (hex) of a file, computed in a thread of its own. Throws what the disk answers, with its `code`, or the signal's reason. */
export async function hashFile(path: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<string> {
  const worker = new URL('./hash-file-worker.ts', import.meta.url)
  const found = answer.parse(await answerOfWorker(worker, { input: path, signal }))
  if ('sha256' in found) return found.sha256
  throw Object.assign(new Error(found.failed), { code: found.code })
}
