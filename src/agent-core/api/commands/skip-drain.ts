import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import { knownService, type Rooms } from './rooms.ts'

/** Ends a drain at once: requests in flight are cut short. */
export function skipDrain(rooms: Rooms, { service }: Extract<Command, { name: 'skipDrain' }>): Outcome {
  const known = knownService(rooms, service)
  const key = refKey(service)
  if (typeof known === 'string') return Promise.resolve(refused(known))
  return Promise.resolve(
    rooms.servers.skipDrain(key)
      ? done(`The server of ${key} ends now; what was in flight is cut short.`)
      : refused(`The server of ${key} is not waiting for requests to finish.`),
  )
}
