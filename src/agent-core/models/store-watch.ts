import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import type { Logger } from '../observability/logger.ts'
import { storeError } from './disk.ts'
import { localRepairMs, ModelError } from './errors.ts'
import { judgeStoreFolder, temporaryNote } from './store-folder.ts'
import { isAway, placeOf, StoreHome } from './store-volume.ts'

/** Looking costs a few system calls, and tells of a volume that went before a model is wanted. */
const lookEveryMs = 15_000

export interface StoreWatchOptions {
  readonly directory: string
  /** Keeps, beyond the end of the agent, on which volume the store is. */
  readonly homeFile: string | undefined
  readonly log: Logger
  readonly onChange: () => void
}

/** Whether the store can be used: volumes come and go, and are made read-only. */
export class StoreWatch {
  readonly #directory: string
  readonly #home: StoreHome
  readonly #log: Logger
  readonly #onChange: () => void
  readonly #warned = new Set<string>()
  #problem: ModelError | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<ModelError | undefined> | undefined

  constructor({ directory, homeFile, log, onChange }: StoreWatchOptions) {
    this.#directory = directory
    this.#home = new StoreHome({ file: homeFile, directory })
    this.#log = log
    this.#onChange = onChange
  }

  /** As of the last look: one sentence. */
  get problem(): string | undefined {
    return this.#problem?.message
  }

  start(): void {
    const note = temporaryNote(this.#directory)
    if (note !== undefined) this.#log.info('model store may be emptied by a restart', { text: note })
    void this.look()
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Before the store is written to, and perhaps made. Throws ModelError where that cannot be. */
  async require(): Promise<void> {
    const problem = await this.#look({ isMade: true })
    if (problem) throw problem
  }

  /** One at a time: on a dead volume every further look would hang too. Never rejects. */
  look(): Promise<ModelError | undefined> {
    this.#looking ??= this.#look({ isMade: false }).finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #look({ isMade }: { isMade: boolean }): Promise<ModelError | undefined> {
    const before = this.#problem?.message
    this.#problem = await this.#seen(isMade)
    const { message, reason } = this.#problem ?? {}
    if (message === before) return this.#problem
    if (message === undefined) this.#log.info('model store can be used again', { directory: this.#directory })
    else this.#log.warn('model store cannot be used', { directory: this.#directory, reason, message })
    this.#onChange()
    return this.#problem
  }

  async #seen(isMade: boolean): Promise<ModelError | undefined> {
    try {
      const place = await placeOf(this.#directory)
      if (await isAway(this.#directory, place, await this.#home.mountPoint)) return gone(this.#directory)
      const { problem, warnings } = await judgeStoreFolder(this.#directory)
      if (problem) return problem
      for (const text of warnings) this.#warnOnce(text)
      await access(place.nearest, constants.W_OK)
      if (isMade || place.nearest === this.#directory) await this.#keepHome(place.mountPoint)
      return undefined
    } catch (error) {
      return storeError(error, this.#directory)
    }
  }

  #warnOnce(text: string): void {
    if (this.#warned.has(text)) return
    this.#warned.add(text)
    this.#log.warn('others may reach the model store', { directory: this.#directory, text })
  }

  async #keepHome(mountPoint: string): Promise<void> {
    try {
      await this.#home.keep(mountPoint)
    } catch (error) {
      this.#log.warn('volume of the model store not remembered', { directory: this.#directory, mountPoint, error })
    }
  }
}

const gone = (directory: string): ModelError =>
  new ModelError(
    'transient',
    'StoreGone',
    `The volume of the model store ${directory} is not mounted: connect it again, or choose another --model-store.`,
    { retryAfterMs: localRepairMs },
  )
