import type { ServiceView, Step } from '../../contract/service.ts'
import type { InferenceService, Model } from '../kube/resources.ts'
import type { Observation } from '../reconcile/plan.ts'

const done: Step = { status: 'done' }
const waiting: Step = { status: 'waiting' }
const active = (message?: string): Step =>
  message === undefined ? { status: 'active' } : { status: 'active', message }
const failed = (message: string): Step => ({ status: 'failed', message })

/** The five steps from a file to a cluster that agrees, each with what a person should know about it. */
export function stepsOf(
  observed: Pick<Observation, 'fetch' | 'server' | 'publication' | 'clusterRetry'>,
  service: InferenceService | undefined,
  model: Model | undefined,
  hasProcess: boolean,
): ServiceView['steps'] {
  const { fetch, server } = observed
  const running = server.kind === 'starting' || server.kind === 'ready' || server.kind === 'unready'
  const published = observed.publication.shown?.ready === true && observed.publication.claim === 'ours'
  return {
    fetched: running || fetch.kind === 'done' ? done : fetchedStep(fetch),
    started:
      running && hasProcess ? done : running ? active() : server.kind === 'failed' ? failed(server.message) : waiting,
    healthy: server.kind === 'starting' && !hasProcess ? waiting : healthyStep(server),
    published: published ? done : server.kind === 'ready' ? publishedStep(observed) : waiting,
    clusterAgrees: published ? clusterStep(service, model) : waiting,
  }
}

function fetchedStep(fetch: Observation['fetch']): Step {
  if (fetch.kind === 'running') return active()
  return fetch.kind === 'failed' ? failed(fetch.message) : waiting
}

function healthyStep(server: Observation['server']): Step {
  switch (server.kind) {
    case 'ready':
      return done
    case 'starting':
      return active(server.message)
    case 'unready':
      return failed(server.message)
    default:
      return waiting
  }
}

function publishedStep({ clusterRetry, publication }: Pick<Observation, 'clusterRetry' | 'publication'>): Step {
  if (publication.claim === 'foreign' || publication.claim === 'overwritten') return failed(publication.message)
  return clusterRetry ? failed(clusterRetry.message) : active()
}

/** Why the cluster may not call a published service Ready; only LLMKube's controller writes the phase. */
function clusterStep(service: InferenceService | undefined, model: Model | undefined): Step {
  const phase = service?.status.phase ?? ''
  if (phase === 'Ready') return done
  if (phase === '') {
    return active('No controller seen: nobody in the cluster has written the status of this service.')
  }
  const replicas = service?.spec.ok === true ? service.spec.value.replicas : 1
  if (replicas > 1) {
    return failed(
      `One Mac serves one replica, and ${replicas} are asked for: the cluster stays at ${phase}. Set replicas to 1.`,
    )
  }
  if (model !== undefined && model.status.phase !== 'Ready') {
    return failed(
      `The cluster's controller does not call Model ${model.metadata.name} ready (${model.status.phase || 'no phase'}) and ignores this address until it does; for a local path it needs --allowed-host-path-roots.`,
    )
  }
  return active(`The cluster still says ${phase}.`)
}
