import type { ServiceView, Step } from '../../../contract/service.ts'
import type { InferenceService, Model } from '../../kube/resources.ts'
import { clusterAgreement } from '../../reconcile/cluster-agreement.ts'
import type { Observation } from '../../reconcile/plan/observation.ts'

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

function clusterStep(service: InferenceService | undefined, model: Model | undefined): Step {
  const agreement = clusterAgreement(service, model)
  switch (agreement.kind) {
    case 'agrees':
      return done
    case 'disagrees':
      return failed(agreement.message)
    case 'pending':
    case 'noController':
      return active(agreement.message)
  }
}
