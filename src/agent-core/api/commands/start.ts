import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { isApiError } from '../../kube/api-error.ts'
import { isKueues, kueueQueue, startInCluster } from './cluster-stop.ts'
import { done, refused, refusedByCluster, type Outcome } from './results.ts'
import { dropHold, knownService, type Known, type Rooms } from './rooms.ts'

/** Undoes every stop: the hold on this machine, and what the cluster was told. */
export async function start(rooms: Rooms, { service }: Extract<Command, { name: 'start' }>): Outcome {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  const wasIdle = known.session.reconciler.wake(key)
  const wasHeld = known.report.hold !== undefined
  if (wasHeld) {
    await dropHold(rooms, known)
    rooms.history.add({ kind: 'broughtBack', service, message: 'Brought back on this machine, by a person.' })
  }
  try {
    const { changed, service: now } = await startInCluster(known.session.cluster, service)
    if (changed) return done(`${key} is started: the cluster asks for it again.`)
    if (isKueues(now.metadata) && now.spec.value.suspend) {
      return done(`${key} is asked for; it starts when the Kueue queue ${now.metadata.labels[kueueQueue]} lets it go.`)
    }
    return done(wasHeld || wasIdle ? `${key} is started on this machine.` : `${key} is asked for already.`)
  } catch (error) {
    if (!isApiError(error)) throw error
    if ((wasHeld || wasIdle) && isAskedFor(known)) return done(`${key} is started on this machine.`)
    return refusedByCluster(`${key} is not started`, error)
  }
}

/** As far as is known here. */
function isAskedFor({ report: { service } }: Known): boolean {
  return service?.spec.ok === true && !service.spec.value.suspend && service.spec.value.replicas > 0
}
