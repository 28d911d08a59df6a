import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { localRepairMs, ModelError } from './errors.ts'
import { requireFormat } from './format-check.ts'
import type { FileHashes } from './hash-file.ts'
import { resolveLocal } from './local-source.ts'
import type { LocalModel, ModelRequest } from './model-request.ts'

/** A model used in place: checked, never copied, changed or deleted. Throws ModelError. */
export async function localModel(path: string, request: ModelRequest, hashes: FileHashes): Promise<LocalModel> {
  const found = await resolveLocal(path, request)
  const [first = found.path] = found.files
  await requireFormat(first, request.format)
  const wanted = request.sha256?.toLowerCase()
  const sha256 = wanted === undefined ? undefined : await hashes.of(first)
  if (sha256 !== wanted) {
    throw new ModelError(
      'transient',
      'WrongChecksum',
      `${first} is not what the Model says: its SHA-256 is ${sha256 ?? ''}, and spec.sha256 is ${wanted ?? ''}. Put the right file there, or correct spec.sha256.`,
      { retryAfterMs: localRepairMs },
    )
  }
  const { mmproj, sizeBytes } = found
  return {
    path: found.path,
    sizeBytes,
    revision: await stampOf(found.files),
    ...(mmproj !== undefined && { mmproj }),
  }
}

/** Another content of a file in place has another length or time. */
async function stampOf(files: readonly string[]): Promise<string> {
  const stamps = await Promise.all(
    files.map(async (file) => [file, (await stat(file)).size, (await stat(file)).mtimeMs]),
  )
  return createHash('sha256').update(JSON.stringify(stamps)).digest('hex')
}
