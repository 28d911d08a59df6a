import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../util/message-of.ts'
import { isOfOneModel, isOpenTo } from './store/owner.ts'
import { ModelError, type ModelChoice } from './errors.ts'
import { GgufError, type GgufHeader, whyNoModel } from './gguf/gguf.ts'
import { maxHeaderBytes } from './gguf/header.ts'
import { type Allows, type ModelRoots, resolveLocal } from './local.ts'
import type { ModelRequest } from './model-request.ts'
import type { Remote, RemoteRequest } from './remote.ts'
import type { RemoteFile } from './resolve.ts'
import { parseShard, selectionDigest } from './selection.ts'
import { parseModelSource, shownSource } from './source.ts'
import type { Store } from './store/store.ts'

/** What the headers of a GGUF model say, wherever it is. */
export interface ModelLook {
  readonly header: GgufHeader
  /** Headers of its other files; empty where it is one file. */
  readonly shards: readonly GgufHeader[]
  readonly fileBytes: number
  readonly mmproj?: { readonly fileBytes: number; readonly header: GgufHeader }
  /** It is on this machine whole. */
  readonly isHere: boolean
  /** The models of the same repository; empty where the source names one alone. */
  readonly choices: readonly ModelChoice[]
  /** How the source was understood, one sentence each. */
  readonly notes: readonly string[]
}

type ReadHeader = (path: string) => Promise<GgufHeader>

/** A file or folder of this machine. Throws ModelError and GgufError. */
export async function lookHere(
  path: string,
  read: ReadHeader,
  { allows, quantization }: { readonly allows?: Allows; readonly quantization?: string | undefined } = {},
): Promise<ModelLook> {
  const {
    path: first,
    files,
    sizeBytes,
    mmproj,
    choices = [],
    notes,
  } = await resolveLocal(path, { quantization }, allows)
  const headers = await headersOf(first, first, files, read)
  const projector = mmproj === undefined ? {} : { mmproj: await projectorAt(mmproj, read) }
  return { ...headers, fileBytes: sizeBytes, ...projector, isHere: true, choices, notes }
}

/** The most of all files of a model together. Real ones have some thousands, and headers below 20 MiB. */
const maxTensors = 131_072

/** `files` with or without the first. Throws GgufError, also where it is no model, or they are more than any model has. */
async function headersOf<File>(
  first: File,
  name: string,
  files: readonly File[],
  read: (file: File) => Promise<GgufHeader>,
): Promise<Pick<ModelLook, 'header' | 'shards'>> {
  const rest = files.filter((file) => file !== first)
  const header = await read(first)
  const problem = whyNoModel(header, name)
  if (problem !== undefined) throw new GgufError(`${name} ${problem}`)
  const shards: GgufHeader[] = []
  let { length: tensors } = header.tensors
  let { dataOffset: bytes } = header
  for (const file of rest) {
    const shard = await read(file)
    tensors += shard.tensors.length
    bytes += shard.dataOffset
    if (tensors > maxTensors || bytes > maxHeaderBytes) {
      throw new GgufError(
        `The ${rest.length + 1} files claim more than ${maxTensors} tensors or ${maxHeaderBytes / 1024 ** 2} MiB of GGUF headers together, which no model has: name another one.`,
      )
    }
    shards.push(shard)
  }
  return { header, shards }
}

/** Throws GgufError. */
export async function projectorAt(file: string, read: ReadHeader): Promise<NonNullable<ModelLook['mmproj']>> {
  // First, since it says in a sentence why a file cannot be read.
  const header = await read(file)
  return { fileBytes: await sizeOf(file), header }
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    throw new GgufError(`${file} cannot be read (${messageOf(error)}): check the volume it is on.`, {
      cause: error,
    })
  }
}

/** On a server, of which only headers are fetched. Throws ModelError, GgufError or the signal's reason. */
export async function lookAtServer(remote: Remote, request: RemoteRequest, signal: AbortSignal): Promise<ModelLook> {
  const { files, primary, choices = [], notes } = await remote.resolve(request, signal)
  const headerOf = (file: RemoteFile) => remote.header(file, signal)
  const weights = files.filter(({ role }) => role === 'weights')
  const first = weights.find((file) => file.path === primary)
  if (!first) {
    throw ModelError.terminal('NoSuchFile', `${request.source} does not name a GGUF file: name one of its files.`)
  }
  const parts = weights.filter((file) => file !== first && parseShard(file.fileName) !== undefined)
  const { header, shards } = await headersOf(first, shownSource(first.url), parts, headerOf)
  const projector = files.find(({ role }) => role === 'mmproj')
  const mmproj = projector && (await headerOf(projector))
  return {
    header,
    shards,
    fileBytes: [header, ...shards].reduce((sum, one) => sum + bytesOf(one), 0),
    ...(projector && mmproj && { mmproj: { fileBytes: projector.sizeBytes ?? bytesOf(mmproj), header: mmproj } }),
    isHere: false,
    choices,
    notes,
  }
}

const bytesOf = ({ dataOffset, tensors }: GgufHeader): number =>
  tensors.reduce((sum, { bytes }) => sum + bytes, dataOffset)

/** `source` as in `spec.source` of a Model, whose namespace decides what it may have. */
export type LookRequest = Pick<ModelRequest, 'source' | 'quantization' | 'namespace'>

interface Places {
  readonly store: Store
  readonly roots: ModelRoots
  readonly read: ReadHeader
}

/** The headers of a model on this machine, as far as the namespace may have it; undefined where it is not here. Throws ModelError and GgufError. */
export async function lookOnMachine(
  { store, roots, read }: Places,
  request: LookRequest,
): Promise<ModelLook | undefined> {
  const { source, quantization, namespace } = request
  const parsed = parseModelSource(source)
  if (parsed.kind === 'unsupported') throw ModelError.terminal('UnsupportedSource', parsed.message)
  if (parsed.kind === 'local') {
    const allows = (path: string) => roots.allows(path, namespace)
    return lookHere(parsed.path, read, { allows, quantization })
  }
  const digest = selectionDigest({ source, quantization })
  const found = (await store.list()).find(
    ({ owner, manifest: { sourceSha256, primary } }) =>
      sourceSha256 === digest && primary !== '' && isOpenTo(owner, namespace) && !isOfOneModel(owner),
  )
  if (!found) return undefined
  const { folder, manifest, path, mmproj } = found
  const weights = manifest.files
    .map((file) => ({ ...file, path: join(folder, file.path) }))
    .filter((file) => file.path !== mmproj)
  const paths = weights.map((file) => file.path)
  return {
    ...(await headersOf(path, path, paths, read)),
    fileBytes: weights.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    ...(mmproj !== undefined && { mmproj: await projectorAt(mmproj, read) }),
    ...{ isHere: true, choices: [], notes: [] },
  }
}
