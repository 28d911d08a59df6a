import { isDeepStrictEqual } from 'node:util'
import type { ClusterView } from '../../contract/cluster.ts'
import type { MemoryFiguresView, MemoryStateView } from '../../contract/memory.ts'
import type { DownloadView } from '../../contract/models.ts'
import type { ServiceFigures, ServiceView } from '../../contract/service.ts'
import { protocolVersion, type AgentSnapshot, type HostView } from '../../contract/snapshot.ts'

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
export interface RoomParts {
  readonly services: readonly Omit<ServiceView, 'revision'>[]
  /** By uid. */
  readonly figures: Readonly<Record<string, ServiceFigures>>
  readonly memory: MemoryStateView | undefined
  readonly memoryFigures: MemoryFiguresView | undefined
  readonly downloads: readonly DownloadView[]
  /** Sentences; those of all rooms are shown. */
  readonly notices: readonly string[]
}

export type SnapshotParts = SnapshotBase & RoomParts

const nothingSaid: RoomParts = {
  services: [],
  figures: {},
  memory: undefined,
  memoryFigures: undefined,
  downloads: [],
  notices: [],
}

/** All parts as one: where two rooms say the same, the later one counts, but for notices. */
export function joinParts(base: SnapshotBase, parts: readonly Partial<RoomParts>[]): SnapshotParts {
  const joined = parts.reduce<RoomParts>((sum, part) => ({ ...sum, ...part }), nothingSaid)
  return { ...base, ...joined, notices: parts.flatMap(({ notices = [] }) => notices) }
}

/** The one place where what the rooms say becomes a snapshot. What did not change keeps its object identity and revision. */
export function composeSnapshot(previous: AgentSnapshot | undefined, parts: SnapshotParts): AgentSnapshot {
  const before = new Map(previous?.services.map((service) => [service.uid, service]))
  const services = parts.services
    .map((service) => withRevision(before.get(service.uid), service))
    .sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name))
  return {
    protocol: protocolVersion,
    bootId: parts.bootId,
    revision: (previous?.revision ?? 0) + 1,
    now: new Date(parts.now).toISOString(),
    version: parts.version,
    startedAt: new Date(parts.startedAt).toISOString(),
    host: keep(previous?.host, parts.host),
    cluster: keep(previous?.cluster, parts.cluster),
    services: sameElements(previous?.services, services) ? previous.services : services,
    figures: keep(previous?.figures, parts.figures),
    ...(parts.memory && { memory: keep(previous?.memory, parts.memory) }),
    ...(parts.memoryFigures && { memoryFigures: keep(previous?.memoryFigures, parts.memoryFigures) }),
    downloads: keep(previous?.downloads, [...parts.downloads]),
    notices: keep(previous?.notices, [...parts.notices]),
  }
}

function withRevision(before: ServiceView | undefined, after: Omit<ServiceView, 'revision'>): ServiceView {
  if (!before) return { ...after, revision: 1 }
  const same: ServiceView = { ...after, revision: before.revision }
  return isDeepStrictEqual(before, same) ? before : { ...same, revision: before.revision + 1 }
}

const keep = <T>(before: T | undefined, after: T): T =>
  before !== undefined && isDeepStrictEqual(before, after) ? before : after

const sameElements = <T>(before: readonly T[] | undefined, after: readonly T[]): before is readonly T[] =>
  before?.length === after.length && before.every((element, index) => element === after[index])

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
