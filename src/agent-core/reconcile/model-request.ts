import { isApiError, rootMessage } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { ModelSpec } from '../kube/resources.ts'
import { readSecret } from '../kube/secrets.ts'
import { type HubToken, hubTokenLabel, secretMissing, secretUnreadable, tokenOfSecret } from '../models/hub/token.ts'
import type { ModelRequest } from '../models/models.ts'
import { selectionDigest } from '../models/selection.ts'
import { sourceDigest } from '../models/source.ts'

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

export interface FetchRequest extends ModelRequest {
  /** Tells what is wanted apart: see `contentKey`. */
  readonly key: string
  /** Ask the source again from time to time whether it holds something else; undefined = never. */
  readonly refreshEveryMs: (() => number) | undefined
}

interface FetchInputs {
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

/** Read at each use, so that a new token counts at once and none is kept. Throws ModelError. */
export async function tokenIn(api: Pick<KubeApi, 'get'>, namespace: string, name: string): Promise<HubToken> {
  const found = await readSecret(api, namespace, name).catch((error: unknown) => {
    if (isApiError(error, 404)) throw secretMissing(namespace, name)
    throw secretUnreadable(namespace, name, rootMessage(error), error)
  })
  if (!found) throw secretUnreadable(namespace, name, 'it is not a Secret as Kubernetes has them')
  const isForHub = found.labels[hubTokenLabel] === 'true'
  return tokenOfSecret({ namespace, name, isForHub }, found.values)
}
