import type { HistoryEntry } from '../../contract/queries.ts'
import type { ServiceReason, ServiceState } from '../../contract/service.ts'
import type { EventNote } from '../kube/event-recorder.ts'
import type { DownloadNote } from './download-story.ts'

/** Something that happened to one service. */
export type Transition =
  | { readonly kind: 'claimed'; readonly isTakenOver: boolean }
  | { readonly kind: 'starting' }
  /** `isFound`: an earlier agent started it, and told of it. */
  | { readonly kind: 'started'; readonly pid: number; readonly port: number; readonly isFound: boolean }
  | { readonly kind: 'answered'; readonly port: number }
  | { readonly kind: 'published'; readonly address: string; readonly port: number }
  | { readonly kind: 'scaledToZero' }
  | { readonly kind: 'stopped'; readonly why: string }
  /** `isCounted`: it is told by the Event that counts the failures of a crash loop. */
  | {
      readonly kind: 'failed'
      readonly outOf: 'start' | 'serving'
      readonly why: string
      readonly message: string
      /** False where there was no process yet. */
      readonly hadProcess: boolean
      readonly isCounted: boolean
    }
  /** It was ended for the memory that it took. */
  | { readonly kind: 'exceeded'; readonly message: string }
  | { readonly kind: 'leftBehind'; readonly message: string }
  | { readonly kind: 'download'; readonly note: DownloadNote }
  | { readonly kind: 'fetchFailed'; readonly message: string }
  | {
      readonly kind: 'refused'
      readonly message: string
      /** The rule that the spec breaks, where it is one for servers. */
      readonly rule?: 'ExtraArgsRejected' | 'EnvironmentRejected'
      readonly isToldBefore: boolean
    }
  | { readonly kind: 'modelMissing'; readonly message: string }
  | {
      readonly kind: 'notStarted'
      readonly reason: 'InsufficientMemory' | 'MemoryCheckFailed' | 'RespawnBlocked' | 'HeldAfterPanic'
      readonly message: string
    }
  | { readonly kind: 'displaced'; readonly winner: string; readonly message: string }
  | { readonly kind: 'evicted'; readonly why: string; readonly message: string; readonly priority: string }
  | { readonly kind: 'broughtBack'; readonly why: string }
  | { readonly kind: 'evictionSkipped'; readonly message: string }
  | { readonly kind: 'pressureChanged'; readonly isNormal: boolean; readonly message: string }
  | { readonly kind: 'idle'; readonly idleMinutes: number }

export interface Telling {
  readonly log?: {
    readonly level: 'info' | 'warn'
    readonly message: string
    readonly fields?: Readonly<Record<string, unknown>>
  }
  readonly event?: EventNote
  readonly history?: Pick<HistoryEntry, 'kind' | 'message'>
}

/** How one transition is told: by each way once at the most. The state that follows from it is told by log line and condition. */
export function tellingOf(transition: Transition): Telling {
  switch (transition.kind) {
    case 'claimed': {
      const message = transition.isTakenOver ? 'Taken over from an agent that is gone.' : 'Claimed by this machine.'
      return { event: normal('Claimed', message) }
    }
    case 'starting':
      return { log: { level: 'info', message: 'starting inference service' } }
    case 'started': {
      const { pid, port, isFound } = transition
      if (isFound) return { history: { kind: 'started', message: `The server was found running as process ${pid}.` } }
      return {
        log: { level: 'info', message: 'started inference service', fields: { pid, port } },
        event: normal('Started', `llama-server started with process id ${pid} on port ${port}.`),
        history: { kind: 'started', message: `The server was started as process ${pid}.` },
      }
    }
    case 'answered':
      return { history: { kind: 'ready', message: `The server answers on port ${transition.port}.` } }
    case 'published':
      return { event: normal('Ready', `Serving at ${transition.address}:${transition.port}.`) }
    case 'scaledToZero':
      // Word for word: the guide of LLMKube has people look for it.
      return { log: { level: 'info', message: 'replicas=0; stopping process' } }
    case 'stopped':
      return {
        event: normal('Stopped', transition.why),
        history: { kind: 'stopped', message: transition.why },
      }
    case 'failed': {
      const { outOf, why, message, hadProcess, isCounted } = transition
      return {
        ...(!isCounted && { event: warning(outOf === 'start' ? 'StartFailed' : 'Stopped', message) }),
        ...(hadProcess && { history: { kind: 'crashed', message: why } }),
      }
    }
    case 'exceeded': {
      const { message } = transition
      return { event: warning('MemoryExceeded', message), history: { kind: 'crashed', message } }
    }
    case 'leftBehind':
      return {
        event: warning('Stopped', transition.message),
        history: { kind: 'stopped', message: transition.message },
      }
    case 'download':
      return { event: normal(transition.note.reason, transition.note.message) }
    case 'fetchFailed':
      return { event: warning('StartFailed', transition.message) }
    case 'refused': {
      const { message, rule, isToldBefore } = transition
      return {
        ...(!isToldBefore && { event: warning(rule ?? 'Refused', message) }),
        history: { kind: 'refused', message },
      }
    }
    case 'modelMissing':
      return { event: warning('Refused', transition.message) }
    case 'notStarted':
      return { event: warning(transition.reason, transition.message) }
    case 'displaced': {
      const { winner, message } = transition
      return {
        log: { level: 'info', message: 'evicted', fields: { for: winner } },
        event: warning('Evicted', message),
        history: { kind: 'evicted', message },
      }
    }
    case 'evicted': {
      const { why, message, priority } = transition
      return {
        log: { level: 'warn', message: 'evicting', fields: { text: why } },
        event: warning('Evicted', `${message} (priority=${priority})`),
        history: { kind: 'evicted', message: `Evicted for want of memory: ${why}` },
      }
    }
    case 'broughtBack':
      return {
        log: { level: 'info', message: 'brought back', fields: { text: transition.why } },
        history: { kind: 'broughtBack', message: transition.why },
      }
    case 'evictionSkipped':
      return { event: normal('EvictionSkipped', transition.message) }
    case 'pressureChanged': {
      const { isNormal, message } = transition
      const reason = 'MemoryPressureLevelChanged'
      return { event: isNormal ? normal(reason, message) : warning(reason, message) }
    }
    case 'idle': {
      const { idleMinutes } = transition
      return { log: { level: 'info', message: 'idle inference service leaves memory', fields: { idleMinutes } } }
    }
  }
}

const normal = (reason: string, message: string): EventNote => ({ type: 'Normal', reason, message })
const warning = (reason: string, message: string): EventNote => ({ type: 'Warning', reason, message })

/** Of the line that says in which state a service is. */
export const levelOf = (state: ServiceState, reason: ServiceReason): 'debug' | 'info' | 'warn' =>
  troubles.has(reason) ? 'warn' : passing.has(state) ? 'debug' : 'info'

/** What a person should look at. */
const troubles = new Set<ServiceReason>([
  'FetchFailed',
  'StartFailed',
  'CrashLooping',
  'Refused',
  'ExtraArgsRejected',
  'EnvironmentRejected',
  'ModelMissing',
  'ServiceNameTaken',
  'NoHostAddress',
  'ClaimOverwritten',
  'ClusterDisagrees',
  'HeldAfterPanic',
  'MemoryExceeded',
])

/** On the way to somewhere, and told by the lines of the step that is taken. */
const passing = new Set<ServiceState>(['fetching', 'starting', 'stopping'])
