import type { Command } from '../../contract/commands.ts'
import { accepted, notAvailable, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Ends the agent, after the answer was given. */
export function shutdown({ agent }: Rooms, { keepServing }: Extract<Command, { name: 'shutdown' }>): Outcome {
  const { shutDown } = agent
  if (!shutDown) return Promise.resolve(refused('This agent is ended by the program that runs it.'))
  if (keepServing) {
    return Promise.resolve(notAvailable('Servers cannot be left to the next agent yet: it would not take them over.'))
  }
  setImmediate(() => shutDown({ keepServing }))
  return Promise.resolve(
    accepted('The agent ends: it withdraws what it serves, lets requests in flight finish and stops its servers.'),
  )
}
