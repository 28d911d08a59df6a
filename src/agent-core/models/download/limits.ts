import { statfs } from 'node:fs/promises'
import PQueue from 'p-queue'
import { formatBytes } from '../../../contract/format.ts'
import { ModelError } from '../errors.ts'
import type { WithRoom } from '../store/files.ts'

/** What may arrive at once after a pause. */
const burstMs = 250

/** A limit that all downloads share: a download that received bytes waits until they fit into it. */
export class Bandwidth {
  /** 0 = no limit. */
  #bytesPerSecond = 0
  #takenBytes = 0
  /** When all that was taken is paid for. */
  #paidAt = 0
  #waiting: { readonly bytes: number; readonly go: () => void }[] = []
  #timer: NodeJS.Timeout | undefined

  /** Bytes per second; 0 = no limit. */
  constructor(bytesPerSecond = 0) {
    this.limit(bytesPerSecond)
  }

  /** All that downloads have received. */
  get takenBytes(): number {
    return this.#takenBytes
  }

  /** 0 = none. Takes effect at once, also for downloads that wait. */
  limit(bytesPerSecond: number): void {
    this.#bytesPerSecond = Math.max(0, bytesPerSecond)
    this.#paidAt = performance.now()
    this.#serve()
  }

  /** Waits, first come first served, until so many bytes may go; undefined = they may now. Rejects with the signal's reason. */
  take(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    this.#takenBytes += bytes
    if (this.#waiting.length === 0 && this.#mayGo()) {
      this.#pay(bytes)
      return undefined
    }
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const waiting = { bytes, go: () => resolve(undefined) }
    const leave = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting)
      reject(signal.reason)
    }
    if (signal.aborted) {
      leave()
      return promise
    }
    signal.addEventListener('abort', leave, { once: true })
    this.#waiting.push(waiting)
    this.#serve()
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }

  #mayGo(): boolean {
    return this.#bytesPerSecond === 0 || this.#paidAt <= performance.now()
  }

  #pay(bytes: number): void {
    if (this.#bytesPerSecond === 0) return
    this.#paidAt = Math.max(this.#paidAt, performance.now() - burstMs) + (bytes * 1000) / this.#bytesPerSecond
  }

  #serve(): void {
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0 && this.#mayGo()) {
      const next = this.#waiting.shift()
      this.#pay(next?.bytes ?? 0)
      next?.go()
    }
    if (this.#waiting.length > 0)
      this.#timer = setTimeout(() => this.#serve(), Math.ceil(this.#paidAt - performance.now()))
  }
}

/** Two share a connection well; more would each take longer, and none be there sooner. */
const usualAtOnce = 2

/** Lets a few downloads run at a time, in the order in which they came. */
export class DownloadTurns {
  readonly #queue: PQueue
  /** In order; told their place whenever it may have changed. */
  readonly #waiting = new Set<(ahead: number) => void>()

  constructor(atOnce = usualAtOnce) {
    this.#queue = new PQueue({ concurrency: atOnce })
  }

  /**
   * `onPlace`: how many downloads go first, each time that changes; not called where none does. Throws the signal's reason at
   * once while it waits; work that has begun ends itself, and keeps its turn until then.
   */
  async take<T>(signal: AbortSignal, onPlace: (ahead: number) => void, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const tell = (ahead: number): void => onPlace(ahead)
    // The queue would let go of running work at an abort.
    const waiting = new AbortController()
    const leave = (): void => {
      if (!this.#waiting.delete(tell)) return
      waiting.abort(signal.reason)
      this.#tellPlaces()
    }
    this.#waiting.add(tell)
    signal.addEventListener('abort', leave, { once: true })
    try {
      const done = this.#queue.add(
        async () => {
          this.#waiting.delete(tell)
          signal.throwIfAborted()
          return await work()
        },
        { signal: waiting.signal },
      )
      if (this.#waiting.has(tell)) tell(this.#ahead(tell))
      return await done
    } finally {
      signal.removeEventListener('abort', leave)
      leave()
      this.#tellPlaces()
    }
  }

  #tellPlaces(): void {
    for (const tell of this.#waiting) tell(this.#ahead(tell))
  }

  #ahead(tell: (ahead: number) => void): number {
    return this.#queue.pending + [...this.#waiting].indexOf(tell)
  }
}

export interface DiskSpaceOptions {
  /** What messages call the volume; without it the folder in question. */
  readonly name?: string | undefined
  /** What has to stay free for everything else on this machine; undefined = the smaller of 2 GiB and 1 % of the volume. */
  readonly reserveBytes?: number
  /** What deleting unused models would free. */
  readonly deletableBytes?: () => Promise<number>
}

const maxReserveBytes = 2 * 1024 ** 3

/** What downloads leave free of a volume of this size. */
export const usualReserveBytes = (volumeBytes: number): number =>
  Math.min(maxReserveBytes, Math.floor(volumeBytes / 100))

/** The room on the store's volume: what each download under way still needs, so that together they leave the reserve alone. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions
  readonly #claims = new Map<object, number>()

  constructor(options: DiskSpaceOptions = {}) {
    this.#options = options
  }

  get name(): string | undefined {
    return this.#options.name
  }

  /** Claims so many bytes more for `owner`, in place of what it claimed before. Throws `DiskFull` where there is no room for them. */
  async claim(owner: object, folder: string, neededBytes: number): Promise<void> {
    this.#claims.delete(owner)
    const others = [...this.#claims.values()].reduce((sum, bytes) => sum + bytes, 0)
    this.#claims.set(owner, neededBytes)
    const { bavail, blocks, bsize } = await statfs(folder)
    const free = bavail * bsize
    const reserve = this.#options.reserveBytes ?? usualReserveBytes(blocks * bsize)
    if (free >= neededBytes + others + reserve) return
    this.release(owner)
    const deletable = (await this.#options.deletableBytes?.()) ?? 0
    const forOthers = others > 0 ? `, other downloads need ${formatBytes(others)}` : ''
    const todo =
      deletable > 0
        ? `delete models that no service uses, which frees ${formatBytes(deletable)}, make room there another way,`
        : 'make room there'
    throw ModelError.untilRepairedHere(
      'DiskFull',
      `The model needs ${formatBytes(neededBytes)}${forOthers} and ${formatBytes(reserve)} stay in reserve, but the volume of ${this.name ?? folder} has ${formatBytes(free)} free: ${todo} or choose another --model-store.`,
    )
  }

  release(owner: object): void {
    this.#claims.delete(owner)
  }

  /** Throws `DiskFull` where the work would take of the reserve, or of what downloads under way need. */
  readonly withRoom: WithRoom = async ({ folder, bytes }, work) => {
    const owner = {}
    try {
      await this.claim(owner, folder, bytes)
      await work()
    } finally {
      this.release(owner)
    }
  }
}
