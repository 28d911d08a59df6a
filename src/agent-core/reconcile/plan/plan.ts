import type { Desired } from '../desired.ts'
import {
  answersPods,
  hasRunning,
  isAlive,
  isAnyAlive,
  isForeign,
  isHeld,
  isMisplaced,
  isModelWanted,
  isOurService,
  isPublished,
  isRunning,
  isTrusted,
  isUnsettled,
  isWritable,
  leadsToSuccessor,
  type Running,
  type Serve,
  shownAs,
  startMessageOf,
  stoppingMessage,
  successorFailedMessage,
  takenBy,
  whyRestarted,
  whyStopped,
  withoutAnswer,
} from './facts.ts'
import {
  act,
  disagreementAfterMs,
  forget,
  type Observation,
  type Plan,
  rest,
  type ServerView,
  type Silence,
  type Step,
  unreachable,
  type Unreached,
} from './observation.ts'
import { isBasedOn } from '../../runtimes/resolution.ts'
import { unknownDigest } from '../../servers/adoption.ts'
import type { ServiceReason, ServiceState } from '../../../contract/service.ts'

/** Published is a server that answers, and only one. */
function answerStep(observed: Observation, server: Running): Plan {
  if (server.kind === 'ready') return publishStep(observed, server.port, observed.address)
  const isPublished = observed.publication.shown?.ready === true && isWritable(observed) && !isTrusted(server)
  const [state, reason, message] = withoutAnswer(server)
  return isPublished ? act({ do: 'withdraw' }, state, reason, message) : rest(state, reason, message)
}

function publishStep(observed: Observation, port: number, address: Observation['address']): Plan {
  const { shown, message, mendAt, retryAt } = observed.publication
  if (address.ip === undefined) {
    return shown?.ready === true && isWritable(observed)
      ? act({ do: 'withdraw' }, 'unready', 'NoHostAddress', address.message)
      : rest('unready', 'NoHostAddress', address.message)
  }
  const serving = [servingSentence(observed, port), address.warning, message]
  const unreached = observed.unreached?.server
  if (unreached?.kind === 'unknown') {
    const isShown = shown?.ready === true && shown.address === address.ip && shown.port === port
    return isShown ? rest('ready', 'Serving', serving.filter(Boolean).join(' ')) : unready(unreached)
  }
  if (unreached) {
    const isShown = shown?.ready === true && isWritable(observed)
    return isShown ? act({ do: 'withdraw' }, 'unready', unreached.reason, unreached.message) : unready(unreached)
  }
  if (isPublished(observed.publication, { address: address.ip, port })) {
    return rest('ready', 'Serving', serving.filter(Boolean).join(' '), retryAt)
  }
  if (mendAt !== undefined && mendAt > observed.now) return rest('unready', 'Starting', message, mendAt)
  return isWritable(observed)
    ? act(
        { do: 'publish', address: address.ip, port },
        'starting',
        'Starting',
        'The server answers; publishing its address.',
      )
    : unreachable(observed, 'unready', 'Starting')
}

const servingSentence = ({ address: { ip }, relayPort }: Observation, port: number): string =>
  relayPort === undefined
    ? `Serving at ${ip}:${port}.`
    : `Serving through LLMKube's relay, which reaches this machine at ${ip}:${relayPort}.`

const unready = ({ reason, message }: Unreached): Plan => rest('unready', reason, message)

/** Whatever else is to be done, and however long it takes: pods are not sent to a server that does not answer. */
export function withdrawSilent(observed: Observation): Plan | undefined {
  const { server, publication } = observed
  if (server.kind === 'ready' || publication.shown?.ready !== true || !isWritable(observed)) return undefined
  if (isTrusted(server) || leadsToSuccessor(observed)) return undefined
  const [state, reason, message] = withoutAnswer(server)
  return act({ do: 'withdraw' }, state, reason, message)
}

type Clearing = 'unpublish' | 'remove' | 'release'

/** Brings everything of ours down, the endpoint first; undefined when nothing is left. */
function clear(observed: Observation, how: Clearing, why: string): Plan | undefined {
  const leaving = leaveMemory(observed, why, { waitsForWithdrawal: how !== 'release' })
  if (leaving) return leaving
  if (!hasLeftovers(observed, how)) return undefined
  const writable = isWritable(observed)
  return writable ? act({ do: how }, 'stopping', 'Stopping', why) : unreachable(observed, 'stopping', 'Stopping')
}

interface LeavingHow {
  /** Nothing here needs its memory: as long as the cluster refuses the withdrawal, and so sends pods here, it answers them. */
  readonly waitsForWithdrawal?: boolean
  /** What people see meanwhile. */
  readonly as?: readonly [ServiceState, ServiceReason]
}

/** Withdraws the address, then stops the servers; undefined when nothing is left of them. */
function leaveMemory(
  observed: Observation,
  why: string,
  { waitsForWithdrawal = false, as = ['stopping', 'Stopping'] }: LeavingHow = {},
): Plan | undefined {
  const { publication, clusterRetry } = observed
  if (publication.shown?.ready === true && isWritable(observed)) {
    if (isHeld(publication)) return act({ do: 'withdraw' }, ...as, why)
    if (publication.claim === 'previous') return act({ do: 'unpublish' }, ...as, why)
  }
  if (waitsForWithdrawal && clusterRetry?.isRefusal === true && isHeld(publication) && answersPods(observed)) {
    return rest(...as, `${why} ${clusterRetry.message}`, clusterRetry.at)
  }
  if (hasRunning(observed)) return act({ do: 'stop' }, ...as, why)
  const stopping = stoppingMessage(observed)
  return stopping === undefined ? undefined : rest(...as, `${why} ${stopping}`)
}

/** What another agent holds is for that agent to remove, and for garbage collection where it is gone too. */
function hasLeftovers({ publication, desired }: Observation, how: Clearing): boolean {
  if (how === 'release') return isHeld(publication)
  if (isForeign(publication) || publication.claim === 'dead') return false
  if (desired.kind === 'excluded' && publication.claim === 'released') return false
  return publication.present || (how === 'remove' && isOurService(publication))
}

type HeldBack = Extract<Observation['desired'], { kind: 'held' }>

/** Down on this machine and free for another; without the cluster that is said as soon as it answers. */
function held(observed: Observation, { reason, message: why }: HeldBack): Plan {
  const { publication, clusterRetry } = observed
  if (isHeld(publication) && !isAnyAlive(observed) && !isWritable(observed)) {
    return rest('stopped', reason, `${why} ${clusterRetry?.message ?? ''}`.trim(), clusterRetry?.at)
  }
  const elsewhere = isForeign(publication) ? ` ${publication.message}` : ''
  return clear(observed, 'release', why) ?? rest('stopped', reason, `${why}${elsewhere}`)
}

/** It leaves memory and keeps the claim: on another machine it would be as idle. */
function staysAway(observed: Observation, { message: why }: NonNullable<Observation['unloaded']>): Plan {
  const { publication, server } = observed
  const isShown = publication.shown?.ready === true && server.kind === 'ready'
  // Nothing is short: where it cannot be withdrawn from the cluster, it stays for now.
  if (isShown && !isWritable(observed)) return unreachable(observed, 'ready', 'Serving')
  return leaveMemory(observed, why) ?? rest('stopped', 'Idle', `${why} It serves again as soon as it is started.`)
}

/** Another agent answers for this service: ours must not. */
function yieldTo(observed: Observation): Plan {
  const { claim, message, retryAt } = observed.publication
  const as = ['foreign', claim === 'foreign' ? 'ClaimedElsewhere' : 'ClaimOverwritten'] as const
  const leaving = leaveMemory(observed, message, { as })
  return leaving && leaving.step.do !== 'rest' ? leaving : rest(...as, message, retryAt)
}

/** Undefined once the desired model is here. The old server, if any, keeps serving meanwhile. */
function fetchStep(observed: Observation, { digest }: Serve): Plan | undefined {
  const { fetch, server, successor, now, restartAsked } = observed
  if (isRunning(successor) && successor.digest === digest) return undefined
  const isKept = isRunning(server) && server.digest === digest && !restartAsked && !isMisplaced(observed)
  if (isKept && successor.kind === 'none') return undefined
  const serving = server.kind === 'ready' ? ' The previous model keeps serving until then.' : ''
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

/**
 * A successor that answers gets the traffic, and then the place; where its predecessor is gone, it gets the place at once. A swap whose
 * successor is already published is finished even if the spec changed back meanwhile: the server that answers Pods is not taken away,
 * and the spec of now is the next swap.
 */
function takeOverStep(observed: Observation, digest?: string): Plan | undefined {
  const { server, successor, publication, address } = observed
  if (!isRunning(successor) || (successor.digest !== digest && !leadsToSuccessor(observed))) return undefined
  if (!isAlive(server)) {
    return act({ do: 'promote' }, 'starting', 'Starting', `The previous server is gone. ${startMessageOf(successor)}`)
  }
  if (successor.kind !== 'ready' || address.ip === undefined || !isWritable(observed)) return undefined
  const { port } = successor
  const isFlipped = isPublished(publication, { address: address.ip, port })
  // Pods are not sent to it before they reach it.
  if (!isFlipped && observed.unreached?.successor) return undefined
  const step: Step = isFlipped ? { do: 'promote' } : { do: 'publish', address: address.ip, port }
  return act(
    step,
    ...shownAs(observed, server),
    'The new server answers and takes over; the previous one finishes and stops.',
  )
}

/** Stops a successor whose spec is out of date. */
function dropStep(observed: Observation, { digest }: Serve): Plan | undefined {
  const { server, successor } = observed
  if (successor.kind === 'none' || successor.kind === 'stopping') return undefined
  const isWanted = successor.digest === digest && !isMisplaced(observed, 'successor')
  if (isWanted || isUnsettled(observed) || leadsToSuccessor(observed)) return undefined
  const as = isRunning(server) ? shownAs(observed, server) : (['starting', 'Starting'] as const)
  return act(
    { do: 'dropSuccessor' },
    ...as,
    'The specification changed again: the server that was starting for the previous one is dropped.',
  )
}

/** Beside the present server where there is room, in its place where there is not, and not at all where it would not fit either. */
function replaceStep(observed: Observation, server: Running, desired: Serve): Plan {
  const { publication } = observed
  if (isUnsettled(observed)) return unsettled(observed, server, desired.settlesAt)
  const meanwhile = whileReplaced(observed, server)
  if (meanwhile) return meanwhile
  if (observed.beside === undefined) {
    return act({ do: 'sizeUp' }, ...shownAs(observed, server), `${whyRestarted(observed, server)}.`)
  }
  if (observed.instead !== undefined) return goingOn(observed, server, observed.instead)
  if (server.kind === 'ready' && observed.beside.allowed) {
    return act({ do: 'startBeside' }, ...shownAs(observed, server), `${whyRestarted(observed, server)}.`)
  }
  if (!isOther(observed, server, desired)) return answerStep(observed, server)
  const isPublished = publication.shown?.ready === true
  // A server is withdrawn before it is stopped.
  if (isPublished && !isWritable(observed) && (server.kind === 'ready' || isTrusted(server))) {
    const { message, at } = observed.clusterRetry ?? {}
    return rest(...shownAs(observed, server), `${whyStopped(observed, server)} ${message ?? ''}`.trim(), at)
  }
  return act(
    { do: isPublished && isWritable(observed) ? 'withdraw' : 'stop' },
    'stopping',
    'Stopping',
    whyStopped(observed, server),
  )
}

/** The current server keeps serving while its successor starts, or waits for its next attempt. */
function whileReplaced(observed: Observation, server: Running): Plan | undefined {
  const { successor, retiring, restartAsked, now, beside } = observed
  if (successor.kind === 'stopping') return goingOn(observed, server, successor.message)
  if (isRunning(successor)) {
    return goingOn(
      observed,
      server,
      `The new server is started beside it and takes over when it answers. ${startMessageOf(successor)}`,
    )
  }
  if (successor.kind === 'failed' && !restartAsked && now < successor.nextStartAt) {
    return goingOn(observed, server, successorFailedMessage(successor), successor.nextStartAt)
  }
  if (retiring !== undefined) return goingOn(observed, server, retiring)
  return isTrusted(server) && beside?.allowed === true ? answerStep(observed, server) : undefined
}

function goingOn(observed: Observation, server: Running, sentence: string, retryAt?: number): Plan {
  if (leadsToSuccessor(observed)) return rest(...shownAs(observed, server), sentence, retryAt)
  const next = answerStep(observed, server)
  return next.step.do === 'rest'
    ? { ...next, message: `${next.message} ${sentence}`, retryAt: retryAt ?? next.retryAt }
    : next
}

/** The running server stays while a person may still be editing the spec. */
function unsettled(observed: Observation, server: Running, until: number | undefined): Plan {
  if (server.kind !== 'ready') return rest(...withoutAnswer(server), until)
  return goingOn(observed, server, 'The specification changed, and the server is about to be restarted.', until)
}

function serve(observed: Observation, desired: Serve): Plan {
  const { publication, address, server, now } = observed
  if (isForeign(publication)) return yieldTo(observed)
  const taken = takenBy(publication)
  if (taken !== undefined) {
    return (
      clear(observed, 'unpublish', taken) ??
      rest(
        'refused',
        publication.isNameTooLong === true ? 'ServiceNameTooLong' : 'ServiceNameTaken',
        taken,
        publication.retryAt,
      )
    )
  }
  if (publication.claim === 'unknown') return rest('waiting', 'Pending', publication.message)
  const quiet = quietOf(observed)
  if (quiet) return whileQuiet(observed, quiet)
  if (address.ip === undefined && !isAlive(server)) {
    const silent = isHeld(publication) ? withdrawSilent(observed) : undefined
    return silent ?? rest('waiting', 'NoHostAddress', address.message)
  }
  if (!isHeld(publication)) {
    if (!isWritable(observed)) return unreachable(observed, 'waiting', 'Pending')
    if (publication.retryAt !== undefined && publication.retryAt > now) {
      return rest('waiting', 'Pending', publication.message, publication.retryAt)
    }
    return act({ do: 'claim' }, 'waiting', 'Pending', 'Claiming the service for this machine.')
  }
  return withService(heldStep(observed, desired), observed)
}

const heldStep = (observed: Observation, desired: Serve): Plan =>
  observed.unloaded
    ? staysAway(observed, observed.unloaded)
    : (takeOverStep(observed, desired.digest) ??
      withdrawSilent(observed) ??
      whileFetched(observed, desired) ??
      serverStep(observed, desired))

/** A download may take hours: the server that answers meanwhile stays published, and no other. */
function whileFetched(observed: Observation, desired: Serve): Plan | undefined {
  const fetching = fetchStep(observed, desired)
  const { server } = observed
  if (fetching?.step.do !== 'rest' || server.kind !== 'ready' || leadsToSuccessor(observed)) return fetching
  const next = answerStep(observed, server)
  return next.step.do === 'rest' ? fetching : next
}

/** Where traffic goes is put right first: a Service that cannot be written holds up neither a withdrawal nor a publication. */
function withService(next: Plan, observed: Observation): Plan {
  const { publication, serviceRetry, now } = observed
  const { service, serviceEdits: edits } = publication
  if (next.step.do === 'withdraw' || next.step.do === 'publish') return next
  const mayWrite = (serviceRetry?.at ?? 0) <= now && (edits?.mendAt ?? 0) <= now
  if (service !== 'ours' && isWritable(observed) && mayWrite) {
    return act({ do: 'ensureService' }, next.state, next.reason, 'Writing the Service.')
  }
  if (next.step.do !== 'rest') return next
  const explained = edits ? { ...next, message: `${next.message} ${edits.message}` } : next
  const at = Math.min(serviceRetry?.at ?? Infinity, edits && edits.mendAt > now ? edits.mendAt : Infinity)
  if (service === 'ours' || at === Infinity) return explained
  const isReached = next.state !== 'ready' || service !== 'absent'
  return {
    ...explained,
    ...(isReached ? {} : ({ state: 'unready', reason: 'Starting' } as const)),
    message: serviceRetry ? `${explained.message} ${serviceRetry.message}` : explained.message,
    retryAt: Math.min(next.retryAt ?? Infinity, at),
  }
}

function serverStep(observed: Observation, desired: Serve): Plan {
  const { server, successor, now, stopReason } = observed
  const dropped = dropStep(observed, desired)
  if (dropped) return dropped
  const leaving = successor.kind === 'stopping' ? successor.message : observed.retiring
  switch (server.kind) {
    case 'none':
      if (leaving !== undefined) return rest('starting', 'Starting', leaving)
      return heldByObstacle(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server.')
    case 'stopping':
      return rest('stopping', 'Stopping', `${stopReason} ${server.message}`.trim())
    case 'failed':
      if (leaving !== undefined) {
        return rest(...withoutAnswer(server), server.nextStartAt > now ? server.nextStartAt : undefined)
      }
      return server.digest !== desired.digest || server.nextStartAt <= now
        ? (heldByObstacle(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server again.'))
        : rest(...withoutAnswer(server), server.nextStartAt)
    case 'starting':
    case 'unready':
    case 'ready':
      break
  }
  if (isOther(observed, server, desired) || successor.kind !== 'none') return replaceStep(observed, server, desired)
  const next = answerStep(observed, server)
  return (next.step.do === 'rest' ? moveStep(observed, server) : undefined) ?? next
}

/** It is not what is wanted, so that another one has to take its place. */
const isOther = (observed: Observation, server: Running, { digest }: Serve): boolean =>
  server.digest !== digest || observed.restartAsked || isMisplaced(observed)

/** A server that is only more open than it need be is replaced where another one fits beside it, and else at its next start. */
function moveStep(observed: Observation, server: Running): Plan | undefined {
  const { isOpenNeedlessly, fetch, beside } = observed
  // The model of a server that was found running is not looked for again.
  if (isOpenNeedlessly !== true || server.kind !== 'ready' || fetch.kind !== 'done') return undefined
  if (beside !== undefined && !beside.allowed) return undefined
  const step: Step = beside === undefined ? { do: 'sizeUp' } : { do: 'startBeside' }
  const why = "Only LLMKube's relay reaches it now: a server that listens only on this machine takes its place."
  return act(step, ...shownAs(observed, server), why)
}

/** It is asked again when what stands in its way is gone, not by the clock. */
const heldByObstacle = ({ obstacle }: Observation): Plan | undefined =>
  obstacle && rest('waiting', obstacle.reason, obstacle.message, obstacle.retryAt)

type ModelMissing = Extract<Desired, { kind: 'modelMissing' }>

/** A Model that is gone takes nothing from a server that has it in memory. */
function withoutModel(observed: Observation, { message, graceEndsAt = 0 }: ModelMissing): Plan {
  const kept = `${message} The server keeps the model it loaded, but could not be started again.`
  const left = keepServing(observed, kept) ?? clear(observed, 'unpublish', message)
  if (left) return left
  // It is not known yet whether the service is one for a Mac.
  if (observed.now < graceEndsAt) return { ...forget(), retryAt: graceEndsAt }
  return rest('waiting', 'ModelMissing', message)
}

type Refused = Extract<Desired, { kind: 'refused' }>

/** Rules apply to starts: a server that an earlier agent or an earlier spec started is left running, unless it could run programs for others. */
function refused(observed: Observation, { reason, message, spares }: Refused): Plan {
  const isRefused = (server: ServerView): boolean => 'digest' in server && wasStartedWith(server.digest, spares?.except)
  const isSpared = spares !== undefined && !isRefused(observed.server) && !isRefused(observed.successor)
  const kept = isSpared
    ? keepServing(observed, `${message} The running server keeps serving, but could not be started again.`)
    : undefined
  return kept ?? clear(observed, 'unpublish', message) ?? rest('refused', reason, message)
}

/** A digest of which nothing is known may be any. */
const wasStartedWith = (digest: string, refused: string | undefined): boolean =>
  refused !== undefined && (digest === unknownDigest || isBasedOn(digest, refused))

type Unreadable = Extract<Desired, { kind: 'unreadable' }>

/**
 * A newer LLMKube in the cluster must not take down a serving model; a service that is not known to be for a Mac is left to other agents.
 */
function unreadable(observed: Observation, { message, isForMac }: Unreadable): Plan {
  const kept = `${message} The server keeps running as it was started, but could not be started again.`
  const left = keepServing(observed, kept) ?? clear(observed, 'unpublish', message)
  return left ?? (isForMac ? rest('refused', 'Refused', message) : forget())
}

/** A server that serves is kept although it could not be started again; undefined if none serves. */
function keepServing(observed: Observation, why: string): Plan | undefined {
  const { server, successor, publication } = observed
  const serves = server.kind === 'ready' || server.kind === 'unready' || isTrusted(server)
  const isSwapped = leadsToSuccessor(observed)
  if (!isHeld(publication) || (!serves && !isSwapped)) return undefined
  const quiet = quietOf(observed)
  if (quiet) return whileQuiet(observed, quiet)
  const taken = takeOverStep(observed)
  if (taken) return { ...taken, message: why }
  if (isSwapped || !serves) return rest(...shownAs(observed, server), why)
  if (isRunning(successor)) return act({ do: 'dropSuccessor' }, ...shownAs(observed, server), why)
  return { ...answerStep(observed, server), message: why }
}

/** Nothing is begun and nothing is ended, but for the address: pods are not sent here. */
function whileQuiet(observed: Observation, { reason, why, until }: Quiet): Plan {
  const { server, publication } = observed
  const loaded = server.kind === 'ready' || server.kind === 'starting' || server.kind === 'unready'
  const [state, message] = loaded
    ? (['unready', `${why}: the model stays in memory, and no requests are sent here.`] as const)
    : (['waiting', `${why}: nothing is started until ${until}.`] as const)
  if (!isHeld(publication) || publication.shown?.ready !== true) return rest(state, reason, message)
  return isWritable(observed) ? act({ do: 'withdraw' }, state, reason, message) : unreachable(observed, state, reason)
}

interface Quiet {
  readonly reason: 'Paused' | 'Asleep'
  readonly why: string
  readonly until: string
}

function quietOf({ paused, silence }: Observation): Quiet | undefined {
  if (paused) return quiets.paused
  return silence && quiets[silence]
}

const quiets: Readonly<Record<'paused' | Silence, Quiet>> = {
  paused: { reason: 'Paused', why: 'This machine is paused', until: 'it is resumed' },
  asleep: { reason: 'Asleep', why: 'This machine sleeps', until: 'it is awake' },
  unverified: {
    reason: 'Asleep',
    why: 'This machine slept, and the server has not answered since',
    until: 'it answers',
  },
}

/**
 * From the desired and the observed state to the one next step and the sentence that explains it. Pure: its table of tests is the contract.
 */
export function plan(observed: Observation): Plan {
  if (observed.fetch.kind === 'none' || isModelWanted(observed)) return planned(observed)
  return { ...planned({ ...observed, fetch: { kind: 'none' } }), step: { do: 'cancelFetch' } }
}

function planned(observed: Observation): Plan {
  const next = withDisagreement(withNotice(nextStep(observed), observed), observed)
  const mend = next.step.do === 'rest' ? mendOf(observed) : undefined
  if (!mend) return next
  // Something else makes it ready again and again.
  const { mendAt = 0 } = observed.publication
  if (mendAt > observed.now) return { ...next, retryAt: Math.min(next.retryAt ?? Infinity, mendAt), forget: false }
  return { ...next, step: { do: mend }, message: next.message || observed.publication.message, forget: false }
}

/** Where it serves or cannot be started, which a notice may explain. */
function withNotice(next: Plan, { desired }: Observation): Plan {
  if (next.step.do !== 'rest' || desired.kind !== 'serve' || desired.notice === undefined) return next
  const takesNotice = next.reason === 'Serving' || next.reason === 'StartFailed' || next.reason === 'CrashLooping'
  return takesNotice ? { ...next, message: `${next.message} ${desired.notice}`.trim() } : next
}

/** The controller gets a moment to take up what is published or withdrawn; after that it is reported. */
function withDisagreement(next: Plan, { disagreement, now }: Observation): Plan {
  if (!disagreement || next.forget || next.step.do !== 'rest') return next
  const reportedAt = disagreement.since + disagreementAfterMs
  if (now < reportedAt) return { ...next, retryAt: Math.min(next.retryAt ?? Infinity, reportedAt) }
  const reason = next.reason === 'Serving' ? 'ClusterDisagrees' : next.reason
  return { ...next, reason, message: `${next.message} ${disagreement.message}`.trim() }
}

/** Pods are sent to an agent that is gone, or to the server of an InferenceService that is gone, and nothing takes over. */
function mendOf(observed: Observation): 'withdrawDead' | 'unpublish' | undefined {
  const { publication, desired } = observed
  if (desired.kind === 'unknown' || desired.kind === 'excluded') return undefined
  if (publication.shown?.ready !== true || !isWritable(observed)) return undefined
  if (publication.claim === 'dead') return 'withdrawDead'
  return publication.claim === 'previous' ? 'unpublish' : undefined
}

/** A service that asks for an API key is open to nobody without one. */
function closeExposed(observed: Observation): Plan | undefined {
  const { server, successor } = observed.unreached ?? {}
  const exposed = [server, successor].find((one) => one?.kind === 'exposed')
  return exposed && leaveMemory(observed, exposed.message, { as: ['stopping', exposed.reason] })
}

function nextStep(observed: Observation): Plan {
  const { desired } = observed
  const closing = closeExposed(observed)
  if (closing) return closing
  switch (desired.kind) {
    case 'unknown':
      return rest('waiting', 'Pending', desired.message)
    case 'gone':
      return clear(observed, 'remove', desired.message) ?? forget()
    case 'notOurs':
    case 'excluded':
      return clear(observed, 'unpublish', desired.message) ?? forget()
    case 'held':
      return held(observed, desired)
    case 'stopped':
      return clear(observed, 'unpublish', desired.message) ?? rest('stopped', desired.reason, desired.message)
    case 'refused':
      return refused(observed, desired)
    case 'unreadable':
      return unreadable(observed, desired)
    case 'modelMissing':
      return withoutModel(observed, desired)
    case 'serve':
      return serve(observed, desired)
  }
}
