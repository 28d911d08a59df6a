import { constants } from 'node:fs'
import { access, lstat, readdir, realpath, stat, statfs } from 'node:fs/promises'
import path from 'node:path'
import { judgeStoreFolder, temporaryNote } from '../../agent-core/models/store/watch.ts'
import { isSafePath } from '../../agent-core/models/source.ts'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import { hasCode } from '../../agent-core/util/files.ts'

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

/** A fast disk of today; only for a guess how long copying takes. */
export const copiedBytesPerSecond = 500e6

/** `to`: our own store; `isChosen`: a person named it, so that models move there wherever they are. */
export async function lookAtStore(from: string, to: string, isChosen = false): Promise<StoreLook> {
  const nothing = { how: 'none', from, to } as const
  const found = await lstat(from).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  })
  if (found === undefined) {
    return { plan: nothing, problems: [], notes: [`There is no model store ${from}: models are fetched anew.`] }
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

/** Regular files in the folders of Models; no partial downloads, logs and checksums. */
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
