import { otherLane, type Lane } from './lanes.ts'
import type { OutputBytes, OutputCursor, OutputExtent, OutputLog, ReadableOutput } from './output-log.ts'

export interface ServiceOutputOptions {
  readonly lanes: Readonly<Record<Lane, OutputLog>>
  /** Of the newest server; undefined where none is known. */
  readonly newest: () => Lane | undefined
}

/**
 * The output of a service, whichever lane its servers are in: `current` is what its newest server writes, `previous` what is kept of the
 * one before. Cursors stay right, as each names its run.
 */
export class ServiceOutput implements ReadableOutput {
  readonly #options: ServiceOutputOptions

  constructor(options: ServiceOutputOptions) {
    this.#options = options
  }

  get file(): string {
    const { lanes, newest } = this.#options
    return lanes[newest() ?? 1].file
  }

  async extent(run: 'current' | 'previous' = 'current'): Promise<OutputExtent | undefined> {
    const [newest, other] = await this.#inOrder()
    if (run === 'current') return (await newest.extent()) ?? (await other.extent())
    if ((await newest.extent()) === undefined) return other.extent('previous')
    return (await other.extent()) ?? (await newest.extent('previous')) ?? (await other.extent('previous'))
  }

  /** A run of the other lane is over for readers, even where its server still writes: there is a newer one. */
  async read(cursor: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined> {
    const [newest, other] = await this.#inOrder()
    const found = await newest.read(cursor, maxBytes)
    if (found) return found
    const elsewhere = await other.read(cursor, maxBytes)
    return elsewhere && { ...elsewhere, over: elsewhere.over || (await newest.extent()) !== undefined }
  }

  async #inOrder(): Promise<readonly [newest: OutputLog, other: OutputLog]> {
    const { lanes, newest } = this.#options
    const lane = newest() ?? ((await lanes[2].changedAt()) > (await lanes[1].changedAt()) ? 2 : 1)
    return [lanes[lane], lanes[otherLane(lane)]]
  }
}
