import type { EventNote } from '../kube/event-recorder.ts'
import type { AgentSchedulingStatus } from '../kube/status-writer.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import { addressAndPort } from '../../contract/addresses.ts'
import type { HistoryEntry } from '../../contract/queries.ts'

/** How one transition is reported: at most once each as log line, Event and history entry. The state it leads to has its own log line and condition. */
interface Telling {
  readonly log?: {
    readonly level: 'info' | 'warn'
    readonly message: string
    readonly fields?: Readonly<Record<string, unknown>>
  }
  readonly event?: EventNote
  readonly history?: Pick<HistoryEntry, 'kind' | 'message'>
}

const normal = (reason: string, message: string): EventNote => ({ type: 'Normal', reason, message })
const warning = (reason: string, message: string): EventNote => ({ type: 'Warning', reason, message })

interface Started {
  readonly runtime: ServerRuntime
  /** Undefined where a daemon is asked to load the model. */
  readonly pid: number | undefined
  readonly port: number
  /** An earlier agent started it, and reported that. */
  readonly isFound: boolean
}

interface Failed {
  readonly outOf: 'start' | 'serving'
  readonly why: string
  /** False where there was no process yet. */
  readonly hadProcess: boolean
  /** The Event that counts the failures of a crash loop reports it. */
  readonly isCounted: boolean
}

interface Refused {
  readonly message: string
  /** The rule that the spec breaks, where it is one for servers. */
  readonly rule?: AgentSchedulingStatus | 'EnvironmentRejected'
  readonly isReportedBefore: boolean
}

interface NotStarted {
  readonly reason: 'InsufficientMemory' | 'MemoryCheckFailed' | 'RespawnBlocked'
  readonly message: string
}

interface Evicted {
  readonly why: string
  readonly message: string
  readonly priority: string
}

function startedTelling({ runtime, pid, port, isFound }: Started): Telling {
  const found =
    pid === undefined
      ? 'The model was found in the memory of its daemon.'
      : `The server was found running as process ${pid}.`
  if (isFound) return { history: { kind: 'started', message: found } }
  const log = { level: 'info', message: 'started inference service', fields: { pid, port } } as const
  return pid === undefined
    ? {
        log,
        event: normal('Started', `The daemon was asked to load the model, which answers on port ${port}.`),
        history: { kind: 'started', message: 'The daemon was asked to load the model.' },
      }
    : {
        log,
        event: normal('Started', `${runtime} started with process id ${pid} on port ${port}.`),
        history: { kind: 'started', message: `The server was started as process ${pid}.` },
      }
}

/** What may happen to a service, and how it is reported. */
const tellings = {
  claimed: ({ isTakenOver }: { isTakenOver: boolean }): Telling => ({
    event: normal('Claimed', isTakenOver ? 'Taken over from an agent that is gone.' : 'Claimed by this machine.'),
  }),
  starting: (): Telling => ({ log: { level: 'info', message: 'starting inference service' } }),
  started: startedTelling,
  answered: ({ port }: { port: number }): Telling => ({
    history: { kind: 'ready', message: `The server answers on port ${port}.` },
  }),
  published: ({ address, port }: { address: string; port: number }): Telling => ({
    event: normal('Ready', `Serving at ${addressAndPort(address, port)}.`),
  }),
  // Word for word: the guide of LLMKube has people look for it.
  scaledToZero: (): Telling => ({ log: { level: 'info', message: 'replicas=0; stopping process' } }),
  stopped: ({ why }: { why: string }): Telling => ({
    event: normal('Stopped', why),
    history: { kind: 'stopped', message: why },
  }),
  failed: ({ outOf, why, hadProcess, isCounted }: Failed): Telling => ({
    ...(!isCounted && { event: warning(outOf === 'start' ? 'StartFailed' : 'Stopped', why) }),
    ...(hadProcess && { history: { kind: 'crashed', message: why } }),
  }),
  /** It was ended for the memory that it took. */
  leftBehind: ({ message }: { message: string }): Telling => ({
    event: warning('Stopped', message),
    history: { kind: 'stopped', message },
  }),
  download: ({ note: { reason, message } }: { note: Pick<EventNote, 'reason' | 'message'> }): Telling => ({
    event: normal(reason, message),
  }),
  fetchFailed: ({ message }: { message: string }): Telling => ({ event: warning('StartFailed', message) }),
  refused: ({ message, rule, isReportedBefore }: Refused): Telling => ({
    ...(!isReportedBefore && { event: warning(rule ?? 'Refused', message) }),
    history: { kind: 'refused', message },
  }),
  modelMissing: ({ message }: { message: string }): Telling => ({ event: warning('Refused', message) }),
  notStarted: ({ reason, message }: NotStarted): Telling => ({ event: warning(reason, message) }),
  evicted: ({ why, message, priority }: Evicted): Telling => ({
    log: { level: 'warn', message: 'evicting', fields: { text: why } },
    event: warning('Evicted', `${message} (priority=${priority})`),
    history: { kind: 'evicted', message: `Evicted to free memory: ${why}` },
  }),
  broughtBack: ({ why }: { why: string }): Telling => ({
    log: { level: 'info', message: 'brought back', fields: { text: why } },
    history: { kind: 'broughtBack', message: why },
  }),
  evictionSkipped: ({ message }: { message: string }): Telling => ({ event: normal('EvictionSkipped', message) }),
  pressureChanged: ({ isNormal, message }: { isNormal: boolean; message: string }): Telling => ({
    event: (isNormal ? normal : warning)('MemoryPressureLevelChanged', message),
  }),
  /** LLMKube's controller leads its Service to no relay. */
  notAdopted: ({ message }: { message: string }): Telling => ({
    log: { level: 'warn', message: 'not adopted by a relay', fields: { text: message } },
    event: warning('RelayNotAdopted', message),
  }),
  idle: ({ idleMinutes }: { idleMinutes: number }): Telling => ({
    log: { level: 'info', message: 'idle inference service leaves memory', fields: { idleMinutes } },
  }),
}

type Kind = keyof typeof tellings
type Facts<K extends Kind> = Parameters<(typeof tellings)[K]> extends [infer Given] ? Given : unknown

/** Something that happened to one service. */
export type Transition = { [K in Kind]: { readonly kind: K } & Readonly<Facts<K>> }[Kind]

export function tellingOf(transition: Transition): Telling {
  const tell: (transition: never) => Telling = tellings[transition.kind]
  return tell(transition as never)
}
