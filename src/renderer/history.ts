import { type Command, type CommandInput, type ServiceRef, trustOf } from '../contract/commands.ts'
import { type Answer, type HistoryEntry, maxPage } from '../contract/queries.ts'
import type { ServiceView } from '../contract/service.ts'
import type { EditableRow } from '../contract/settings-table.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { actionsFor } from '../contract/words.ts'
import { activityWords } from './words/activity.ts'

const problems: ReadonlySet<HistoryEntry['kind']> = new Set(['crashed', 'evicted', 'refused'])

export const isProblem = ({ kind }: HistoryEntry): boolean => problems.has(kind)

/** Whether every word of the filter stands somewhere in what is shown of the entry. */
export function matches(entry: HistoryEntry, filter: string): boolean {
  const { kind, service } = entry
  const shown = [activityWords.kinds[kind], service?.namespace ?? '', service?.name ?? '', activityWords.message(entry)]
    .join(' ')
    .toLowerCase()
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => shown.includes(word))
}

/** Entries by the day on which they happened, in their order. */
export function daysOf(
  entries: readonly HistoryEntry[],
): { readonly day: string; readonly entries: readonly HistoryEntry[] }[] {
  const days = Map.groupBy(entries, ({ at }) => activityWords.day(at))
  return [...days].map(([day, ofDay]) => ({ day, entries: ofDay }))
}

/** Newest first, without a gap. */
export type KnownHistory = Answer<'history'>

/** Asked for at first, and at each wish for more. */
export const step = 50

/** How much to ask for: all that is missing and what comes meanwhile, or a first page where that is too much. */
export function newerLimit(known: KnownHistory | undefined, newestId: number): number {
  const newest = known?.entries[0]?.id
  if (newest === undefined) return step
  const missing = Math.max(0, newestId - newest)
  return missing > maxPage ? step : Math.min(maxPage, missing + step)
}

/** Adds newer entries to the known ones; only the newer ones remain if entries between are missing, or if the history was started over. */
export function withNewer(known: KnownHistory | undefined, page: KnownHistory): KnownHistory {
  const newest = known?.entries[0]?.id
  const newestOfPage = page.entries[0]
  if (known === undefined || newest === undefined || newestOfPage === undefined) return page
  const knownAt = new Map(known.entries.map(({ id, at }) => [id, at]))
  const isAnew = page.entries.some(({ id, at }) => (knownAt.get(id) ?? at) !== at)
  if (isAnew) return page
  if (newestOfPage.id < newest) return knownAt.has(newestOfPage.id) ? known : page
  const reachesKnown = page.entries.some(({ id }) => id <= newest + 1)
  if (!reachesKnown) return page
  return { entries: [...page.entries.filter(({ id }) => id > newest), ...known.entries], hasMore: known.hasMore }
}

/** Adds older entries to the known ones. */
export function withOlder(known: KnownHistory | undefined, page: KnownHistory): KnownHistory {
  const oldest = known?.entries.at(-1)?.id
  if (known === undefined || oldest === undefined) return page
  return { entries: [...known.entries, ...page.entries.filter(({ id }) => id < oldest)], hasMore: page.hasMore }
}

interface Situation {
  readonly snapshot: Pick<AgentSnapshot, 'services' | 'host'>
  readonly trust: EditableRow['trust']
}

/** The commands that undo entries, by entry id: only for the newest entry about a subject, and only while its effect lasts. */
export function undosOf(newestFirst: readonly HistoryEntry[], situation: Situation): ReadonlyMap<number, CommandInput> {
  const seen = new Set<string>()
  const undos = new Map<number, CommandInput>()
  for (const entry of newestFirst) {
    const subjects = subjectsOf(entry)
    const isNewest = subjects.length > 0 && subjects.every((subject) => !seen.has(subject))
    for (const subject of subjects) seen.add(subject)
    const undo = isNewest ? undoOf(entry, situation) : undefined
    if (undo !== undefined) undos.set(entry.id, undo)
  }
  return undos
}

export const serviceOf = (service: ServiceRef | undefined, services: readonly ServiceView[]): ServiceView | undefined =>
  services.find(({ namespace, name }) => namespace === service?.namespace && name === service.name)

function undoOf({ undo, service, kind }: HistoryEntry, { snapshot, trust }: Situation): CommandInput | undefined {
  const known = serviceOf(service, snapshot.services)
  if (undo !== undefined) {
    return isOpen(undo, snapshot, known) && (trust === 'shell' || trustOf(undo) === 'page') ? undo : undefined
  }
  const isOut = known !== undefined && (known.state === 'stopped' || known.hold !== undefined)
  if (!leaving.has(kind) || !isOut) return undefined
  return actionsFor(known).find(({ command }) => command.name === 'start' || command.name === 'bringBack')?.command
}

/** Whether it would still change something. */
function isOpen(undo: Command, { host }: Situation['snapshot'], known: ServiceView | undefined): boolean {
  switch (undo.name) {
    case 'resumeNode':
      return host.paused
    case 'pauseNode':
      return !host.paused
    case 'protect':
      return known?.memory !== undefined && known.memory.isProtected !== undo.protect
    case 'setContextSize':
      return known !== undefined && (known.contextSize ?? null) !== undo.contextSize
    default:
      return true
  }
}

const leaving: ReadonlySet<HistoryEntry['kind']> = new Set(['evicted', 'stopped'])
/** They say of a service whether it is in memory, as those do that take it out. */
const coming: ReadonlySet<HistoryEntry['kind']> = new Set(['broughtBack', 'started', 'ready'])

/** What an entry is about, so that a later one about the same takes its place. */
function subjectsOf({ kind, service, undo }: HistoryEntry): readonly string[] {
  const of = service === undefined ? '' : `${service.namespace}/${service.name}`
  if (undo === undefined) return leaving.has(kind) || coming.has(kind) ? [`memory ${of}`] : []
  if (undo.name === 'updateSettings') return Object.keys(undo.settings).map((name) => `setting ${name}`)
  return [undo.name === 'resumeNode' || undo.name === 'pauseNode' ? 'pause' : `${undo.name} ${of}`]
}
