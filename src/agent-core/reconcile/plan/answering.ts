import { isPublished, isTrusted, isWritable, leadsToSuccessor, type Running } from './facts.ts'
import type { Observation } from './observation.ts'
import { withoutAnswer } from './server-words.ts'
import { act, rest, unreachable, type Plan } from './step.ts'

/** Pods are told of a server that answers, and only of one. */
export function answerStep(observed: Observation, server: Running): Plan {
  if (server.kind === 'ready') return publishStep(observed, server.port, observed.address)
  const told = observed.publication.shown?.ready === true && isWritable(observed) && !isTrusted(server)
  const [state, reason, message] = withoutAnswer(server)
  return told ? act({ do: 'withdraw' }, state, reason, message) : rest(state, reason, message)
}

function publishStep(observed: Observation, port: number, address: Observation['address']): Plan {
  const { shown, message, mendAt, retryAt } = observed.publication
  if (address.ip === undefined) {
    return shown?.ready === true && isWritable(observed)
      ? act({ do: 'withdraw' }, 'unready', 'NoHostAddress', address.message)
      : rest('unready', 'NoHostAddress', address.message)
  }
  const serving = [`Serving at ${address.ip}:${port}.`, address.warning, message]
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

/** Whatever else is to be done, and however long it takes: pods are not sent to a server that does not answer. */
export function withdrawSilent(observed: Observation): Plan | undefined {
  const { server, publication } = observed
  if (server.kind === 'ready' || publication.shown?.ready !== true || !isWritable(observed)) return undefined
  if (isTrusted(server) || leadsToSuccessor(observed)) return undefined
  const [state, reason, message] = withoutAnswer(server)
  return act({ do: 'withdraw' }, state, reason, message)
}
