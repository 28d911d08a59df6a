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

export const hasRunning = ({ server, successor }: Observation): boolean => isRunning(server) || isRunning(successor)

export const isAnyAlive = (observed: Observation): boolean =>
  hasRunning(observed) || stoppingMessage(observed) !== undefined

/** The message of a server that is stopping; undefined if none is. */
export const stoppingMessage = ({ server, successor, retiring }: Observation): string | undefined =>
  server.kind === 'stopping' ? server.message : successor.kind === 'stopping' ? successor.message : retiring

/** It served when the earlier agent ended, and nothing contradicts that yet. */
export const isTrusted = (server: ServerView): server is Extract<ServerView, { kind: 'starting' }> =>
  server.kind === 'starting' && server.unasked === true

/** An agent ended between the publication of the new port and the rest of the swap. */
export function leadsToSuccessor({ successor, publication: { shown } }: Observation): boolean {
  const answers = successor.kind === 'ready' || isTrusted(successor)
  return answers && shown?.ready === true && shown.port === successor.port
}

/** It listens at an address that is published no longer. */
export const isMisplaced = ({ unreached }: Observation, role: 'server' | 'successor' = 'server'): boolean =>
  unreached?.[role]?.kind === 'misplaced'

/** A server of ours answers, as far as is known, at the port that pods are sent to. */
export const answersPods = ({ server, successor, publication: { shown } }: Observation): boolean =>
  shown?.ready === true &&
  [server, successor].some((one) => (one.kind === 'ready' || isTrusted(one)) && one.port === shown.port)

/** What is published for us, or by an agent that is gone, sends pods where no server of ours answers. */
export function sendsAstray(observed: Observation): boolean {
  const { publication, address } = observed
  const isOurs = isHeld(publication) || publication.claim === 'previous' || publication.claim === 'dead'
  const isTrue = answersPods(observed) && publication.shown?.address === address.ip
  return isOurs && publication.shown?.ready === true && !isTrue
}

/** Too early to act on a change, and to write about it. */
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
export function shownAs(observed: Observation, server: ServerView): readonly [ServiceState, ServiceReason] {
  if (server.kind === 'ready' || leadsToSuccessor(observed)) return ['ready', 'Serving']
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
export const successorFailedMessage = ({ message, nextStartAt }: { message: string; nextStartAt: number }): string =>
  `The new server cannot be started: ${message} The previous server keeps serving. Next attempt at ${clockTime(nextStartAt)}.`

const failedSoOften = ({ failures }: { readonly failures: number }): string =>
  failures === 1 ? 'Failed once' : `Failed ${failures} times in a row`

/** Such as 14:03:20Z. */
const clockTime = (at: number): string => `${wallTimeOf(at).toISOString().slice(11, 19)}Z`

export const startMessageOf = (server: Running): string =>
  server.kind === 'ready' ? 'The new one answers.' : server.message

export function whyRestarted(observed: Observation, { digest }: Running): string {
  if (isMisplaced(observed)) return 'The address of this machine changed: the server is restarted to listen at it'
  if (observed.restartAsked) return 'The server is restarted on request'
  if (digest !== unknownDigest) return 'The specification changed: the server is restarted with it'
  return 'The agent cannot tell what the running server was started with, so it restarts it'
}

export function whyStopped(observed: Observation, server: Running): string {
  const { beside } = observed
  const why = whyRestarted(observed, server)
  if (beside === undefined || beside.allowed || beside.why === '' || server.kind !== 'ready') return `${why}.`
  return `${why}; ${beside.why}: the old one is stopped first.`
}
