import { isRunning, type Serve } from './facts.ts'
import type { Observation } from './observation.ts'
import { act, rest, type Plan } from './step.ts'

/** Undefined once the desired model is here. The old server, if any, keeps serving meanwhile. */
export function fetchStep(observed: Observation, { digest }: Serve): Plan | undefined {
  const { fetch, server, successor, now, restartAsked } = observed
  if (isRunning(successor) && successor.digest === digest) return undefined
  if (isRunning(server) && server.digest === digest && !restartAsked && successor.kind === 'none') return undefined
  const serving = server.kind === 'ready' ? ' The previous model keeps serving until then.' : ''
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
