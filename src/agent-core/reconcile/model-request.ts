import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { isApiError, isDecision, rootMessage } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { ModelSpec } from '../kube/resources.ts'
import { readSecret } from '../kube/secrets.ts'
import { hubTokenLabel } from '../models/hub/token.ts'
import { ModelError } from '../models/errors.ts'
import type { LocalModel, ModelRequest } from '../models/models.ts'
import { selectionDigest } from '../models/selection.ts'
import { secretMissing, secretTitle, secretUnreadable, type SourceSecret } from '../models/source-secret.ts'
import { sourceDigest } from '../models/source.ts'
import { isBasedOn } from '../runtimes/resolution.ts'
import type { Draft } from './draft.ts'

/** What a fetch depends on: where this changes, the model and its draft are asked for again. */
export function contentKey(spec: ModelSpec, draft?: Draft): string {
  const { source, format, sha256, sourceSecretRef, refreshPolicy } = spec
  const secret = sourceSecretRef?.name ?? ''
  const model = [modelIdentity(spec), source, format, sha256?.toLowerCase() ?? '', secret, refreshPolicy].join('\n')
  if (draft === undefined) return model
  return JSON.stringify([model, 'file' in draft ? draft.file : [draft.model, contentKey(draft.spec)]])
}

/** Which bytes a server is to be started with, as far as the specs say. Without a draft that of the model: another one would restart every server. */
export function servedIdentity(spec: ModelSpec, draft?: Draft): string {
  const model = modelIdentity(spec)
  return draft === undefined
    ? model
    : JSON.stringify([model, 'file' in draft ? { file: draft.file } : { model: modelIdentity(draft.spec) }])
}

/** Which bytes a Model means, as far as its spec says. */
function modelIdentity(spec: ModelSpec): string {
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
  if (server === undefined || !isBasedOn(server, base)) return desired
  return revision === undefined || (server === base && !isNewer) ? server : desired
}

export interface FetchRequest extends ModelRequest {
  /** Its source is asked from time to time whether it holds something else. */
  readonly isFollowed: boolean
}

interface FetchInputs {
  readonly api: KubeApi
  readonly namespace: string
  readonly name: string
  readonly spec: ModelSpec
}

export function fetchRequest({ api, namespace, name, spec }: FetchInputs): FetchRequest {
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
    ...(secret !== '' && { secret: () => secretIn(api, namespace, secret, source) }),
    isFollowed: refreshPolicy === 'OnChange',
  }
}

/** What a server is started with; `files` also of its draft. */
export interface ServerFiles extends LocalModel {
  /** Draft weights. */
  readonly draft?: string
}

/** `draftFile`: the draft weights, as `spec.files` of the model names them. Throws ModelError. */
export async function serverFiles(
  { model, draft }: { readonly model: LocalModel; readonly draft: LocalModel | undefined },
  draftFile: string | undefined,
): Promise<ServerFiles> {
  if (draft) return { ...model, files: [...model.files, ...draft.files], draft: draft.path }
  if (draftFile === undefined) return model
  const file = fileNamed(draftFile, model.files)
  if (file === undefined) {
    throw ModelError.untilRepairedHere(
      'FileMissing',
      `${JSON.stringify(draftFile)} of spec.speculativeDecoding.draftModel is not among the files of the model: correct it, or spec.files.`,
    )
  }
  return { ...model, sizeBytes: model.sizeBytes - (await stat(file)).size, draft: file }
}

/** A model's files lie in one folder under their names, unless two have the same name; then their folders are kept. */
function fileNamed(name: string, files: readonly string[]): string | undefined {
  const kept = files.filter((file) => file.endsWith(`/${name}`)).sort((a, b) => a.length - b.length)
  return kept[0] ?? files.find((file) => basename(file) === basename(name))
}

/** The Secret of the Model with this source: read at each use, so that a new token counts at once and none is kept. Throws ModelError. */
export async function secretIn(
  api: Pick<KubeApi, 'get'>,
  namespace: string,
  name: string,
  source: string,
): Promise<SourceSecret> {
  const found = await readSecret(api, namespace, name).catch((error: unknown) => {
    if (isApiError(error, 404)) throw secretMissing(namespace, name, source)
    if (isDecision(error)) throw secretUnreadable(namespace, name, error.detail, error)
    const unread = `${secretTitle({ namespace, name })} cannot be read at the moment (${rootMessage(error)}); the agent tries again.`
    throw ModelError.passing('SecretUnread', unread, { cause: error })
  })
  if (!found) throw secretUnreadable(namespace, name, 'it is not a valid Kubernetes Secret')
  return { namespace, name, isForHub: found.labels[hubTokenLabel] === 'true', values: found.values }
}
