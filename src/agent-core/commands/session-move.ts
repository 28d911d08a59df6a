import type { SettingsPatch } from '../../contract/settings.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import type { Rooms } from './rooms.ts'

/** Where the agent goes once the settings are kept. */
export interface SessionMove {
  readonly context: PinnedContext
  /** Completes "this machine moves to …". */
  readonly where: string
}

/**
 * What settings of a cluster ask for beside being kept; undefined where what is served stays. Throws KubeconfigError, also where the new
 * kubeconfig has no context to serve.
 */
export async function sessionMove(
  { settings, agent }: Pick<Rooms, 'settings' | 'agent'>,
  patch: SettingsPatch,
): Promise<SessionMove | undefined> {
  const before = settings.current
  const { kubeconfig, namespace } = settings.with(patch)
  if (kubeconfig !== before.kubeconfig) {
    const context = await agent.loadKubeconfig(kubeconfig)
    return {
      context,
      where: `context "${context.name}" (${context.server}) of ${kubeconfig ?? 'the usual kubeconfig'}`,
    }
  }
  const context = agent.servedContext()
  if (namespace === before.namespace || !context) return undefined
  return { context, where: namespace === undefined ? 'all namespaces' : `namespace "${namespace}"` }
}
