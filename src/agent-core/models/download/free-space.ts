import { statfs } from 'node:fs/promises'
import { formatBytes } from '../../../contract/format.ts'
import { localRepairMs, ModelError } from '../errors.ts'

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
