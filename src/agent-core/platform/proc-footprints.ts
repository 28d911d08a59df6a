export interface FootprintReads {
  /** What is cheap to read and changes with the resident memory of a process; undefined where it is gone. */
  readonly mark: (pid: number) => string | undefined
  /** What is dear to read: the kernel walks all pages of the process for it. */
  readonly bytes: (pid: number) => Promise<number | undefined>
  /** Milliseconds that never go back. */
  readonly now: () => number
}

interface Known {
  readonly mark: string
  readonly bytes: number
  readonly at: number
}

/** What other processes share of a process changes its footprint, and not its mark. */
const longestMs = 60_000

/** Footprints of processes that are asked for again and again: what has not changed is not read again. */
export class ProcFootprints {
  readonly #reads: FootprintReads
  #known: ReadonlyMap<number, Known> = new Map()
  /** The pids of the last look. */
  #asked = ''

  constructor(reads: FootprintReads) {
    this.#reads = reads
  }

  /** Those that are gone, or have no memory of their own, are left out. */
  async of(pids: readonly number[]): Promise<ReadonlyMap<number, number>> {
    // One that comes or goes changes what the others share.
    const asked = pids.join(' ')
    const known = asked === this.#asked ? this.#known : new Map<number, Known>()
    this.#asked = asked
    const found = await Promise.all(pids.map(async (pid) => [pid, await this.#look(pid, known.get(pid))] as const))
    this.#known = new Map(found.flatMap(([pid, one]) => (one ? [[pid, one] as const] : [])))
    return new Map([...this.#known].flatMap(([pid, { bytes }]) => (bytes > 0 ? [[pid, bytes] as const] : [])))
  }

  async #look(pid: number, known: Known | undefined): Promise<Known | undefined> {
    const mark = this.#reads.mark(pid)
    if (mark === undefined) return undefined
    const at = this.#reads.now()
    if (known?.mark === mark && at - known.at < longestMs) return known
    const bytes = await this.#reads.bytes(pid)
    return bytes === undefined ? undefined : { mark, bytes, at }
  }
}
