import { type Command, type CommandInput, type ServiceRef, trustOf } from '../contract/commands.ts'
import type { HistoryEntry } from '../contract/queries.ts'
import type { ServiceView } from '../contract/service.ts'
import type { EditableRow } from '../contract/settings-table.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { actionsFor } from '../contract/words.ts'
import { hasWords } from './search.ts'
import { activityWords } from './words/activity.ts'

const problems: ReadonlySet<HistoryEntry['kind']> = new Set(['crashed', 'evicted', 'refused'])

export const isProblem = ({ kind }: HistoryEntry): boolean => problems.has(kind)

/** Whether every word of the filter stands somewhere in what is shown of the entry. */
export const matches = (entry: HistoryEntry, filter: string): boolean =>
  hasWords(filter, [
    activityWords.kinds[entry.kind],
    entry.service?.namespace ?? '',
    entry.service?.name ?? '',
    activityWords.message(entry),
  ])

/** Entries by the day on which they happened, in their order. */
export function daysOf(
  entries: readonly HistoryEntry[],
): { readonly day: string; readonly entries: readonly HistoryEntry[] }[] {
  const days = Map.groupBy(entries, ({ at }) => activityWords.day(at))
  return [...days].map(([day, ofDay]) => ({ day, entries: ofDay }))
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
