import { createHash } from 'node:crypto'
import { availableParallelism, loadavg } from 'node:os'
import { type AgentRooms, noGateway, type RoomContext } from './agent-rooms.ts'
import { launchRules, portPolicy, specPolicy } from '../api/settings.ts'
import type { SessionHooks } from '../cluster/cluster-link.ts'
import { clusterSession, type ClusterSession } from '../cluster/cluster-session.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import { sessionCounters } from '../observability/metric-feeds.ts'
import type { NodeFacts } from '../publishing/lease-content.ts'
import { ServerLaunches } from '../reconcile/server-launches.ts'
import { hostFor, loopback } from '../servers/listening.ts'

/** A session with one cluster, by the settings as they are when it begins. */
export function openSession(
  { options, metrics }: RoomContext,
  rooms: AgentRooms,
  pinned: PinnedContext,
  { onClusterState, onChange }: SessionHooks,
): ClusterSession {
  const { identity, version, platform, log, idleMinuteMs = 60_000, refreshEveryMs } = options
  const { models, servers, memory, unloadReasons, turns, narrator, apiKeys, relays } = rooms
  const { address, gateway, sleep, installed, dialects, machine, findProgram, link } = rooms
  const settings = rooms.settings.current
  const now = () => rooms.settings.current
  apiKeys.readAgain()
  const launches = new ServerLaunches({
    settings: {
      defaultRuntime: settings.runtime,
      offered: settings.runtimes,
      installed: () => installed.found,
      unverified: () => installed.unverified,
      performanceCores: machine.performanceCores,
      policy: specPolicy(settings),
      port: (runtime) => portPolicy(settings, runtime),
      host: (runtime, key) => {
        const { ip, warning } = address.facts
        const publisher = link.session?.publisher
        const isRelayed = publisher?.isRelayWanted === true || publisher?.wayFor(key) === 'relay'
        // Where pods come directly all the same, the gateway listens at the published address, if that is one of this machine.
        const isAlone = isRelayed && (warning === undefined || now().publish === 'relay')
        return runtime.isBehindGateway || isAlone ? loopback : hostFor(now().listen, ip)
      },
      daemonPort: ({ port }) => settings[port],
      owner: ownerOf(settings.stateDir),
      rules: (runtime) => launchRules(now(), runtime),
    },
    ...{ models, dialects, findBinary: findProgram, metal: machine.hasMetal },
    allowsFile: (path, namespace) => models.allowsFile(path, namespace),
  })
  return clusterSession({
    ...{ models, servers, memory, unloadReasons, turns, narrator, launches, apiKeys, log, identity, refreshEveryMs },
    ...{ context: pinned, namespace: settings.namespace, agentVersion: version, ingress: relays, onClusterState },
    ...sessionCounters(metrics),
    onChange,
    nodeFacts: () => nodeFacts(rooms, { displayName: identity.displayName, agentVersion: version }),
    publishMode: () => now().publish,
    whyUnreachable: platform.whyUnreachable?.bind(platform),
    settings: {
      allowlist: settings.inferenceServiceAllowlist,
      listen: () => now().listen,
      idleMinuteMs,
    },
    hostAddress: () => address.facts,
    door: (at, port) => gateway?.door(at, port) ?? noGateway,
    silenceOf: (key) => sleep.silenceOf(key),
  })
}

/** Another for each state folder, since agents of one person may share a daemon. */
const ownerOf = (stateDir: string): string => createHash('sha256').update(stateDir).digest('hex').slice(0, 8)

/** The facts about this machine that its Lease tells the cluster. A fact that cannot be read now is left out. */
async function nodeFacts(
  { models, servers, memory, power, installed, unloadReasons, log }: AgentRooms,
  agent: Pick<NodeFacts, 'displayName' | 'agentVersion'>,
): Promise<NodeFacts> {
  const onDisk = models.onDisk().catch((error: unknown) => {
    log.debug('models on disk not listed', { error })
    return []
  })
  const [load = 0] = loadavg()
  return {
    ...agent,
    runtimes: await installed.look(),
    budgetBytes: memory.budget?.bytes,
    availableBytes: memory.view?.figures?.availableBytes,
    models: await onDisk,
    modelsServed: [...servers.state().values()].filter(({ kind }) => kind === 'ready').length,
    load: load / availableParallelism(),
    watts: power.figures?.combinedWatts,
    paused: unloadReasons.pausedSince !== undefined,
  }
}
