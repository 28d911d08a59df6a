import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import { holdHere, knownService, type Rooms } from './rooms.ts'

/** Lets another machine take the service. */
export async function release(rooms: Rooms, { service }: Extract<Command, { name: 'release' }>): Outcome {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  if (known.personsHold) return done(`${key} is free for other machines already. ${known.personsHold.message}`)
  const { hold, observed } = known.report
  const { claim, message } = observed.publication
  if (!hold && claim !== 'ours' && claim !== 'uncertain') {
    return refused(`${key} is not released: this machine has no claim on it. ${message}`.trim())
  }
  await holdHere(
    rooms,
    known,
    'released',
    'Released for other machines, by a person; bringing it back claims it again.',
  )
  return done(`${key} is withdrawn here and free for any other machine; where there is none, nobody serves it.`)
}
