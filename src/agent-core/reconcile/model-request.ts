import type { KubeApi } from '../kube/kube-api.ts'
import type { ModelSpec } from '../kube/resources.ts'
import { sourceDigest } from '../models/source.ts'
import { selectionDigest } from '../models/selection.ts'
import { tokenIn } from './source-secret.ts'
import type { FetchRequest } from './fetch-activity.ts'

/** What a fetch depends on: where this changes, the model is asked for again. */
export function contentKey(spec: ModelSpec): string {
  const { source, format, sha256, sourceSecretRef, refreshPolicy } = spec
  const secret = sourceSecretRef?.name ?? ''
  return [modelIdentity(spec), source, format, sha256?.toLowerCase() ?? '', secret, refreshPolicy].join('\n')
}

/** Which bytes a server is to be started with, as far as the spec says. */
export function modelIdentity(spec: ModelSpec): string {
  const digest = selectionDigest(spec)
  const which = digest === sourceDigest(spec.source) ? spec.source : digest
  return spec.sha256 === undefined ? which : `${which}\n${spec.sha256.toLowerCase()}`
}

/**
 * The digest of what a server is started with: that of the spec, and behind it the content of the model. As long as the content is not
 * known to be another one (`isNewer`: it came while the server ran), a running server has the right one.
 */
export function digestWith(
  base: string,
  {
    server,
    revision,
    isNewer = false,
  }: { server: string | undefined; revision?: string | undefined; isNewer?: boolean | undefined },
): string {
  const desired = revision === undefined ? base : `${base}+${revision.slice(0, 16)}`
  if (server === undefined || (server !== base && !server.startsWith(`${base}+`))) return desired
  return revision === undefined || (server === base && !isNewer) ? server : desired
}

export interface FetchInputs {
  readonly api: KubeApi
  readonly namespace: string
  readonly name: string
  readonly spec: ModelSpec
  readonly refreshEveryMs: () => number
}

export function fetchRequest({ api, namespace, name, spec, refreshEveryMs }: FetchInputs): FetchRequest {
  const { source, format, quantization, files, mmproj, sha256, sourceSecretRef, refreshPolicy } = spec
  const secret = sourceSecretRef?.name ?? ''
  return {
    namespace,
    name,
    source,
    format,
    quantization,
    files,
    mmproj,
    sha256,
    key: contentKey(spec),
    ...(secret !== '' && { secret: () => tokenIn(api, namespace, secret) }),
    refreshEveryMs: refreshPolicy === 'OnChange' ? refreshEveryMs : undefined,
  }
}
