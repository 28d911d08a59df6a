import {
  type ContentKind,
  contentKindOf,
  formatMismatch,
  isKindOf,
  isModelKind,
  isSideKind,
  magicLength,
} from './content-kind.ts'
import { contentProblem, emptyAnswer, refusal } from './download/answer.ts'
import { type Asked, Body, discard, hubCredentials, PaceGuard, send } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { hasReason, ModelError, type ModelErrorReason, remoteRepairMs } from './errors.ts'
import { fileUrl } from './hub/endpoint.ts'
import {
  hubAddressIn,
  hubClient,
  isVouchedFor,
  type RemoteFile,
  type RemoteSource,
  type ResolveContext,
  resolveHub,
  resolveSource,
  type WantedModel,
} from './resolve.ts'
import { isFolderFormat, isWeightsName } from './selection.ts'
import { type HubAddress, shownSource } from './source.ts'
import { isFound, type Manifest, type ManifestFile } from './store/records.ts'

export interface RemoteState {
  readonly sizeBytes: number | undefined
  /** The ETag, else the time of the last change. */
  readonly validator: string | undefined
}

/** A server that has a file says so within this. */
const answerMs = 30_000

/** What a server says of a file without sending it. Throws ModelError, or the signal's reason. */
async function remoteState(
  { url, credentials }: Pick<Asked, 'url' | 'credentials'>,
  { transport, signal }: { transport: Transport; signal: AbortSignal },
): Promise<RemoteState> {
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const { status, headers, body } = await send({ method: 'HEAD', url, credentials }, { transport, signal, guard })
  discard(body)
  const problem = refusal(status, headers, shown, Date.now())
  if (problem !== undefined) throw problem
  const length = Number(headers.get('content-length') ?? Number.NaN)
  return {
    sizeBytes: Number.isSafeInteger(length) && length > 0 ? length : undefined,
    validator: headers.get('etag') ?? headers.get('last-modified') ?? undefined,
  }
}

/** What servers say of the files of a source, by their paths; of a Hub's files its listing says all. Throws ModelError, or the signal's reason. */
export async function remoteStates(
  files: RemoteSource['files'],
  how: { transport: Transport; signal: AbortSignal },
): Promise<ReadonlyMap<string, RemoteState>> {
  const states = new Map<string, RemoteState>()
  for (const file of files) if (file.hub === undefined) states.set(file.path, await remoteState(file, how))
  return states
}

/**
 * Whether a source still holds what was stored of it: `same` where a checksum or validator of every file says so, `perhaps` where nothing
 * speaks against it.
 */
export function compareWithStored(
  files: RemoteSource['files'],
  states: ReadonlyMap<string, RemoteState>,
  manifest: Manifest,
): 'same' | 'perhaps' | 'different' {
  if (files.length !== manifest.files.length) return 'different'
  let isProven = true
  for (const file of files) {
    const known = manifest.files.find(({ path }) => path === file.path)
    if (!known) return 'different'
    const { sizeBytes, validator } = states.get(file.path) ?? { sizeBytes: file.sizeBytes, validator: file.blob }
    const isHashed = file.hub !== undefined && file.sha256 !== undefined
    const [says, has] = isHashed ? [file.sha256, known.sha256] : [validator, known.etag]
    if (sizeBytes !== undefined && sizeBytes !== known.sizeBytes) return 'different'
    if (says === undefined || has === undefined) isProven = false
    else if (says !== has) return 'different'
  }
  return isProven ? 'same' : 'perhaps'
}

/** What is stored of a source. */
export type AskedFor = Pick<Manifest, 'files' | 'revision' | 'access' | 'origin'> & {
  /** The digest of one of its files; computed where its record does not have it. */
  readonly sha256Of: (file: ManifestFile) => Promise<string>
}

type Context = ResolveContext & { readonly transport: Transport }

/**
 * Asks the source with the login of the context whether it would give what is stored of it, without fetching it: now, or at the commit that
 * it was fetched from. A name can be given to another repository, and the address of the Hub changed, so only hashes tell that it is the
 * same. Undefined = it gives something, but nothing shows that it is what is stored. An address that is not the Hub's is not asked: who knows
 * it knows all that opens it, unless a login for the Hub was sent there. Throws ModelError.
 */
export async function askAccess(
  wanted: WantedModel,
  stored: AskedFor,
  context: Context,
): Promise<{ isPublic: boolean } | undefined> {
  const address = hubAddressIn(wanted.source, context.hubEndpoint)
  let refused: ModelError | undefined
  try {
    const resolved = await resolveSource(wanted, context)
    if (resolved.kind === 'local') throw new Error(`${shownSource(wanted.source)} is on this machine.`)
    if (address === undefined && stored.access?.isByLogin !== true) return { isPublic: false }
    const isPublic = await isGiven(resolved.files, stored, wanted, context)
    if (isPublic !== undefined) return { isPublic }
  } catch (error) {
    if (address === undefined || !hasReason(error, aboutFiles)) throw error
    refused = error
  }
  if (address !== undefined && stored.revision !== undefined) {
    const isPublic = await isGivenAt(stored.revision, address, stored, wanted, context)
    if (isPublic !== undefined) return { isPublic }
  }
  if (refused === undefined) return undefined
  if (address === undefined || !isFound(stored)) throw refused
  await requireRepository(address, wanted, context, refused)
  return { isPublic: false }
}

/** What the repository has by now is not what the Model means. */
const aboutFiles: readonly ModelErrorReason[] = [
  ...(['NoSuchFile', 'NoSuchRevision', 'ShardMissing', 'Ambiguous', 'UnsafeName', 'WrongChecksum'] as const),
]

/** At the commit that was fetched, which a repository keeps as long as it is the same. */
async function isGivenAt(
  revision: string,
  address: HubAddress,
  stored: AskedFor,
  wanted: WantedModel,
  context: Context,
): Promise<boolean | undefined> {
  const { hubEndpoint: endpoint, allowInsecureLoopback } = context
  try {
    const { client, token } = await hubClient(wanted, context)
    const hub = { client, endpoint, token, allowInsecureLoopback }
    const { files } = await resolveHub({ ...address, revision }, wanted, hub)
    return await isGiven(files, stored, wanted, context)
  } catch (error) {
    if (hasReason(error, [...aboutFiles, 'NoHubApi'])) return undefined
    throw error
  }
}

/** Whether they are given to everybody; undefined where they are not shown to be what is stored. Throws where they are not given. */
async function isGiven(
  files: readonly RemoteFile[],
  stored: AskedFor,
  { format }: WantedModel,
  context: Context,
): Promise<boolean | undefined> {
  let isSame = files.length === stored.files.length
  for (const file of files) {
    const etag =
      file.isUnsaid === true || file.hub === undefined
        ? await requireFile(file, format, file === files[0], context)
        : undefined
    const known = stored.files.find(({ path }) => path === file.path)
    isSame &&= known !== undefined && (await isSameFile({ file, etag }, known, stored))
  }
  if (isSame) return files.every(({ isPublic }) => isPublic === true)
  // Nobody's login fetched it, and reading it takes minutes: its name counts, for the first namespace alone.
  return isFound(stored) && stored.files.every(({ sha256 }) => sha256 === undefined) ? false : undefined
}

async function isSameFile(
  { file, etag }: { readonly file: RemoteFile; readonly etag: string | undefined },
  known: ManifestFile,
  stored: AskedFor,
): Promise<boolean> {
  if (file.hub === undefined) return etag !== undefined && etag === known.etag
  if (!isVouchedFor(file)) return file.blob !== undefined && gitHash.test(file.blob) && file.blob === known.etag
  if (file.sizeBytes !== undefined && file.sizeBytes !== known.sizeBytes) return false
  if (known.sha256 === undefined && isFound(stored)) return false
  return (known.sha256 ?? (await stored.sha256Of(known))) === file.sha256
}

const gitHash = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/

/** Throws where the repository gives this login nothing, and where it has nothing left to ask for. */
async function requireRepository(
  { repo }: HubAddress,
  wanted: WantedModel,
  context: Context,
  otherwise: ModelError,
): Promise<void> {
  const { hubEndpoint, allowInsecureLoopback } = context
  const { client, token } = await hubClient(wanted, context)
  const { commit = 'main', isPublic } = await client.state(repo)
  if (isPublic === true) return
  // What is small is often given to everybody.
  const [largest] = (await client.list(repo, commit)).sort((a, b) => b.sizeBytes - a.sizeBytes)
  if (largest === undefined) throw otherwise
  const { path } = largest
  await client.requireAccess(repo, commit, path)
  if (isPublic === false) return
  const credentials = hubCredentials(hubEndpoint, token, allowInsecureLoopback)
  const url = fileUrl(hubEndpoint, repo, commit, path)
  const file: RemoteFile = { url, fileName: path, path, role: 'other', ...(credentials && { credentials }) }
  await requireFile(file, undefined, false, context)
}

/**
 * As its download will begin: some servers answer a question for the file's state to everybody, and others with a page to log in. Returns
 * its ETag. Throws ModelError.
 */
export async function requireFile(
  file: RemoteFile,
  format: string | undefined,
  isFirst: boolean,
  { transport, signal }: { readonly transport: Transport; readonly signal: AbortSignal },
): Promise<string | undefined> {
  const { url, credentials, fileName } = file
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const range = [0, magicLength] as const
  const answer = await send({ url, credentials, range }, { transport, signal, guard })
  const { status, headers, body } = answer
  try {
    const problem = refusal(status === 206 ? 200 : status, headers, shown, Date.now())
    if (problem) throw problem
    const start = await new Body(answer, undefined, guard, signal, shown).start(undefined)
    if (start.length === 0) throw emptyAnswer(shown)
    const page = contentProblem(fileName, start, headers.get('content-type'), shown)
    const other = page ?? startProblem(start, file, { isFirst, format })
    if (other) throw other
    return headers.get('etag') ?? undefined
  } finally {
    discard(body)
  }
}

/**
 * Why a file of a model that begins like this is not kept: its weights have to begin as a model of the Model's format, a projector as GGUF,
 * what else is named as weights as any model. What lies beside them may be anything but a program or a web page.
 */
export function startProblem(
  start: Uint8Array,
  file: RemoteFile,
  { isFirst, format }: { readonly isFirst: boolean; readonly format: string | undefined },
): ModelError | undefined {
  const shown = shownSource(file.url)
  if (start.length === 0) return emptyAnswer(shown)
  const problem =
    contentProblem(file.fileName, Buffer.from(start), null, shown) ?? (isFirst && formatMismatch(start, format))
  if (problem) return problem
  const kind = contentKindOf(start)
  if (mayBe(kind, file, { isFirst, format })) return undefined
  const what = isFirst ? `no model of spec.format ${format ?? 'gguf'}` : 'neither a model nor what belongs to one'
  return new ModelError(
    'transient',
    'NotAModel',
    `${shown} answered with something that is ${what}: check spec.source and spec.format.`,
    { retryAfterMs: remoteRepairMs },
  )
}

function mayBe(
  kind: ContentKind,
  { fileName, role }: RemoteFile,
  { isFirst, format }: { readonly isFirst: boolean; readonly format: string | undefined },
): boolean {
  if (role === 'mmproj') return kind === 'gguf'
  const isWeights = isWeightsName(fileName)
  if (isFirst && (isWeights || !isFolderFormat(format ?? 'gguf'))) return isKindOf(format, kind)
  return isWeights ? isModelKind(kind) : isSideKind(kind)
}
