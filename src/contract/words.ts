import type { AppPreferences, LastUpdate, Misplaced, NoUpdates } from './app-state.ts'
import type { ConnectionState } from './cluster.ts'
import type { CommandInput } from './commands.ts'
import type { DoctorFinding, Verdict } from './doctor.ts'
import { formatBytes } from './format.ts'
import type { MemoryStateView } from './memory.ts'
import type { Hold, ServiceReason, ServiceState, ServiceView, StepName } from './service.ts'

/** What one text of a catalogue may be; undefined where a value leaves nothing to be said. */
type Said = string | readonly string[] | Readonly<Record<string, string>> | undefined

/**
 * A catalogue: the texts of one surface by name, each plain or a function of values that decides nothing but its wording.
 * A translation is a second object with the same names and parameters, chosen where the first one is exported.
 */
export type Words<Name extends string = string> = {
  readonly [K in Name]: string | readonly string[] | ((...values: never[]) => Said) | Words
}

/** The same words on every surface. */
export const stateWords = {
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
} as const satisfies Words<ServiceState>

/** Why a service does not serve, in two or three words; its message says it in full. Without one here, the state says enough. */
export const reasonWords: Readonly<Partial<Record<ServiceReason, string>>> = {
  FetchFailed: 'Fetch failed',
  StartFailed: 'Start failed',
  Suspended: 'Suspended',
  Idle: 'Idle',
  InsufficientMemory: 'Does not fit',
  MemoryCheckFailed: 'Need unknown',
  MemoryPressure: 'Memory is short',
  StartsInTurn: 'Waits its turn',
  Paused: 'Paused',
  Asleep: 'Asleep',
  ExtraArgsRejected: 'Argument refused',
  EnvironmentRejected: 'Variable refused',
  ModelMissing: 'Model missing',
  ServiceNameTaken: 'Name taken',
  ServiceNameTooLong: 'Name too long',
  NoHostAddress: 'Address problem',
  NoGateway: 'No gateway',
  NoApiKey: 'API key problem',
} as const satisfies Words

/** What a person, or memory that ran out, did to it. */
export const holdCauseWords = {
  stopped: 'Stopped',
  evicted: 'Evicted',
  downloadCancelled: 'Download cancelled',
} as const satisfies Words<Hold['cause']>

const resting: readonly ServiceState[] = ['waiting', 'stopped', 'refused']

/** What a service does or, where it rests, why: in a few words. */
export function stateWord({ state, reason, hold }: Pick<ServiceView, 'state' | 'reason' | 'hold'>): string {
  if (reason === 'Held' && hold !== undefined) return holdCauseWords[hold.cause]
  const isQuiet = reason === 'Paused' || reason === 'Asleep'
  return (isQuiet || resting.includes(state) ? reasonWords[reason] : undefined) ?? stateWords[state]
}

export const stepWords = {
  fetched: 'Fetched',
  started: 'Started',
  healthy: 'Healthy',
  published: 'Published',
  clusterAgrees: 'Cluster agrees',
} as const satisfies Words<StepName>

/** What a person may ask for a service, and what stands there while the agent has not answered. */
export const actionWords = {
  stop: { label: 'Stop', pending: 'Stopping…' },
  start: { label: 'Start', pending: 'Starting…' },
  bringBack: { label: 'Bring back', pending: 'Bringing back…' },
  restart: { label: 'Restart', pending: 'Restarting…' },
  evict: { label: 'Evict from memory', pending: 'Evicting…' },
  protect: { label: 'Protect', pending: 'Protecting…' },
  unprotect: { label: 'Unprotect', pending: 'Removing protection…' },
  cancelDownload: { label: 'Cancel download', pending: 'Cancelling…' },
  skipDrain: { label: 'Skip the wait', pending: 'Ending…' },
} as const satisfies Words

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
} as const satisfies Words

export const clusterWords = {
  connecting: 'Connecting',
  live: 'Live',
  stale: 'Stale',
  denied: 'Denied',
  unauthorized: 'Not logged in',
  absent: 'Not installed',
  offline: 'Offline',
} as const satisfies Words<ConnectionState>

/** What the menu of the icon and the window both say. */
export const sharedWords = {
  app: 'Metalbar',
  pause: 'Pause this machine',
  ownWindow: 'Open in its own window',
  loginItem: 'Open at login',
  moveToApplications: 'Move to Applications',
  onlyInstalled: 'Only an installed app can be opened at login.',
  notifications: 'Notifications',
  requests: (count: number) => (count === 1 ? '1 request' : `${count} requests`),
  slower: 'slower than before',
  onQuits: { ask: 'Ask', drain: 'Drain and stop', keep: 'Keep in menu bar' } satisfies Words<AppPreferences['onQuit']>,
  onQuitHelp:
    'Drain and stop: the models leave the cluster, finish their requests and stop. Keep in menu bar: they keep serving.',
  misplaced: {
    diskImage: 'Metalbar runs from its disk image.',
    translocated: 'macOS runs Metalbar from a protected copy, because it was opened where it was downloaded.',
    downloads: 'Metalbar runs from Downloads.',
  } satisfies Words<Misplaced>,
  lookingForUpdates: 'Checking for updates…',
  noUpdates: {
    source: 'An app that runs from source does not update itself.',
    unpublished: 'This build has no update server. Replace it with a newer Metalbar; models keep serving.',
    misplaced: 'Move the app to Applications first. It cannot be updated where it is now.',
    managed: 'Your administrator updates this Mac; the app does not check for updates.',
  } satisfies Words<NoUpdates>,
  lastUpdate: ({ wanted, runs }: LastUpdate) =>
    wanted === runs ? `Metalbar is now ${runs}.` : `The update to ${wanted} failed; Metalbar ${runs} is still running.`,
} as const satisfies Words

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
  const cancel: Action = { ...actionWords.cancelDownload, command: { name: 'cancelDownload', service } }
  if (state === 'foreign' || state === 'stopping') return []
  if (state === 'stopped' || hold !== undefined) return [hold?.cause === 'evicted' ? bringBack : start]
  if (state === 'fetching') return [cancel, stop]
  return running.includes(state) ? [stop, restart, evict, protect] : [stop]
}

/** Ends the wait for the requests in flight of a server that stops. */
export const skipDrainOf = ({ namespace, name }: ServiceView): Action => ({
  ...actionWords.skipDrain,
  command: { name: 'skipDrain', service: { namespace, name } },
})
