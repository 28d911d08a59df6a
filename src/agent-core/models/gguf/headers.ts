import { stat } from 'node:fs/promises'
import { readGgufHeader } from './file-header.ts'
import type { GgufHeader, GgufValue } from './types.ts'

/** More models than one machine serves; the oldest is read again. */
const maxHeaders = 64
/** Of all that are kept; a header of a large model takes less than 1 MiB. */
const maxBytes = 32 * 1024 * 1024

interface Known {
  readonly stamp: string
  readonly header: Promise<GgufHeader>
  /** 0 until it is read. */
  bytes: number
}

/** Headers of files on this machine, each read once for the file as it is. */
export class GgufHeaders {
  readonly #known = new Map<string, Known>()

  /** Throws GgufError. */
  async of(path: string): Promise<GgufHeader> {
    const { size, mtimeMs } = await stat(path)
    const stamp = `${size} ${mtimeMs}`
    const known = this.#known.get(path)
    if (known?.stamp === stamp) return known.header
    const read: Known = { stamp, header: readGgufHeader(path), bytes: 0 }
    this.#known.set(path, read)
    try {
      const header = await read.header
      read.bytes = weightOf(header)
      this.#trim()
      return header
    } catch (error) {
      if (this.#known.get(path) === read) this.#known.delete(path)
      throw error
    }
  }

  /** The oldest go first. */
  #trim(): void {
    let total = 0
    for (const { bytes } of this.#known.values()) total += bytes
    for (const [path, { bytes }] of this.#known) {
      if (total <= maxBytes && this.#known.size <= maxHeaders) return
      this.#known.delete(path)
      total -= bytes
    }
  }
}

/** What it takes in memory, roughly. */
function weightOf({ metadata, tensors }: Pick<GgufHeader, 'metadata' | 'tensors'>): number {
  let bytes = 0
  for (const [key, value] of metadata) bytes += 2 * key.length + weightOfValue(value)
  for (const { name } of tensors) bytes += 2 * name.length + 100
  return bytes
}

function weightOfValue(value: GgufValue): number {
  if (typeof value === 'string') return 2 * value.length
  if (typeof value !== 'object') return 8
  return value.reduce<number>((sum, item) => sum + (typeof item === 'string' ? 2 * item.length + 16 : 8), 0)
}
