import type { ServiceReason } from '../../contract/service.ts'
import type { Failure } from '../servers/server-state.ts'
import type { ServerState, Stopping, Trouble } from '../servers/server-state.ts'
import type { ServerView } from './plan/observation.ts'

/** A start that failed before there was a process. */
export interface StartFailure {
  readonly message: string
  /** Set if the start was not even tried: why. */
  readonly refusal?: ServiceReason
}

/** `backOff`: of the key, as it is now; what a state says of it was so when the server ended. */
export function serverView(
  { digest = '', startFailure }: { readonly digest?: string | undefined; readonly startFailure?: StartFailure },
  state: ServerState | undefined,
  backOff: Failure = noFailure,
): ServerView {
  const { failures, retryAt: nextStartAt } = backOff
  if (startFailure !== undefined) {
    return { kind: 'failed', digest, duringStart: true, ...startFailure, failures, nextStartAt }
  }
  switch (state?.kind) {
    case undefined:
      return { kind: 'none' }
    case 'starting':
      return state.unasked === true
        ? {
            kind: 'starting',
            digest,
            failures,
            message: 'The server was found running; the agent is checking whether it serves.',
            unasked: true,
            ...(state.port !== undefined && { port: state.port }),
          }
        : { kind: 'starting', digest, failures, message: 'The server is starting.' }
    case 'loading':
      return { kind: 'starting', digest, failures, message: 'The server is loading the model.' }
    case 'ready':
      return state.healthy
        ? { kind: 'ready', digest, port: state.port }
        : { kind: 'unready', digest, port: state.port, message: troubles[state.trouble ?? 'silent'] }
    case 'stopping':
      return { kind: 'stopping', message: stoppingMessage(state) }
    case 'failedToSpawn':
    case 'exited':
      return endedView(digest, state, backOff)
  }
}

const troubles: Readonly<Record<Trouble, string>> = {
  silent: 'The server does not answer its health check; if this continues, the agent restarts it.',
  suspended:
    'The server does not answer: its process is suspended (by SIGSTOP, a terminal or a debugger). If this continues, the agent restarts it.',
  failing: 'The server answers its health check with an error; if this continues, the agent restarts it.',
  unknown:
    'The daemon does not say whether it still has the model, so that is unknown; its memory stays counted until the daemon answers.',
}

/** The sentence about requests in flight, which changes all the time; undefined where the server does not drain. */
export const drainFigures = (state: ServerState | undefined): string | undefined =>
  state?.kind === 'stopping' && state.drain !== undefined ? stoppingMessage(state) : undefined

/** True as long as it is shown: the time is the most it takes from when the number was seen. */
function stoppingMessage({ drain, since, hangs }: Stopping): string {
  if (hangs !== undefined) return `${hangs} Its memory stays counted until then.`
  if (!drain) return 'The server is finishing.'
  const { requestsInFlight: requests, endsAt } = drain
  const seconds = Math.ceil((endsAt - since) / 1_000)
  if (requests === 0) return 'No request is in flight; the server stops in a moment.'
  return `${requests} request${requests === 1 ? '' : 's'} finishing; the server stops in at most ${seconds} s.`
}

/** Whether the server serves or is about to. */
export const isOnItsWay = (state: ServerState | undefined): boolean =>
  state?.kind === 'starting' || state?.kind === 'loading' || state?.kind === 'ready'

const noFailure: Failure = { failures: 0, retryAt: 0 }

function endedView(
  digest: string,
  state: Extract<ServerState, { kind: 'exited' | 'failedToSpawn' }>,
  { failures, retryAt }: Failure,
): ServerView {
  if (state.kind === 'exited' && !state.settled)
    return {
      kind: 'stopping',
      message:
        state.left === undefined
          ? 'The server has exited; its processes are being cleaned up.'
          : `${state.left} The agent tries again, and starts nothing in its place until then.`,
      hasEnded: state.cause !== 'stopped' && state.left === undefined,
    }
  if (state.kind === 'exited' && state.cause === 'stopped') return { kind: 'none' }
  return {
    kind: 'failed',
    digest,
    duringStart: state.kind === 'failedToSpawn' || state.outOf === 'start',
    message: state.message,
    failures,
    nextStartAt: retryAt,
  }
}
