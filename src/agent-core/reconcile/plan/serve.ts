import { unknownDigest } from '../../servers/adoption.ts'
import type { Desired } from '../desired.ts'
import { answerStep, withdrawSilent } from './answering.ts'
import {
  isAlive,
  isForeign,
  isHeld,
  isRunning,
  isTrusted,
  isWritable,
  leadsToSuccessor,
  takenBy,
  type Serve,
} from './facts.ts'
import { clear, staysAway, yieldTo } from './leaving.ts'
import { fetchStep } from './model-fetching.ts'
import type { Observation, ServerView, Silence } from './observation.ts'
import { dropStep, replaceStep, takeOverStep } from './replacement.ts'
import { shownAs, withoutAnswer } from './server-words.ts'
import { act, forget, rest, unreachable, type Plan } from './step.ts'

export function serve(observed: Observation, desired: Serve): Plan {
  const { publication, address, server, now } = observed
  if (isForeign(publication)) return yieldTo(observed)
  const taken = takenBy(publication)
  if (taken !== undefined) {
    return clear(observed, 'unpublish', taken) ?? rest('refused', 'ServiceNameTaken', taken, publication.retryAt)
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
  observed.absent
    ? staysAway(observed, observed.absent)
    : (takeOverStep(observed, desired.digest) ??
      withdrawSilent(observed) ??
      whileFetched(observed, desired) ??
      serverStep(observed, desired))

/** A download may take hours: pods are told of the server that answers meanwhile, and of no other. */
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
  const told = edits ? { ...next, message: `${next.message} ${edits.message}` } : next
  const at = Math.min(serviceRetry?.at ?? Infinity, edits && edits.mendAt > now ? edits.mendAt : Infinity)
  if (service === 'ours' || at === Infinity) return told
  const isReached = next.state !== 'ready' || service !== 'absent'
  return {
    ...told,
    ...(isReached ? {} : ({ state: 'unready', reason: 'Starting' } as const)),
    message: serviceRetry ? `${told.message} ${serviceRetry.message}` : told.message,
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
      return held(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server.')
    case 'stopping':
      return rest('stopping', 'Stopping', `${stopReason} ${server.message}`.trim())
    case 'failed':
      if (leaving !== undefined) {
        return rest(...withoutAnswer(server), server.nextStartAt > now ? server.nextStartAt : undefined)
      }
      return server.digest !== desired.digest || server.nextStartAt <= now
        ? (held(observed) ?? act({ do: 'start' }, 'starting', 'Starting', 'Starting the server again.'))
        : rest(...withoutAnswer(server), server.nextStartAt)
    case 'starting':
    case 'unready':
    case 'ready':
      break
  }
  const isReplaced = server.digest !== desired.digest || observed.restartAsked || successor.kind !== 'none'
  return isReplaced ? replaceStep(observed, server, desired) : answerStep(observed, server)
}

/** It is asked again when what stands in its way is gone, not by the clock. */
const held = ({ obstacle }: Observation): Plan | undefined =>
  obstacle && rest('waiting', obstacle.reason, obstacle.message)

type ModelMissing = Extract<Desired, { kind: 'modelMissing' }>

/** A Model that is gone takes nothing from a server that has it in memory. */
export function withoutModel(observed: Observation, { message, graceEndsAt = 0 }: ModelMissing): Plan {
  const kept = `${message} The server keeps the model it loaded, but could not be started again.`
  const left = keepServing(observed, kept) ?? clear(observed, 'unpublish', message)
  if (left) return left
  // It is not known yet whether the service is one for a Mac.
  if (observed.now < graceEndsAt) return { ...forget(), retryAt: graceEndsAt }
  return rest('waiting', 'ModelMissing', message)
}

type Refused = Extract<Desired, { kind: 'refused' }>

/** Rules are for starts: what an earlier agent, or an earlier spec, started goes on, unless others may run programs with it. */
export function refused(observed: Observation, { reason, message, spares }: Refused): Plan {
  const isRefused = (server: ServerView): boolean => 'digest' in server && wasStartedWith(server.digest, spares?.except)
  const isSpared = spares !== undefined && !isRefused(observed.server) && !isRefused(observed.successor)
  const kept = isSpared
    ? keepServing(observed, `${message} The server that runs goes on, but could not be started again.`)
    : undefined
  return kept ?? clear(observed, 'unpublish', message) ?? rest('refused', reason, message)
}

/** A digest of which nothing is known may be any. */
const wasStartedWith = (digest: string, refused: string | undefined): boolean =>
  refused !== undefined && (digest === unknownDigest || digest === refused || digest.startsWith(`${refused}+`))

type Unreadable = Extract<Desired, { kind: 'unreadable' }>

/**
 * A newer LLMKube in the cluster must not take down a serving model; a service that is not known to be for a Mac is left to other agents.
 */
export function unreadable(observed: Observation, { message, isForMac }: Unreadable): Plan {
  const kept = `${message} The server goes on as it was started, but could not be started again.`
  const left = keepServing(observed, kept) ?? clear(observed, 'unpublish', message)
  return left ?? (isForMac ? rest('refused', 'Refused', message) : forget())
}

/** A desired state that cannot be reached anew takes nothing from a server that serves; undefined where none does. */
function keepServing(observed: Observation, why: string): Plan | undefined {
  const { server, successor, publication } = observed
  const serves = server.kind === 'ready' || server.kind === 'unready' || isTrusted(server)
  const isSwapped = leadsToSuccessor(observed)
  if (!isHeld(publication) || (!serves && !isSwapped)) return undefined
  const quiet = quietOf(observed)
  if (quiet) return whileQuiet(observed, quiet)
  // The service it gave way to waits for its memory.
  if (observed.absent?.kind === 'displaced') return staysAway(observed, observed.absent)
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
  battery: {
    reason: 'Paused',
    why: 'This machine runs on battery, and is set to pause then',
    until: 'it is on mains again',
  },
  unverified: {
    reason: 'Asleep',
    why: 'This machine slept, and the server has not answered since',
    until: 'it answers',
  },
}
