import { readdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { parseJson, readIfThere } from '../util/files.ts'
import { statIfThere } from './store-paths.ts'

export interface StorePlace {
  /** The store's folder itself, or the nearest above it that exists. */
  readonly nearest: string
  /** Where the volume of `nearest` is mounted, as far as its path goes: a link to another volume counts as a mount. */
  readonly mountPoint: string
}

export async function placeOf(directory: string): Promise<StorePlace> {
  let nearest = directory
  let found = await statIfThere(nearest)
  while (!found) {
    nearest = dirname(nearest)
    found = await statIfThere(nearest)
  }
  let mountPoint = nearest
  for (let above = dirname(mountPoint); above !== mountPoint; above = dirname(mountPoint)) {
    if ((await statIfThere(above))?.dev !== found.dev) break
    mountPoint = above
  }
  return { nearest, mountPoint }
}

/** Where macOS mounts volumes: a folder of that name without a volume would be on the system's own. */
const volumesFolder = '/Volumes'

/**
 * Whether the volume that the store belongs on is away. A store is at home where it was last seen; on another volume it
 * is taken for the store only where models lie in it, so that the empty mount point of a disk is never filled.
 */
export async function isAway(directory: string, place: StorePlace, home: string | undefined): Promise<boolean> {
  if (place.nearest === volumesFolder) return true
  if (home === undefined || home === place.mountPoint) return false
  return place.nearest !== directory || !(await hasModels(directory))
}

/** The facts about the store's volume that are kept over restarts of the agent. */
export class StoreHome {
  readonly #file: string | undefined
  readonly #directory: string
  #mountPoint: Promise<string | undefined> | undefined

  /** Without a file it is forgotten at the end. */
  constructor({ file, directory }: { file: string | undefined; directory: string }) {
    this.#file = file
    this.#directory = directory
  }

  /** Undefined where the store was never seen, or in another folder. Throws what the file system says. */
  get mountPoint(): Promise<string | undefined> {
    this.#mountPoint ??= this.#read()
    return this.#mountPoint
  }

  /** Throws what the file system says; for this life it counts all the same. */
  async keep(mountPoint: string): Promise<void> {
    if ((await this.mountPoint) === mountPoint) return
    this.#mountPoint = Promise.resolve(mountPoint)
    const home = { directory: this.#directory, mountPoint }
    if (this.#file !== undefined) await writeFileAtomic(this.#file, `${JSON.stringify(home)}\n`, { mode: 0o600 })
  }

  async #read(): Promise<string | undefined> {
    const text = this.#file === undefined ? undefined : await readIfThere(this.#file)
    const { data } = homeShape.safeParse(text === undefined ? undefined : parseJson(text))
    return data?.directory === this.#directory ? data.mountPoint : undefined
  }
}

const homeShape = z.object({ directory: z.string(), mountPoint: z.string() })

const hasModels = async (directory: string): Promise<boolean> =>
  (await readdir(directory)).some((name) => !name.startsWith('.'))
