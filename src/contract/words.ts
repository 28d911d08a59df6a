import type { ConnectionState } from './cluster.ts'
import type { CommandInput } from './commands.ts'
import type { DoctorFinding, Verdict } from './doctor.ts'
import { formatBytes } from './format.ts'
import type { MemoryStateView } from './memory.ts'
import type { Hold, ServiceReason, ServiceState, ServiceView, StepName } from './service.ts'

/** The same words on every surface. */
export const stateWords: Readonly<Record<ServiceState, string>> = {
  waiting: 'Waiting',
  fetching: 'Downloading',
  starting: 'Starting',
  ready: 'Ready',
  unready: 'Not ready',
  'crash-looping': 'Crash loop',
  stopping: 'Stopping',
  stopped: 'Stopped',
  refused: 'Refused',
  foreign: 'On another machine',
}

/** Why a service does not serve, in two or three words; its message says it in full. Without one here, the state says enough. */
export const reasonWords: Readonly<Partial<Record<ServiceReason, string>>> = {
  FetchFailed: 'Download failed',
  StartFailed: 'Start failed',
  Suspended: 'Suspended',
  Idle: 'Idle',
  InsufficientMemory: 'Does not fit',
  MemoryCheckFailed: 'Need unknown',
  MemoryPressure: 'Memory is short',
  MemoryExceeded: 'Outgrew memory',
  HeldAfterPanic: 'Waits for you',
  StartsInTurn: 'Waits its turn',
  Paused: 'Paused',
  Asleep: 'Asleep',
  ExtraArgsRejected: 'Argument refused',
  EnvironmentRejected: 'Variable refused',
  ModelMissing: 'Model missing',
  ServiceNameTaken: 'Name taken',
  ServiceNameTooLong: 'Name too long',
  NoHostAddress: 'No address',
  NoGateway: 'No gateway',
  NoApiKey: 'No API key',
}

/** What a person, or memory that ran out, did to it. */
export const holdCauseWords: Readonly<Record<Hold['cause'], string>> = {
  stopped: 'Stopped',
  evicted: 'Evicted',
  downloadCancelled: 'Download cancelled',
  released: 'Released',
}

const resting: readonly ServiceState[] = ['waiting', 'stopped', 'refused']

/** What a service does or, where it rests, why: in a few words. */
export function stateWord({ state, reason, hold }: Pick<ServiceView, 'state' | 'reason' | 'hold'>): string {
  if (reason === 'Held' && hold !== undefined) return holdCauseWords[hold.cause]
  const isQuiet = reason === 'Paused' || reason === 'Asleep'
  return (isQuiet || resting.includes(state) ? reasonWords[reason] : undefined) ?? stateWords[state]
}

export const stepWords: Readonly<Record<StepName, string>> = {
  fetched: 'Fetched',
  started: 'Started',
  healthy: 'Healthy',
  published: 'Published',
  clusterAgrees: 'Cluster agrees',
}

/** What a person may ask for a service, and what stands there while the agent has not answered. */
export const actionWords = {
  stop: { label: 'Stop', pending: 'Stopping…' },
  start: { label: 'Start', pending: 'Starting…' },
  bringBack: { label: 'Bring back', pending: 'Bringing back…' },
  restart: { label: 'Restart', pending: 'Restarting…' },
  evict: { label: 'Evict from memory', pending: 'Evicting…' },
  protect: { label: 'Protect', pending: 'Protecting…' },
  unprotect: { label: 'Unprotect', pending: 'Taking protection off…' },
  cancelDownload: { label: 'Cancel download', pending: 'Cancelling…' },
  skipDrain: { label: 'Skip the wait', pending: 'Ending…' },
  release: { label: 'Release to other machines', pending: 'Releasing…' },
} as const

export const summaryWords = {
  /** Such as "38.0 GB of 96.0 GB for models, pressure normal, 2 waiting". */
  memory({ modelsBytes, budgetBytes, pressure, waiting, problem }: MemoryStateView): string {
    const budget = budgetBytes === undefined ? '' : ` of ${formatBytes(budgetBytes)}`
    const queue = waiting.length === 0 ? '' : `, ${waiting.length} waiting`
    const trouble = problem === undefined ? '' : `: ${problem}`
    return `${formatBytes(modelsBytes)}${budget} for models, pressure ${pressure}${queue}${trouble}`
  },
  /** Such as "12 in order, 1 warning, 2 failures, 3 not applicable". */
  doctor(findings: readonly Pick<DoctorFinding, 'verdict'>[]): string {
    const count = (verdict: Verdict) => findings.filter((one) => one.verdict === verdict).length
    const several = (number: number, word: string) => `${number} ${word}${number === 1 ? '' : 's'}`
    return `${count('pass')} in order, ${several(count('warn'), 'warning')}, ${several(count('fail'), 'failure')}, ${count('notApplicable')} not applicable`
  },
} as const

export const clusterWords: Readonly<Record<ConnectionState, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  stale: 'Stale',
  denied: 'Denied',
  unauthorized: 'Not logged in',
  absent: 'Not installed',
  offline: 'Offline',
}

export interface Action {
  readonly label: string
  readonly command: CommandInput
  /** What stands there while the agent has not answered. */
  readonly pending: string
}

const running: readonly ServiceState[] = ['starting', 'ready', 'unready', 'crash-looping']

/** What can be asked for a service as it is now; the most likely one first. */
export function actionsFor({ namespace, name, state, hold, memory }: ServiceView): Action[] {
  const service = { namespace, name }
  const stop: Action = { ...actionWords.stop, command: { name: 'stop', service } }
  const start: Action = { ...actionWords.start, command: { name: 'start', service } }
  const bringBack: Action = { ...actionWords.bringBack, command: { name: 'bringBack', service } }
  const restart: Action = { ...actionWords.restart, command: { name: 'restart', service } }
  const evict: Action = { ...actionWords.evict, command: { name: 'evict', service } }
  const isProtected = memory?.isProtected === true
  const protect: Action = isProtected
    ? { ...actionWords.unprotect, command: { name: 'protect', service, protect: false } }
    : { ...actionWords.protect, command: { name: 'protect', service, protect: true } }
  const cancel: Action = {
    ...actionWords.cancelDownload,
    command: { name: 'cancelDownload', service },
  }
  if (state === 'foreign' || state === 'stopping') return []
  const isTakenBack = hold?.cause === 'evicted' || hold?.cause === 'released'
  if (state === 'stopped' || hold !== undefined) return [isTakenBack ? bringBack : start]
  if (state === 'fetching') return [cancel, stop]
  return running.includes(state) ? [stop, restart, evict, protect] : [stop]
}

/** What is asked more rarely: only where there is room for it. */
export function furtherActionsFor(
  { namespace, name, state, hold }: ServiceView,
  { isDraining }: { readonly isDraining: boolean },
): Action[] {
  const service = { namespace, name }
  const skip: Action = { ...actionWords.skipDrain, command: { name: 'skipDrain', service } }
  const release: Action = {
    ...actionWords.release,
    command: { name: 'release', service },
  }
  if (state === 'stopping') return isDraining ? [skip] : []
  return hold === undefined && running.includes(state) ? [release] : []
}
