import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { isApiError } from '../../kube/api-error.ts'
import { isKueues, stopInCluster } from './cluster-stop.ts'
import { done, refused, refusedByCluster, type Outcome } from './results.ts'
import { holdHere, knownService, type Rooms } from './rooms.ts'

/** In the cluster, so that every agent and every tool sees it; or only here, where the cluster does not take it. */
export async function stop(rooms: Rooms, { service, scope }: Extract<Command, { name: 'stop' }>): Outcome {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  if (scope === 'here') {
    if (known.personsHold) {
      return done(`${key} is held back on this machine already. ${known.personsHold.message}`)
    }
    const message = 'Stopped only on this machine, by a person; Start brings it back.'
    await holdHere(rooms, known, 'stopped', message)
    return done(`${key} is stopped on this machine; the cluster still asks for it, and another machine may take it.`)
  }
  try {
    const { changed, service: now } = await stopInCluster(known.session.cluster, service)
    if (!changed) return done(`${key} is stopped in the cluster already.`)
    const how = now.spec.value.replicas === 0 ? 'scaled to zero replicas' : 'suspended (spec.suspend)'
    const why = isKueues(now.metadata) ? ', since Kueue decides about spec.suspend' : ''
    return done(`${key} is ${how} in the cluster${why}; its server finishes what is in flight and ends.`)
  } catch (error) {
    if (!isApiError(error)) throw error
    return refusedByCluster(`${key} is not stopped`, error, {
      command: { name: 'stop', service, scope: 'here' },
      label: 'Stop only on this machine',
    })
  }
}
