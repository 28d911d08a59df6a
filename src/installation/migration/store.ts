import {
  access,
  constants,
  copyFile,
  link,
  lstat,
  mkdir,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
} from 'node:fs/promises'
import path from 'node:path'
import { isSafePath } from '../../agent-core/models/source.ts'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import { judgeStoreFolder, temporaryNote } from '../../agent-core/models/store/watch.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import type { MovedFile } from './record.ts'

/** A model file, relative to its store. */
export interface StoreFile {
  readonly path: string
  readonly bytes: number
}

/** What happens with the Go agent's store. */
export type StorePlan =
  | { readonly how: 'none'; readonly from: string; readonly to: string }
  /** Our agent uses the same folder. */
  | { readonly how: 'inPlace'; readonly from: string; readonly to: string; readonly bytes: number }
  /** A second name of each file in a folder that no reboot empties: nothing is copied, and the first name stays. */
  | {
      readonly how: 'link' | 'copy'
      readonly from: string
      readonly to: string
      readonly bytes: number
      readonly files: readonly StoreFile[]
    }

export interface StoreLook {
  readonly plan: StorePlan
  /** Each one sentence that stops the migration. */
  readonly problems: readonly string[]
  readonly notes: readonly string[]
}

/** A fast disk; only to estimate how long copying takes. */
export const copiedBytesPerSecond = 500e6

/** `to`: our own store; `isChosen`: a person named it, so models move there wherever they are. */
export async function lookAtStore(from: string, to: string, isChosen = false): Promise<StoreLook> {
  const nothing = { how: 'none', from, to } as const
  const found = await lstat(from).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  })
  if (found === undefined) {
    return { plan: nothing, problems: [], notes: [`There is no model store ${from}: models are fetched again.`] }
  }
  const real = await realpath(from).catch(() => undefined)
  if (real === undefined) {
    const why = `The model store ${from} is a symbolic link to something that is not there: connect its volume, or correct the link.`
    return { plan: nothing, problems: [why], notes: [] }
  }
  if (!(await stat(real)).isDirectory()) {
    return { plan: nothing, problems: [`The model store ${from} is no folder.`], notes: [] }
  }
  const { problem, warnings } = await judgeStoreFolder(real)
  const linked =
    real === path.resolve(from) || !found.isSymbolicLink() ? [] : [`The model store ${from} is a link to ${real}.`]
  const { files, skipped } = await filesIn(real)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const isWiped = temporaryNote(`${path.resolve(from)}/`) !== undefined || temporaryNote(`${real}/`) !== undefined
  if ((!isWiped && !isChosen) || real === (await realpath(to).catch(() => to))) {
    const isWritable = await access(real, constants.W_OK).then(
      () => true,
      () => false,
    )
    const problems = [
      ...(problem ? [problem.message] : []),
      ...(isWritable
        ? []
        : [`The model store ${from} may not be written by this user: change that with chown or chmod.`]),
    ]
    return { plan: { how: 'inPlace', from, to: path.resolve(from), bytes }, problems, notes: [...linked, ...warnings] }
  }
  const isSameVolume = (await stat(real)).dev === (await stat(await nearestExisting(to))).dev
  const how = isSameVolume ? 'link' : 'copy'
  const free = await statfs(await nearestExisting(to))
  const isTooBig = how === 'copy' && free.bavail * free.bsize < bytes
  return {
    plan: { how, from: real, to, bytes, files },
    problems: isTooBig
      ? [
          `There is not enough room for the models of ${from} on the volume of ${to}: free some, or keep them where they are with "-- --model-store ${from}".`,
        ]
      : [],
    notes: [...linked, ...skipped],
  }
}

async function nearestExisting(folder: string): Promise<string> {
  for (let existing = path.resolve(folder); ; existing = path.dirname(existing)) {
    if ((await statIfThere(existing)) !== undefined) return existing
  }
}

/** Regular files in the folders of Models, but no partial downloads, logs or checksums. */
async function filesIn(store: string): Promise<{ files: StoreFile[]; skipped: string[] }> {
  const files: StoreFile[] = []
  const skipped: string[] = []
  for (const entry of await readdir(store, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    const below = path.relative(store, file)
    if (entry.isDirectory() || !below.includes(path.sep) || /\.(partial|log|sha256)$/i.test(below)) continue
    if (entry.isSymbolicLink()) skipped.push(`${file} is a link and is left where it is; its model is fetched again.`)
    else if (entry.isFile() && isSafePath(below)) {
      const { size } = await stat(file)
      if (size > 0) files.push({ path: below, bytes: size })
    }
  }
  return { files, skipped }
}

interface Moving {
  readonly tell: (sentence: string) => void
  readonly signal: AbortSignal
  /** Called before a file gets its name here, so that a move that is killed in between can take it back. */
  readonly note: (file: MovedFile) => Promise<void>
}

/** Gives every file a name in our store. What is there already stays, so it may be run again. */
export async function moveStore(plan: StorePlan, { tell, signal, note }: Moving): Promise<MovedFile[]> {
  if (plan.how !== 'link' && plan.how !== 'copy') return []
  const moved: MovedFile[] = []
  for (const [index, { path: below, bytes }] of plan.files.entries()) {
    signal.throwIfAborted()
    const from = path.join(plan.from, below)
    const to = path.join(plan.to, below)
    const there = await statIfThere(to)
    if (there !== undefined) {
      if (there.size !== bytes) tell(`${to} is another file than ${from} and stays as it is.`)
      continue
    }
    await note({ path: below, isCopy: plan.how === 'copy' })
    await mkdir(path.dirname(to), { recursive: true, mode: 0o700 })
    const isLinked = plan.how === 'link' && (await linked(from, to))
    if (!isLinked) {
      tell(`Copying ${below} (${index + 1} of ${plan.files.length}).`)
      await copyFile(from, `${to}.partial`, constants.COPYFILE_FICLONE)
      await rename(`${to}.partial`, to)
    }
    moved.push({ path: below, isCopy: !isLinked })
  }
  return moved
}

/** False on a volume without hard links. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK'].some((code) => hasCode(error, code))) return false
    throw error
  }
}

interface Moved {
  readonly from: string
  readonly to: string
  readonly moved: readonly MovedFile[]
}

/** Restores the Go agent's store; what a reboot took from it comes back from ours. */
export async function moveBack({ from, to, moved }: Moved): Promise<void> {
  for (const { path: below, isCopy } of moved) {
    const [theirs, ours] = [path.join(from, below), path.join(to, below)]
    // Left by a copy that was killed.
    await removeWithFolder(`${ours}.partial`, to)
    if ((await statIfThere(ours)) === undefined) continue
    if ((await statIfThere(theirs)) === undefined) {
      await mkdir(path.dirname(theirs), { recursive: true, mode: 0o755 })
      if (isCopy || !(await linked(ours, theirs))) await copyFile(ours, theirs, constants.COPYFILE_FICLONE)
    }
    if (await isSame(ours, theirs)) await removeWithFolder(ours, to)
  }
}

/** Removes the Go agent's name of every file that has one in our store; resolves to their number. */
export async function dropOriginals({ from, to, moved }: Moved): Promise<number> {
  let dropped = 0
  for (const { path: below } of moved) {
    const [theirs, ours] = [path.join(from, below), path.join(to, below)]
    if (!(await isSame(ours, theirs))) continue
    await removeWithFolder(theirs, from)
    dropped++
  }
  return dropped
}

/** Two names of one file, or files of the same length. */
async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([statIfThere(one), statIfThere(other)])
  return a !== undefined && b !== undefined && (a.ino === b.ino || a.size === b.size)
}

async function removeWithFolder(file: string, root: string): Promise<void> {
  await rm(file, { force: true })
  for (let folder = path.dirname(file); folder.startsWith(`${root}${path.sep}`); folder = path.dirname(folder)) {
    try {
      await rmdir(folder)
    } catch (error) {
      if (hasCode(error, 'ENOTEMPTY') || hasCode(error, 'EEXIST') || hasCode(error, 'ENOENT')) return
      throw error
    }
  }
}
