import { stat } from 'node:fs/promises'
import { readGgufHeader } from './file-header.ts'
import type { GgufHeader } from './types.ts'

/** More models than one machine serves; the oldest is read again. */
const maxHeaders = 64

/** Headers of files on this machine, each read once for the file as it is. */
export class GgufHeaders {
  readonly #known = new Map<string, { readonly stamp: string; readonly header: Promise<GgufHeader> }>()

  /** Throws GgufError. */
  async of(path: string): Promise<GgufHeader> {
    const { size, mtimeMs } = await stat(path)
    const stamp = `${size} ${mtimeMs}`
    const known = this.#known.get(path)
    if (known?.stamp === stamp) return known.header
    const header = readGgufHeader(path)
    this.#known.set(path, { stamp, header })
    header.catch(() => this.#known.delete(path))
    if (this.#known.size > maxHeaders) this.#known.delete(this.#known.keys().next().value ?? '')
    return header
  }
}
