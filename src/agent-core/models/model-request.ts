import type { Progress } from '../../contract/service.ts'
import { selectionDigest, type WantedModel } from './selection.ts'
import type { SourceSecret } from './source-secret.ts'
import type { Wanted } from './store/store.ts'

export interface ModelRequest extends WantedModel {
  /** The Model's; `''` = a person at this machine asks. */
  readonly namespace: string
  /** The Model's name. */
  readonly name: string
  /** Reads the Model's Secret, for this request alone. Throws ModelError. */
  readonly secret?: (() => Promise<SourceSecret>) | undefined
}

export interface LocalModel {
  /** What a runtime is given: a file, or a folder. */
  readonly path: string
  readonly mmproj?: string
  /** Absolute paths of all that belongs to it. */
  readonly files: readonly string[]
  /** All files together. */
  readonly sizeBytes: number
  /** Tells contents of one source apart. */
  readonly revision: string
}

export interface EnsureOptions {
  readonly signal: AbortSignal
  readonly onProgress?: (progress: Progress) => void
}

/** `owners`: whose contents the request may have, see `Wanted`. */
export const wantedOf = (request: ModelRequest, owners: readonly string[]): Wanted => ({
  model: request.name,
  namespace: request.namespace,
  source: request.source,
  digest: selectionDigest(request),
  owners,
})

/** Requests with the same key share one fetch: they check the same things and use the same login. Two Models fetch separately, but share the download of a content that both may have. */
export const requestKey = (request: ModelRequest): string =>
  [
    ...[request.namespace, request.name, selectionDigest(request)],
    ...[request.format ?? 'gguf', request.sha256?.toLowerCase() ?? ''],
  ].join('\n')
