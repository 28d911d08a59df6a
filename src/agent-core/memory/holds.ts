import { countedOnce, freedBy, type Evictable, type SharedMemory } from './room.ts'

export interface HeldMemory extends Evictable {
  readonly phase: 'starting' | 'running'
  readonly needBytes?: number | undefined
  readonly measuredBytes?: number | undefined
  /** Its share of the memory, see `heldBytes`; absent where that is not known. */
  readonly heldBytes?: number | undefined
  /** What it provably takes past its need; 0 where its need is not known. */
  readonly excessBytes: number
}

/** A server that memory is reserved for. */
export type HeldServer = Pick<HeldMemory, 'key' | 'priority'> & {
  /** Protected from eviction. */
  readonly isProtected?: boolean
  /** The estimate of all it will hold; absent where none could be made. */
  readonly needBytes: number | undefined
  /** The part of its need that is mapped from files, where the system leaves such pages out when it measures. */
  readonly mappedBytes?: number
  /** The name of the memory that it shares with every other that has the same; undefined for memory of its own. */
  readonly sharedAs?: string | undefined
  /** The name of the weights in a daemon, which it has in memory once, by whichever `sharedAs`. */
  readonly weightsAs?: string | undefined
}

interface Hold {
  readonly key: string
  readonly priority: HeldMemory['priority']
  readonly isProtected: boolean
  readonly needBytes: number | undefined
  readonly phase: 'starting' | 'running'
  readonly measuredBytes: number | undefined
  readonly mappedBytes: number
  /** The first measurement after it was ready: what the system shows of its need. */
  readonly measuredWhenReady: number | undefined
  /** What the latest figure of available memory already shows as taken by it. */
  readonly seenBytes: number
  readonly sharedAs: string | undefined
  readonly weightsAs: string | undefined
}

/** The servers that have memory, with what they need, what was measured and what is only promised to them. */
export class Holds {
  readonly #holds: Map<string, Hold>

  constructor(holds: Iterable<readonly [string, Hold]> = []) {
    this.#holds = new Map(holds)
  }

  /** A server that is to start. */
  reserve(server: HeldServer): void {
    this.#holds.set(server.key, holdOf(server, 'starting', 0))
  }

  /** A server that was found. */
  adopt(server: HeldServer, phase: Hold['phase']): void {
    this.#holds.set(server.key, holdOf(server, phase, phase === 'running' ? (server.needBytes ?? 0) : 0))
  }

  /** What its object says now of the key's server. */
  know(key: string, rank: Pick<HeldMemory, 'priority' | 'isProtected'>): void {
    this.#change(key, rank)
  }

  /** The server has loaded. */
  ready(key: string): void {
    this.#change(key, { phase: 'running' })
  }

  /** False where it holds nothing. */
  measured(key: string, measuredBytes: number): boolean {
    const hold = this.#holds.get(key)
    const isFirst = hold?.phase === 'running' && hold.measuredWhenReady === undefined
    return this.#change(key, { measuredBytes, ...(isFirst && { measuredWhenReady: measuredBytes }) })
  }

  /** A new figure of available memory has come: it shows what was measured, and all that a server that was ready before it holds. */
  seen(): void {
    for (const [id, hold] of this.#holds) {
      const need = hold.needBytes ?? 0
      const seenBytes = hold.phase === 'running' ? need : Math.min(need, hold.measuredBytes ?? 0)
      this.#holds.set(id, { ...hold, seenBytes })
    }
  }

  drop(key: string): void {
    this.#holds.delete(key)
  }

  /** What would be held, and what the system would get back, if the server of the key were gone. */
  without(key: string): { readonly holds: Holds; readonly freedBytes: number } {
    const gone = this.#all().filter((hold) => hold.key === key)
    const freedBytes = freedBy(gone).reduce((sum, hold) => sum + (hold.measuredBytes ?? hold.seenBytes), 0)
    return { holds: new Holds([...this.#holds].filter(([other]) => other !== key)), freedBytes }
  }

  list(): readonly HeldMemory[] {
    return this.#all().map((hold) => {
      const { key, priority, isProtected, phase, needBytes, measuredBytes, shared } = hold
      return {
        ...{ key, priority, isProtected, phase, needBytes, measuredBytes, shared },
        committedBytes: committed(hold),
        residentBytes: measuredBytes ?? 0,
        promisedBytes: promised(hold),
        excessBytes: excess(hold),
        heldBytes: heldBytes(hold),
      }
    })
  }

  /** Other services that hold the same memory. */
  sharing(key: string): readonly string[] {
    const shared = this.#all().find((hold) => hold.key === key)?.shared
    return shared?.keys.filter((other) => other !== key) ?? []
  }

  get committedBytes(): number {
    return this.#sum(committed)
  }

  get promisedBytes(): number {
    return this.#sum(promised)
  }

  /** What is committed to the memory of this name; undefined where nothing holds any. */
  sharedBytes(sharedAs: string | undefined): number | undefined {
    const one = sharedAs === undefined ? undefined : this.#all().find(({ shared }) => shared?.name === sharedAs)
    return one && committed(one)
  }

  /** See `Room`. */
  rivals({ sharedAs, weightsAs }: Pick<HeldServer, 'sharedAs' | 'weightsAs'>): readonly string[] {
    if (weightsAs === undefined) return []
    return [...this.#holds.values()]
      .filter((hold) => hold.weightsAs === weightsAs && hold.sharedAs !== sharedAs)
      .map(({ key }) => key)
  }

  #change(key: string, change: Partial<Hold>): boolean {
    const hold = this.#holds.get(key)
    if (hold !== undefined) this.#holds.set(key, { ...hold, ...change })
    return hold !== undefined
  }

  #sum(bytes: (hold: Hold) => number): number {
    let sum = 0
    let hasShared = false
    for (const hold of this.#holds.values()) {
      if (hold.sharedAs === undefined) sum += bytes(hold)
      else hasShared = true
    }
    return hasShared ? countedOnce(this.#all()).reduce((total, hold) => total + bytes(hold), 0) : sum
  }

  /** Those that share memory each have what is known of it by any of them. */
  #all(): readonly SharedHold[] {
    const holds = [...this.#holds.values()]
    if (holds.every(({ sharedAs }) => sharedAs === undefined)) return holds
    const bySharing = Map.groupBy(holds, ({ sharedAs }) => sharedAs)
    return holds.map((hold) => {
      const together = bySharing.get(hold.sharedAs) ?? []
      return hold.sharedAs === undefined
        ? hold
        : { ...hold, ...knownOf(together), shared: sharedBy(hold.sharedAs, together) }
    })
  }
}

type SharedHold = Hold & { readonly shared?: SharedMemory }

const sharedBy = (name: string, together: readonly Hold[]): SharedMemory => ({
  name,
  keys: together.map(({ key }) => key),
})

/** The largest need and measurement: each may have been looked at at another time. */
function knownOf(
  together: readonly Hold[],
): Pick<Hold, 'needBytes' | 'measuredBytes' | 'measuredWhenReady' | 'seenBytes'> {
  const most = (of: (hold: Hold) => number | undefined): number | undefined => {
    const known = together.flatMap((hold) => of(hold) ?? [])
    return known.length === 0 ? undefined : Math.max(...known)
  }
  return {
    needBytes: most(({ needBytes }) => needBytes),
    measuredBytes: most(({ measuredBytes }) => measuredBytes),
    measuredWhenReady: most(({ measuredWhenReady }) => measuredWhenReady),
    seenBytes: most(({ seenBytes }) => seenBytes) ?? 0,
  }
}

function holdOf(server: HeldServer, phase: Hold['phase'], seenBytes: number): Hold {
  const { key, needBytes, priority, isProtected = false, mappedBytes = 0, sharedAs, weightsAs } = server
  const measured = { measuredBytes: undefined, measuredWhenReady: undefined }
  return {
    key,
    priority,
    isProtected,
    needBytes,
    phase,
    mappedBytes,
    seenBytes,
    sharedAs,
    weightsAs,
    ...measured,
  }
}

const committed = (hold: Hold): number =>
  hold.needBytes === undefined ? (hold.measuredBytes ?? 0) : hold.needBytes + excess(hold)

/**
 * What was measured past the need. Of a mapped model the measurement shows the need without the weights, or with part of them, which
 * the first one after it was ready tells; before that all of the need counts as shown, so that loading weights are no excess.
 */
function excess({ needBytes, measuredBytes = 0, mappedBytes, measuredWhenReady = Infinity }: Hold): number {
  if (needBytes === undefined) return 0
  const shown =
    mappedBytes === 0 ? needBytes : Math.max(needBytes - mappedBytes, Math.min(measuredWhenReady, needBytes))
  return Math.max(0, measuredBytes - shown)
}

/**
 * What counts as its share: the measurement, and where that leaves the weights out no less than the estimate, once it has loaded them. The
 * estimate holds more than weights, but a share that leaves most of a model out is wrong by far more. What its end gives back is what was
 * measured: pages of files count as available already.
 */
function heldBytes(hold: Hold): number | undefined {
  return hold.mappedBytes > 0 && hold.phase === 'running' ? committed(hold) : hold.measuredBytes
}

function promised({ needBytes = 0, seenBytes }: Hold): number {
  return Math.max(0, needBytes - seenBytes)
}
