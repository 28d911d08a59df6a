import { isDeepStrictEqual } from 'node:util'
import { cleanTexts, sentence } from '../../contract/clean-text.ts'
import { type Looker, lookers, seesFigures } from '../../contract/client.ts'
import type { ClusterView } from '../../contract/cluster.ts'
import type { MemoryFiguresView, MemoryStateView } from '../../contract/memory.ts'
import type { DownloadView } from '../../contract/models.ts'
import type { PowerFigures, PowerView, SupplyView } from '../../contract/power.ts'
import type { RuntimeView } from '../../contract/queries.ts'
import type { ServiceFigures, ServiceView } from '../../contract/service.ts'
import { type AgentSnapshot, type HostView, protocolVersion } from '../../contract/snapshot.ts'

/** Readers get a change at most this often; what changes in between is one change. */
const coalesceMs = 50

/** The agent's state as one immutable value, composed only when it is read. */
export class SnapshotStore {
  readonly #base: () => SnapshotBase
  readonly #parts: (() => RoomPart)[] = []
  readonly #readers = new Map<() => void, Looker>()
  readonly #onLook = new Set<() => void>()
  readonly #onLooker = new Set<(looker: Looker | undefined) => void>()
  #snapshot: AgentSnapshot | undefined
  /** There is a change that the snapshot has not taken in. */
  #isStale = true
  /** Set while a notification of readers is due. */
  #timer: NodeJS.Timeout | undefined
  #isDisposed = false

  constructor(base: () => SnapshotBase) {
    this.#base = base
  }

  /** What a room says of itself, from now on in every snapshot. */
  register(part: () => RoomPart): void {
    this.#parts.push(part)
    this.#isStale = true
  }

  /** For what is only measured while somebody looks: called with each snapshot that is asked for, and for a reader who comes. */
  beforeLook(listener: () => void): void {
    this.#onLook.add(listener)
  }

  /** Called when the one of all readers who sees most is another than before; undefined = there is none. */
  onLooker(listener: (looker: Looker | undefined) => void): void {
    this.#onLooker.add(listener)
  }

  /** A menu or window that is open gets changes; the icon alone does not count as looking. */
  get hasReaders(): boolean {
    return seesFigures(this.#looker)
  }

  get #looker(): Looker | undefined {
    const present = new Set(this.#readers.values())
    return lookers.findLast((looker) => present.has(looker))
  }

  /** As of now: also what changed a moment ago, and with the agent's present time. */
  get(looker: Looker = 'window'): AgentSnapshot {
    this.#looked(looker)
    const snapshot = this.#isStale || !this.#snapshot ? this.#compose() : this.#snapshot
    return { ...snapshot, now: new Date().toISOString() }
  }

  /** Called after every change, of figures as well. */
  subscribe(listener: () => void, looker: Looker = 'window'): () => void {
    this.#change(() => this.#readers.set(listener, looker))
    this.#looked(looker)
    return () => this.#change(() => this.#readers.delete(listener))
  }

  /** Something that is shown has changed. */
  changed(): void {
    this.#isStale = true
    if (this.#readers.size > 0) this.#tellSoon()
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #looked(looker: Looker): void {
    if (!seesFigures(looker)) return
    for (const listener of this.#onLook) listener()
  }

  #change(change: () => void): void {
    const before = this.#looker
    change()
    const after = this.#looker
    if (after === before || this.#isDisposed) return
    for (const listener of this.#onLooker) listener(after)
  }

  #tellSoon(): void {
    if (this.#isDisposed) return
    this.#timer ??= setTimeout(() => this.#compose(), coalesceMs)
  }

  #compose(): AgentSnapshot {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isStale = false
    const parts = this.#parts.map((part) => part())
    const snapshot = composeSnapshot(this.#snapshot, joinParts(this.#base(), parts))
    this.#snapshot = snapshot
    for (const listener of this.#readers.keys()) listener()
    return snapshot
  }
}

/** What every snapshot has, whatever rooms there are. */
export interface SnapshotBase {
  readonly bootId: string
  readonly version: string
  readonly startedAt: number
  readonly now: number
  readonly host: HostView
  readonly cluster: ClusterView
}

/** What the rooms say of themselves. */
interface RoomParts {
  readonly services: readonly Omit<ServiceView, 'revision'>[]
  /** By uid. */
  readonly figures: Readonly<Record<string, ServiceFigures>>
  readonly memory: MemoryStateView | undefined
  readonly memoryFigures: MemoryFiguresView | undefined
  readonly power: PowerView | undefined
  readonly powerFigures: PowerFigures | undefined
  readonly supply?: SupplyView | undefined
  readonly runtimes?: readonly RuntimeView[] | undefined
  readonly downloads: readonly DownloadView[]
  readonly newestHistoryId: number
  readonly settingsRevision?: number | undefined
  /** Sentences; those of all rooms are shown. */
  readonly notices: readonly string[]
}

/** What one room says of itself; of its notices those count that are there. */
export type RoomPart = Partial<Omit<RoomParts, 'notices'>> & { readonly notices?: readonly (string | undefined)[] }

export type SnapshotParts = SnapshotBase & RoomParts

const nothingSaid: RoomParts = {
  services: [],
  figures: {},
  memory: undefined,
  memoryFigures: undefined,
  power: undefined,
  powerFigures: undefined,
  downloads: [],
  newestHistoryId: 0,
  notices: [],
}

/** All parts as one: where two rooms say the same, the later one counts; the notices of all are kept. */
function joinParts(base: SnapshotBase, parts: readonly RoomPart[]): SnapshotParts {
  const notices = parts.flatMap((part) => part.notices ?? []).filter((notice) => notice !== undefined)
  return parts.reduce<SnapshotParts>((sum, part) => ({ ...sum, ...part, notices }), { ...base, ...nothingSaid })
}

/** Thirty services with the longest texts that the schemas allow still make a snapshot of less than 64 KiB: each has a share of it. */
const maxViewBytes = 2_048
/** In UTF-8, of a service's texts; where they make a view too large, the next ones count. */
const textBounds = [
  { message: 700, other: 300, path: 1_024, ways: 8 },
  { message: 500, other: 200, path: 400, ways: 4 },
  { message: 300, other: 100, path: 300, ways: 2 },
] as const
const tightestBounds = { message: 250, other: 50, path: 250, ways: 1 }
type TextBounds = Readonly<Record<keyof typeof tightestBounds, number>>
/** Longer than any Kubernetes name, so that a service is still found by its name. */
const maxNameBytes = 300
const maxNoticeBytes = 1_024

/** The one place that composes a snapshot out of what the rooms report. Unchanged parts keep their object identity and revision. */
export function composeSnapshot(previous: AgentSnapshot | undefined, parts: SnapshotParts): AgentSnapshot {
  const before = new Map(previous?.services.map((service) => [service.uid, service]))
  const revision = (previous?.revision ?? 0) + 1
  const services = parts.services
    .map((service) => withRevision(before.get(service.uid), service, revision))
    .sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name))
  return {
    protocol: protocolVersion,
    bootId: parts.bootId,
    revision,
    now: new Date(parts.now).toISOString(),
    version: parts.version,
    startedAt: new Date(parts.startedAt).toISOString(),
    host: keep(previous?.host, cleanTexts(parts.host)),
    cluster: keep(previous?.cluster, { ...parts.cluster, message: sentence(parts.cluster.message, maxNoticeBytes) }),
    services: sameElements(previous?.services, services) ? previous.services : services,
    figures: keep(previous?.figures, parts.figures),
    ...(parts.memory && { memory: keep(previous?.memory, parts.memory) }),
    ...(parts.memoryFigures && { memoryFigures: keep(previous?.memoryFigures, parts.memoryFigures) }),
    ...(parts.power && { power: keep(previous?.power, cleanTexts(parts.power)) }),
    ...(parts.powerFigures && { powerFigures: keep(previous?.powerFigures, parts.powerFigures) }),
    ...(parts.supply && { supply: keep(previous?.supply, parts.supply) }),
    ...(parts.runtimes && { runtimes: keep(previous?.runtimes, cleanTexts([...parts.runtimes])) }),
    downloads: keep(previous?.downloads, cleanTexts([...parts.downloads])),
    newestHistoryId: parts.newestHistoryId,
    ...(parts.settingsRevision !== undefined && { settingsRevision: parts.settingsRevision }),
    notices: keep(
      previous?.notices,
      parts.notices.map((notice) => sentence(notice, maxNoticeBytes)),
    ),
  }
}

/** What a view was made of: texts are cleaned and cut once for each change, not at each of a thousand looks. */
const madeOf = new WeakMap<ServiceView, Omit<ServiceView, 'revision'>>()

/** A revision is that of the first snapshot with this view, so that a service that leaves and comes back has none that it had before. */
function withRevision(
  before: ServiceView | undefined,
  given: Omit<ServiceView, 'revision'>,
  revision: number,
): ServiceView {
  if (before && isDeepStrictEqual(madeOf.get(before), given)) return before
  const after = boundedView(given)
  const isSame = before && isDeepStrictEqual(before, { ...after, revision: before.revision })
  const view = isSame ? before : { ...after, revision }
  madeOf.set(view, given)
  return view
}

const keep = <T>(before: T | undefined, after: T): T =>
  before !== undefined && isDeepStrictEqual(before, after) ? before : after

const sameElements = <T>(before: readonly T[] | undefined, after: readonly T[]): before is readonly T[] =>
  before?.length === after.length && before.every((element, index) => element === after[index])

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function boundedView(view: Omit<ServiceView, 'revision'>): Omit<ServiceView, 'revision'> {
  for (const bounds of textBounds) {
    const bounded = viewWithin(bounds, view)
    if (Buffer.byteLength(JSON.stringify(bounded)) <= maxViewBytes) return bounded
  }
  return viewWithin(tightestBounds, view)
}

function viewWithin(
  bounds: TextBounds,
  { logFile, memory, ...view }: Omit<ServiceView, 'revision'>,
): Omit<ServiceView, 'revision'> {
  const { crash } = view
  const ways = memory?.waysToFit?.slice(0, bounds.ways).map(({ evict, ...way }) => ({
    ...boundedTexts(way, bounds.other),
    ...(evict && { evict: boundedTexts(evict, maxNameBytes) }),
  }))
  return {
    ...boundedTexts(view, maxNameBytes),
    message: sentence(view.message, bounds.message),
    model: sentence(view.model, bounds.other),
    steps: boundedTexts(view.steps, bounds.other),
    ...(logFile !== undefined && { logFile: sentence(logFile, bounds.path) }),
    ...(crash && {
      crash: {
        ...boundedTexts(crash, bounds.other),
        message: sentence(crash.message, bounds.message),
        ...(crash.guess !== undefined && { guess: sentence(crash.guess, bounds.message) }),
      },
    }),
    ...(memory && { memory: { ...boundedTexts(memory, bounds.other), ...(ways && { waysToFit: ways }) } }),
  }
}

function boundedTexts<T>(value: T, maxBytes: number): T
function boundedTexts(value: unknown, maxBytes: number): unknown {
  if (typeof value === 'string') return sentence(value, maxBytes)
  if (Array.isArray(value)) return value.map((item: unknown) => boundedTexts(item, maxBytes))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, boundedTexts<unknown>(item, maxBytes)]))
}
