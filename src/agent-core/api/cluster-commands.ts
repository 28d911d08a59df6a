import { accepted, done, failed, type Outcome, refused, type Rooms } from './command.ts'
import { doubtAbout } from '../kube/cluster.ts'
import { KubeconfigError } from '../kube/kubeconfig.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import { looksLikeProduction } from '../../contract/cluster.ts'
import type { Command, ContextDoubt } from '../../contract/commands.ts'
import type { SettingsPatch } from '../../contract/settings.ts'

/** Serves another cluster from now on, where nothing is in doubt about it or a person says yes to that. */
export async function selectContext(rooms: Rooms, command: Extract<Command, { name: 'selectContext' }>): Outcome {
  const { context: name, accept } = command
  const { settings, link, history } = rooms
  if (settings.hasContextFlag) {
    return refused(
      `The context stays "${settings.current.context}", as --context says; start the agent without that flag to choose here.`,
    )
  }
  try {
    const context = await link.choice.loadContext(name)
    const present = link.servedContext
    if (present?.isAt(context)) {
      await settings.chooseContext(name)
      return done(`The context is already "${name}".`)
    }
    const doubt = await doubtInMove(rooms, { context, namespace: settings.current.namespace, accept })
    if (doubt) {
      return refused(doubt.message, { command: { ...command, accept: [...accept, doubt.doubt] }, label: doubt.label })
    }
    await settings.chooseContext(name)
    history.add({
      ...{ kind: 'settingsChanged', message: `A person chose context "${name}" (${context.server}).` },
      ...(present && { undo: { name: 'selectContext', context: present.name, accept: [] } }),
    })
    link.moveTo(context, `the cluster of context "${name}"`)
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

/** Credentials as the kubeconfig has them now; a context that stands for another server by now is a person's choice to make. */
export async function reloadKubeconfig({ link }: Rooms): Outcome {
  const connected = () => link.session?.cluster.api.context
  const present = connected()
  if (!present) {
    await link.connect()
    const found = connected()
    return found ? done(`The agent connects to "${found.name}" (${found.server}).`) : failed(link.view().message)
  }
  const renewal = await link.choice.renew(present)
  switch (renewal.kind) {
    case 'renewed':
      return done(`The kubeconfig was read again; the agent stays with "${present.name}" (${present.server}).`)
    case 'otherServer':
      return refused(`${renewal.message}: choose the context to move there, which stops what runs here first.`, {
        command: { name: 'selectContext', context: present.name },
        label: `Move to ${renewal.server}`,
      })
    case 'unusable':
      return failed(renewal.message)
  }
}

/** Which cluster the agent moves to once the settings are kept. */
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
export async function sessionMove({ settings, link }: Rooms, patch: SettingsPatch): Promise<SessionMove | undefined> {
  const before = settings.current
  const { kubeconfig, namespace } = settings.with(patch)
  const present = link.servedContext
  const isOtherFile = kubeconfig !== before.kubeconfig
  const isOtherNamespace = namespace !== before.namespace
  const context = isOtherFile ? await link.choice.loadKubeconfig(kubeconfig) : present
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
  const sentences = [
    ...(isOtherFile
      ? [`The cluster stays "${context.name}" (${context.server}), with the credentials of ${file} from now on.`]
      : []),
    isOtherNamespace ? namespaceMoveMessage(namespace, where) : 'Nothing is stopped.',
  ]
  return { context, namespace, where, message: sentences.join(' ') }
}

/** A session that was opened while its settings were being written serves the namespace of before. */
export function moveOfNews({ settings, link }: Rooms): SessionMove | undefined {
  const { namespace } = settings.current
  const context = link.servedContext
  const served = link.session?.cluster
  if (!context || !served || served.namespace === namespace) return undefined
  const where = namespace === undefined ? 'all namespaces' : `namespace "${namespace}"`
  return { context, namespace, where, message: namespaceMoveMessage(namespace, where) }
}

const namespaceMoveMessage = (namespace: string | undefined, where: string): string =>
  namespace === undefined
    ? `The agent serves ${where}, and what runs here keeps running.`
    : `What runs here for other namespaces is withdrawn and stopped; then the agent serves ${where}.`

interface MoveInQuestion {
  readonly context: PinnedContext
  /** To be served there. Absent = all of them. */
  readonly namespace: string | undefined
  /** What a person said yes to before. */
  readonly accept: readonly ContextDoubt[]
}

interface DoubtInMove {
  readonly doubt: ContextDoubt
  readonly message: string
  /** The label of the button that does it anyway. */
  readonly label: string
}

/**
 * What a person has to say yes to before the present cluster is left for another: what runs for it comes down first, so before that the
 * other has to answer and to have LLMKube, and one that is called production is asked about. Undefined where nothing is in doubt.
 */
export async function doubtInMove(
  { link, platform }: Rooms,
  { context, namespace, accept }: MoveInQuestion,
): Promise<DoubtInMove | undefined> {
  const present = link.servedContext
  if (present?.isAt(context)) return undefined
  const { name, server } = context
  if (looksLikeProduction(name) && !accept.includes('production')) {
    return {
      doubt: 'production',
      message: `Context "${name}" (${server}) looks like production by its name: this machine would claim and serve its InferenceServices, and what runs here for the current cluster would stop.`,
      label: `Serve "${name}"`,
    }
  }
  if (!present || accept.includes('unverified')) return undefined
  const reason = await doubtAbout(context, {
    namespace,
    whyUnreachable: platform.whyUnreachable?.bind(platform),
  })
  return reason === undefined
    ? undefined
    : {
        doubt: 'unverified',
        message: `The context stays "${present.name}", and nothing was stopped, because nothing could be served for "${name}". ${reason}`,
        label: 'Switch anyway',
      }
}
