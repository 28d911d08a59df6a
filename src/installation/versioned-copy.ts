import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { copyFile, link, lstat, mkdir, open, readdir, rename, rm, utimes } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { ensurePrivateFolder } from '../agent-core/state/state-folder.ts'
import { hasCode, syncFolder } from '../agent-core/util/files.ts'
import { attempt } from './installation-host.ts'

export interface CopyRequest {
  /** The self-contained command, in an app or wherever a person has put it; links to it are followed. */
  readonly command: string
  /** What the command says its version is. */
  readonly version: string
  readonly stateDir: string
  /** Copies that must stay besides the new and the last one: what the service is told to start until it is told otherwise. */
  readonly inUse?: readonly string[]
}

/** Below the state folder. */
export const copiesFolder = (stateDir: string): string => path.join(stateDir, 'versions')

const fileName = 'metal-agent'

const versionPattern = /^\d[0-9A-Za-z.+-]*$/
/** VERSION-HASH, the hash being the first 12 digits of the file's SHA-256. */
const copyPattern = /^\d[0-9A-Za-z.+-]*-[0-9a-f]{12}$/
/** `.VERSION-HASH.UUID.unfinished`, the name of a copy until it is whole. */
const unfinishedPattern = /^\.\d[0-9A-Za-z.+-]*\.[0-9a-f-]{36}\.unfinished$/

/** No copy takes that long: what is older was left by one that was killed. */
const longestCopyMs = 60 * 60_000

/**
 * Copies the command below the state folder, where it outlives the app that it came with; answers the copy. What has its name is whole. The
 * copy that was asked for before this one stays too, so that a person can go back to it. Throws InstallationError.
 */
export async function versionedCopyOf({ command, version, stateDir, inUse = [] }: CopyRequest): Promise<string> {
  const folder = copiesFolder(stateDir)
  return attempt(`${command} could not be copied to ${folder}`, async () => {
    if (!versionPattern.test(version)) throw new Error(`${JSON.stringify(version)} is no version`)
    await ensurePrivateFolder(stateDir)
    await ensurePrivateFolder(folder)
    const hash = await sha256(command)
    const copy = path.join(folder, `${version}-${hash.slice(0, 12)}`)
    if (!(await isWhole(path.join(copy, fileName), hash))) await makeCopy(command, hash, copy)
    // The next call keeps the copy that was asked for last.
    await utimes(copy, new Date(), new Date())
    await prune(folder, copy, inUse)
    return path.join(copy, fileName)
  })
}

/** Copies the command at the first call; later calls return the same copy, and make it again if it has gone. */
export function onceCopied(request: CopyRequest): () => Promise<string> {
  let copy: string | undefined
  return async () => {
    if (copy === undefined || !(await isFile(copy))) copy = await versionedCopyOf(request)
    return copy
  }
}

async function isFile(file: string): Promise<boolean> {
  try {
    return (await lstat(file)).isFile()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
}

/** False for a link, whose content may change. */
async function isWhole(file: string, hash: string): Promise<boolean> {
  try {
    const isHere = (await lstat(path.dirname(file))).isDirectory() && (await lstat(file)).isFile()
    return isHere && (await sha256(file)) === hash
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return false
    throw error
  }
}

/** What launchd or systemd starts, the same for every version: macOS keeps what a person allowed a program by its path. */
export const serviceCommandIn = (stateDir: string): string => path.join(copiesFolder(stateDir), 'current', fileName)

/** Whether it is `versions/VERSION-HASH/metal-agent`, which services of earlier builds start. */
export function isVersionedCopy(command: string): boolean {
  const folder = path.dirname(command)
  const isBelowVersions = path.basename(path.dirname(folder)) === path.basename(copiesFolder(''))
  return path.basename(command) === fileName && copyPattern.test(path.basename(folder)) && isBelowVersions
}

/** Whether a service of this state folder would start these bytes already. Throws InstallationError. */
export const isServiceCommand = (copy: string, stateDir: string): Promise<boolean> =>
  attempt(`${copy} cannot be read`, async () => isWhole(serviceCommandIn(stateDir), await sha256(copy)))

export interface Replacement {
  /** Puts back what was there before. */
  undo(): Promise<void>
  /** Gives up what was there before. */
  keep(): Promise<void>
}

/**
 * Puts a copy at {@link serviceCommandIn} by one rename: a service that is started meanwhile runs the one or the other. The copy itself stays
 * where it is. Throws InstallationError.
 */
export async function replaceServiceCommand(copy: string, stateDir: string): Promise<Replacement> {
  const place = serviceCommandIn(stateDir)
  const folder = path.dirname(place)
  const unfinished = path.join(folder, `.${randomUUID()}.unfinished`)
  const before = path.join(folder, `.${randomUUID()}.before`)
  return attempt(`${place} could not be replaced`, async () => {
    try {
      await ensurePrivateFolder(folder)
      await sameFile(copy, unfinished)
      const hasBefore = await sameFile(place, before).then(
        () => true,
        (error: unknown) => {
          if (hasCode(error, 'ENOENT')) return false
          throw error
        },
      )
      await rename(unfinished, place)
      await syncFolder(folder)
      return {
        undo: () => (hasBefore ? rename(before, place) : rm(place, { force: true })),
        keep: () => rm(before, { force: true }),
      }
    } catch (error) {
      await rm(unfinished, { force: true })
      await rm(before, { force: true })
      throw error
    }
  })
}

/** Gives a file a second name, or makes a second copy on a volume without hard links. */
async function sameFile(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: unknown) => {
    if (!['ENOTSUP', 'EOPNOTSUPP', 'EPERM', 'EMLINK'].some((code) => hasCode(error, code))) throw error
    await copyFile(from, to)
  })
}

/** Copies the bytes alone: with the attributes macOS would keep the mark of a download, and ask a person before launchd may start the copy. */
async function makeCopy(command: string, hash: string, copy: string): Promise<void> {
  const folder = path.dirname(copy)
  const unfinished = path.join(folder, `.${path.basename(copy)}.${randomUUID()}.unfinished`)
  try {
    await mkdir(unfinished, { mode: 0o700 })
    const copied = createHash('sha256')
    await using file = await open(path.join(unfinished, fileName), 'wx', 0o700)
    for await (const part of createReadStream(command)) {
      const bytes = part as Buffer
      copied.update(bytes)
      await file.writeFile(bytes)
    }
    if (copied.digest('hex') !== hash) throw new Error('it was changed meanwhile')
    await file.sync()
    await syncFolder(unfinished)
    await putInPlace(unfinished, copy, hash)
    await syncFolder(folder)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

/** Leaves a whole copy that another process has put there meanwhile. */
async function putInPlace(unfinished: string, copy: string, hash: string): Promise<void> {
  try {
    await rename(unfinished, copy)
  } catch (error) {
    const isTaken = ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].some((code) => hasCode(error, code))
    if (!isTaken) throw error
    if (await isWhole(path.join(copy, fileName), hash)) return
    await rm(copy, { recursive: true, force: true })
    await rename(unfinished, copy)
  }
}

/** Removes copies that nothing needs any longer, and leaves what is none of ours alone. */
async function prune(folder: string, copy: string, inUse: readonly string[]): Promise<void> {
  const entries = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isDirectory())
  const dated = await Promise.all(
    entries.map(async ({ name }) => ({ name, mtimeMs: (await lstat(path.join(folder, name))).mtimeMs })),
  )
  const isKept = new Set([copy, ...inUse.map((file) => path.dirname(file))].map((one) => path.basename(one)))
  const others = dated.filter(({ name }) => copyPattern.test(name) && name !== path.basename(copy))
  const [, ...old] = others.toSorted((one, other) => other.mtimeMs - one.mtimeMs)
  const left = dated.filter(({ name, mtimeMs }) => unfinishedPattern.test(name) && Date.now() - mtimeMs > longestCopyMs)
  for (const { name } of [...old, ...left]) {
    if (!isKept.has(name)) await rm(path.join(folder, name), { recursive: true, force: true })
  }
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
