import { join } from 'node:path'
import { isOpenTo } from './access.ts'
import type { GgufHeader } from './gguf/types.ts'
import { ModelError } from './errors.ts'
import { lookAtFiles, lookHere, projectorAt, type ModelLook } from './look.ts'
import type { ModelRoots } from './model-roots.ts'
import { parseModelSource } from './source.ts'
import type { Store } from './store.ts'
import { selectionDigest } from './selection-digest.ts'

export interface LookRequest {
  /** As in `spec.source` of a Model. */
  readonly source: string
  readonly quantization?: string | undefined
  /** The Model's, which decides what it may have. */
  readonly namespace: string
}

interface Places {
  readonly store: Store
  readonly roots: ModelRoots
  readonly read: (path: string) => Promise<GgufHeader>
}

/** The headers of a model on this machine, as far as the namespace may have it; undefined where it is not here. Throws ModelError and GgufError. */
export async function lookOnMachine(
  { store, roots, read }: Places,
  request: LookRequest,
): Promise<ModelLook | undefined> {
  const { source, quantization, namespace } = request
  const parsed = parseModelSource(source)
  if (parsed.kind === 'unsupported') throw new ModelError('terminal', 'UnsupportedSource', parsed.message)
  return parsed.kind === 'local'
    ? lookHere(parsed.path, read, { lent: roots.lentTo(namespace), quantization })
    : lookInStore(store, request, read)
}

/** What the store has of exactly this source, as far as the namespace may have it without asking again. Throws ModelError and GgufError. */
async function lookInStore(
  store: Store,
  { source, quantization, namespace }: LookRequest,
  read: (path: string) => Promise<GgufHeader>,
): Promise<ModelLook | undefined> {
  const digest = selectionDigest({ source, quantization })
  const found = (await store.list()).find(
    ({ manifest }) => manifest.sourceSha256 === digest && manifest.primary !== '' && isOpenTo(manifest, namespace),
  )
  if (!found) return undefined
  const { folder, manifest, path, mmproj } = found
  const weights = manifest.files
    .map((file) => ({ ...file, path: join(folder, file.path) }))
    .filter((file) => file.path !== mmproj)
  return {
    ...(await lookAtFiles(
      path,
      weights.map((file) => file.path),
      read,
    )),
    fileBytes: weights.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    ...(mmproj !== undefined && { mmproj: await projectorAt(mmproj, read) }),
    isHere: true,
    choices: [],
    notes: [],
  }
}
