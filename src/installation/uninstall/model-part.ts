import type { Dirent } from 'node:fs'
import { readdir, realpath } from 'node:fs/promises'
import path from 'node:path'
import { ownFolder } from '../../agent-core/models/store/files.ts'
import { ownerOfFolder } from '../../agent-core/models/store/owner.ts'
import { isBelow } from '../../agent-core/util/is-below.ts'
import type { TracePlace } from '../../contract/uninstall.ts'
import { lookAt, removeIfEmpty } from '../files.ts'
import { removeAll } from './file-parts.ts'
import { sized, type TracePart } from './traces.ts'

export interface StorePlaces {
  /** Every folder that is known to have been a model store. */
  readonly stores: readonly string[]
  /** The parent of the usual store, where that has no other use. */
  readonly parents: readonly string[]
  readonly userId: number
}

/** Downloaded models, and nothing else that lies in their folder: what LLMKube's agent or a person put there stays. */
export const modelPart = ({ stores, parents, userId }: StorePlaces): TracePart => ({
  kind: 'models',
  look: async () => {
    const looks = await Promise.all((await distinct(stores)).map((store) => lookAtStore(store, userId)))
    return {
      places: looks.flatMap(({ ours }) => ours),
      stays: looks.flatMap(({ stays }) => stays),
      remove: async () => {
        for (const { root, ours, isLink } of looks) {
          await removeAll(
            ours.map((one) => one.path),
            root,
          )
          if (!isLink) await removeIfEmpty(root)
        }
        for (const parent of parents) await removeIfEmpty(parent)
      },
    }
  },
})

/** Each folder once, whatever links lead to it. */
async function distinct(stores: readonly string[]): Promise<string[]> {
  const byPlace = new Map<string, string>()
  for (const store of stores) {
    const place = await realpath(store).catch(() => path.resolve(store))
    if (!byPlace.has(place)) byPlace.set(place, store)
  }
  return [...byPlace.values()]
}

interface StoreLook {
  /** The folder itself, where the store is a link to one. */
  readonly root: string
  readonly isLink: boolean
  /** The folders of what the agent fetched, and its own. */
  readonly ours: readonly TracePlace[]
  readonly stays: readonly string[]
}

async function lookAtStore(store: string, userId: number): Promise<StoreLook> {
  const without = (...stays: string[]): StoreLook => ({ root: store, isLink: false, ours: [], stays })
  const entry = await lookAt(store)
  if (entry === undefined) {
    const volume = /^\/(?:Volumes|media|mnt|run\/media)\/[^/]+/.exec(store)?.[0]
    const isAway = volume !== undefined && (await lookAt(volume)) === undefined
    return isAway ? without(`${store} is on a volume that is not there: connect it and run this again.`) : without()
  }
  const isLink = entry.isSymbolicLink()
  const root = isLink ? await realpath(store).catch(() => undefined) : store
  if (root === undefined) return without(`${store} is a link that leads nowhere, which Metalbar did not make.`)
  const facts = await lookAt(root)
  if (facts?.isDirectory() !== true) return without(`${store} is not a folder, so it is not a model store.`)
  if (facts.uid !== userId) return without(`${store} belongs to another user (${facts.uid}).`)

  const isOurs = (name: string) => name === ownFolder || ownerOfFolder(name) !== undefined
  const all = await readdir(root, { withFileTypes: true })
  const folders = all.filter((one) => one.isDirectory() && isOurs(one.name)).map(placeOf)
  const others = await readdir(root, { recursive: true, withFileTypes: true })
  const stays = others.filter((one) => !one.isDirectory()).map(placeOf)
  const named = stays.filter((file) => !folders.some((folder) => isBelow(file, folder)))
  const link = isLink ? [`${store} is a link to ${root}; both folder and link stay.`] : []
  return { root, isLink, ours: await sized(folders.sort()), stays: [...link, ...sentencesAbout(root, named.sort())] }
}

const placeOf = ({ parentPath, name }: Dirent): string => path.join(parentPath, name)

/** Others may have thousands of files in a store. */
const mostNamed = 20

function sentencesAbout(root: string, files: readonly string[]): string[] {
  const named = files.slice(0, mostNamed).map((file) => `${file} was not downloaded by Metalbar, so it stays.`)
  const more = files.length - named.length
  return more > 0 ? [...named, `${more} more files of ${root} were not downloaded by Metalbar, so they stay.`] : named
}
