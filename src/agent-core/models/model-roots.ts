import { realpath } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { isBelow } from '../util/is-below.ts'
import { ModelError } from './errors.ts'
import type { Lent } from './local-source.ts'
import { ownFolder } from './store-paths.ts'

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
