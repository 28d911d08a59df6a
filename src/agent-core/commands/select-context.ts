import type { Command } from '../../contract/commands.ts'
import { KubeconfigError } from '../kube/pinned-context.ts'
import { accepted, done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Serves another cluster from now on; what runs for the present one comes down first. */
export async function selectContext(
  rooms: Rooms,
  { context: name }: Extract<Command, { name: 'selectContext' }>,
): Outcome {
  const { settings, agent, history } = rooms
  if (settings.hasContextFlag) {
    return refused(
      `The context stays "${settings.current.context}", as --context says; start the agent without that flag to choose here.`,
    )
  }
  try {
    const context = await agent.loadContext(name)
    const present = agent.servedContext()
    await settings.chooseContext(name)
    if (present?.name === name && present.server === context.server) return done(`The context is "${name}" already.`)
    history.add({ kind: 'settingsChanged', message: `Context "${name}" (${context.server}) was chosen by a person.` })
    agent.moveTo(context)
    return accepted(
      present
        ? `What runs for context "${present.name}" is withdrawn and stopped; then the agent serves "${name}" (${context.server}).`
        : `The agent connects to "${name}" (${context.server}).`,
    )
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error
    return refused(`The context stays as it is: ${error.message}`)
  }
}
