import { statfs } from 'node:fs/promises'
import PQueue from 'p-queue'
import { formatBytes } from '../../../contract/format.ts'
import { localRepairMs, ModelError } from '../errors.ts'

/** What may arrive at once after a pause. */
const burstMs = 250

/** A limit that all downloads share: a download that received bytes waits until they fit into it. */
export class Bandwidth {
  #bytesPerSecond = 0
  #takenBytes = 0
  readonly #now: () => number
  /** When all that was taken is paid for. */
  #paidAt = 0
  #waiting: { readonly bytes: number; readonly go: () => void }[] = []
  #timer: NodeJS.Timeout | undefined

  /** Bytes per second; 0 or undefined = no limit. */
  constructor(bytesPerSecond?: number, { now = () => performance.now() }: { now?: () => number } = {}) {
    this.#now = now
    this.limit(bytesPerSecond)
  }

  get bytesPerSecond(): number | undefined {
    return this.#bytesPerSecond === 0 ? undefined : this.#bytesPerSecond
  }

  /** All that downloads have received. */
  get takenBytes(): number {
    return this.#takenBytes
  }

  /** Takes effect at once, also for downloads that wait. */
  limit(bytesPerSecond: number | undefined): void {
    this.#bytesPerSecond = Math.max(0, bytesPerSecond ?? 0)
    this.#paidAt = this.#now()
    this.#serve()
  }

  /** Waits, first come first served, until so many bytes may go; undefined = they may now. Rejects with the signal's reason. */
  take(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    this.#takenBytes += bytes
    if (this.#bytesPerSecond === 0) return undefined
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
    return this.#bytesPerSecond === 0 || this.#paidAt <= this.#now()
  }

  #pay(bytes: number): void {
    if (this.#bytesPerSecond === 0) return
    this.#paidAt = Math.max(this.#paidAt, this.#now() - burstMs) + (bytes * 1000) / this.#bytesPerSecond
  }

  #serve(): void {
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0 && this.#mayGo()) {
      const next = this.#waiting.shift()
      this.#pay(next?.bytes ?? 0)
      next?.go()
    }
    if (this.#waiting.length > 0) this.#timer = setTimeout(() => this.#serve(), Math.ceil(this.#paidAt - this.#now()))
  }
}

/** Lets a few downloads run at a time, in the order in which they came. */
export class DownloadTurns {
  readonly #atOnce: () => number
  readonly #queue: PQueue
  /** In order; told their place whenever it may have changed. */
  readonly #waiting = new Set<(ahead: number) => void>()

  constructor(atOnce: () => number) {
    this.#atOnce = atOnce
    this.#queue = new PQueue({ concurrency: atOnce() })
  }

  /** After a change of `atOnce`: starts what waits where more may run; ends nothing where fewer may. */
  settingsChanged(): void {
    this.#queue.concurrency = this.#atOnce()
    this.#tellPlaces()
  }

  /**
   * `onPlace`: how many downloads go first, each time that changes; not called where none does. Throws the signal's reason at
   * once while it waits; work that has begun ends itself, and keeps its turn until then.
   */
  async take<T>(signal: AbortSignal, onPlace: (ahead: number) => void, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const turn = { hasCome: false }
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
          turn.hasCome = true
          this.#waiting.delete(tell)
          signal.throwIfAborted()
          return await work()
        },
        { signal: waiting.signal },
      )
      if (!turn.hasCome) tell(this.#ahead(tell))
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

export interface Room {
  /** On the volume in question. */
  readonly folder: string
  /** What messages call it; without it `folder`. */
  readonly name?: string | undefined
  /** What has to stay free for everything else on this machine; without it the smaller of 2 GiB and 1 % of the volume. */
  readonly reserveBytes?: number | undefined
  /** What other downloads to the volume still need. */
  readonly claims?: SpaceClaims | undefined
  /** The bytes that deleting unused models would free. */
  readonly deletableBytes?: (() => Promise<number>) | undefined
}

/** What each download under way still needs, so that together they leave the reserve alone. */
export class SpaceClaims {
  readonly #claims = new Map<object, number>()

  /** In place of what it claimed before; 0 at its end. Returns what the others claim. */
  claim(owner: object, bytes: number): number {
    if (bytes === 0) this.#claims.delete(owner)
    else this.#claims.set(owner, bytes)
    let others = 0
    for (const [other, claimed] of this.#claims) if (other !== owner) others += claimed
    return others
  }
}

/** Throws `DiskFull` when `neededBytes` more would leave less than the reserve. */
export async function requireFreeSpace(room: Room, neededBytes: number, owner: object): Promise<void> {
  const others = room.claims?.claim(owner, neededBytes) ?? 0
  const { bavail, blocks, bsize } = await statfs(room.folder)
  const free = bavail * bsize
  const reserve = room.reserveBytes ?? Math.min(maxReserveBytes, Math.floor((blocks * bsize) / 100))
  if (free >= neededBytes + others + reserve) return
  room.claims?.claim(owner, 0)
  const deletable = (await room.deletableBytes?.()) ?? 0
  throw new ModelError(
    'transient',
    'DiskFull',
    `The model needs ${formatBytes(neededBytes)}${others > 0 ? `, other downloads need ${formatBytes(others)}` : ''} and ${formatBytes(reserve)} stay in reserve, but the volume of ${room.name ?? room.folder} has ${formatBytes(free)} free: ${
      deletable > 0
        ? `deleting models that nobody uses would give ${formatBytes(deletable)}; or make room there otherwise`
        : 'make room there'
    } or choose another --model-store.`,
    { retryAfterMs: localRepairMs },
  )
}

const maxReserveBytes = 2 * 1024 ** 3
