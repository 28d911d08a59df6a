import { setTimeout as delay } from 'node:timers/promises'
import { socketPathFor, StrangeSocketError } from '../../agent-core/state/socket-path.ts'
import { LinkError } from '../../contract/client.ts'
import type { KnownPlaces } from '../../installation/uninstall/all-parts.ts'
import { UninstallError } from '../../installation/uninstall/trace-part.ts'
import { probeSocket } from '../../serve/client/probe-socket.ts'
import { connect, type AgentSessionOptions } from '../agent-session.ts'

/** The agent or app that has the state folder. */
export interface RunningAgent extends KnownPlaces {
  /** Models in memory, as namespace/name. */
  readonly serving: readonly string[]
}

/** Undefined where none runs. Throws UninstallError where one runs that does not say what it does. */
export async function findAgent(session: AgentSessionOptions): Promise<RunningAgent | undefined> {
  try {
    await using agent = await connect(session)
    const { services, cluster } = await agent.snapshot()
    const { settings, start } = await agent.query({ name: 'settings' })
    const started = (name: string) => start.find((one) => one.name === name)?.value
    const kubeconfig = settings.find(({ name }) => name === 'kubeconfig')?.value
    const { context, server, namespace } = cluster
    return {
      serving: services.filter(({ pid }) => pid !== undefined).map((one) => `${one.namespace}/${one.name}`),
      modelStore: started('modelStore'),
      namespace,
      ...(typeof kubeconfig === 'string' && { kubeconfig }),
      ...(server !== '' && { cluster: { context, server } }),
    }
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    // No agent of ours listens there; one that runs all the same has the lock, which is asked for before anything is removed.
    if (error.cause instanceof StrangeSocketError) return undefined
    if (error.code === 'gone' && !(await listens(session))) return undefined
    throw new UninstallError(`${error.message} Nothing was removed: end that agent first.`, { cause: error })
  }
}

const listens = ({ io, stateDir }: AgentSessionOptions): Promise<boolean> =>
  probeSocket(socketPathFor(stateDir, io.temporaryDir), stateDir)

/** The longest drain that a person can set is waited for, and what an end takes beside it. */
const endLimitMs = 3_700_000
const lookMs = 200

/** Has it withdraw, let requests finish, stop its servers and end. Throws UninstallError and LinkError. */
export async function endAgent(session: AgentSessionOptions): Promise<void> {
  const agent = await connect(session)
  try {
    const { outcome, message } = await agent.command({ name: 'shutdown' })
    if (outcome !== 'accepted' && outcome !== 'done') throw new UninstallError(message)
  } finally {
    await agent.close()
  }
  const until = performance.now() + endLimitMs
  while (await listens(session)) {
    if (performance.now() > until) throw new UninstallError('The agent does not end. Nothing was removed.')
    await delay(lookMs)
  }
}
