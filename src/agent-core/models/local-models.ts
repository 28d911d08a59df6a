import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { localRepairMs, ModelError } from './errors.ts'
import { requireFormat } from './format-check.ts'
import { contentKindOf, isKindOf } from './gguf/content-kind.ts'
import type { FileHashes } from './hash-file.ts'
import { firstBytes } from './local-file.ts'
import { resolveLocal, type Lent } from './local-source.ts'
import type { LocalModel, ModelRequest } from './model-request.ts'
import { isFolderFormat, isWeightsName } from './selection.ts'

export interface LocalModelOptions {
  readonly hashes: FileHashes
  readonly lent: Lent
}

/**
 * A model used in place: checked, never copied, changed or deleted. Of a file that is no model nothing is told, neither by us nor by a
 * runtime that fails to load it. Throws ModelError.
 */
export async function localModel(
  path: string,
  request: ModelRequest,
  { hashes, lent }: LocalModelOptions,
): Promise<LocalModel> {
  const found = await resolveLocal(path, request, lent)
  const [first = found.path] = found.files
  await requireFormat(first, request.format)
  const isFolder = isFolderFormat(request.format ?? 'gguf')
  for (const file of isFolder ? found.files.filter(isWeightsName) : found.files)
    await requireModel(file, request.format)
  if (found.mmproj !== undefined) await requireModel(found.mmproj, 'gguf', 'spec.mmproj')
  const wanted = request.sha256?.toLowerCase()
  if (wanted !== undefined && (await hashes.of(first)) !== wanted) {
    throw new ModelError(
      'transient',
      'WrongChecksum',
      `${first} is not what the Model says: it has another SHA-256 than spec.sha256, ${wanted}. Put the right file there, or correct spec.sha256.`,
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

async function requireModel(
  path: string,
  format: string | undefined,
  fields = 'spec.source or spec.format',
): Promise<void> {
  if (isKindOf(format, contentKindOf(await firstBytes(path)))) return
  throw new ModelError(
    'transient',
    'NotAModel',
    `${path} is not a model of spec.format ${format ?? 'gguf'}: put a model file there, or correct ${fields}.`,
    { retryAfterMs: localRepairMs },
  )
}

/** Another content of a file in place has another length or time. */
async function stampOf(files: readonly string[]): Promise<string> {
  const stamps = await Promise.all(
    files.map(async (file) => [file, (await stat(file)).size, (await stat(file)).mtimeMs]),
  )
  return createHash('sha256').update(JSON.stringify(stamps)).digest('hex')
}
