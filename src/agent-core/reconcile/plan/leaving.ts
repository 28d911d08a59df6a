import type { ServiceReason, ServiceState } from '../../../contract/service.ts'
import {
  answersPods,
  hasRunning,
  isAnyAlive,
  isForeign,
  isHeld,
  isOurService,
  isWritable,
  stoppingMessage,
} from './facts.ts'
import type { Observation } from './observation.ts'
import { act, rest, unreachable, type Plan } from './step.ts'

type Clearing = 'unpublish' | 'remove' | 'release'

/** Brings everything of ours down, the endpoint first; undefined when nothing is left. */
export function clear(observed: Observation, how: Clearing, why: string): Plan | undefined {
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
export function held(observed: Observation, { reason, message: why }: HeldBack): Plan {
  const { publication, clusterRetry } = observed
  if (isHeld(publication) && !isAnyAlive(observed) && !isWritable(observed)) {
    return rest('stopped', reason, `${why} ${clusterRetry?.message ?? ''}`.trim(), clusterRetry?.at)
  }
  const elsewhere = isForeign(publication) ? ` ${publication.message}` : ''
  return clear(observed, 'release', why) ?? rest('stopped', reason, `${why}${elsewhere}`)
}

/** It leaves memory and keeps the claim: on another machine it would be as idle, and memory that was freed is the winner's. */
export function staysAway(observed: Observation, { kind, message: why }: NonNullable<Observation['absent']>): Plan {
  if (kind === 'displaced') {
    return leaveMemory(observed, why) ?? rest('waiting', 'InsufficientMemory', why)
  }
  const { publication, server } = observed
  const isShown = publication.shown?.ready === true && server.kind === 'ready'
  // Nothing is short: where the cluster cannot be told that it is gone, it stays for now.
  if (isShown && !isWritable(observed)) return unreachable(observed, 'ready', 'Serving')
  return leaveMemory(observed, why) ?? rest('stopped', 'Idle', `${why} It serves again as soon as it is started.`)
}

/** Another agent answers for this service: ours must not. */
export function yieldTo(observed: Observation): Plan {
  const { claim, message, retryAt } = observed.publication
  const as = ['foreign', claim === 'foreign' ? 'ClaimedElsewhere' : 'ClaimOverwritten'] as const
  const leaving = leaveMemory(observed, message, { as })
  return leaving && leaving.step.do !== 'rest' ? leaving : rest(...as, message, retryAt)
}
