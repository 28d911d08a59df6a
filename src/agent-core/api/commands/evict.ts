import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import { holdHere, knownService, type Rooms } from './rooms.ts'

/** Leaves memory now, on this machine, until brought back. */
export async function evict(rooms: Rooms, { service }: Extract<Command, { name: 'evict' }>): Outcome {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  if (known.personsHold) {
    return done(`${key} is held back on this machine already. ${known.personsHold.message}`)
  }
  await holdHere(
    rooms,
    known,
    'evicted',
    'Evicted from the memory of this machine, by a person, until it is brought back.',
  )
  rooms.history.add({ kind: 'evicted', service, message: 'Evicted by a person.' })
  return done(
    `${key} leaves the memory of this machine when what is in flight has finished; another machine may take it.`,
  )
}
