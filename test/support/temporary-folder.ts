import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Gone when the test's scope ends: `await using folder = await temporaryFolder()`. */
export async function temporaryFolder(): Promise<AsyncDisposable & { readonly dir: string }> {
  const dir = await mkdtemp(path.join(tmpdir(), 'mb-'))
  return { dir, [Symbol.asyncDispose]: () => removeFolder(dir) }
}

/** A process that is just ending may still write into it: what is not empty yet is tried again. */
export const removeFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 20 })
