import { answerStep } from './answering.ts'
import {
  isAlive,
  isPublished,
  isRunning,
  isTrusted,
  isUnsettled,
  isWritable,
  leadsToSuccessor,
  type Running,
  type Serve,
} from './facts.ts'
import type { Observation } from './observation.ts'
import {
  shownAs,
  startMessageOf,
  successorFailedMessage,
  whyRestarted,
  whyStopped,
  withoutAnswer,
} from './server-words.ts'
import { act, rest, type Plan, type Step } from './step.ts'

/**
 * A successor that answers gets the traffic, and then the place; where its predecessor is gone, it gets the place at once. A swap whose
 * successor is already published is finished even if the spec changed back meanwhile: the server that answers Pods is not taken away,
 * and the spec of now is the next swap.
 */
export function takeOverStep(observed: Observation, digest?: string): Plan | undefined {
  const { server, successor, publication, address } = observed
  if (!isRunning(successor) || (successor.digest !== digest && !leadsToSuccessor(observed))) return undefined
  if (!isAlive(server)) {
    return act({ do: 'promote' }, 'starting', 'Starting', `The server before is gone. ${startMessageOf(successor)}`)
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

/** Stops a successor whose spec is out of date. */
export function dropStep(observed: Observation, { digest }: Serve): Plan | undefined {
  const { server, successor } = observed
  if (successor.kind === 'none' || successor.kind === 'stopping') return undefined
  if (successor.digest === digest || isUnsettled(observed) || leadsToSuccessor(observed)) return undefined
  const as = isRunning(server) ? shownAs(observed, server) : (['starting', 'Starting'] as const)
  return act(
    { do: 'dropSuccessor' },
    ...as,
    'The specification changed again: the server of the one before is dropped.',
  )
}

/** Beside the present server where there is room, in its place where there is not, and not at all where it would not fit either. */
export function replaceStep(observed: Observation, server: Running, { settlesAt }: Serve): Plan {
  const { publication } = observed
  if (isUnsettled(observed)) return unsettled(observed, server, settlesAt)
  const meanwhile = whileReplaced(observed, server)
  if (meanwhile) return meanwhile
  if (observed.beside === undefined) {
    return act({ do: 'sizeUp' }, ...shownAs(observed, server), `${whyRestarted(observed, server)}.`)
  }
  if (observed.instead !== undefined) return goingOn(observed, server, observed.instead)
  if (server.kind === 'ready' && observed.beside.allowed) {
    return act({ do: 'startBeside' }, ...shownAs(observed, server), `${whyRestarted(observed, server)}.`)
  }
  const isTold = publication.shown?.ready === true
  // What pods are sent to is not taken away before they are told.
  if (isTold && !isWritable(observed) && (server.kind === 'ready' || isTrusted(server))) {
    const { message, at } = observed.clusterRetry ?? {}
    return rest(...shownAs(observed, server), `${whyStopped(observed, server)} ${message ?? ''}`.trim(), at)
  }
  return act(
    { do: isTold && isWritable(observed) ? 'withdraw' : 'stop' },
    'stopping',
    'Stopping',
    whyStopped(observed, server),
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

/** The running server goes on while a person may still be editing the spec. */
function unsettled(observed: Observation, server: Running, until: number | undefined): Plan {
  if (server.kind !== 'ready') return rest(...withoutAnswer(server), until)
  return goingOn(observed, server, 'The specification changed, and the server is about to be restarted.', until)
}
