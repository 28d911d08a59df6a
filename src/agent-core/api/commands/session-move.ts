import type { SettingsPatch } from '../../../contract/settings.ts'
import type { PinnedContext } from '../../kube/pinned-context.ts'
import type { Rooms } from './rooms.ts'

/** Where the agent goes once the settings are kept. */
export interface SessionMove {
  readonly context: PinnedContext
  /** Absent = all of them. */
  readonly namespace: string | undefined
  /** Completes "this machine moves to …". */
  readonly where: string
  /** A sentence for the person who asked for it. */
  readonly message: string
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
  const present = agent.servedContext()
  const isOtherFile = kubeconfig !== before.kubeconfig
  const isOtherNamespace = namespace !== before.namespace
  const context = isOtherFile ? await agent.loadKubeconfig(kubeconfig) : present
  if (!context || (!isOtherFile && !isOtherNamespace)) return undefined
  const file = kubeconfig ?? 'the usual kubeconfig'
  if (!present?.isAt(context)) {
    const where = `context "${context.name}" (${context.server}) of ${file}`
    const message = present
      ? `What runs here is withdrawn and stopped; then the agent serves ${where}.`
      : `The agent connects to ${where}.`
    return { context, namespace, where, message }
  }
  const where = namespace === undefined ? 'all namespaces' : `namespace "${namespace}"`
  const told = [
    ...(isOtherFile
      ? [`The cluster stays "${context.name}" (${context.server}), with the credentials of ${file} from now on.`]
      : []),
    isOtherNamespace ? toldOfNamespace(namespace, where) : 'Nothing is stopped.',
  ]
  return { context, namespace, where, message: told.join(' ') }
}

const toldOfNamespace = (namespace: string | undefined, where: string): string =>
  namespace === undefined
    ? `The agent serves ${where}, and what runs here goes on.`
    : `What runs here for other namespaces is withdrawn and stopped; then the agent serves ${where}.`
