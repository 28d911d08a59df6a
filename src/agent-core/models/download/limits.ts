import { statfs } from 'node:fs/promises'
import { formatBytes } from '../../../contract/format.ts'
import { untilAborted } from '../../util/until-aborted.ts'
import { ModelError } from '../errors.ts'
import type { WithRoom } from '../store/files.ts'

/** What may arrive at once after a pause. */
const burstMs = 250
/** How long a download waits before it looks whether the limit was changed. */
const lookMs = 250

/** A limit that all downloads share: a download that received bytes waits until time has paid for them, first come first served. */
export class Bandwidth {
  /** 0 = no limit. */
  #bytesPerSecond = 0
  #takenBytes = 0
  #paidBytes = 0
  #paidAt = performance.now()

  /** Bytes per second; 0 = no limit. */
  constructor(bytesPerSecond = 0) {
    this.limit(bytesPerSecond)
  }

  /** All that downloads have received. */
  get takenBytes(): number {
    return this.#takenBytes
  }

  /** 0 = none. Takes effect within a moment, also for downloads that wait. */
  limit(bytesPerSecond: number): void {
    this.#pay()
    this.#bytesPerSecond = Math.max(0, bytesPerSecond)
  }

  /** Rejects with the signal's reason. */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    this.#takenBytes += bytes
    const dueBytes = this.#takenBytes
    this.#pay()
    while (this.#paidBytes < dueBytes) {
      const waitMs = Math.ceil(((dueBytes - this.#paidBytes) * 1000) / this.#bytesPerSecond)
      await untilAborted(new Promise((resolve) => setTimeout(resolve, Math.min(lookMs, waitMs))), signal)
      this.#pay()
    }
  }

  #pay(): void {
    const [now, rate] = [performance.now(), this.#bytesPerSecond]
    const paidBytes = this.#paidBytes + ((now - this.#paidAt) * rate) / 1000
    this.#paidAt = now
    this.#paidBytes = rate === 0 ? this.#takenBytes : Math.min(paidBytes, this.#takenBytes + (burstMs * rate) / 1000)
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
