import type { Command } from '../../../contract/commands.ts'
import { KubeconfigError } from '../../kube/pinned-context.ts'
import { doubtInMove } from './context-doubts.ts'
import { accepted, done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Serves another cluster from now on, where nothing is in doubt about it or a person says yes to that. */
export async function selectContext(rooms: Rooms, command: Extract<Command, { name: 'selectContext' }>): Outcome {
  const { context: name, accept } = command
  const { settings, agent, history } = rooms
  if (settings.hasContextFlag) {
    return refused(
      `The context stays "${settings.current.context}", as --context says; start the agent without that flag to choose here.`,
    )
  }
  try {
    const context = await agent.loadContext(name)
    const present = agent.servedContext()
    if (present?.isAt(context)) {
      await settings.chooseContext(name)
      return done(`The context is "${name}" already.`)
    }
    const doubt = await doubtInMove(rooms, { context, namespace: settings.current.namespace, accept })
    if (doubt) {
      return refused(doubt.message, { command: { ...command, accept: [...accept, doubt.doubt] }, label: doubt.label })
    }
    await settings.chooseContext(name)
    history.add({
      ...{ kind: 'settingsChanged', message: `Context "${name}" (${context.server}) was chosen by a person.` },
      ...(present && { undo: { name: 'selectContext', context: present.name, accept: [] } }),
    })
    agent.moveTo(context, `the cluster of context "${name}"`)
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
