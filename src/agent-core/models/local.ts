import { createHash } from 'node:crypto'
import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { entriesUpTo, expandHome } from '../util/files.ts'
import { isBelow } from '../util/is-below.ts'
import { messageOf } from '../util/message-of.ts'
import { inOwnTurn } from '../util/turns.ts'
import { contentKindOf, expectsGguf, firstBytes, isGguf, isKindOf, isModelKind, requireFormat } from './content-kind.ts'
import { type ModelChoice, ModelError } from './errors.ts'
import type { FactsOfFiles } from './facts-of-files.ts'
import type { LocalModel, ModelRequest } from './model-request.ts'
import {
  type Candidate,
  type Choice,
  isFolderFormat,
  isWeightsName,
  maxListedFiles,
  parseShard,
  selectFiles,
  shardPaths,
} from './selection.ts'
import { ownFolder } from './store/files.ts'
import type { Store } from './store/store.ts'

export interface LocalSource {
  /** What a runtime is given: the file, the first shard, or the folder. */
  readonly path: string
  /** Absolute paths of all that belongs to the model, the projector left out. */
  readonly files: readonly string[]
  readonly sizeBytes: number
  readonly mmproj?: string
  readonly notes: readonly string[]
  /** See `Selected.choices`. */
  readonly choices?: readonly ModelChoice[]
}

/** Whether a file may be looked at. */
export type Allows = (path: string) => Promise<boolean>

/**
 * A model used in place: checked, never copied, changed or deleted. Of a file that is no model nothing is told, neither by us nor by a
 * runtime that fails to load it. Throws ModelError.
 */
export async function localModel(
  path: string,
  request: ModelRequest,
  { hashes, allows }: { readonly hashes: FactsOfFiles<string>; readonly allows: Allows },
): Promise<LocalModel> {
  const found = await resolveLocal(path, request, allows)
  const { mmproj, sizeBytes, files } = found
  const [first = found.path] = files
  await requireFormat(first, request.format)
  const weights = isFolderFormat(request.format) ? files.filter(isWeightsName) : files
  for (const file of weights) await requireModel(file, request.format)
  if (mmproj !== undefined) await requireModel(mmproj, 'gguf', 'spec.mmproj')
  const wanted = request.sha256?.toLowerCase()
  if (wanted !== undefined && (await hashes.of(first)) !== wanted) {
    throw ModelError.untilRepairedHere(
      'WrongChecksum',
      `${first} does not have the SHA-256 that spec.sha256 states, ${wanted}. Put the right file there, or correct spec.sha256.`,
    )
  }
  const all = mmproj === undefined ? files : [...files, mmproj]
  return {
    ...{ path: found.path, files: all, sizeBytes, revision: await stampOf(files) },
    ...(mmproj !== undefined && { mmproj }),
  }
}

async function requireModel(
  path: string,
  format: string | undefined,
  fields = 'spec.source or spec.format',
): Promise<void> {
  if (isKindOf(format, contentKindOf(await firstBytes(path)))) return
  throw ModelError.untilRepairedHere(
    'NotAModel',
    `${path} is not a model of spec.format ${format ?? 'gguf'}: put a model file there, or correct ${fields}.`,
  )
}

/** Another content of a file in place has another length or time. */
async function stampOf(files: readonly string[]): Promise<string> {
  const stamp = async (file: string) => {
    const { size, mtimeMs } = await stat(file)
    return [file, size, mtimeMs]
  }
  const stamps = await Promise.all(files.map(stamp))
  return createHash('sha256').update(JSON.stringify(stamps)).digest('hex')
}

const everything: Allows = () => Promise.resolve(true)

/** Which files of this machine a path means: only ever read. `allows` absent = every file that the agent can read. Throws ModelError. */
export async function resolveLocal(path: string, choice: Choice, allows = everything): Promise<LocalSource> {
  const given = resolve(path)
  await requireAllowed(given, allows)
  const isFolder = (await stat(given).catch(ifMissing))?.isDirectory() === true
  if (!isFolder) await requireFile(given, choice)
  const folder = isFolder ? given : dirname(given)
  const { mmproj: named = '', files: wanted = [] } = choice
  const mmproj = named === '' ? undefined : isAbsolute(named) ? named : inFolder(folder, named)
  const shard = isFolder ? undefined : parseShard(basename(given))
  const asked = [...wanted, ...(shard === undefined ? [] : shardPaths(basename(given), shard))]
  const isAlone = !isFolder && asked.length === 0
  const selected = isAlone
    ? { files: [{ path: basename(given) }], isFolder: false, notes: [], choices: undefined }
    : await selectInFolder(
        folder,
        { ...choice, mmproj: undefined, path: isFolder ? undefined : basename(given) },
        asked,
        allows,
      )
  const files = selected.files.map((file) => join(folder, file.path))
  let sizeBytes = 0
  for (const file of files) {
    await requireAllowed(file, allows)
    sizeBytes += await checkedSize(file)
  }
  if (mmproj !== undefined) {
    await requireAllowed(mmproj, allows)
    await checkedSize(mmproj)
  }
  return {
    path: selected.isFolder ? folder : (files[0] ?? given),
    ...{ files, sizeBytes, notes: selected.notes },
    ...(mmproj !== undefined && { mmproj }),
    ...(selected.choices && { choices: selected.choices }),
  }
}

/** In the same words whether there is such a file or not. */
async function requireAllowed(path: string, allows: Allows): Promise<void> {
  if (await allows(path)) return
  throw ModelError.terminal(
    'ModelSourceNotAllowed',
    `${path} is neither in the model store nor below a folder of --allowed-model-roots, so it is not read: have the owner of this machine start the agent with --allowed-model-roots and the folder of the model, or give an https:// address or a Hugging Face repository (hf://owner/name).`,
  )
}

async function requireFile(path: string, { format }: Choice): Promise<void> {
  await checkedSize(path)
  if (!isFolderFormat(format)) return
  throw ModelError.terminal(
    'NotAFile',
    `${path} is one file, but a model of spec.format ${format} is a folder: give the folder's path, or correct spec.format.`,
  )
}

/** The length of a file that may be a model. Throws ModelError where it is none. */
async function checkedSize(path: string): Promise<number> {
  const found = await stat(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  if (!found.isFile()) {
    const sentence = found.isDirectory()
      ? `${path} is a directory: give the path of the model file in it.`
      : `${path} is not a regular file: give the path of a model file.`
    throw ModelError.terminal('NotAFile', sentence)
  }
  if (found.size === 0) throw ModelError.untilRepairedHere('EmptyFile', `${path} is empty: put the model file there.`)
  const start = await firstBytes(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  if (!expectsGguf(path) || isGguf(start)) return found.size
  throw ModelError.untilRepairedHere(
    'NotAModel',
    `${path} is not a GGUF file although its name says so: put a model file there.`,
  )
}

function unreadable(path: string, error: unknown): ModelError {
  const code = errorCode(error)
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    const sentence = `${path} does not exist on this machine: put the model file there or change spec.source.`
    return ModelError.untilRepairedHere('FileMissing', sentence, error)
  }
  const own = ownFailure(error)
  const sentence =
    code === 'EACCES' || code === 'EPERM'
      ? `${path} is not readable by this user: change its permissions.`
      : own === undefined
        ? `${path} cannot be read (${messageOf(error)}): check the volume it is on.`
        : `${path} cannot be read (${own}): the agent tries again.`
  return ModelError.untilRepairedHere('FileUnreadable', sentence, error)
}

/** So many files are looked at together: a folder may have thousands, and many Models may name it. */
const lookedAtOnce = 16

/** Chooses among the files of the folder, and those deeper that were asked for. What says that it is a model and is none is left out, unless it was asked for. */
async function selectInFolder(folder: string, choice: Choice, asked: readonly string[], allows: Allows) {
  const entries = await entriesUpTo(folder, maxListedFiles).catch((error: unknown) => {
    throw ModelError.untilRepairedHere(
      'FileUnreadable',
      `${folder} cannot be read (${messageOf(error)}): change its permissions or check the volume it is on.`,
      error,
    )
  })
  if (entries === undefined) {
    throw ModelError.terminal(
      'Ambiguous',
      `${folder} has more than ${maxListedFiles} files, too many to choose from: give the path of the model's file, or put the model in a folder of its own.`,
    )
  }
  const meant = new Set(asked)
  for (const path of meant) inFolder(folder, path)
  const look = async (path: string): Promise<Candidate[]> => {
    const full = join(folder, path)
    if (!(await allows(full))) return []
    const state = await stat(full).catch(ifMissing)
    if (state?.isFile() !== true) return []
    const isMeant = meant.has(path) || !isWeightsName(path) || (await isModel(full))
    return isMeant ? [{ path, sizeBytes: state.size }] : []
  }
  const names = entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map(({ name }) => name)
  const deeper = [...meant].filter((path) => path.includes('/'))
  const paths = [...new Set([...names.sort(), ...deeper])]
  const found: Candidate[] = []
  for (let from = 0; from < paths.length; from += lookedAtOnce) {
    found.push(...(await Promise.all(paths.slice(from, from + lookedAtOnce).map(look))).flat())
  }
  const place = { name: folder, naming: (file: string) => join(folder, file), isLocal: true }
  return inOwnTurn(() => selectFiles(found, choice, place))
}

/** Whether the file is there and begins as a model of any format. */
export async function isModel(path: string): Promise<boolean> {
  const start = await firstBytes(path).catch(ifMissing)
  return start !== undefined && isModelKind(contentKindOf(start))
}

/** Throws where a path relative to the source would leave its folder. */
function inFolder(folder: string, path: string): string {
  const full = resolve(folder, path)
  if (isBelow(full, folder)) return full
  throw ModelError.terminal(
    'UnsafeName',
    `${JSON.stringify(path)} leaves the folder ${folder} of spec.source: name a file in it.`,
  )
}

/** Missing, dangling or not allowed: `checkedSize` and the listing say which. */
function ifMissing(error: unknown): undefined {
  if (errorCode(error) === undefined) throw error
  return undefined
}

export interface ModelRootsOptions {
  /** The model store, whose models may be named by their paths. */
  readonly store: Pick<Store, 'directory' | 'isOpen'>
  /** Folders whose files Models may name, as a person listed them: absolute, or below the home folder with `~/`. */
  readonly roots: readonly string[]
  readonly home: string
}

/** Which files of this machine a Model may name in `spec.source`: those below the store and the folders that a person listed. */
export class ModelRoots {
  readonly #store: ModelRootsOptions['store']
  readonly #roots: readonly string[]

  constructor({ store, roots, home }: ModelRootsOptions) {
    this.#store = store
    this.#roots = roots.map((root) => expandHome(root, home))
  }

  /** Whether a Model of the namespace may name the file. Links are followed; what does not exist is judged by the nearest folder above it that does. */
  async allows(path: string, namespace: string): Promise<boolean> {
    const real = await realOf(path)
    const store = (await realFolder(this.#store.directory)) ?? this.#store.directory
    if (isAtOrBelow(real, join(store, ownFolder))) return false
    if (isAtOrBelow(real, store)) return this.#store.isOpen(real, namespace)
    for (const root of this.#roots) {
      const realRoot = await realFolder(root)
      if (realRoot !== undefined && isAtOrBelow(real, realRoot)) return true
    }
    return false
  }

  /** A sentence about each listed folder that does not exist; it counts as soon as it does. */
  async missing(): Promise<string[]> {
    const sentences = this.#roots.map(async (root) =>
      (await realFolder(root)) === undefined
        ? [
            `${root} of --allowed-model-roots was not found when the agent started, so no Model is served from it until it is there: create the folder, connect its volume or correct the setting.`,
          ]
        : [],
    )
    return (await Promise.all(sentences)).flat()
  }
}

/** Undefined where this user cannot find it. */
const realFolder = (root: string): Promise<string | undefined> => realpath(root).catch(() => undefined)

async function realOf(path: string): Promise<string> {
  for (let existing = path; ; existing = dirname(existing)) {
    const real = await realFolder(existing)
    if (real !== undefined) return join(real, relative(existing, path))
    if (existing === dirname(existing)) return path
  }
}

/** A folder that a person listed may be a model itself. */
const isAtOrBelow = (path: string, folder: string): boolean => path === folder || isBelow(path, folder)
