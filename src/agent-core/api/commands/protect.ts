import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import { knownService, type Rooms } from './rooms.ts'

/** Keeps a service from eviction on this machine, or no longer; what its specification says stays. */
export async function protect(rooms: Rooms, command: Extract<Command, { name: 'protect' }>): Outcome {
  const { service, protect: wanted } = command
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  const { absences, agent, history } = rooms
  const { spec } = known.report.service ?? {}
  const isBySpec = spec?.ok === true && spec.value.evictionProtection
  if (isBySpec && !wanted) {
    return refused(
      `${key} stays protected, since spec.evictionProtection of the InferenceService says so: change it there.`,
    )
  }
  const wasProtected = absences.isProtected(known.uid)
  await absences.protect(known.uid, wanted)
  if (wasProtected !== wanted && !isBySpec) {
    history.add({
      ...{
        kind: 'settingsChanged',
        service,
        message: `${wanted ? 'Protected' : 'Not protected any more'} here, by a person.`,
      },
      undo: { name: 'protect', service, protect: !wanted },
    })
  }
  known.session.reconciler.enqueue(key)
  agent.changed()
  if (wanted) return done(`${key} is protected on this machine: memory pressure does not evict it.`)
  return done(`${key} may be evicted when memory is critically short.`)
}
