import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { isBelow } from '../util/is-below.ts'
import { messageOf } from '../util/message-of.ts'
import { errorCode } from '../util/error-code.ts'
import { localRepairMs, ModelError, type ModelChoice } from './errors.ts'
import { isModelKind, contentKindOf } from './gguf/content-kind.ts'
import { checkLocalFile, firstBytes } from './local-file.ts'
import type { Candidate } from './model-groups.ts'
import { isFolderFormat, isWeightsName, maxListedFiles, selectFiles, type Choice } from './selection.ts'
import { parseShard, shardPaths } from './shards.ts'

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
    ? selectFiles(
        await listFolder(folder, asked, lent),
        { ...choice, mmproj: undefined, path: isFolder ? undefined : basename(given) },
        { name: folder, naming: (file) => join(folder, file), isLocal: true },
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

/** The files of the folder, and those deeper that were asked for. What says that it is a model and is none is left out, unless it was asked for. */
async function listFolder(folder: string, asked: readonly string[], lent: Lent): Promise<Candidate[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw new ModelError(
      'transient',
      'FileUnreadable',
      `${folder} cannot be read (${messageOf(error)}): change its permissions or check the volume it is on.`,
      { cause: error, retryAfterMs: localRepairMs },
    )
  })
  if (names.length > maxListedFiles) {
    throw new ModelError(
      'terminal',
      'Ambiguous',
      `${folder} has more than ${maxListedFiles} files, too many to choose from: give the path of the model's file, or put the model in a folder of its own.`,
    )
  }
  const meant = new Set(asked)
  for (const path of meant) inFolder(folder, path)
  const deeper = [...meant].filter((path) => path.includes('/'))
  const found = await Promise.all(
    [...new Set([...names.sort(), ...deeper])].map(async (path) => {
      const full = join(folder, path)
      if (!(await lent.allows(full))) return undefined
      const state = await stat(full).catch(ifMissing)
      if (state?.isFile() !== true) return undefined
      const isMeant = meant.has(path) || !isWeightsName(path) || (await isModel(full))
      return isMeant ? { path, sizeBytes: state.size } : undefined
    }),
  )
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
