import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClusterConnection } from './admin-client.ts'
import { Child } from './child.ts'
import { controllerManagerCommand } from './commands.ts'
import { writeKubeconfig } from './kubeconfig.ts'

/** Longest time until it works; its informers are filled in about 2 s when it has a core. */
const readyLimitMs = 120_000

/** What deletes by ownerReference, and what writes EndpointSlices and Endpoints beside us. */
const controllers = [
  'garbage-collector-controller',
  'namespace-controller',
  'endpoints-controller',
  'endpointslice-controller',
  'endpointslice-mirroring-controller',
]

/** Why there can be no controller manager here; undefined when there can. */
export function missingControllerManager(): string | undefined {
  const found = controllerManagerCommand()
  return 'missing' in found ? found.missing : undefined
}

/**
 * The real kube-controller-manager with the controllers our objects meet. It acts on the whole cluster: give it an API
 * server that no other test uses. Resolves once its garbage collector works, so apply CRDs before.
 */
export async function startControllerManager(connection: ClusterConnection): Promise<AsyncDisposable> {
  const found = controllerManagerCommand()
  if ('missing' in found) throw new Error(found.missing)
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-controller-manager-'))
  const log = join(folder, 'controller-manager.log')
  await using starting = new AsyncDisposableStack()
  starting.defer(() => rm(folder, { recursive: true, force: true }))
  const [program, ...args] = found.command
  const flags = [
    `--kubeconfig=${await writeKubeconfig(join(folder, 'kubeconfig'), connection)}`,
    `--controllers=${controllers.join(',')}`,
    '--leader-elect=false',
    '--secure-port=0',
  ]
  const manager = starting.use(new Child(program, [...args, ...flags], log))
  const works = async () => (await readFile(log, 'utf8')).includes(garbageCollectorWorks)
  await manager.ready(works, 'kube-controller-manager', readyLimitMs)
  return starting.move()
}

/** What its garbage collector logs when it has seen every kind of object once. */
const garbageCollectorWorks = 'Proceeding to collect garbage'
