import { KubeconfigError } from '../../kube/pinned-context.ts'
import { done, failed, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Credentials as the kubeconfig has them now; a context that stands for another server by now is a person's choice to make. */
export async function reloadKubeconfig({ session, agent }: Rooms): Outcome {
  const present = session()?.cluster.api.context
  if (!present) {
    await agent.connect()
    const found = session()?.cluster.api.context
    return found ? done(`The agent connects to "${found.name}" (${found.server}).`) : failed(agent.clusterMessage())
  }
  try {
    const { server } = await agent.loadContext(present.name)
    if (server !== present.server) {
      const what = `Context "${present.name}" now stands for ${server}, and the agent stays with ${present.server}`
      return refused(`${what}: choose the context to move there, which stops what runs here first.`, {
        command: { name: 'selectContext', context: present.name },
        label: `Move to ${server}`,
      })
    }
    await present.renew()
    return done(`The kubeconfig was read anew; the agent stays with "${present.name}" (${present.server}).`)
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error
    return failed(`The agent stays with "${present.name}" and the credentials it has: ${error.message}`)
  }
}
