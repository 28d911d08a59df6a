import type { Command } from '../../../contract/commands.ts'
import { accepted, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Ends the agent, after the answer was given. */
export function shutdown({ agent }: Rooms, { keepServing }: Extract<Command, { name: 'shutdown' }>): Outcome {
  const { shutDown } = agent
  if (!shutDown) return Promise.resolve(refused('This agent is ended by the program that runs it.'))
  setImmediate(() => shutDown({ keepServing }))
  return Promise.resolve(
    accepted(
      keepServing
        ? 'The agent ends; its servers and what is published of them stay, for the next agent on this state folder to take over.'
        : 'The agent ends: it withdraws what it serves, lets requests in flight finish and stops its servers.',
    ),
  )
}
