import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { AgentProcess } from './agent-process.ts'
import { AgentWorld } from './agent-world.ts'
import type { ClusterConnection } from './control-plane/admin-client.ts'
import { writeKubeconfig } from './control-plane/kubeconfig.ts'
import { createNetworkNamespace, type NetworkNamespace } from './network-namespace.ts'

export interface LentWorld extends AsyncDisposable {
  readonly world: AgentWorld
  /** Another host, at whose side of the cable this machine publishes: the gateway listens at an address that is there alone. */
  readonly other: NetworkNamespace
  /** A folder whose models an agent serves from where they are. */
  readonly lent: string
  /** Of the agents. */
  readonly folder: string
  /** An agent as a process, the next life of the one before. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<AgentProcess>
}

export async function lentWorld(connection: ClusterConnection): Promise<LentWorld> {
  await using parts = new AsyncDisposableStack()
  const other = parts.use(await createNetworkNamespace())
  const world = parts.use(await AgentWorld.open(connection))
  const [lent, folder] = [path.join(world.folder, 'lent'), path.join(world.folder, 'agent')]
  await mkdir(lent)
  const kubeconfig = await readFile(await writeKubeconfig(path.join(world.folder, 'kubeconfig'), connection), 'utf8')
  const owned = parts.move()
  const usual = ['--namespace', world.namespace, '--allowed-model-roots', lent, '--host-ip', other.here]
  return {
    ...{ world, other, lent, folder },
    start: (args, env = {}) => AgentProcess.start({ folder, kubeconfig, args: [...usual, ...args], env }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
