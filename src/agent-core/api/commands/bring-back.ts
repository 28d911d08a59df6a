import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import { dropHold, knownService, type Rooms } from './rooms.ts'

/** Ends whatever holds a service back on this machine; what the cluster was told stays. */
export async function bringBack(rooms: Rooms, { service }: Extract<Command, { name: 'bringBack' }>): Outcome {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  if (known.session.reconciler.wake(key)) return done(`${key} is started on this machine.`)
  if (!known.report.hold) return done(`${key} is not held back on this machine.`)
  await dropHold(rooms, known)
  rooms.history.add({ kind: 'broughtBack', service, message: 'Brought back on this machine, by a person.' })
  return done(`${key} may be served by this machine again.`)
}
