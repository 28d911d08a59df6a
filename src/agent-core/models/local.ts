import { createHash } from 'node:crypto'
import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { entriesUpTo } from '../util/files.ts'
import { isBelow } from '../util/is-below.ts'
import { messageOf } from '../util/message-of.ts'
import { inOwnTurn } from '../util/turns.ts'
import { contentKindOf, expectsGguf, firstBytes, isGguf, isKindOf, isModelKind, requireFormat } from './content-kind.ts'
import type { FileHashes } from './download/hash.ts'
import { localRepairMs, type ModelChoice, ModelError, type ModelErrorReason } from './errors.ts'
import type { LocalModel, ModelRequest } from './model-request.ts'
import {
  type Candidate,
  type Choice,
  isFolderFormat,
  isWeightsName,
  maxListedFiles,
  parseShard,
  type Selected,
  selectFiles,
  shardPaths,
} from './selection.ts'
import { ownFolder } from './store/files.ts'

/** A model used in place: checked, never copied, changed or deleted. Returns its size in bytes; throws ModelError. */
export async function checkLocalFile(path: string): Promise<number> {
  const found = await stat(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  if (found.isDirectory()) {
    throw new ModelError('terminal', 'NotAFile', `${path} is a directory: give the path of the model file in it.`)
  }
  if (!found.isFile())
    throw new ModelError('terminal', 'NotAFile', `${path} is not a regular file: give the path of a model file.`)
  if (found.size === 0) throw localProblem('EmptyFile', `${path} is empty: put the model file there.`)
  const start = await firstBytes(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  if (expectsGguf(path) && !isGguf(start)) {
    throw localProblem('NotAModel', `${path} is not a GGUF file although its name says so: put a model file there.`)
  }
  return found.size
}

function unreadable(path: string, error: unknown): ModelError {
  switch (errorCode(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return localProblem(
        'FileMissing',
        `${path} does not exist on this machine: put the model file there or change spec.source.`,
        error,
      )
    case 'EACCES':
    case 'EPERM':
      return localProblem('FileUnreadable', `${path} may not be read by this user: change its permissions.`, error)
    default: {
      const own = ownFailure(error)
      return localProblem(
        'FileUnreadable',
        own === undefined
          ? `${path} cannot be read (${messageOf(error)}): check the volume it is on.`
          : `${path} cannot be read (${own}): the agent tries again.`,
        error,
      )
    }
  }
}

function localProblem(reason: ModelErrorReason, message: string, cause?: unknown): ModelError {
  return new ModelError('transient', reason, message, { cause, retryAfterMs: localRepairMs })
}

export interface LocalSource {
  readonly kind: 'local'
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

/** Which files may be looked at. */
export interface Lent {
  allows(path: string): Promise<boolean>
  /** Throws ModelError. */
  require(path: string): Promise<void>
}

/** A model that lies on this machine, used in place: only ever read. `lent` absent = every file that the agent can read is allowed. Throws ModelError. */
export async function resolveLocal(path: string, choice: Choice, lent: Lent = everything): Promise<LocalSource> {
  const given = resolve(path)
  await lent.require(given)
  const isFolder = (await stat(given).catch(ifMissing))?.isDirectory() === true
  if (!isFolder) await requireFile(given, choice)
  const folder = isFolder ? given : dirname(given)
  const projector =
    choice.mmproj === undefined || choice.mmproj === ''
      ? undefined
      : isAbsolute(choice.mmproj)
        ? choice.mmproj
        : inFolder(folder, choice.mmproj)
  const shard = isFolder ? undefined : parseShard(basename(given))
  const needsListing = isFolder || shard !== undefined || (choice.files ?? []).length > 0
  const asked = [...(choice.files ?? []), ...(shard === undefined ? [] : shardPaths(basename(given), shard))]
  const selected = needsListing
    ? await selectInFolder(
        await listFolder(folder, asked, lent),
        { ...choice, mmproj: undefined, path: isFolder ? undefined : basename(given) },
        folder,
      )
    : { files: [{ path: basename(given) }], isFolder: false, notes: [], choices: undefined }
  const files = selected.files.map((file) => join(folder, file.path))
  let sizeBytes = 0
  for (const file of files) {
    await lent.require(file)
    sizeBytes += await checkLocalFile(file)
  }
  if (projector !== undefined) {
    await lent.require(projector)
    await checkLocalFile(projector)
  }
  return {
    kind: 'local',
    path: selected.isFolder ? folder : (files[0] ?? given),
    files,
    sizeBytes,
    ...(projector === undefined ? {} : { mmproj: projector }),
    notes: selected.notes,
    ...(selected.choices && { choices: selected.choices }),
  }
}

const selectInFolder = (files: readonly Candidate[], choice: Choice, folder: string): Promise<Selected<Candidate>> =>
  inOwnTurn(() => selectFiles(files, choice, { name: folder, naming: (file) => join(folder, file), isLocal: true }))

async function requireFile(path: string, { format = 'gguf' }: Choice): Promise<void> {
  await checkLocalFile(path)
  if (!isFolderFormat(format)) return
  throw new ModelError(
    'terminal',
    'NotAFile',
    `${path} is one file, but a model of spec.format ${format} is a folder: give the folder's path, or correct spec.format.`,
  )
}

const everything: Lent = { allows: () => Promise.resolve(true), require: () => Promise.resolve() }

/** So many files are looked at together: a folder may have thousands, and many Models may name it. */
const lookedAtOnce = 16

/** The files of the folder, and those deeper that were asked for. What says that it is a model and is none is left out, unless it was asked for. */
async function listFolder(folder: string, asked: readonly string[], lent: Lent): Promise<Candidate[]> {
  const entries = await entriesUpTo(folder, maxListedFiles).catch((error: unknown) => {
    throw new ModelError(
      'transient',
      'FileUnreadable',
      `${folder} cannot be read (${messageOf(error)}): change its permissions or check the volume it is on.`,
      { cause: error, retryAfterMs: localRepairMs },
    )
  })
  if (entries === undefined) {
    throw new ModelError(
      'terminal',
      'Ambiguous',
      `${folder} has more than ${maxListedFiles} files, too many to choose from: give the path of the model's file, or put the model in a folder of its own.`,
    )
  }
  const meant = new Set(asked)
  for (const path of meant) inFolder(folder, path)
  const look = async (path: string): Promise<Candidate | undefined> => {
    const full = join(folder, path)
    if (!(await lent.allows(full))) return undefined
    const state = await stat(full).catch(ifMissing)
    if (state?.isFile() !== true) return undefined
    const isMeant = meant.has(path) || !isWeightsName(path) || (await isModel(full))
    return isMeant ? { path, sizeBytes: state.size } : undefined
  }
  const names = entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map(({ name }) => name)
  const deeper = [...meant].filter((path) => path.includes('/'))
  const paths = [...new Set([...names.sort(), ...deeper])]
  const found: (Candidate | undefined)[] = []
  for (let from = 0; from < paths.length; from += lookedAtOnce) {
    found.push(...(await Promise.all(paths.slice(from, from + lookedAtOnce).map(look))))
  }
  return found.filter((file) => file !== undefined)
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
  throw new ModelError(
    'terminal',
    'UnsafeName',
    `${JSON.stringify(path)} leaves the folder ${folder} of spec.source: name a file in it.`,
  )
}

/** Missing, dangling or not allowed: `checkLocalFile` and the listing say which. */
function ifMissing(error: unknown): undefined {
  if (errorCode(error) === undefined) throw error
  return undefined
}

export interface LocalModelOptions {
  readonly hashes: FileHashes
  readonly lent: Lent
}

/**
 * A model used in place: checked, never copied, changed or deleted. Of a file that is no model nothing is told, neither by us nor by a
 * runtime that fails to load it. Throws ModelError.
 */
export async function localModel(
  path: string,
  request: ModelRequest,
  { hashes, lent }: LocalModelOptions,
): Promise<LocalModel> {
  const found = await resolveLocal(path, request, lent)
  const [first = found.path] = found.files
  await requireFormat(first, request.format)
  const isFolder = isFolderFormat(request.format ?? 'gguf')
  for (const file of isFolder ? found.files.filter(isWeightsName) : found.files)
    await requireModel(file, request.format)
  if (found.mmproj !== undefined) await requireModel(found.mmproj, 'gguf', 'spec.mmproj')
  const wanted = request.sha256?.toLowerCase()
  if (wanted !== undefined && (await hashes.of(first)) !== wanted) {
    throw new ModelError(
      'transient',
      'WrongChecksum',
      `${first} is not what the Model says: it has another SHA-256 than spec.sha256, ${wanted}. Put the right file there, or correct spec.sha256.`,
      { retryAfterMs: localRepairMs },
    )
  }
  const { mmproj, sizeBytes } = found
  return {
    path: found.path,
    sizeBytes,
    revision: await stampOf(found.files),
    ...(mmproj !== undefined && { mmproj }),
  }
}

async function requireModel(
  path: string,
  format: string | undefined,
  fields = 'spec.source or spec.format',
): Promise<void> {
  if (isKindOf(format, contentKindOf(await firstBytes(path)))) return
  throw new ModelError(
    'transient',
    'NotAModel',
    `${path} is not a model of spec.format ${format ?? 'gguf'}: put a model file there, or correct ${fields}.`,
    { retryAfterMs: localRepairMs },
  )
}

/** Another content of a file in place has another length or time. */
async function stampOf(files: readonly string[]): Promise<string> {
  const stamps = await Promise.all(
    files.map(async (file) => [file, (await stat(file)).size, (await stat(file)).mtimeMs]),
  )
  return createHash('sha256').update(JSON.stringify(stamps)).digest('hex')
}

export interface ModelRootsOptions {
  /** The model store, whose models may be named by their paths. */
  readonly store: string
  /** Folders whose files Models may name, as a person listed them: absolute, or below the home folder with `~/`. */
  readonly roots: readonly string[]
  readonly home: string
  /** Whether a file of the store, by its real path, may be given to the namespace. */
  readonly isOpen: (path: string, namespace: string) => Promise<boolean>
}

/** Which files of this machine a Model may name in `spec.source`: those below the store and the folders that a person listed. */
export class ModelRoots {
  readonly #store: string
  readonly #roots: readonly string[]
  readonly #isOpen: ModelRootsOptions['isOpen']

  constructor({ store, roots, home, isOpen }: ModelRootsOptions) {
    this.#isOpen = isOpen
    this.#store = store
    this.#roots = roots.map((root) => (/^~(?=\/|$)/.test(root) ? join(home, root.slice(1)) : root))
  }

  lentTo(namespace: string): Lent {
    const allows = (path: string): Promise<boolean> => this.#allows(path, namespace)
    return {
      allows,
      require: async (path) => {
        if (!(await allows(path))) throw notAllowed(path)
      },
    }
  }

  /** A sentence about each listed folder that does not exist; it counts as soon as it does. */
  async missing(): Promise<string[]> {
    const told = this.#roots.map(async (root) => ((await realFolder(root)) === undefined ? [notFound(root)] : []))
    return (await Promise.all(told)).flat()
  }

  /** With all links followed; what does not exist is judged by the nearest folder above it that does. */
  async #allows(path: string, namespace: string): Promise<boolean> {
    const real = await realOf(path)
    const store = await realpath(this.#store).catch(() => this.#store)
    if (isAtOrBelow(real, join(store, ownFolder))) return false
    if (isAtOrBelow(real, store)) return this.#isOpen(real, namespace)
    for (const root of this.#roots) {
      const realRoot = await realFolder(root)
      if (realRoot !== undefined && isAtOrBelow(real, realRoot)) return true
    }
    return false
  }
}

/** Undefined where this user cannot find it. */
const realFolder = (root: string): Promise<string | undefined> => realpath(root).catch(() => undefined)

const notFound = (root: string): string =>
  `${root} of --allowed-model-roots was not found when the agent started, so no Model is served from it until it is there: create the folder, connect its volume or correct the setting.`

/** In the same words whether there is such a file or not. */
const notAllowed = (path: string): ModelError =>
  new ModelError(
    'terminal',
    'ModelSourceNotAllowed',
    `${path} is neither in the model store nor below a folder of --allowed-model-roots, so it is not read: let a person on this machine start the agent with --allowed-model-roots and the folder of the model, or give an https:// address or a Hugging Face repository (hf://owner/name).`,
  )

async function realOf(path: string): Promise<string> {
  for (let existing = path; ; existing = dirname(existing)) {
    const real = await realpath(existing).catch(() => undefined)
    if (real !== undefined) return join(real, relative(existing, path))
    if (existing === dirname(existing)) return path
  }
}

/** A folder that a person listed may be a model itself. */
const isAtOrBelow = (path: string, folder: string): boolean => path === folder || isBelow(path, folder)
