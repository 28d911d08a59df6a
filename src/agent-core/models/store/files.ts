import { constants, type Dirent, type Stats } from 'node:fs'
import { access, copyFile, link, lstat, mkdir, open, readdir, realpath, stat, statfs } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { formatBytes } from '../../../contract/format.ts'
import { errorCode, ownFailure } from '../../util/error-code.ts'
import { messageOf } from '../../util/message-of.ts'
import { ModelError } from '../errors.ts'

/** Our own folder in the store; no Model can have its name. */
export const ownFolder = '.metalbar'

/** Volumes of macOS compare names without case and Unicode form. */
export const comparable = (path: string): string => path.normalize('NFC').toLowerCase()

/** Undefined where there is no such file. */
export async function ifThere<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

export const lstatIfThere = (path: string): Promise<Stats | undefined> => ifThere(lstat(path))

export const statIfThere = (path: string): Promise<Stats | undefined> => ifThere(stat(path))

/** None where there is no such folder. */
export const entriesOf = async (folder: string): Promise<Dirent[]> =>
  (await ifThere(readdir(folder, { withFileTypes: true }))) ?? []

/** Follows links. A path that does not exist yet is judged by the nearest folder above it that does. */
export async function isInside(root: string, path: string): Promise<boolean> {
  const realRoot = await ifThere(realpath(root))
  if (realRoot === undefined) return true
  for (let existing = path; ; existing = dirname(existing)) {
    const real = await ifThere(realpath(existing))
    if (real !== undefined)
      return real === realRoot || real.startsWith(realRoot.endsWith(sep) ? realRoot : realRoot + sep)
  }
}

/** Throws ModelError where a link leads out of the store. */
export async function requireInside(store: string, folder: string): Promise<void> {
  if (await isInside(store, folder)) return
  throw ModelError.untilRepairedHere(
    'StoreEscape',
    `${folder} is a symbolic link that leaves the model store ${store}: replace it by a folder, or give the model's absolute path as spec.source.`,
  )
}

/** Creates the folder and its parents for this user alone. On a read-only volume `mkdir` reports ENOENT; asking for write access gives the real reason. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    let existing = path
    while ((await lstatIfThere(existing)) === undefined) existing = dirname(existing)
    await access(existing, constants.W_OK)
    throw error
  }
}

/** Runs work that takes so many bytes of the folder's volume. Throws where there is no room for them. */
export type WithRoom = (
  room: { readonly folder: string; readonly bytes: number },
  work: () => Promise<void>,
) => Promise<void>

/** Gives the same bytes a second name, where nothing is: by a hard link, else a clone, else a copy where there is room. */
export async function sameBytes(from: string, to: string, withRoom: WithRoom): Promise<void> {
  const file = await realpath(from)
  try {
    await link(file, to)
  } catch (error) {
    if (!linkless.has(errorCode(error) ?? '')) throw error
    const isClone = await copyFile(file, to, constants.COPYFILE_FICLONE_FORCE).then(
      () => true,
      () => false,
    )
    const { size: bytes } = await stat(file)
    if (!isClone) await withRoom({ folder: dirname(to), bytes }, () => copyFile(file, to))
    await using copy = await open(to)
    await copy.sync()
  }
}

/** What a volume without hard links, or another volume, answers. */
const linkless = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EXDEV', 'EMLINK', 'ENOSYS'])

/** Runs work below the store, and names what goes wrong there. Throws ModelError. */
export async function namingStoreErrors<T>(folder: string, work: () => Promise<T>, neededBytes?: number): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw await storeError(error, folder, neededBytes)
  }
}

/** Names what went wrong while writing below the store; a ModelError passes unchanged. */
export async function storeError(error: unknown, folder: string, neededBytes?: number): Promise<ModelError> {
  if (error instanceof ModelError) return error
  switch (errorCode(error)) {
    case 'ENOSPC':
    case 'EDQUOT': {
      const free = await statfs(folder).catch(() => undefined)
      const need = neededBytes === undefined ? 'more space than there is' : formatBytes(neededBytes)
      const left = free === undefined ? 'no space left' : `${formatBytes(free.bavail * free.bsize)} free`
      return ModelError.untilRepairedHere(
        'DiskFull',
        `The model needs ${need} and the volume of ${folder} has ${left}: make room there or choose another --model-store.`,
        error,
      )
    }
    case 'EROFS':
      return ModelError.untilRepairedHere(
        'StoreReadOnly',
        `The model store ${folder} is on a read-only volume: mount it writable or choose another --model-store.`,
        error,
      )
    case 'EACCES':
    case 'EPERM':
      return ModelError.untilRepairedHere(
        'StoreNotWritable',
        `The model store ${folder} is not writable by this user: change its permissions or choose another --model-store.`,
        error,
      )
    default: {
      const own = ownFailure(error)
      return ModelError.untilRepairedHere(
        'StoreUnusable',
        own === undefined
          ? `The model store ${folder} cannot be used (${messageOf(error)}): repair it or choose another --model-store.`
          : `The model store ${folder} cannot be looked at (${own}): the agent tries again.`,
        error,
      )
    }
  }
}
