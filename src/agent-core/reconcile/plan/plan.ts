import type { Desired } from '../desired.ts'
import {
  answersPods,
  isAlive,
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
  type Running,
  type Serve,
  shownAs,
  takenBy,
  whyRestarted,
  withoutAnswer,
} from './facts.ts'
import {
  act,
  disagreementAfterMs,
  forget,
  type Observation,
  type Plan,
  rest,
  type Silence,
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
  const { unreached } = observed
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
  if (mendAt !== undefined && mendAt > observed.now) return rest('unready', 'Starting', edited('EndpointSlice'), mendAt)
  return isWritable(observed)
    ? act(
        { do: 'publish', address: address.ip, port },
        'starting',
        'Starting',
        'The server answers; publishing its address.',
      )
    : unreachable(observed, 'unready', 'Starting')
}

/** Something else changes what was put right a moment ago. */
const edited = (kind: 'EndpointSlice' | 'Service'): string =>
  `Something else keeps changing the ${kind}, which is put right three times in 30 s: kubectl get ${kind} -o yaml --show-managed-fields names it.`

const servingSentence = ({ address: { ip }, relayPort }: Observation, port: number): string =>
  relayPort === undefined
    ? `Serving at ${ip}:${port}.`
    : `Serving through LLMKube's relay, which reaches this machine at ${ip}:${relayPort}.`

const unready = ({ reason, message }: Unreached): Plan => rest('unready', reason, message)

/** Whatever else is to be done, and however long it takes: pods are not sent to a server that does not answer. */
export function withdrawSilent(observed: Observation): Plan | undefined {
  const { server, publication } = observed
  if (server.kind === 'ready' || publication.shown?.ready !== true || !isWritable(observed)) return undefined
  if (isTrusted(server)) return undefined
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

/** Withdraws the address, then stops the server; undefined when nothing is left of it. */
function leaveMemory(
  observed: Observation,
  why: string,
  { waitsForWithdrawal = false, as = ['stopping', 'Stopping'] }: LeavingHow = {},
): Plan | undefined {
  const { publication, server, clusterRetry } = observed
  if (publication.shown?.ready === true && isWritable(observed)) {
    if (isHeld(publication)) return act({ do: 'withdraw' }, ...as, why)
    if (publication.claim === 'previous') return act({ do: 'unpublish' }, ...as, why)
  }
  if (waitsForWithdrawal && clusterRetry?.isRefusal === true && isHeld(publication) && answersPods(observed)) {
    return rest(...as, `${why} ${clusterRetry.message}`, clusterRetry.at)
  }
  if (isRunning(server)) return act({ do: 'stop' }, ...as, why)
  return server.kind === 'stopping' ? rest(...as, `${why} ${server.message}`) : undefined
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
  const { publication, server, clusterRetry } = observed
  if (isHeld(publication) && !isAlive(server) && !isWritable(observed)) {
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
  const { fetch, server, now } = observed
  if (isRunning(server) && !isOther(observed, server, digest)) return undefined
  const serving =
    server.kind === 'ready'
      ? ' The previous model keeps serving until then; its address then pauses until the new server answers.'
      : ''
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

/** In the place of the present server, and not at all where it would not fit there. */
function replaceStep(observed: Observation, server: Running, desired: Serve): Plan {
  const { publication, instead } = observed
  if (isUnsettled(observed)) return unsettled(observed, server, desired.settlesAt)
  const why = whyRestarted(observed, server)
  if (instead === undefined || (instead.retryAt ?? Infinity) <= observed.now) {
    return act({ do: 'sizeUp' }, ...shownAs(server), why)
  }
  if (instead.refusal !== undefined) return goingOn(observed, server, instead.refusal, instead.retryAt)
  const isPublished = publication.shown?.ready === true
  // A server is withdrawn before it is stopped.
  if (isPublished && !isWritable(observed) && (server.kind === 'ready' || isTrusted(server))) {
    const { message, at } = observed.clusterRetry ?? {}
    return rest(...shownAs(server), `${why} ${message ?? ''}`.trim(), at)
  }
  return act({ do: isPublished && isWritable(observed) ? 'withdraw' : 'stop' }, 'stopping', 'Stopping', why)
}

function goingOn(observed: Observation, server: Running, sentence: string, retryAt?: number): Plan {
  const next = answerStep(observed, server)
  return next.step.do === 'rest'
    ? { ...next, message: `${next.message} ${sentence}`, retryAt: retryAt ?? next.retryAt }
    : next
}

/** The running server stays while a person may still be editing the spec. */
function unsettled(observed: Observation, server: Running, until: number | undefined): Plan {
  if (server.kind !== 'ready') return rest(...withoutAnswer(server), until)
  return goingOn(observed, server, whyRestarted(observed, server), until)
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
    : (withdrawSilent(observed) ?? whileFetched(observed, desired) ?? serverStep(observed, desired))

/** A download may take hours: the server that answers meanwhile stays published, and no other. */
function whileFetched(observed: Observation, desired: Serve): Plan | undefined {
  const fetching = fetchStep(observed, desired)
  const { server } = observed
  if (fetching?.step.do !== 'rest' || server.kind !== 'ready') return fetching
  const next = answerStep(observed, server)
  return next.step.do === 'rest' ? fetching : next
}

/** Where traffic goes is put right first: a Service that cannot be written holds up neither a withdrawal nor a publication. */
function withService(next: Plan, observed: Observation): Plan {
  const { publication, serviceRetry, now } = observed
  const { service, serviceMendAt = 0 } = publication
  if (next.step.do === 'withdraw' || next.step.do === 'publish') return next
  const mayWrite = (serviceRetry?.at ?? 0) <= now && serviceMendAt <= now
  if (service !== 'ours' && isWritable(observed) && mayWrite) {
    return act({ do: 'ensureService' }, next.state, next.reason, 'Writing the Service.')
  }
  if (next.step.do !== 'rest') return next
  const isEdited = serviceMendAt > now
  const at = Math.min(serviceRetry?.at ?? Infinity, isEdited ? serviceMendAt : Infinity)
  if (service === 'ours' || at === Infinity) return next
  const explained = isEdited ? { ...next, message: `${next.message} ${edited('Service')}` } : next
  const isReached = next.state !== 'ready' || service !== 'absent'
  return {
    ...explained,
    ...(isReached ? {} : ({ state: 'unready', reason: 'Starting' } as const)),
    message: serviceRetry ? `${explained.message} ${serviceRetry.message}` : explained.message,
    retryAt: Math.min(next.retryAt ?? Infinity, at),
  }
}

function serverStep(observed: Observation, desired: Serve): Plan {
  const { server, now, stopReason } = observed
  switch (server.kind) {
    case 'none':
      return heldByObstacle(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server.')
    case 'stopping':
      return rest('stopping', 'Stopping', `${stopReason} ${server.message}`.trim())
    case 'failed':
      return server.digest !== desired.digest || server.nextStartAt <= now
        ? (heldByObstacle(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server again.'))
        : rest(...withoutAnswer(server), server.nextStartAt)
    case 'starting':
    case 'unready':
    case 'ready':
      break
  }
  return isOther(observed, server, desired.digest)
    ? replaceStep(observed, server, desired)
    : answerStep(observed, server)
}

/** It is not what is wanted, so that another one has to take its place. */
const isOther = (observed: Observation, server: Running, digest: string): boolean =>
  server.digest !== digest || observed.restartAsked || isMisplaced(observed)

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
  const { server } = observed
  const isRefused = 'digest' in server && wasStartedWith(server.digest, spares?.except)
  const isSpared = spares !== undefined && !isRefused
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
  const { server, publication } = observed
  const serves = server.kind === 'ready' || server.kind === 'unready' || isTrusted(server)
  if (!isHeld(publication) || !serves) return undefined
  const quiet = quietOf(observed)
  if (quiet) return whileQuiet(observed, quiet)
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
  const { unreached } = observed
  if (unreached?.kind !== 'exposed') return undefined
  return leaveMemory(observed, unreached.message, { as: ['stopping', unreached.reason] })
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
