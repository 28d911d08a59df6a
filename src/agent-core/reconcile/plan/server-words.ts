import type { ServiceReason, ServiceState } from '../../../contract/service.ts'
import { unknownDigest } from '../../servers/adoption.ts'
import { leadsToSuccessor, type Running } from './facts.ts'
import type { Observation, ServerView } from './observation.ts'
import { wallTimeOf } from '../../util/steady-clock.ts'

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
      if (server.hasExceeded === true) {
        return [isCrashLoop(server) ? 'crash-looping' : 'waiting', 'MemoryExceeded', crashLoopMessage(server)]
      }
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

export function whyRestarted({ restartAsked }: Observation, { digest }: Running): string {
  if (restartAsked) return 'The server is restarted, as somebody asked for it'
  if (digest !== unknownDigest) return 'The specification changed: the server is restarted with it'
  return 'It is not certain what the server found running was started with: it is restarted'
}

export function whyStopped(observed: Observation, server: Running): string {
  const { beside } = observed
  const why = whyRestarted(observed, server)
  if (beside === undefined || beside.allowed || beside.why === '' || server.kind !== 'ready') return `${why}.`
  return `${why}; ${beside.why}: the old one is stopped first.`
}
