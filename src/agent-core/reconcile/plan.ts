import type { ServiceReason, ServiceState } from '../../contract/service.ts'
import { unknownDigest } from '../process/adoption.ts'
import type { Absence } from './absence.ts'
import { disagreementAfterMs } from './cluster-agreement.ts'
import type { Desired } from './desired.ts'

/** The model file of the wanted source. */
export type FetchView =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'running'
      readonly source: string
      /** Why no bytes arrive, or what happened. */ readonly message?: string
    }
  | { readonly kind: 'done'; readonly source: string }
  | {
      readonly kind: 'failed'
      readonly source: string
      readonly message: string
      /** Absent = only a change of the inputs helps. */
      readonly retryAt: number | undefined
    }

/** The one server process of the key. */
export type ServerView =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'starting'
      readonly digest: string
      /** In a row, before this start. */
      readonly failures: number
      readonly message: string
      /** An earlier agent started it: until it was asked, what is published stays. */
      readonly unasked?: boolean
      /** Only where it was found running. */
      readonly port?: number
    }
  | { readonly kind: 'ready'; readonly digest: string; readonly port: number }
  | { readonly kind: 'unready'; readonly digest: string; readonly port: number; readonly message: string }
  | {
      readonly kind: 'stopping'
      readonly message: string
      /** By itself, a moment ago; what is left of it is being collected. */
      readonly hasEnded?: boolean
    }
  | {
      readonly kind: 'failed'
      readonly digest: string
      readonly duringStart: boolean
      readonly message: string
      /** Failures in a row; the back-off counts them. */
      readonly failures: number
      readonly nextStartAt: number
    }

/** Whether a second server of a service may be there for as long as it takes the place of the first; `why`: the half of a sentence, or empty. */
export type Beside = { readonly allowed: true } | { readonly allowed: false; readonly why: string }

/** Whose the slice is, and what it and its companions say, as far as the caches know. */
export interface PublicationView {
  readonly claim:
    | 'unknown'
    | 'absent'
    | 'released'
    | 'dead'
    /** Ours, but for an earlier object of this name. */
    | 'previous'
    | 'ours'
    /** Ours, but not renewed for so long that another may have it: local work goes on, writes read first. */
    | 'uncertain'
    | 'foreign'
    | 'unclaimed'
    | 'overwritten'
    | 'taken'
  /** What a person should know about the claim; empty where it is plainly ours. */
  readonly message: string
  /** When time alone changes the claim. */
  readonly retryAt: number | undefined
  /** `adoptable`: an agent's, but not made for this very object. */
  readonly service: 'absent' | 'ours' | 'outdated' | 'adoptable' | 'taken'
  readonly serviceMessage: string
  /** What pods are told now. */
  readonly shown: { readonly address: string; readonly port: number; readonly ready: boolean } | undefined
  /** False while core/v1 Endpoints still tell something else. */
  readonly complete: boolean
  /** Slice or Endpoints of ours exist. */
  readonly present: boolean
}

export type MemoryReason = Extract<ServiceReason, 'InsufficientMemory' | 'MemoryCheckFailed' | 'MemoryPressure'>

export interface Observation {
  readonly now: number
  readonly desired: Desired
  readonly address: { readonly ip: string | undefined; readonly message: string }
  readonly fetch: FetchView
  readonly server: ServerView
  /** Started beside `server`, to take its place when it answers. */
  readonly successor: ServerView
  /** The server whose place was taken is still there: what it does. */
  readonly retiring: string | undefined
  /** Undefined = nobody asked yet. */
  readonly beside: Beside | undefined
  /** Why the wanted server would not fit even in place of the present one, as a sentence. */
  readonly instead: string | undefined
  /** Why the wanted server may not be started now. */
  readonly noMemory: { readonly reason: MemoryReason; readonly message: string } | undefined
  /** It is to leave memory, or has left it, and keeps its claim; a hold is part of what is desired. */
  readonly absent: Extract<Absence, { kind: 'idle' | 'displaced' }> | undefined
  /** Why the server was asked to stop; empty where it was not. */
  readonly stopReason: string
  readonly publication: PublicationView
  /** A person asked for a new server process. */
  readonly restartAsked: boolean
  /** A person paused this machine. */
  readonly paused: boolean
  /** The cluster did not take our last write: until then only local steps are possible. */
  readonly clusterRetry: { readonly at: number; readonly message: string } | undefined
  /** What the cluster says otherwise than it is here, as a sentence, and since when. */
  readonly disagreement?: { readonly message: string; readonly since: number } | undefined
  /** The part of a message that counts requests as they finish, and changes all the time. */
  readonly drainFigures?: string
}

/** What to do next; a step that takes long only begins, and its end brings the key back into the queue. */
export type Step =
  | { readonly do: 'claim' }
  | { readonly do: 'ensureService' }
  | { readonly do: 'fetch' }
  | { readonly do: 'cancelFetch' }
  /** How much memory the wanted server will hold, and whether it fits beside or in place of the present one. */
  | { readonly do: 'sizeUp' }
  | { readonly do: 'start' }
  /** The present server goes on. */
  | { readonly do: 'startBeside' }
  /** The successor answers for the service; the server before finishes its requests and stops. */
  | { readonly do: 'promote' }
  | { readonly do: 'dropSuccessor' }
  | { readonly do: 'publish'; readonly address: string; readonly port: number }
  | { readonly do: 'withdraw' }
  /** What an agent that is gone still promises. */
  | { readonly do: 'withdrawDead' }
  | { readonly do: 'stop' }
  /** Slice and Endpoints go, the Service and its ClusterIP stay. */
  | { readonly do: 'unpublish' }
  /** The claim is free for others at once, the slice stays. */
  | { readonly do: 'release' }
  /** All three go. */
  | { readonly do: 'remove' }
  | { readonly do: 'rest' }

export interface Plan {
  readonly step: Step
  readonly state: ServiceState
  readonly reason: ServiceReason
  readonly message: string
  /** When time alone changes the answer. */
  readonly retryAt: number | undefined
  /** True = this service is none of ours and has nothing left here: it is not shown at all. */
  readonly forget: boolean
}

/** From what is wanted and what is so to the one next step and the sentence that explains it. Pure: its table of tests is the contract. */
export function plan(observed: Observation): Plan {
  const next = withDisagreement(withNotice(nextStep(observed), observed.desired), observed)
  const mayMend = next.step.do === 'rest' && isHole(observed)
  if (!mayMend) return next
  return { ...next, step: { do: 'withdrawDead' }, message: next.message || observed.publication.message, forget: false }
}

/** Where it serves or cannot be started, which the notice may explain. */
function withNotice(next: Plan, wish: Desired): Plan {
  if (wish.kind !== 'serve' || wish.notice === undefined || next.step.do !== 'rest') return next
  const isTold = next.reason === 'Serving' || next.reason === 'StartFailed' || next.reason === 'CrashLooping'
  return isTold ? { ...next, message: `${next.message} ${wish.notice}` } : next
}

/** The controller gets a moment to take up what is published or withdrawn; after that people are told. */
function withDisagreement(next: Plan, { disagreement, now }: Observation): Plan {
  if (!disagreement || next.forget || next.step.do !== 'rest') return next
  const toldAt = disagreement.since + disagreementAfterMs
  if (now < toldAt) return { ...next, retryAt: Math.min(next.retryAt ?? Infinity, toldAt) }
  const reason = next.reason === 'Serving' ? 'ClusterDisagrees' : next.reason
  return { ...next, reason, message: `${next.message} ${disagreement.message}`.trim() }
}

/** Traffic flows to an agent that is gone, and nobody takes over. */
function isHole(observed: Observation): boolean {
  const { publication, desired } = observed
  if (desired.kind === 'unknown' || desired.kind === 'excluded') return false
  return publication.claim === 'dead' && publication.shown?.ready === true && isWritable(observed)
}

function nextStep(observed: Observation): Plan {
  const { desired } = observed
  switch (desired.kind) {
    case 'unknown':
      return rest('waiting', 'Pending', desired.message)
    case 'gone':
      return clear(observed, 'remove', desired.message) ?? forget()
    case 'notOurs':
    case 'excluded':
      return clear(observed, 'unpublish', desired.message) ?? forget()
    case 'held':
      return held(observed, desired.message)
    case 'stopped':
      return clear(observed, 'unpublish', desired.message) ?? rest('stopped', desired.reason, desired.message)
    case 'refused':
      return clear(observed, 'unpublish', desired.message) ?? rest('refused', desired.reason, desired.message)
    case 'modelMissing':
      return withoutModel(observed, desired)
    case 'serve':
      return serve(observed, desired)
  }
}

/** Down on this machine and free for another; without the cluster that is said as soon as it answers. */
function held(observed: Observation, why: string): Plan {
  const { publication, clusterRetry } = observed
  if (isHeld(publication) && !isAnyAlive(observed) && !isWritable(observed)) {
    return rest('stopped', 'Held', `${why} ${clusterRetry?.message ?? ''}`.trim(), clusterRetry?.at)
  }
  const elsewhere = isForeign(publication) ? ` ${publication.message}` : ''
  return clear(observed, 'release', why) ?? rest('stopped', 'Held', `${why}${elsewhere}`)
}

type Clearing = 'unpublish' | 'remove' | 'release'

/** Brings everything of ours down, the endpoint first; undefined when nothing is left. */
function clear(observed: Observation, how: Clearing, why: string): Plan | undefined {
  const leaving = leaveMemory(observed, why)
  if (leaving) return leaving
  if (!hasLeftovers(observed, how)) return undefined
  const writable = isWritable(observed)
  return writable ? act({ do: how }, 'stopping', 'Stopping', why) : unreachable(observed, 'stopping', 'Stopping')
}

/** Ends what is under way, withdraws the address, and stops the servers, in this order; undefined when nothing is left of them. */
function leaveMemory(
  observed: Observation,
  why: string,
  { keepsFetch = false, as = ['stopping', 'Stopping'] }: LeavingHow = {},
): Plan | undefined {
  const { publication, fetch } = observed
  if (fetch.kind === 'running' && !keepsFetch) return act({ do: 'cancelFetch' }, ...as, why)
  if (publication.shown?.ready === true && isWritable(observed)) {
    if (isHeld(publication)) return act({ do: 'withdraw' }, ...as, why)
    if (publication.claim === 'previous') return act({ do: 'unpublish' }, ...as, why)
  }
  if (hasRunning(observed)) return act({ do: 'stop' }, ...as, why)
  const stopping = stoppingMessage(observed)
  return stopping === undefined ? undefined : rest(...as, `${why} ${stopping}`)
}

interface LeavingHow {
  /** It asks for memory again soon, and will want the model. */
  readonly keepsFetch?: boolean
  /** What people see meanwhile. */
  readonly as?: readonly [ServiceState, ServiceReason]
}

/** What another agent holds is for that agent to remove, and for garbage collection where it is gone too. */
function hasLeftovers({ publication, desired }: Observation, how: Clearing): boolean {
  if (how === 'release') return isHeld(publication)
  if (isForeign(publication) || publication.claim === 'dead') return false
  if (desired.kind === 'excluded' && publication.claim === 'released') return false
  return publication.present || (how === 'remove' && isOurService(publication))
}

type ModelMissing = Extract<Desired, { kind: 'modelMissing' }>

/** A Model that is gone takes nothing from a server that has it in memory. */
function withoutModel(observed: Observation, { message, graceEndsAt = 0 }: ModelMissing): Plan {
  const { server, publication, now } = observed
  if (isHeld(publication) && (server.kind === 'ready' || server.kind === 'unready' || isTrusted(server))) {
    const kept = `${message} The server keeps the model it loaded, but could not be started again.`
    if (observed.paused) return whilePaused(observed)
    if (isRunning(observed.successor)) return act({ do: 'dropSuccessor' }, ...shownAs(observed, server), kept)
    return { ...answerStep(observed, server), message: kept }
  }
  const cleared = clear(observed, 'unpublish', message)
  if (cleared) return cleared
  // Nobody knows yet whether the service is one for a Mac.
  if (now < graceEndsAt) return { ...forget(), retryAt: graceEndsAt }
  return rest('waiting', 'ModelMissing', message)
}

type Serve = Extract<Desired, { kind: 'serve' }>

function serve(observed: Observation, desired: Serve): Plan {
  const { publication, address, server, now } = observed
  if (isForeign(publication)) return yieldTo(observed)
  const taken = takenBy(publication)
  if (taken !== undefined) {
    return clear(observed, 'unpublish', taken) ?? rest('refused', 'ServiceNameTaken', taken, publication.retryAt)
  }
  if (publication.claim === 'unknown') return rest('waiting', 'Pending', publication.message)
  if (observed.paused) return whilePaused(observed)
  if (address.ip === undefined && !isAlive(server)) return rest('waiting', 'NoHostAddress', address.message)
  if (!isHeld(publication)) {
    if (!isWritable(observed)) return unreachable(observed, 'waiting', 'Pending')
    if (publication.retryAt !== undefined && publication.retryAt > now) {
      return rest('waiting', 'Pending', publication.message, publication.retryAt)
    }
    return act({ do: 'claim' }, 'waiting', 'Pending', 'Claiming the service for this machine.')
  }
  if (publication.service !== 'ours' && isWritable(observed)) {
    return act({ do: 'ensureService' }, 'waiting', 'Pending', 'Creating the Service.')
  }
  if (observed.absent) return staysAway(observed, observed.absent)
  return (
    takeOverStep(observed, desired) ??
    withdrawSilent(observed) ??
    fetchStep(observed, desired) ??
    serverStep(observed, desired)
  )
}

/** It leaves memory and keeps the claim: on another machine it would be as idle, and memory that was freed is the winner's. */
function staysAway(observed: Observation, { kind, message: why }: NonNullable<Observation['absent']>): Plan {
  if (kind === 'displaced') {
    return leaveMemory(observed, why, { keepsFetch: true }) ?? rest('waiting', 'InsufficientMemory', why)
  }
  const { publication, server, fetch } = observed
  const isShown = publication.shown?.ready === true && server.kind === 'ready'
  // Nothing is short: where the cluster cannot be told that it is gone, it stays for now.
  if (isShown && !isWritable(observed) && fetch.kind !== 'running') return unreachable(observed, 'ready', 'Serving')
  return leaveMemory(observed, why) ?? rest('stopped', 'Idle', `${why} It serves again as soon as it is started.`)
}

/** A successor that answers gets the traffic, and then the place; one whose predecessor is gone gets the place at once. */
function takeOverStep(observed: Observation, { digest }: Serve): Plan | undefined {
  const { server, successor, publication, address } = observed
  if (!isRunning(successor) || successor.digest !== digest) return undefined
  if (!isAlive(server)) {
    return act({ do: 'promote' }, 'starting', 'Starting', `The server before is gone. ${messageOf(successor)}`)
  }
  if (successor.kind !== 'ready' || address.ip === undefined || !isWritable(observed)) return undefined
  const { port } = successor
  const isFlipped = isPublished(publication, { address: address.ip, port })
  const step: Step = isFlipped ? { do: 'promote' } : { do: 'publish', address: address.ip, port }
  return act(
    step,
    ...shownAs(observed, server),
    'The new server answers and takes over; the one before finishes and stops.',
  )
}

const messageOf = (server: Running): string => (server.kind === 'ready' ? 'The new one answers.' : server.message)

/** Nothing is begun and nothing is ended, but for the address: pods are not sent here. */
function whilePaused(observed: Observation): Plan {
  const { server, publication } = observed
  const loaded = server.kind === 'ready' || server.kind === 'starting' || server.kind === 'unready'
  const [state, message] = loaded
    ? (['unready', 'This machine is paused: the model stays in memory, and no requests are sent here.'] as const)
    : (['waiting', 'This machine is paused: nothing is started until it is resumed.'] as const)
  if (!isHeld(publication) || publication.shown?.ready !== true) return rest(state, 'Paused', message)
  return isWritable(observed)
    ? act({ do: 'withdraw' }, state, 'Paused', message)
    : unreachable(observed, state, 'Paused')
}

/** Whatever else is to be done, and however long it takes: pods are not sent to a server that does not answer. */
function withdrawSilent(observed: Observation): Plan | undefined {
  const { server, publication } = observed
  if (server.kind === 'ready' || publication.shown?.ready !== true || !isWritable(observed)) return undefined
  if (isTrusted(server) || leadsToSuccessor(observed)) return undefined
  const [state, reason, message] = withoutAnswer(server)
  return act({ do: 'withdraw' }, state, reason, message)
}

/** An agent ended between the publication of the new port and the rest of the swap. */
function leadsToSuccessor({ successor, publication: { shown } }: Observation): boolean {
  const answers = successor.kind === 'ready' || isTrusted(successor)
  return answers && shown?.ready === true && shown.port === successor.port
}

/** It served when its agent ended, and nothing says yet that it does not any more. */
const isTrusted = (server: ServerView): server is Extract<ServerView, { kind: 'starting' }> =>
  server.kind === 'starting' && server.unasked === true

/** What a server that does not answer is shown as. */
function withoutAnswer(
  server: Exclude<ServerView, { kind: 'ready' }>,
): readonly [state: ServiceState, reason: ServiceReason, message: string] {
  switch (server.kind) {
    case 'none':
      return ['starting', 'Starting', 'Starting the server.']
    case 'starting':
      return [
        'starting',
        'Starting',
        isCrashLoop(server) ? `${failedSoOften(server)}. ${server.message}` : server.message,
      ]
    case 'unready':
      return ['unready', 'Starting', server.message]
    case 'stopping':
      return ['stopping', 'Stopping', server.message]
    case 'failed':
      return isCrashLoop(server)
        ? ['crash-looping', 'CrashLooping', crashLoopMessage(server)]
        : ['waiting', server.duringStart ? 'StartFailed' : 'Starting', server.message]
  }
}

/** One failure may be chance. */
export const isCrashLoop = ({ failures }: { readonly failures: number }): boolean => failures > 1

/** The same from the failure to the next attempt, so that it is written once. */
export const crashLoopMessage = (failure: {
  readonly failures: number
  readonly nextStartAt: number
  readonly message: string
}): string => `${failedSoOften(failure)}, next attempt at ${clockTime(failure.nextStartAt)}: ${failure.message}`

const failedSoOften = ({ failures }: { readonly failures: number }): string => `Failed ${failures} times in a row`

/** Such as 14:03:20Z. */
const clockTime = (at: number): string => `${new Date(at).toISOString().slice(11, 19)}Z`

/** Another agent answers for this service: ours must not. */
function yieldTo(observed: Observation): Plan {
  const { claim, message, retryAt } = observed.publication
  const as = ['foreign', claim === 'foreign' ? 'ClaimedElsewhere' : 'ClaimOverwritten'] as const
  const leaving = leaveMemory(observed, message, { as })
  return leaving && leaving.step.do !== 'rest' ? leaving : rest(...as, message, retryAt)
}

/** Undefined once the wanted model is here. The old server, if any, keeps serving meanwhile. */
function fetchStep(observed: Observation, { source, digest }: Serve): Plan | undefined {
  const { fetch, server, successor, now, restartAsked } = observed
  if (isRunning(successor) && successor.digest === digest) return undefined
  if (isRunning(server) && server.digest === digest && !restartAsked && successor.kind === 'none') return undefined
  const serving = server.kind === 'ready' ? ' The previous model keeps serving until then.' : ''
  if (fetch.kind !== 'none' && fetch.source !== source) {
    return fetch.kind === 'running'
      ? act({ do: 'cancelFetch' }, 'fetching', 'Fetching', 'Dropping the previous download.')
      : act({ do: 'fetch' }, 'fetching', 'Fetching', `Fetching the model.${serving}`)
  }
  switch (fetch.kind) {
    case 'done':
      return undefined
    case 'none':
      return act({ do: 'fetch' }, 'fetching', 'Fetching', `Fetching the model.${serving}`)
    case 'running':
      return rest(
        'fetching',
        'Fetching',
        `Fetching the model.${fetch.message === undefined ? '' : ` ${fetch.message}`}${serving}`,
      )
    case 'failed':
      if (fetch.retryAt === undefined) return rest('refused', 'FetchFailed', `${fetch.message}${serving}`)
      return fetch.retryAt <= now
        ? act({ do: 'fetch' }, 'fetching', 'Fetching', `Fetching the model.${serving}`)
        : rest('waiting', 'FetchFailed', `${fetch.message}${serving}`, fetch.retryAt)
  }
}

function serverStep(observed: Observation, desired: Serve): Plan {
  const { server, successor, publication, now, stopReason } = observed
  const dropped = dropStep(observed, desired)
  if (dropped) return dropped
  const leaving = successor.kind === 'stopping' ? successor.message : observed.retiring
  switch (server.kind) {
    case 'none':
      if (leaving !== undefined) return rest('starting', 'Starting', leaving)
      return withoutMemory(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server.')
    case 'stopping':
      return rest('stopping', 'Stopping', `${stopReason} ${server.message}`.trim())
    case 'failed':
      if (leaving !== undefined) {
        return rest(...withoutAnswer(server), server.nextStartAt > now ? server.nextStartAt : undefined)
      }
      return server.digest !== desired.digest || server.nextStartAt <= now
        ? (withoutMemory(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server again.'))
        : rest(...withoutAnswer(server), server.nextStartAt)
    case 'starting':
    case 'unready':
    case 'ready':
      break
  }
  const isReplaced = server.digest !== desired.digest || observed.restartAsked || successor.kind !== 'none'
  if (!isReplaced) return answerStep(observed, server)
  if (isUnsettled(observed)) return unsettled(observed, server, desired.settlesAt)
  const isAlone = (successor.kind === 'none' || successor.kind === 'failed') && observed.retiring === undefined
  if (observed.beside === undefined && isAlone) {
    return act({ do: 'sizeUp' }, ...shownAs(observed, server), `${whyRestarted(observed, server)}.`)
  }
  const meanwhile = whileReplaced(observed, server)
  if (meanwhile) return meanwhile
  if (observed.instead !== undefined) return goingOn(observed, server, observed.instead)
  if (server.kind === 'ready' && observed.beside?.allowed === true) {
    return act({ do: 'startBeside' }, ...shownAs(observed, server), `${whyRestarted(observed, server)}.`)
  }
  const step = isWritable(observed) && publication.shown?.ready === true ? 'withdraw' : 'stop'
  return act({ do: step }, 'stopping', 'Stopping', whyStopped(observed, server))
}

/** It is asked again when memory is freed, not by the clock. */
const withoutMemory = ({ noMemory }: Observation): Plan | undefined =>
  noMemory && rest('waiting', noMemory.reason, noMemory.message)

/** A successor that nobody wants any more. */
function dropStep(observed: Observation, { digest }: Serve): Plan | undefined {
  const { server, successor } = observed
  if (successor.kind === 'none' || successor.kind === 'stopping') return undefined
  if (successor.digest === digest || isUnsettled(observed)) return undefined
  const as = isRunning(server) ? shownAs(observed, server) : (['starting', 'Starting'] as const)
  return act(
    { do: 'dropSuccessor' },
    ...as,
    'The specification changed again: the server of the one before is dropped.',
  )
}

/** The present server goes on as long as another is on its way to its place, or waits for its next attempt. */
function whileReplaced(observed: Observation, server: Running): Plan | undefined {
  const { successor, retiring, restartAsked, now, beside } = observed
  if (successor.kind === 'stopping') return goingOn(observed, server, successor.message)
  if (isRunning(successor)) {
    return goingOn(
      observed,
      server,
      `The new server is started beside it and takes over when it answers. ${messageOf(successor)}`,
    )
  }
  if (successor.kind === 'failed' && !restartAsked && now < successor.nextStartAt) {
    return goingOn(observed, server, successorFailedMessage(successor), successor.nextStartAt)
  }
  if (retiring !== undefined) return goingOn(observed, server, retiring)
  return isTrusted(server) && beside?.allowed === true ? answerStep(observed, server) : undefined
}

/** The same from the failure to the next attempt, so that it is written once. */
export const successorFailedMessage = ({ message, nextStartAt }: { message: string; nextStartAt: number }): string =>
  `The new server cannot be started: ${message} The previous server keeps serving. Next attempt at ${clockTime(nextStartAt)}.`

function goingOn(observed: Observation, server: Running, sentence: string, retryAt?: number): Plan {
  if (leadsToSuccessor(observed)) return rest(...shownAs(observed, server), sentence, retryAt)
  const next = answerStep(observed, server)
  return next.step.do === 'rest'
    ? { ...next, message: `${next.message} ${sentence}`, retryAt: retryAt ?? next.retryAt }
    : next
}

/** What people see of a server while something is done about it that does not touch it. */
function shownAs(observed: Observation, server: ServerView): readonly [ServiceState, ServiceReason] {
  if (server.kind === 'ready' || leadsToSuccessor(observed)) return ['ready', 'Serving']
  const [state, reason] = withoutAnswer(server)
  return [state, reason]
}

function whyRestarted({ restartAsked }: Observation, { digest }: Running): string {
  if (restartAsked) return 'The server is restarted, as somebody asked for it'
  if (digest !== unknownDigest) return 'The specification changed: the server is restarted with it'
  return 'It is not certain what the server found running was started with: it is restarted'
}

function whyStopped(observed: Observation, server: Running): string {
  const { beside } = observed
  const why = whyRestarted(observed, server)
  if (beside === undefined || beside.allowed || beside.why === '' || server.kind !== 'ready') return `${why}.`
  return `${why}; ${beside.why}: the old one is stopped first.`
}

/** Pods are told of a server that answers, and only of one. */
function answerStep(observed: Observation, server: Running): Plan {
  if (server.kind === 'ready') return publishStep(observed, server.port, observed.address)
  const told = observed.publication.shown?.ready === true && isWritable(observed) && !isTrusted(server)
  const [state, reason, message] = withoutAnswer(server)
  return told ? act({ do: 'withdraw' }, state, reason, message) : rest(state, reason, message)
}

type Running = Extract<ServerView, { kind: 'starting' | 'ready' | 'unready' }>

/** Too early to act on a change, and to write about it. */
export const isUnsettled = ({ desired, server, now }: Observation): boolean =>
  desired.kind === 'serve' &&
  now < (desired.settlesAt ?? 0) &&
  (server.kind === 'ready' || server.kind === 'starting' || server.kind === 'unready') &&
  server.digest !== desired.digest

/** What runs goes on while somebody may still be editing. */
function unsettled({ publication: { shown } }: Observation, server: Running, until: number | undefined): Plan {
  if (server.kind !== 'ready') return rest(...withoutAnswer(server), until)
  const where = shown?.ready === true ? ` at ${shown.address}:${shown.port}` : ''
  return rest(
    'ready',
    'Serving',
    `Serving${where}; the specification changed, and the server is about to be restarted.`,
    until,
  )
}

const isPublished = ({ shown, complete }: PublicationView, where: { address: string; port: number }): boolean =>
  shown?.ready === true && shown.address === where.address && shown.port === where.port && complete

function publishStep(observed: Observation, port: number, address: Observation['address']): Plan {
  const { shown, message } = observed.publication
  if (address.ip === undefined) {
    return shown?.ready === true && isWritable(observed)
      ? act({ do: 'withdraw' }, 'unready', 'NoHostAddress', address.message)
      : rest('unready', 'NoHostAddress', address.message)
  }
  const serving = `Serving at ${address.ip}:${port}.`
  if (isPublished(observed.publication, { address: address.ip, port })) {
    return rest('ready', 'Serving', message === '' ? serving : `${serving} ${message}`)
  }
  return isWritable(observed)
    ? act(
        { do: 'publish', address: address.ip, port },
        'starting',
        'Starting',
        'The server answers; publishing its address.',
      )
    : unreachable(observed, 'unready', 'Starting')
}

/** Local promises are kept while the cluster is away; what needs it waits, and says so. */
function unreachable(observed: Observation, state: ServiceState, reason: ServiceReason): Plan {
  return rest(
    state,
    reason,
    observed.clusterRetry?.message ?? 'The cluster does not answer.',
    observed.clusterRetry?.at,
  )
}

const isHeld = ({ claim }: PublicationView): boolean => claim === 'ours' || claim === 'uncertain'

const isForeign = ({ claim }: PublicationView): boolean =>
  claim === 'foreign' || claim === 'unclaimed' || claim === 'overwritten'

const takenBy = ({ claim, message, service, serviceMessage }: PublicationView): string | undefined =>
  claim === 'taken' ? message : service === 'taken' ? serviceMessage : undefined

const isWritable = ({ clusterRetry, now }: Observation): boolean => clusterRetry === undefined || clusterRetry.at <= now

const isAlive = (
  server: ServerView,
): server is Extract<ServerView, { kind: 'starting' | 'ready' | 'unready' | 'stopping' }> =>
  server.kind === 'starting' || server.kind === 'ready' || server.kind === 'unready' || server.kind === 'stopping'

const isRunning = (server: ServerView): server is Running => isAlive(server) && server.kind !== 'stopping'

const hasRunning = ({ server, successor }: Observation): boolean => isRunning(server) || isRunning(successor)

const isAnyAlive = (observed: Observation): boolean => hasRunning(observed) || stoppingMessage(observed) !== undefined

/** Of the servers that are on their way to their end, if any is. */
const stoppingMessage = ({ server, successor, retiring }: Observation): string | undefined =>
  server.kind === 'stopping' ? server.message : successor.kind === 'stopping' ? successor.message : retiring

const isOurService = ({ service }: PublicationView): boolean => service === 'ours' || service === 'outdated'

const act = (step: Step, state: ServiceState, reason: ServiceReason, message: string): Plan => ({
  step,
  state,
  reason,
  message,
  retryAt: undefined,
  forget: false,
})

const rest = (state: ServiceState, reason: ServiceReason, message: string, retryAt?: number): Plan => ({
  step: { do: 'rest' },
  state,
  reason,
  message,
  retryAt,
  forget: false,
})

const forget = (): Plan => ({ ...rest('stopped', 'Stopped', ''), forget: true })
