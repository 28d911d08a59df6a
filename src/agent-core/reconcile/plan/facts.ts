import type { Desired } from '../desired.ts'
import type { Observation, PublicationView, ServerView } from './observation.ts'
import { unknownDigest } from '../../servers/adoption.ts'
import { wallTimeOf } from '../../util/steady-clock.ts'
import type { ServiceReason, ServiceState } from '../../../contract/service.ts'

export type Serve = Extract<Desired, { kind: 'serve' }>

export type Running = Extract<ServerView, { kind: 'starting' | 'ready' | 'unready' }>

export const isAlive = (
  server: ServerView,
): server is Extract<ServerView, { kind: 'starting' | 'ready' | 'unready' | 'stopping' }> =>
  server.kind === 'starting' || server.kind === 'ready' || server.kind === 'unready' || server.kind === 'stopping'

export const isRunning = (server: ServerView): server is Running => isAlive(server) && server.kind !== 'stopping'

/** It served when the earlier agent ended, and nothing contradicts that yet. */
export const isTrusted = (server: ServerView): server is Extract<ServerView, { kind: 'starting' }> =>
  server.kind === 'starting' && server.unasked === true

/** It listens at an address that is published no longer. */
export const isMisplaced = ({ unreached }: Observation): boolean => unreached?.kind === 'misplaced'

/** A server of ours answers, as far as is known, at the port that pods are sent to. */
export const answersPods = ({ server, publication: { shown } }: Observation): boolean =>
  shown?.ready === true && (server.kind === 'ready' || isTrusted(server)) && server.port === shown.port

/** What is published for us, or by an agent that is gone, sends pods where no server of ours answers. */
export function sendsAstray(observed: Observation): boolean {
  const { publication, address } = observed
  const isOurs = isHeld(publication) || publication.claim === 'previous' || publication.claim === 'dead'
  const isTrue = answersPods(observed) && publication.shown?.address === address.ip
  return isOurs && publication.shown?.ready === true && !isTrue
}

/** Too early to act on a change. */
export const isUnsettled = ({ desired, server, now }: Observation): boolean =>
  desired.kind === 'serve' &&
  now < (desired.settlesAt ?? 0) &&
  (server.kind === 'ready' || server.kind === 'starting' || server.kind === 'unready') &&
  server.digest !== desired.digest

export const isHeld = ({ claim }: PublicationView): boolean => claim === 'ours' || claim === 'uncertain'

export const isForeign = ({ claim }: PublicationView): boolean =>
  claim === 'foreign' || claim === 'unclaimed' || claim === 'overwritten'

/**
 * Whether the fetch, and the look for newer content that follows it, is of a model that this machine is to serve. An idle one
 * finds it in the store.
 */
export const isModelWanted = ({ desired, publication, unloaded, fetch }: ModelFacts): boolean =>
  desired.kind === 'unknown' ||
  (desired.kind === 'serve' &&
    (fetch.kind === 'none' || fetch.source === desired.source) &&
    !isForeign(publication) &&
    takenBy(publication) === undefined &&
    unloaded === undefined)

export type ModelFacts = Pick<Observation, 'desired' | 'publication' | 'unloaded' | 'fetch'>

export const takenBy = ({ claim, message, service, serviceMessage }: PublicationView): string | undefined =>
  claim === 'taken' ? message : service === 'taken' ? serviceMessage : undefined

export const isOurService = ({ service }: PublicationView): boolean => service === 'ours' || service === 'outdated'

export const isPublished = ({ shown, complete }: PublicationView, where: { address: string; port: number }): boolean =>
  shown?.ready === true && shown.address === where.address && shown.port === where.port && complete

export const isWritable = ({ clusterRetry, now }: Observation): boolean =>
  clusterRetry === undefined || clusterRetry.at <= now

/** What a server that does not answer is shown as. */
export function withoutAnswer(
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
      if (server.refusal !== undefined) return ['refused', server.refusal, server.message]
      return isCrashLoop(server)
        ? ['crash-looping', 'CrashLooping', crashLoopMessage(server)]
        : ['waiting', server.duringStart ? 'StartFailed' : 'Starting', server.message]
  }
}

/** What people see of a server while something is done about it that does not touch it. */
export function shownAs(server: ServerView): readonly [ServiceState, ServiceReason] {
  if (server.kind === 'ready') return ['ready', 'Serving']
  const [state, reason] = withoutAnswer(server)
  return [state, reason]
}

/** One failure may be chance. */
export const isCrashLoop = ({ failures }: { readonly failures: number }): boolean => failures > 1

/** The same from the failure to the next attempt, so that it is written once. */
export const crashLoopMessage = (failure: {
  readonly failures: number
  readonly nextStartAt: number
  readonly message: string
}): string => `${failedSoOften(failure)}, next attempt at ${clockTime(failure.nextStartAt)}: ${failure.message}`

/** The same from the failure to the next attempt, so that it is written once. */
export const notReplacedMessage = (why: string, nextStartAt: number): string =>
  `The new server cannot be started: ${why} The previous server keeps serving. Next attempt at ${clockTime(nextStartAt)}.`

const failedSoOften = ({ failures }: { readonly failures: number }): string =>
  failures === 1 ? 'Failed once' : `Failed ${failures} times in a row`

/** Such as 14:03:20Z. */
const clockTime = (at: number): string => `${wallTimeOf(at).toISOString().slice(11, 19)}Z`

/** Said before the address is withdrawn, and until the new server answers. */
const pauses = ', and its address pauses until the new one answers.'

export function whyRestarted(observed: Observation, { digest }: Running): string {
  if (isMisplaced(observed))
    return `The address of this machine changed: the server is restarted to listen at it${pauses}`
  if (observed.restartAsked) return `The server is restarted on request${pauses}`
  if (digest !== unknownDigest) return `The specification changed: the server is restarted with it${pauses}`
  return `The agent cannot tell what the running server was started with, so it restarts it${pauses}`
}
