import type { Command } from '../../../contract/commands.ts'
import { explicitHostAddress } from '../../publishing/host-address.ts'
import { done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** What is published in EndpointSlices. */
export async function setHostAddress(rooms: Rooms, { address }: Extract<Command, { name: 'setHostAddress' }>): Outcome {
  const { settings, agent, history } = rooms
  const now = settings.hostAddress
  if (now.by === 'flag') {
    return refused(
      `The host address stays ${now.address}, as --host-ip says; start the agent without that flag to choose here.`,
    )
  }
  const wanted = address === 'automatic' ? undefined : address
  const judged =
    wanted === undefined ? undefined : explicitHostAddress({ by: 'person', address: wanted }, rooms.interfaces())
  if (judged?.kind === 'none') return refused(judged.message)
  if ((now.by === 'person' ? now.address : undefined) === wanted) return done('The host address is set so already.')
  await settings.chooseHostAddress(wanted)
  const what = wanted === undefined ? 'chosen automatically' : `set to ${wanted}`
  history.add({
    ...{ kind: 'settingsChanged', message: `The host address was ${what}, by a person.` },
    undo: { name: 'setHostAddress', address: now.by === 'person' ? now.address : 'automatic' },
  })
  await agent.checkAddress()
  const followed = `The host address is ${what}; what is published follows at once, and no server restarts.`
  return done(judged?.warning === undefined ? followed : `${followed} ${judged.warning}`)
}
