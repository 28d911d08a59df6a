import { stat } from 'node:fs/promises'
import path from 'node:path'
import { Login, withoutLogin } from '../../agent-core/models/credentials.ts'
import { defaultDownloadSettings } from '../../agent-core/models/models.ts'
import { createTransport } from '../../agent-core/models/download/transport.ts'
import { readGgufHeader } from '../../agent-core/models/gguf/file-header.ts'
import type { GgufHeader } from '../../agent-core/models/gguf/types.ts'
import { readGgufHeaderOverHttp } from '../../agent-core/models/gguf/http-header.ts'
import { resolveLocal } from '../../agent-core/models/local-source.ts'
import type { RemoteFile } from '../../agent-core/models/remote-file.ts'
import { Remote } from '../../agent-core/models/remote.ts'
import { parseShard } from '../../agent-core/models/shards.ts'
import { parseModelSource } from '../../agent-core/models/source.ts'
import { Store } from '../../agent-core/models/store.ts'
import { readMlxFolder } from '../../agent-core/memory/estimate/mlx-folder.ts'
import type { Projector } from '../../agent-core/memory/estimate/mmproj.ts'
import { VerbError } from '../agent-session.ts'
import type { CliIo } from '../io.ts'

/** What an estimate needs to know of a model, wherever it is. */
export type FoundModel =
  | {
      readonly kind: 'gguf'
      readonly header: GgufHeader
      /** Headers of its other files; empty where it is one file. */
      readonly shards: readonly GgufHeader[]
      readonly fileBytes: number
      readonly mmproj?: Projector
    }
  | { readonly kind: 'mlx'; readonly config: unknown; readonly tensorBytes: number }

export interface FindOptions {
  readonly io: Pick<CliIo, 'cwd' | 'env' | 'homeDir'>
  readonly modelStore: string
  readonly signal: AbortSignal
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * A path on this machine, a name in the model store, or a source as a Model has it, of which only headers are fetched. Throws
 * VerbError, ModelError, GgufError or MlxFolderError, each with one sentence.
 */
export async function findModel(given: string, options: FindOptions): Promise<FoundModel> {
  if (/^[a-z][a-z0-9+.-]*:/i.test(given)) return onServer(given, options)
  const local = path.resolve(options.io.cwd, given)
  const there = await stat(local).catch(() => undefined)
  if (there !== undefined) return there.isDirectory() ? inFolder(local) : inFile(local)
  const stored = await inStore(given, options)
  if (stored !== undefined) return stored
  if (parseModelSource(given).kind === 'hub') return onServer(given, options)
  throw new VerbError(
    `There is no file, folder or stored model ${given}: give a path, a name that is in ${options.modelStore}, or a source such as hf://owner/name.`,
  )
}

async function inStore(name: string, { modelStore }: FindOptions): Promise<FoundModel | undefined> {
  if ((await stat(modelStore).catch(() => undefined)) === undefined) return undefined
  const stored = (await new Store({ directory: modelStore, log: silent }).list()).find(({ model }) => model === name)
  if (stored === undefined) return undefined
  const found = stored.path === stored.folder ? await inFolder(stored.path) : await inFile(stored.path)
  return stored.mmproj === undefined || found.kind === 'mlx'
    ? found
    : { ...found, mmproj: await projectorIn(stored.mmproj) }
}

async function inFile(file: string): Promise<FoundModel> {
  const { path: first, files, sizeBytes, mmproj } = await resolveLocal(file, {})
  const [header, shards] = await Promise.all([readGgufHeader(first), headersOf(files.filter((one) => one !== first))])
  const projector = mmproj === undefined ? {} : { mmproj: await projectorIn(mmproj) }
  return { kind: 'gguf', header, shards, fileBytes: sizeBytes, ...projector }
}

async function headersOf(files: readonly string[]): Promise<GgufHeader[]> {
  const headers: GgufHeader[] = []
  for (const file of files) headers.push(await readGgufHeader(file))
  return headers
}

const projectorIn = async (file: string): Promise<Projector> => ({
  fileBytes: (await stat(file)).size,
  header: await readGgufHeader(file),
})

/** Of files in the format of MLX, or of a GGUF model. */
async function inFolder(folder: string): Promise<FoundModel> {
  const isMlx = await stat(path.join(folder, 'config.json')).catch(() => undefined)
  return isMlx === undefined ? inFile(folder) : { kind: 'mlx', ...(await readMlxFolder(folder)) }
}

async function onServer(source: string, options: FindOptions): Promise<FoundModel> {
  const { io, signal, allowInsecureLoopback } = options
  const parsed = parseModelSource(source)
  if (parsed.kind === 'unsupported') throw new VerbError(parsed.message)
  if (parsed.kind === 'local') return findModel(parsed.path, options)
  await using transport = await createTransport({ env: io.env })
  await using remote = new Remote({
    log: silent,
    now: Date.now,
    settings: () => defaultDownloadSettings,
    env: io.env,
    homeDir: io.homeDir,
    stallMs: undefined,
    attempts: undefined,
    allowInsecureLoopback,
    allowedHosts: 'any',
    deletableBytes: () => Promise.resolve(0),
  })
  const { files, primary } = await remote.resolve({ source, namespace: '' }, signal)
  // Redirects are followed by fetch, which leaves the login behind where they lead to another origin.
  const request = (file: RemoteFile) => ({
    fetch: transport.fetch,
    signal,
    headers: new Login(file).headersFor(withoutLogin(file.url)),
  })
  const headerOf = (file: RemoteFile) => readGgufHeaderOverHttp(withoutLogin(file.url).href, request(file))
  const weights = files.filter(({ role }) => role === 'weights')
  const first = weights.find((file) => file.path === primary)
  if (first === undefined) {
    const config = files.find((file) => file.fileName === 'config.json')
    const tensorBytes = weights.reduce((sum, file) => sum + (file.sizeBytes ?? 0), 0)
    return { kind: 'mlx', config: config && (await jsonOf(config, request(config))), tensorBytes }
  }
  const header = await headerOf(first)
  const others = weights.filter((file) => file !== first)
  const shards: GgufHeader[] = []
  for (const file of others.filter((one) => parseShard(one.fileName) !== undefined)) shards.push(await headerOf(file))
  const projector = files.find(({ role }) => role === 'mmproj')
  const mmproj = projector && (await headerOf(projector))
  return {
    kind: 'gguf',
    header,
    shards,
    fileBytes: [header, ...shards].reduce((sum, one) => sum + bytesOf(one), 0),
    ...(projector && mmproj && { mmproj: { fileBytes: projector.sizeBytes ?? bytesOf(mmproj), header: mmproj } }),
  }
}

const bytesOf = ({ dataOffset, tensors }: GgufHeader): number =>
  tensors.reduce((sum, { bytes }) => sum + bytes, dataOffset)

/** Undefined where it is no JSON: the estimate then says that it is a guess. */
async function jsonOf({ url }: RemoteFile, init: { fetch: typeof fetch; headers?: object; signal: AbortSignal }) {
  const response = await init.fetch(withoutLogin(url).href, { signal: init.signal, headers: { ...init.headers } })
  if (!response.ok) throw new VerbError(`${url.replace(/[?#].*$/s, '')} answered ${response.status}.`)
  const answer: unknown = await response.json().catch(() => undefined)
  return answer
}
