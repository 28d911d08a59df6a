import type { Logger } from '../observability/logger.ts'
import { inOwnTurn } from '../util/turns.ts'
import { type Credentials, hubCredentials } from './download/request.ts'
import { objectUrl, s3Login } from './download/s3.ts'
import { hasReason, type ModelChoice, ModelError } from './errors.ts'
import { type Fetch, HubClient, type HubFile } from './hub/client.ts'
import { fileUrl, hubAddressOf } from './hub/endpoint.ts'
import type { HubToken } from './hub/token.ts'
import { libraryFiles } from './ollama-library.ts'
import {
  type Choice,
  isFolderFormat,
  parseShard,
  type Place,
  selectFiles,
  shardPaths,
  type WantedModel,
} from './selection.ts'
import type { SourceSecret } from './source-secret.ts'
import {
  type BucketAddress,
  type HubAddress,
  isSafePath,
  modelFileName,
  type OllamaAddress,
  ollamaNameOf,
  parseModelSource,
  shownSource,
} from './source.ts'
import { comparable } from './store/files.ts'

/** A file to bring here. */
export interface RemoteFile {
  readonly url: string
  /** Its last element decides what the content must look like. */
  readonly fileName: string
  /** Where it is kept, relative to the model's folder; cannot leave it. */
  readonly path: string
  readonly role: 'weights' | 'mmproj' | 'other'
  readonly sizeBytes?: number
  /** In hex: of the Model's spec, else the Hub's. */
  readonly sha256?: string
  readonly credentials?: Credentials | undefined
  /** The Hub's hash of the content, where it is on the Hub: sha256 or git's. Another hash is another content. */
  readonly blob?: string
  /** The registry that was asked which files there are stated its digest. */
  readonly isOfRegistry?: boolean
  /** Where it is on the Hub. */
  readonly hub?: { readonly repo: string; readonly path: string }
}

/** Whether the Hub itself stated the digest, and not the Model alone. */
export const isVouchedFor = ({ hub, blob, sha256 }: RemoteFile): boolean =>
  hub !== undefined && sha256 !== undefined && blob === sha256

export interface RemoteSource {
  readonly files: readonly RemoteFile[]
  /** `path` of the file that a runtime is given; empty = the folder. */
  readonly primary: string
  readonly mmproj?: string
  /** The Hub says that the repository is neither private nor gated. */
  readonly isSaidToBeOpen?: boolean
  /** What a person should know of how the source was understood, one sentence each. */
  readonly notes: readonly string[]
  /** See `Selected.choices`. */
  readonly choices?: readonly ModelChoice[]
}

export interface ResolveContext {
  readonly transport: { readonly fetch: Fetch }
  /** As `hubEndpoint` gives it. */
  readonly hubEndpoint: string
  /** The Model's Secret names the server, which may be anybody's. */
  readonly isOwnServer?: boolean | undefined
  /** See `ModelRequest`; asked only for objects of S3. */
  readonly secret?: (() => Promise<SourceSecret>) | undefined
  /** Asked only for sources on the Hub. */
  readonly token?: (() => Promise<HubToken | undefined>) | undefined
  /** See `HubQuestion.namespace`. */
  readonly namespace?: string | undefined
  /** `HF_HUB_OFFLINE`: the Hub is not asked. */
  readonly offline?: boolean | undefined
  readonly signal: AbortSignal
  readonly log: Logger
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean | undefined
}

/**
 * Which files on servers a Model's source means. Sends requests to the Hub alone. Throws ModelError, also where the source is none on a
 * server, or the signal's reason.
 */
export async function resolveSource(wanted: WantedModel, context: ResolveContext): Promise<RemoteSource> {
  const parsed = parseModelSource(wanted.source)
  if (parsed.kind === 'hub') return onHub(parsed, [], wanted, context)
  if (parsed.kind === 'ollama') return inLibrary(parsed, wanted, context)
  if (parsed.kind === 's3') return inBucket(parsed, wanted, context)
  if (parsed.kind === 'unsupported') throw ModelError.terminal('UnsupportedSource', parsed.message)
  if (parsed.kind === 'local')
    throw ModelError.terminal('UnsupportedSource', `${shownSource(wanted.source)} is a file on this machine.`)
  const address = hubAddressOf(parsed.url, context.hubEndpoint)
  return address ? atHubAddress(address, wanted, context) : resolveHttp(parsed.url, wanted.source, wanted)
}

async function inBucket(address: BucketAddress, wanted: WantedModel, context: ResolveContext): Promise<RemoteSource> {
  const credentials = s3Login(address, await context.secret?.())
  const { files, ...resolved } = resolveHttp(objectUrl(credentials, address.key), wanted.source, wanted)
  return { ...resolved, files: files.map((file) => ({ ...file, credentials })) }
}

async function inLibrary(
  address: OllamaAddress,
  { sha256 }: WantedModel,
  context: ResolveContext,
): Promise<RemoteSource> {
  const found = await libraryFiles(address, context)
  const [primary] = found
  const stated = sha256?.toLowerCase()
  if (stated !== undefined && primary?.digest !== `sha256:${stated}`) {
    throw ModelError.terminal(
      'WrongChecksum',
      `spec.sha256 is ${stated}, but the model of ${ollamaNameOf(address)} has ${primary?.digest}: correct spec.sha256, or name another tag.`,
    )
  }
  const files = found.map(({ digest, ...file }) => ({
    ...{ ...file, fileName: file.path, sha256: digest.slice('sha256:'.length), blob: digest },
    isOfRegistry: true,
  }))
  const mmproj = files.find(({ role }) => role === 'mmproj')?.path
  return { files, primary: primary?.path ?? '', ...(mmproj !== undefined && { mmproj }), notes: [] }
}

/** The repository or file of the Hub that the source means, as its page or file address too; undefined where it means none. */
export function hubAddressIn(source: string, endpoint: string): HubAddress | undefined {
  const parsed = parseModelSource(source)
  if (parsed.kind === 'hub') return parsed
  return parsed.kind === 'http' ? hubAddressOf(parsed.url, endpoint) : undefined
}

/** The client of the Hub, with the login of the request. Throws ModelError. */
export async function hubClient({ source }: WantedModel, context: ResolveContext): Promise<HubClient> {
  const { hubEndpoint: endpoint, transport, token, namespace, signal, offline } = context
  const { allowInsecureLoopback, isOwnServer } = context
  if (offline === true) {
    throw ModelError.untilRepairedHere(
      'Offline',
      `HF_HUB_OFFLINE is set, so the Hub is not asked for ${shownSource(source)}: unset it, put the files into the model store, or give an absolute path.`,
    )
  }
  const { fetch } = transport
  const login = { token: await token?.(), namespace, allowInsecureLoopback }
  return new HubClient({ endpoint, isOwnServer, fetch, signal, ...login })
}

async function onHub(
  address: HubAddress,
  notes: readonly string[],
  wanted: WantedModel,
  context: ResolveContext,
): Promise<RemoteSource> {
  const resolved = await resolveHub(address, wanted, await hubClient(wanted, context))
  const all = [...notes, ...resolved.notes]
  for (const note of all) context.log.info(note, { source: shownSource(wanted.source) })
  return { ...resolved, notes: all }
}

/** A mirror may hand out files and know nothing of the Hub's API; a file is then fetched as from any server. */
async function atHubAddress(
  { viewer, ...address }: HubAddress & { readonly viewer: boolean },
  wanted: WantedModel,
  context: ResolveContext,
): Promise<RemoteSource> {
  const { hubEndpoint, allowInsecureLoopback } = context
  const shown = shownSource(wanted.source)
  const notes = viewer ? [`${shown} is the page of a file, so the file itself (/resolve/) was taken.`] : []
  try {
    return await onHub(address, notes, wanted, context)
  } catch (error) {
    if (!hasReason(error, ['NoHubApi']) || address.path === undefined) throw error
    const url = fileUrl(hubEndpoint, address.repo, address.revision ?? 'main', address.path)
    const plain = resolveHttp(url, wanted.source, wanted)
    const credentials = hubCredentials(hubEndpoint, await context.token?.(), allowInsecureLoopback)
    const note = `${hubEndpoint} gives files but no information about them, so ${shown} is fetched without the Hub's checksum.`
    context.log.info(note, { source: shown })
    const login = credentials && { credentials }
    return { ...plain, files: plain.files.map((file) => ({ ...file, ...login })), notes: [...notes, note] }
  }
}

/** The files of a repository that a Model means, pinned to the commit that its revision is now. Throws ModelError. */
export async function resolveHub(
  address: HubAddress,
  wanted: Omit<WantedModel, 'source'>,
  client: HubClient,
): Promise<RemoteSource> {
  const { repo, path, revision = 'main' } = address
  const choice = { ...wanted, path, quantization: quantizationOf(address, wanted) }
  const { commit, isPublic } = await client.state(repo, revision)
  const at = commit ?? revision
  const asked = exactPaths(choice)
  const known = asked === undefined ? [] : await client.info(repo, at, asked)
  // Where the file is missing the sentence lists the files that exist.
  const listing = known.some((file) => file.path === path) ? known : await client.list(repo, at)
  const place: Place = { name: repo, naming: (file) => sourceOfFile(address, file), isLocal: false }
  const selected = await inOwnTurn(() => selectFiles(listing, choice, place))
  const [first] = selected.files
  if (isPublic !== true && first !== undefined) await client.requireAccess(repo, at, first.path)
  const { mmproj: projector } = selected
  const all = projector ? [...selected.files.filter((file) => file !== projector), projector] : selected.files
  const isFolder = isFolderFormat(wanted.format)
  const prefix = isFolder && path !== undefined ? `${path}/` : ''
  const places = placesOf(
    all.map((file) => below(prefix, file.path)),
    isFolder,
  )
  const { credentials } = client
  const files = all.map((file): RemoteFile => {
    const kept = places.get(below(prefix, file.path)) ?? file.path
    const sha256 = checksumOf(file, file === first ? wanted.sha256 : undefined, repo)
    return {
      url: client.fileUrl(repo, at, file.path),
      fileName: kept,
      path: kept,
      role: file === projector ? 'mmproj' : /\.(?:gguf|safetensors|bin|pt|pth)$/i.test(kept) ? 'weights' : 'other',
      sizeBytes: file.sizeBytes,
      ...(sha256 !== undefined && { sha256 }),
      ...(credentials && { credentials }),
      blob: file.blob,
      hub: { repo, path: file.path },
    }
  })
  const mmproj = files.find(({ role }) => role === 'mmproj')?.path
  return {
    files,
    primary: isFolder ? '' : (files[0]?.path ?? ''),
    ...(mmproj !== undefined && { mmproj }),
    isSaidToBeOpen: isPublic === true,
    notes: selected.notes,
    ...(selected.choices && { choices: selected.choices }),
  }
}

/** An `@` in the path of a source would begin its revision, so one is named then. */
function sourceOfFile({ repo, revision }: HubAddress, file: string): string {
  const at = revision ?? (file.includes('@') ? 'main' : undefined)
  return `hf://${repo}${at === undefined ? '' : `@${at}`}/${file}`
}

/** All that can be meant, where the Model names files and not a folder: one small request in place of a listing. */
function exactPaths({ path, files = [], mmproj = '', format }: Choice): readonly string[] | undefined {
  if (path === undefined || !/\.gguf$/i.test(path) || files.length > 0 || isFolderFormat(format)) return undefined
  const shard = parseShard(path)
  const weights = shard === undefined ? [path] : shardPaths(path, shard)
  return mmproj === '' ? weights : [...weights, mmproj]
}

function quantizationOf({ repo, quantization }: HubAddress, wanted: Choice): string | undefined {
  const asked = wanted.quantization === '' ? undefined : wanted.quantization
  if (quantization === undefined || asked === undefined) return quantization ?? asked
  if (quantization.toUpperCase() === asked.toUpperCase()) return asked
  throw ModelError.terminal(
    'Ambiguous',
    `spec.source asks for ${repo}:${quantization} and spec.quantization for ${asked}: leave one of them out.`,
  )
}

function checksumOf({ path, sha256 }: HubFile, wanted: string | undefined, repo: string): string | undefined {
  const stated = wanted?.toLowerCase()
  if (stated === undefined || sha256 === undefined || stated === sha256) return stated ?? sha256
  throw ModelError.terminal(
    'WrongChecksum',
    `spec.sha256 is ${stated}, but the Hub's ${path} of ${repo} has ${sha256}: correct spec.sha256, or name the revision that is meant as hf://${repo}/${path}@COMMIT.`,
  )
}

const below = (prefix: string, path: string): string => (path.startsWith(prefix) ? path.slice(prefix.length) : path)

/** Which files an address means, without asking its server: the file, all shards of its group, `files` and `mmproj` beside it. Throws ModelError. */
export function resolveHttp(
  url: string,
  source: string,
  { files = [], mmproj = '', format, sha256 }: Omit<WantedModel, 'source'>,
): RemoteSource {
  const address = new URL(url)
  const named = lastElement(address)
  const isFile = /\.[a-z0-9]{1,12}$/i.test(named) && !address.pathname.endsWith('/')
  const isFolder = isFolderFormat(format)
  if (isFolder && files.length === 0) {
    throw ModelError.terminal(
      'UnsupportedSource',
      `${shownSource(source)} cannot be listed, and a model of spec.format ${format} has several files: name them in spec.files, or give a Hugging Face repository (hf://owner/name) or the absolute path of a folder.`,
    )
  }
  const besides = (file: string, field: string): Addressed => ({
    url: siblingOf(address, isFile, file, field),
    path: file,
  })
  const weights = files.length > 0 ? files.map((file) => besides(file, 'spec.files')) : groupOf(address, named)
  const projector = mmproj === '' ? undefined : besides(mmproj, 'spec.mmproj')
  const byUrl = new Map([...weights, ...(projector ? [projector] : [])].map((file) => [file.url, file]))
  const all = [...byUrl.values()]
  const paths = all.map(({ path }) => path)
  const places = all.length === 1 ? undefined : placesOf(paths, isFolder)
  const remote = all.map((file, at): RemoteFile => {
    const path = places?.get(file.path) ?? (files.length > 0 ? file.path : modelFileName(source))
    return {
      url: file.url,
      fileName: path,
      path,
      role: file === projector ? 'mmproj' : 'weights',
      ...(at === 0 && sha256 !== undefined && { sha256: sha256.toLowerCase() }),
    }
  })
  const mmprojPath = remote.find(({ role }) => role === 'mmproj')?.path
  return {
    files: remote,
    primary: isFolder ? '' : (remote[0]?.path ?? ''),
    ...(mmprojPath !== undefined && { mmproj: mmprojPath }),
    notes: [],
  }
}

interface Addressed {
  readonly url: string
  /** Decoded; only for its name. */
  readonly path: string
}

function groupOf(address: URL, name: string): Addressed[] {
  const shard = parseShard(name)
  if (shard === undefined) return [{ url: address.href, path: name }]
  return shardPaths(name, shard).map((path) => ({ url: withLast(address, encodeURIComponent(path)), path }))
}

/** A file relative to the source: to the folder of a file, to a folder itself. */
function siblingOf(address: URL, isFile: boolean, file: string, field: string): string {
  if (!isSafePath(file)) {
    throw ModelError.terminal(
      'UnsafeName',
      `${field} names ${JSON.stringify(file.slice(0, 120))}, which is not a safe relative path: name a file beside spec.source.`,
    )
  }
  const base = new URL(address)
  if (!isFile && !base.pathname.endsWith('/')) base.pathname += '/'
  return withLast(base, file.split('/').map(encodeURIComponent).join('/'))
}

/** The address with another last element, its query kept: servers that want one want it for every file. */
function withLast(address: URL, name: string): string {
  const next = new URL(address)
  next.pathname = next.pathname.slice(0, next.pathname.lastIndexOf('/') + 1) + name
  return next.href
}

function lastElement({ pathname }: URL): string {
  const element = pathname.slice(pathname.lastIndexOf('/') + 1)
  try {
    return decodeURIComponent(element)
  } catch {
    return element
  }
}

/** Where files lie in the model's folder: by their names alone, unless two would have the same or `keepFolders`. Throws `UnsafeName`. */
function placesOf(paths: readonly string[], keepFolders: boolean): ReadonlyMap<string, string> {
  const names = paths.map((path) => path.slice(path.lastIndexOf('/') + 1))
  const isFlat = !keepFolders && new Set(names.map(comparable)).size === paths.length
  const places = new Map(paths.map((path, at) => [path, isFlat ? (names[at] ?? '') : path]))
  const taken = new Map<string, string>()
  for (const [path, place] of places) {
    if (!isSafePath(place) || !isSafePath(path)) {
      throw ModelError.terminal(
        'UnsafeName',
        `The file name ${quoted(path)} cannot be kept safely in the model store: give another source.`,
      )
    }
    const other = taken.get(comparable(place))
    if (other !== undefined) {
      throw ModelError.terminal(
        'UnsafeName',
        `The files ${quoted(other)} and ${quoted(path)} differ only in case, which a Mac's disk does not tell apart: give another source.`,
      )
    }
    taken.set(comparable(place), path)
  }
  return places
}

const quoted = (path: string): string => JSON.stringify(path.length > 120 ? `${path.slice(0, 120)}…` : path)
