import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'

/** The process group of a server, as it is now. */
export interface GrowingServer {
  readonly id: string
  readonly groupId: number
  readonly isLoading: boolean
  /** A footprint up to this is no news: a resident size below it needs no closer look. */
  readonly floorBytes: number
}

export interface GrowthWatchOptions {
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
    const watched = await this.#withMembers(servers())
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
  async #withMembers(servers: readonly GrowingServer[]) {
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
