import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { dirname } from 'node:path'
import { storeError } from './disk.ts'
import { localRepairMs, ModelError } from './errors.ts'
import { statIfThere } from './store-paths.ts'

/** Looking costs a few system calls, and tells of a volume that went before a model is wanted. */
const lookEveryMs = 15_000

/** Whether the store can be used: volumes come and go, and are made read-only. */
export class StoreWatch {
  readonly #directory: string
  readonly #onChange: () => void
  #problem: ModelError | undefined
  /** Of the volume that holds the store, since it was first seen. */
  #device: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor({ directory, onChange }: { directory: string; onChange: () => void }) {
    this.#directory = directory
    this.#onChange = onChange
  }

  /** As it was when somebody last looked: one sentence. */
  get problem(): string | undefined {
    return this.#problem?.message
  }

  start(): void {
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Throws ModelError where nothing can be written to the store. */
  async require(): Promise<void> {
    const problem = await this.look()
    if (problem) throw problem
  }

  /** Never rejects. */
  async look(): Promise<ModelError | undefined> {
    const before = this.#problem?.message
    this.#problem = await this.#seen()
    if (this.#problem?.message !== before) this.#onChange()
    return this.#problem
  }

  async #seen(): Promise<ModelError | undefined> {
    try {
      const { path, device } = await nearest(this.#directory)
      if (this.#device !== undefined && device !== this.#device) return gone(this.#directory)
      if (path === this.#directory) this.#device = device
      await access(path, constants.W_OK)
      return undefined
    } catch (error) {
      return storeError(error, this.#directory)
    }
  }
}

/** The folder itself, or the nearest above it that exists. */
async function nearest(folder: string): Promise<{ path: string; device: number }> {
  for (let path = folder; ; path = dirname(path)) {
    const found = await statIfThere(path)
    if (found) return { path, device: found.dev }
  }
}

const gone = (directory: string): ModelError =>
  new ModelError(
    'transient',
    'StoreGone',
    `The volume of the model store ${directory} is not mounted any more: connect it again, or choose another --model-store.`,
    { retryAfterMs: localRepairMs },
  )
