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
  /** What deleting models that nobody uses would give. */
  readonly deletableBytes?: (() => Promise<number>) | undefined
}

/** Throws `DiskFull` when `neededBytes` more would leave less than the reserve. */
export async function requireFreeSpace(room: Room, neededBytes: number): Promise<void> {
  const { bavail, blocks, bsize } = await statfs(room.folder)
  const free = bavail * bsize
  const reserve = room.reserveBytes ?? Math.min(maxReserveBytes, Math.floor((blocks * bsize) / 100))
  if (free >= neededBytes + reserve) return
  const deletable = (await room.deletableBytes?.()) ?? 0
  throw new ModelError(
    'transient',
    'DiskFull',
    `The model needs ${formatBytes(neededBytes)} and ${formatBytes(reserve)} stay in reserve, but the volume of ${room.name ?? room.folder} has ${formatBytes(free)} free: ${
      deletable > 0
        ? `deleting models that nobody uses would give ${formatBytes(deletable)}; or make room there otherwise`
        : 'make room there'
    } or choose another --model-store.`,
    { retryAfterMs: localRepairMs },
  )
}

const maxReserveBytes = 2 * 1024 ** 3
