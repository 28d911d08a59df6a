import { access, constants, copyFile, link, mkdir, readdir, realpath, rename, stat, statfs } from 'node:fs/promises'
import path from 'node:path'
import { isSafePath } from '../../agent-core/models/source.ts'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import { judgeStoreFolder, temporaryNote } from '../../agent-core/models/store/watch.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import { lookAt, removeBelow } from '../files.ts'

/** What happens with the Go agent's store. */
export interface StorePlan {
  /**
   * `inPlace`: our agent uses the same folder. `link`: each file gets a second name in a folder that no reboot empties; nothing is copied, and
   * the first name stays. `copy`: the same on another volume.
   */
  readonly how: 'none' | 'inPlace' | 'link' | 'copy'
  readonly from: string
  readonly to: string
  readonly bytes: number
  /** What is linked or copied: paths relative to the store. */
  readonly files: readonly { readonly path: string; readonly bytes: number }[]
  /** Each one sentence that stops the migration. */
  readonly problems: readonly string[]
  readonly notes: readonly string[]
}

/** A fast disk; only to estimate how long copying takes. */
export const copiedBytesPerSecond = 500e6

/** `to`: our own store; `isChosen`: a person named it, so models move there wherever they are. */
export async function lookAtStore(from: string, to: string, isChosen = false): Promise<StorePlan> {
  const nothing: StorePlan = { how: 'none', from, to, bytes: 0, files: [], problems: [], notes: [] }
  const entry = await lookAt(from)
  if (entry === undefined) return { ...nothing, notes: [`There is no model store ${from}: models are fetched again.`] }
  const real = await realpath(from).catch(() => undefined)
  if (real === undefined) {
    const problem = `The model store ${from} is a symbolic link to something that is not there: connect its volume, or correct the link.`
    return { ...nothing, problems: [problem] }
  }
  const facts = await stat(real)
  if (!facts.isDirectory()) return { ...nothing, problems: [`The model store ${from} is not a folder.`] }
  const { files, skipped } = await filesIn(real)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const linked = entry.isSymbolicLink() ? [`The model store ${from} is a link to ${real}.`] : []
  const isWiped = [path.resolve(from), real].some((folder) => temporaryNote(`${folder}/`) !== undefined)
  if ((!isWiped && !isChosen) || real === (await realpath(to).catch(() => to))) {
    const { problem, warnings } = await judgeStoreFolder(real)
    const problems = [...(problem ? [problem.message] : []), ...(await writeProblem(from, real))]
    return { how: 'inPlace', from, to: path.resolve(from), bytes, files: [], problems, notes: [...linked, ...warnings] }
  }
  const volume = await nearestExisting(to)
  const how = facts.dev === (await stat(volume)).dev ? 'link' : 'copy'
  const { bavail, bsize } = await statfs(volume)
  const isTooBig = how === 'copy' && bavail * bsize < bytes
  const tooBig = `There is not enough room for the models of ${from} on the volume of ${to}: free some, or keep them where they are with "-- --model-store ${from}".`
  return { how, from: real, to, bytes, files, problems: isTooBig ? [tooBig] : [], notes: [...linked, ...skipped] }
}

const writeProblem = (from: string, real: string): Promise<string[]> =>
  access(real, constants.W_OK).then(
    () => [],
    () => [`The model store ${from} is not writable by this user: change that with chown or chmod.`],
  )

async function nearestExisting(folder: string): Promise<string> {
  for (let existing = path.resolve(folder); ; existing = path.dirname(existing)) {
    if ((await statIfThere(existing)) !== undefined) return existing
  }
}

/** The Go agent's store has a folder for each model; beside them lie logs, and in them what was not downloaded to its end. */
async function filesIn(store: string) {
  const files: { path: string; bytes: number }[] = []
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
  readonly note: (file: string) => Promise<void>
}

/** Gives every file a name in our store. What is there already stays, so it may be run again. */
export async function moveStore(plan: StorePlan, { tell, signal, note }: Moving): Promise<void> {
  for (const [index, { path: below, bytes }] of plan.files.entries()) {
    signal.throwIfAborted()
    const from = path.join(plan.from, below)
    const to = path.join(plan.to, below)
    const there = await statIfThere(to)
    if (there !== undefined) {
      if (there.size !== bytes) tell(`${to} is another file than ${from} and stays as it is.`)
      continue
    }
    await note(below)
    await mkdir(path.dirname(to), { recursive: true, mode: 0o700 })
    if (plan.how === 'link' && (await linked(from, to))) continue
    tell(`Copying ${below} (${index + 1} of ${plan.files.length}).`)
    await copyFile(from, `${to}.partial`, constants.COPYFILE_FICLONE)
    await rename(`${to}.partial`, to)
  }
}

/** False on another volume, and on one without hard links. */
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
  /** What {@link moveStore} noted. */
  readonly files: readonly string[]
}

/** Restores the Go agent's store; what a reboot took from it comes back from ours. */
export async function moveBack({ from, to, files }: Moved): Promise<void> {
  for (const below of files) {
    const [theirs, ours] = [path.join(from, below), path.join(to, below)]
    // Left by a copy that was killed.
    await removeBelow(to, `${ours}.partial`)
    if ((await statIfThere(ours)) === undefined) continue
    if ((await statIfThere(theirs)) === undefined) {
      await mkdir(path.dirname(theirs), { recursive: true, mode: 0o755 })
      if (!(await linked(ours, theirs))) await copyFile(ours, theirs, constants.COPYFILE_FICLONE)
    }
    if (await isSame(ours, theirs)) await removeBelow(to, ours)
  }
}

/** Removes the Go agent's name of every file that has one in our store; answers how many there were. */
export async function dropOriginals({ from, to, files }: Moved): Promise<number> {
  let dropped = 0
  for (const below of files) {
    const [theirs, ours] = [path.join(from, below), path.join(to, below)]
    if (!(await isSame(ours, theirs))) continue
    await removeBelow(from, theirs)
    dropped++
  }
  return dropped
}

/** Two names of one file, or files of the same length. */
async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([statIfThere(one), statIfThere(other)])
  return a !== undefined && b !== undefined && (a.ino === b.ino || a.size === b.size)
}
