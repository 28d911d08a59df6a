import type { HeldMemory } from './holds.ts'
import { countedOnce } from './room.ts'
import type { PressureLevel } from './watchdog.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { formatBytes } from '../../contract/format.ts'

/** A server with memory. */
export interface GrownServer extends Pick<
  HeldMemory,
  'key' | 'role' | 'committedBytes' | 'excessBytes' | 'possibleExcessBytes' | 'shared'
> {
  readonly needBytes?: number | undefined
  /** It was ended for what it takes, and is not gone yet. */
  readonly isEnding: boolean
}

export interface ExcessQuestion {
  readonly servers: readonly GrownServer[]
  readonly budgetBytes: number
  /** As it is at this moment, without the patience of the level that is shown. */
  readonly level: PressureLevel
  /** Undefined where it cannot be read: then memory is not short as far as is known. */
  readonly available: { readonly bytes: number; readonly criticalBelowBytes: number } | undefined
  /** Undefined: see {@link marginOf}. */
  readonly marginBytes: number | undefined
}

export type ExcessCause = 'budget' | 'available'

export interface ExcessVerdict {
  readonly end: GrownServer
  readonly cause: ExcessCause
  /** What it did and why that ends it. */
  readonly sentence: string
}

const mebibyte = 1024 ** 2
const gibibyte = 1024 * mebibyte

/** How far an estimate may be wrong before it counts as growth. */
const toleranceOf = (needBytes: number): number => Math.max(64 * mebibyte, needBytes * 0.05)

/** How far past its need a server may go before it is reported: as set, or the larger of 1 GiB and 15 %. */
export const marginOf = (needBytes: number, setBytes?: number): number =>
  setBytes ?? Math.max(gibibyte, needBytes * 0.15)

/**
 * The server to end because it takes more than it was admitted with; undefined where none has to be. Within the budget and while memory is
 * not critically short a wrong estimate ends nothing. Of several the one furthest past its need.
 */
export function chooseExcess(question: ExcessQuestion): ExcessVerdict | undefined {
  const { servers, budgetBytes, level, available, marginBytes } = question
  const isPast = (bytes: number, { needBytes = 0 }: GrownServer) => bytes > toleranceOf(needBytes)
  const isFarPast = (bytes: number, { needBytes = 0 }: GrownServer) => bytes > marginOf(needBytes, marginBytes)

  const alive = servers.filter(({ isEnding }) => !isEnding)

  if (level === 'critical' && available !== undefined) {
    const { bytes, criticalBelowBytes } = available
    const guilty = alive.filter(
      (server) =>
        isPast(server.possibleExcessBytes, server) &&
        (isFarPast(server.possibleExcessBytes, server) || bytes + server.possibleExcessBytes >= criticalBelowBytes),
    )
    const end = furthest(guilty, ({ possibleExcessBytes }) => possibleExcessBytes)
    if (end) {
      const why = `and memory is critically short (${formatBytes(bytes)} really available)`
      return { end, cause: 'available', sentence: sentence(end, end.possibleExcessBytes, why) }
    }
  }

  const counted = countedOnce(servers)
  const sum = (bytes: (server: GrownServer) => number) => counted.reduce((total, server) => total + bytes(server), 0)
  // What was taken past the need by one that was ended comes back: that may be enough.
  const excessOf = ({ isEnding, excessBytes }: GrownServer) => (isEnding ? 0 : excessBytes)
  const needs = sum(({ committedBytes, excessBytes }) => committedBytes - excessBytes)
  const committed = needs + sum(excessOf)
  if (committed <= budgetBytes) return undefined
  // Where the needs alone are more than the budget, as after it was lowered, growth is only what is past the margin too.
  const needsFit = needs <= budgetBytes
  const grown = alive.filter((server) => (needsFit ? isPast : isFarPast)(server.excessBytes, server))
  const end = furthest(grown, ({ excessBytes }) => excessBytes)
  const why = `and with that the models take ${formatBytes(committed)}, more than the budget of ${formatBytes(budgetBytes)}`
  return end && { end, cause: 'budget', sentence: sentence(end, end.excessBytes, why) }
}

function furthest(servers: readonly GrownServer[], bytes: (server: GrownServer) => number): GrownServer | undefined {
  return servers.toSorted((a, b) => bytes(b) - bytes(a))[0]
}

const sentence = ({ needBytes = 0 }: GrownServer, excessBytes: number, why: string): string =>
  `It took ${formatBytes(excessBytes)} more than the ${formatBytes(needBytes)} that it was admitted with, ${why}, so the agent stopped it.`

export const excessAdvice =
  'A chat template or a grammar that produces long texts, or large images, may be the cause; fewer slots and a shorter context take less.'

/** Steps of the reported figure, so that a server that grows slowly is reported a few times and not all the time. */
const step = 1.5
/** The report is taken back below this share of it. */
const takenBackBelow = 0.8

/**
 * The excess to tell people of: that of the last telling while it is about as large, undefined where it is none to speak of. Within the
 * budget nothing more follows from it.
 */
export function reportedExcess(
  { needBytes, excessBytes }: Pick<GrownServer, 'needBytes' | 'excessBytes'>,
  before: number | undefined,
  marginBytes: number | undefined,
): number | undefined {
  if (needBytes === undefined) return undefined
  const margin = marginOf(needBytes, marginBytes)
  if (before !== undefined && excessBytes >= before * takenBackBelow && excessBytes < before * step) return before
  return excessBytes > margin ? excessBytes : undefined
}

export const excessNotice = (excessBytes: number, needBytes: number): string =>
  `It takes ${formatBytes(excessBytes)} more than the ${formatBytes(needBytes)} that it was admitted with. The excess counts against the budget, and the agent stops this model first if memory runs out. ${excessAdvice} A restart frees it.`

/** A server, as it is now. */
export interface GrowingServer {
  readonly id: string
  readonly groupId: number | undefined
  /** What it is said to take, where it has no process group. */
  readonly toldBytes?: number | undefined
  readonly isLoading: boolean
  /** A footprint up to this is no news: a resident size below it needs no closer look. */
  readonly floorBytes: number
}

interface GrowthWatchOptions {
  readonly platform: Pick<Platform, 'residentBytes' | 'footprints' | 'membersOf'>
  readonly servers: () => readonly GrowingServer[]
  /** Bytes by id, of those that were measured now. */
  readonly onMeasured: (footprints: ReadonlyMap<string, number>) => void
  /** After each look, whether or not anything was measured. */
  readonly onLook: () => void
  readonly log: Logger
}

/** While a server loads or grows, which at hundreds of megabytes a second can end a Mac, and else. */
const hurriedMs = 1_000
const calmMs = 5_000

/** Growth of the resident size between two looks that counts: less is the work of a request. */
const growthBytes = 16 * 1024 ** 2

/** The exact figure is dear, so it is read when the resident size has changed by so much since the last one. */
const newsBytes = 32 * 1024 ** 2

interface Known {
  readonly groupId: number
  pids: readonly number[]
  resident: number | undefined
  /** The resident size at the last measurement, and what was measured. */
  measured: { readonly resident: number | undefined; readonly bytes: number } | undefined
}

/**
 * Looks at what every server has, for as long as one runs: at resident sizes, which are cheap, and at the footprint of those alone that
 * may have more than is known of them. A figure that cannot be read says nothing.
 */
export class GrowthWatch implements AsyncDisposable {
  readonly #options: GrowthWatchOptions
  #known = new Map<string, Known>()
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  #isEnded = false
  #isTroubled = false
  /** The next look is within a second. */
  #isHurried = false

  constructor(options: GrowthWatchOptions) {
    this.#options = options
  }

  /** A server is starting: the next look comes within a second. */
  begin(): void {
    if (!this.#isHurried) this.#schedule(hurriedMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#timer)
    await this.#looking
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer)
    this.#isHurried = ms === hurriedMs
    if (this.#isEnded || this.#looking) return
    this.#timer = setTimeout(() => {
      this.#isHurried = false
      this.#looking = this.#lookOrTell().then((isHurried) => {
        this.#looking = undefined
        const hasBegun = this.#isHurried
        // Without a server, what begins to start calls for the next look by itself.
        if (hasBegun || this.#options.servers().length > 0) this.#schedule(hasBegun || isHurried ? hurriedMs : calmMs)
      })
    }, ms).unref()
  }

  /** As {@link #look}; never rejects. */
  async #lookOrTell(): Promise<boolean> {
    const { log, onLook } = this.#options
    let isHurried = false
    try {
      isHurried = await this.#look()
      if (this.#isTroubled) log.info('The memory of servers can be read again')
      this.#isTroubled = false
      if (!this.#isEnded) onLook()
    } catch (error) {
      if (!this.#isTroubled) log.warn('The memory of servers cannot be read', { error })
      this.#isTroubled = true
    }
    return isHurried
  }

  /** True where a server loads or grows. */
  async #look(): Promise<boolean> {
    const { platform, servers, onMeasured } = this.#options
    const all = servers()
    const told = all.flatMap(({ id, toldBytes }) => (toldBytes === undefined ? [] : [[id, toldBytes] as const]))
    if (told.length > 0 && !this.#isEnded) onMeasured(new Map(told))
    const watched = await this.#withMembers(
      all.flatMap(({ groupId, ...server }) => (groupId === undefined ? [] : [{ ...server, groupId }])),
    )
    if (watched.length === 0) return false
    const sizes = await platform.residentBytes(watched.flatMap(({ known }) => known.pids))
    let isHurried = false
    const suspects: typeof watched = []
    for (const one of watched) {
      const { server, known } = one
      const resident = sumOf(known.pids, sizes)
      const grew = resident !== undefined && resident - (known.resident ?? resident) >= growthBytes
      if (server.isLoading || grew) isHurried = true
      known.resident = resident
      if (isNews(server, known)) suspects.push(one)
    }
    if (suspects.length > 0) {
      const footprints = await platform.footprints(suspects.flatMap(({ known }) => known.pids))
      const measured = new Map<string, number>()
      for (const { server, known } of suspects) {
        const bytes = sumOf(known.pids, footprints)
        if (bytes === undefined) continue
        known.measured = { resident: known.resident, bytes }
        measured.set(server.id, bytes)
      }
      if (measured.size > 0 && !this.#isEnded) onMeasured(measured)
    }
    return isHurried
  }

  /** The pids of each group; what starts may still come to have others, what serves keeps those it has. */
  async #withMembers(servers: readonly (GrowingServer & { readonly groupId: number })[]) {
    const unsettled = servers.filter(
      ({ id, groupId, isLoading }) => isLoading || this.#known.get(id)?.groupId !== groupId,
    )
    const members =
      unsettled.length === 0
        ? new Map<number, readonly number[]>()
        : await this.#options.platform.membersOf(new Set(unsettled.map(({ groupId }) => groupId)))
    const before = this.#known
    this.#known = new Map()
    return servers.map((server) => {
      const { id, groupId } = server
      const kept = before.get(id)
      const known: Known =
        kept?.groupId === groupId ? kept : { groupId, pids: [groupId], resident: undefined, measured: undefined }
      const found = members.get(groupId) ?? []
      if (found.length > 0) known.pids = found
      this.#known.set(id, known)
      return { server, known }
    })
  }
}

/** Whether a measurement may say something else than what is known. */
function isNews({ floorBytes }: GrowingServer, { resident, measured }: Known): boolean {
  // The system does not tell the cheap figure.
  if (resident === undefined) return true
  if (resident <= floorBytes && (measured?.bytes ?? 0) <= floorBytes) return false
  return measured?.resident === undefined || Math.abs(resident - measured.resident) >= newsBytes
}

function sumOf(pids: readonly number[], sizes: ReadonlyMap<number, number>): number | undefined {
  const known = pids.flatMap((pid) => sizes.get(pid) ?? [])
  return known.length === 0 ? undefined : known.reduce((sum, bytes) => sum + bytes, 0)
}
