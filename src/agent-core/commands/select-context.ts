import type { Command, ContextDoubt } from '../../contract/commands.ts'
import { looksLikeProduction } from '../../contract/production.ts'
import { KubeconfigError } from '../kube/pinned-context.ts'
import { accepted, done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

type SelectContext = Extract<Command, { name: 'selectContext' }>

/**
 * Serves another cluster from now on. What runs for the present one comes down first, so before that the other has to answer and to have
 * LLMKube, and one that is called production is asked about; a person may say yes to either.
 */
export async function selectContext(rooms: Rooms, command: SelectContext): Outcome {
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
    if (present?.name === name && present.server === context.server) {
      await settings.chooseContext(name)
      return done(`The context is "${name}" already.`)
    }
    if (looksLikeProduction(name) && !accept.includes('production')) {
      return asked(command, 'production', {
        message: `Context "${name}" (${context.server}) is called production: this machine would claim and serve what its InferenceServices ask for, and what runs here for the present cluster would stop.`,
        label: `Serve "${name}"`,
      })
    }
    if (present && !accept.includes('unverified')) {
      const doubt = await agent.doubtAbout(context)
      if (doubt !== undefined) {
        return asked(command, 'unverified', {
          message: `The context stays "${present.name}", and nothing was stopped: nothing could be served for "${name}". ${doubt}`,
          label: 'Switch anyway',
        })
      }
    }
    await settings.chooseContext(name)
    history.add({ kind: 'settingsChanged', message: `Context "${name}" (${context.server}) was chosen by a person.` })
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

const asked = (
  command: SelectContext,
  doubt: ContextDoubt,
  { message, label }: { readonly message: string; readonly label: string },
) => refused(message, { command: { ...command, accept: [...command.accept, doubt] }, label })
