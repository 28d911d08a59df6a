import { constants, copyFile, link, mkdir, rename, rm, rmdir } from 'node:fs/promises'
import path from 'node:path'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import type { MovedFile } from './record.ts'
import type { StorePlan } from './store-look.ts'

interface Moving {
  readonly tell: (sentence: string) => void
  readonly signal: AbortSignal
  /** Called before a file gets its name here, so that a move that is killed in between can take it back. */
  readonly note: (file: MovedFile) => Promise<void>
}

/** Gives every file its name in our store. What is there already stays, so that it may be run again. */
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

/** False on a volume that has no second names. */
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

/** The Go agent's store as it was; what a reboot took from it comes back from ours. */
export async function moveBack({ from, to, moved }: Moved): Promise<void> {
  for (const { path: below, isCopy } of moved) {
    const [theirs, ours] = [path.join(from, below), path.join(to, below)]
    // What a copy that was killed has left.
    await removeWithFolder(`${ours}.partial`, to)
    if ((await statIfThere(ours)) === undefined) continue
    if ((await statIfThere(theirs)) === undefined) {
      await mkdir(path.dirname(theirs), { recursive: true, mode: 0o755 })
      if (isCopy || !(await linked(ours, theirs))) await copyFile(ours, theirs, constants.COPYFILE_FICLONE)
    }
    if (await isSame(ours, theirs)) await removeWithFolder(ours, to)
  }
}

/** Takes the Go agent's name from every file that has one in our store. */
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

/** By length, where the two are no names of one file. */
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
