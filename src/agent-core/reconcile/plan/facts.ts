import type { Desired } from '../desired.ts'
import type { Observation, PublicationView, ServerView } from './observation.ts'

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

/** Of the servers that are on their way to their end, if any is. */
export const stoppingMessage = ({ server, successor, retiring }: Observation): string | undefined =>
  server.kind === 'stopping' ? server.message : successor.kind === 'stopping' ? successor.message : retiring

/** It served when its agent ended, and nothing says yet that it does not any more. */
export const isTrusted = (server: ServerView): server is Extract<ServerView, { kind: 'starting' }> =>
  server.kind === 'starting' && server.unasked === true

/** An agent ended between the publication of the new port and the rest of the swap. */
export function leadsToSuccessor({ successor, publication: { shown } }: Observation): boolean {
  const answers = successor.kind === 'ready' || isTrusted(successor)
  return answers && shown?.ready === true && shown.port === successor.port
}

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
 * Whether the fetch, and the look for newer content that follows it, is of a model that this machine is to serve. One that gave way to
 * another service asks for memory again soon, and wants its model then; an idle one finds it in the store.
 */
export const isModelWanted = ({ desired, publication, absent, fetch }: ModelFacts): boolean =>
  desired.kind === 'unknown' ||
  (desired.kind === 'serve' &&
    (fetch.kind === 'none' || fetch.source === desired.source) &&
    !isForeign(publication) &&
    takenBy(publication) === undefined &&
    absent?.kind !== 'idle')

export type ModelFacts = Pick<Observation, 'desired' | 'publication' | 'absent' | 'fetch'>

export const takenBy = ({ claim, message, service, serviceMessage }: PublicationView): string | undefined =>
  claim === 'taken' ? message : service === 'taken' ? serviceMessage : undefined

export const isOurService = ({ service }: PublicationView): boolean => service === 'ours' || service === 'outdated'

export const isPublished = ({ shown, complete }: PublicationView, where: { address: string; port: number }): boolean =>
  shown?.ready === true && shown.address === where.address && shown.port === where.port && complete

export const isWritable = ({ clusterRetry, now }: Observation): boolean =>
  clusterRetry === undefined || clusterRetry.at <= now
