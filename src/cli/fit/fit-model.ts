import { stat } from 'node:fs/promises'
import path from 'node:path'
import { inCatalogue } from '../../contract/model-application.ts'
import type { FoundModel } from '../../agent-core/api/fit/sized-model.ts'
import { defaultDownloadSettings } from '../../agent-core/models/models.ts'
import { readGgufHeader } from '../../agent-core/models/gguf/file-header.ts'
import { lookAtServer, lookHere, projectorAt } from '../../agent-core/models/look.ts'
import { Remote } from '../../agent-core/models/remote.ts'
import { parseModelSource } from '../../agent-core/models/source.ts'
import { Store } from '../../agent-core/models/store/store.ts'
import { readMlxFolder } from '../../agent-core/memory/estimate/mlx-folder.ts'
import { VerbError } from '../agent-session.ts'
import type { CliIo } from '../io.ts'

export interface FindOptions {
  readonly io: Pick<CliIo, 'cwd' | 'env' | 'homeDir'>
  readonly modelStore: string
  readonly signal: AbortSignal
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * A path on this machine, a name in the model store or of the catalogue, or a source as a Model has it, of which only headers are fetched.
 * Throws VerbError, ModelError, GgufError or MlxFolderError, each with one sentence.
 */
export async function findModel(given: string, options: FindOptions): Promise<FoundModel> {
  if (/^[a-z][a-z0-9+.-]*:/i.test(given)) return onServer(given, options)
  const local = path.resolve(options.io.cwd, given)
  const there = await stat(local).catch(() => undefined)
  if (there !== undefined) return there.isDirectory() ? inFolder(local) : inFile(local)
  const stored = await inStore(given, options)
  if (stored !== undefined) return stored
  const source = inCatalogue(given)?.source ?? (parseModelSource(given).kind === 'hub' ? given : undefined)
  if (source !== undefined) return onServer(source, options)
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
    : { ...found, mmproj: await projectorAt(stored.mmproj, readGgufHeader) }
}

const inFile = async (file: string): Promise<FoundModel> => ({
  kind: 'gguf',
  ...(await lookHere(file, readGgufHeader)),
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
  return { kind: 'gguf', ...(await lookAtServer(remote, { source, namespace: '' }, signal)) }
}
