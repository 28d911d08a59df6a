import { contentKindOf, formatMismatch, isKindOf, isModelKind, isSideKind, magicLength } from './content-kind.ts'
import { contentLength, contentProblem, emptyAnswer, refusal } from './download/answer.ts'
import { type Asked, Body, discard, PaceGuard, send } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { hasReason, ModelError, type ModelErrorReason } from './errors.ts'
import {
  hubAddressIn,
  hubClient,
  isVouchedFor,
  type RemoteFile,
  type RemoteSource,
  type ResolveContext,
  resolveHub,
  resolveSource,
} from './resolve.ts'
import { isBesideWeights, isFolderFormat, isWeightsName, type WantedModel } from './selection.ts'
import { type HubAddress, parseModelSource, shownSource } from './source.ts'
import { isFound, type Manifest, type ManifestFile } from './store/records.ts'

interface How {
  readonly transport: Transport
  readonly signal: AbortSignal
}

export type AskContext = ResolveContext & How

export interface RemoteState {
  readonly sizeBytes: number | undefined
  /** The ETag, else the time of the last change. */
  readonly validator: string | undefined
}

/** A server that has a file says so within this. */
const answerMs = 30_000

/** What servers say of the files of a source without sending them, by their paths; of a Hub's files its listing says all. Throws ModelError, or the signal's reason. */
export async function remoteStates(files: RemoteSource['files'], how: How): Promise<ReadonlyMap<string, RemoteState>> {
  const states = new Map<string, RemoteState>()
  for (const file of files) if (!isStated(file)) states.set(file.path, await remoteState(file, how))
  return states
}

/** Whether what was asked which files there are stated the content of this one too. */
const isStated = ({ hub, isOfRegistry }: RemoteFile): boolean => hub !== undefined || isOfRegistry === true

async function remoteState({ url, credentials }: RemoteFile, { transport, signal }: How): Promise<RemoteState> {
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const { status, headers, body } = await send({ method: 'HEAD', url, credentials }, { transport, signal, guard })
  discard(body)
  const problem = refusal(status, headers, shown, Date.now())
  if (problem) throw problem
  const length = contentLength(headers) ?? 0
  return {
    sizeBytes: length > 0 ? length : undefined,
    validator: headers.get('etag') ?? headers.get('last-modified') ?? undefined,
  }
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
    const [says, has] =
      isStated(file) && file.sha256 !== undefined ? [file.sha256, known.sha256] : [validator, known.etag]
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

/** What the repository has by now is not what the Model means. */
const aboutFiles: readonly ModelErrorReason[] = [
  ...(['NoSuchFile', 'NoSuchRevision', 'ShardMissing', 'Ambiguous', 'UnsafeName', 'WrongChecksum'] as const),
]

/**
 * Asks the source with the login of the context whether it would give what is stored of it, without fetching it: now, or at the commit that
 * it was fetched from. A name can be given to another repository, and the address of the Hub changed, so only hashes tell that it is the
 * same. Undefined = it gives something, but nothing shows that it is what is stored. An address that is not the Hub's is not asked: who knows
 * it knows all that opens it, unless a login for the Hub was sent there. Throws ModelError.
 */
export async function askAccess(
  wanted: WantedModel,
  stored: AskedFor,
  context: AskContext,
): Promise<{ isPublic: boolean } | undefined> {
  const address = hubAddressIn(wanted.source, context.hubEndpoint)
  // As of any address, its name alone speaks for a file that was found here.
  if (parseModelSource(wanted.source).kind === 's3' && isFound(stored)) return { isPublic: false }
  let refused: ModelError | undefined
  try {
    const { files } = await resolveSource(wanted, context)
    if (address === undefined && stored.access?.isByLogin !== true) return { isPublic: false }
    const isPublic = await isGiven(files, stored, wanted, context)
    if (isPublic !== undefined) return { isPublic }
  } catch (error) {
    if (address === undefined || !hasReason(error, aboutFiles)) throw error
    refused = error
  }
  if (address !== undefined && stored.revision !== undefined) {
    const isPublic = await isGivenAt({ ...address, revision: stored.revision }, stored, wanted, context)
    if (isPublic !== undefined) return { isPublic }
  }
  if (refused === undefined) return undefined
  if (address === undefined || !isFound(stored)) throw refused
  await requireRepository(address, wanted, context, refused)
  return { isPublic: false }
}

/** At the commit that was fetched, which a repository keeps as long as it is the same. */
async function isGivenAt(
  address: HubAddress,
  stored: AskedFor,
  wanted: WantedModel,
  context: AskContext,
): Promise<boolean | undefined> {
  try {
    const { files } = await resolveHub(address, wanted, await hubClient(wanted, context))
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
  context: AskContext,
): Promise<boolean | undefined> {
  const isProof = files.every(({ isOwnServer }) => isOwnServer !== true)
  let isSame = isProof && files.length === stored.files.length
  for (const file of files) {
    const mustBeAsked = file.isUnsaid === true || file.hub === undefined
    const etag = mustBeAsked ? await requireFile(file, { isFirst: file === files[0], format }, context) : undefined
    const known = stored.files.find(({ path }) => path === file.path)
    isSame &&= known !== undefined && (await isSameFile(file, etag, known, stored))
  }
  if (isSame) return files.every(({ isPublic }) => isPublic === true)
  // No login fetched these files, and hashing them takes minutes: their name is enough, for the first namespace alone.
  return isFound(stored) && stored.files.every(({ sha256 }) => sha256 === undefined) ? false : undefined
}

async function isSameFile(
  file: RemoteFile,
  etag: string | undefined,
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
  context: AskContext,
  otherwise: ModelError,
): Promise<void> {
  const client = await hubClient(wanted, context)
  const { commit = 'main', isPublic } = await client.state(repo)
  if (isPublic === true) return
  // Small files are often given to everybody.
  const [largest] = (await client.list(repo, commit)).sort((a, b) => b.sizeBytes - a.sizeBytes)
  if (largest === undefined) throw otherwise
  const { path } = largest
  await client.requireAccess(repo, commit, path)
  if (isPublic === false) return
  const { credentials } = client
  const url = client.fileUrl(repo, commit, path)
  const file: RemoteFile = { url, fileName: path, path, role: 'other', ...(credentials && { credentials }) }
  await requireFile(file, { isFirst: false, format: undefined }, context)
}

/** What a file is to the Model that names it. */
export interface Expected {
  /** The one that a runtime is given. */
  readonly isFirst: boolean
  readonly format: string | undefined
}

/**
 * As its download will begin: some servers answer a question for the file's state to everybody, and others with a page to log in. Returns
 * its ETag. Throws ModelError.
 */
export async function requireFile(
  file: RemoteFile,
  expected: Expected,
  { transport, signal }: How,
): Promise<string | undefined> {
  const { url, credentials, fileName } = file
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const asked: Asked = { url, credentials, range: [0, magicLength] }
  const answer = await send(asked, { transport, signal, guard })
  const { status, headers, body } = answer
  try {
    const problem = refusal(status === 206 ? 200 : status, headers, shown, Date.now())
    if (problem) throw problem
    const start = await new Body(answer, guard, signal, shown).start(undefined)
    if (start.length === 0) throw emptyAnswer(shown)
    const page = contentProblem(fileName, start, headers.get('content-type'), shown)
    const other = page ?? startProblem(start, file, expected)
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
export function startProblem(start: Uint8Array, file: RemoteFile, expected: Expected): ModelError | undefined {
  const { isFirst, format } = expected
  const shown = shownSource(file.url)
  if (start.length === 0) return emptyAnswer(shown)
  const problem =
    contentProblem(file.fileName, Buffer.from(start), null, shown) ?? (isFirst && formatMismatch(start, format))
  if (problem) return problem
  if (mayBegin(start, file, expected)) return undefined
  const what = isFirst ? `no model of spec.format ${format ?? 'gguf'}` : 'neither a model nor what belongs to one'
  return ModelError.untilRepairedThere(
    'NotAModel',
    `${shown} answered with something that is ${what}: check spec.source and spec.format.`,
  )
}

function mayBegin(start: Uint8Array, { fileName, role }: RemoteFile, { isFirst, format }: Expected): boolean {
  const kind = contentKindOf(start)
  if (role === 'mmproj') return kind === 'gguf'
  const isWeights = isWeightsName(fileName)
  if (isFirst && (isWeights || !isFolderFormat(format))) return isKindOf(format, kind)
  if (format !== 'mlx' && format !== 'safetensors') return isWeights ? isModelKind(kind) : isSideKind(kind)
  // Pickles are programs, and what Python finds beside a model it may run.
  if (isWeights) return isKindOf(format, kind)
  return isBesideWeights(fileName) && (kind === 'text' || kind === 'unknown')
}
