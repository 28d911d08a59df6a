import type { ServiceRef } from '../../../contract/commands.ts'
import type { Hold, HoldCause } from '../../../contract/service.ts'
import type { Energy } from '../../power/energy.ts'
import type { History } from '../../history/history.ts'
import type { Cluster } from '../../kube/cluster.ts'
import type { PinnedContext } from '../../kube/pinned-context.ts'
import type { Memory } from '../../memory/memory.ts'
import type { Models } from '../../models/models.ts'
import type { Power } from '../../power/power.ts'
import type { Logger } from '../../observability/logger.ts'
import type { PersonSettings } from '../../settings/person-settings.ts'
import type { LogLevel } from '../../settings/settings.ts'
import type { Servers } from '../../servers/servers.ts'
import type { HostCandidate } from '../../publishing/host-address.ts'
import type { PanicFuse } from '../../power/panic-fuse.ts'
import type { Absences } from '../../reconcile/absences.ts'
import type { ServiceReport } from '../../reconcile/service-report.ts'
import type { Reconciler } from '../../reconcile/reconciler.ts'
import { refKey } from '../../util/object-key.ts'

/** What commands act on. */
export interface Rooms {
  readonly absences: Absences
  readonly fuse: Pick<PanicFuse, 'serveAgain'>
  readonly history: History
  readonly settings: PersonSettings
  readonly servers: Servers
  readonly models: Models
  readonly memory: Memory
  readonly power: Pick<Power, 'settingsChanged'>
  readonly supply: { readonly settingsChanged: () => void }
  readonly energy: Pick<Energy, 'settingsChanged'>
  readonly log: Logger
  /** Undefined while there is no usable kubeconfig. */
  readonly session: () => Session | undefined
  readonly interfaces: () => readonly HostCandidate[]
  readonly agent: AgentControls
}

export interface Session {
  readonly cluster: Cluster
  readonly reconciler: Reconciler
}

/** What only the agent itself can do. */
export interface AgentControls {
  /** Why there is no session, in a sentence. */
  readonly clusterMessage: () => string
  /** A context of the kubeconfig as it is now; throws KubeconfigError. */
  readonly loadContext: (name: string) => Promise<PinnedContext>
  /** Why nothing could be served there, as a sentence; undefined where its cluster answers and has LLMKube. */
  readonly doubtAbout: (context: PinnedContext, namespace: string | undefined) => Promise<string | undefined>
  /** Of another kubeconfig, absent = the usual one: the context that is served, or its current one. Throws KubeconfigError. */
  readonly loadKubeconfig: (file: string | undefined) => Promise<PinnedContext>
  /** The one that is served, or is about to be; undefined while there is none. */
  readonly servedContext: () => PinnedContext | undefined
  /**
   * Brings down what is not served any more, then serves the context in the namespace that is set; returns at once. `where` completes
   * "moves to …".
   */
  readonly moveTo: (context: PinnedContext, where: string) => void
  /** Connects now instead of at the next look; resolves when it has, or cannot. */
  readonly connect: () => Promise<void>
  /** Publishes the address that the settings now ask for. */
  readonly checkAddress: () => Promise<void>
  readonly setLogLevel: ((level: LogLevel) => void) | undefined
  /** Undefined where the host of the agent does not let it end itself. */
  readonly shutDown: ((request: ShutdownRequest) => void) | undefined
  /** Something that a snapshot shows has changed. */
  readonly changed: () => void
}

export interface ShutdownRequest {
  /** Servers and what is published are left to the next agent. */
  readonly keepServing: boolean
}

export interface Known {
  readonly session: Session
  readonly report: ServiceReport
  readonly uid: string
  /** What a person held back stays as they said; what memory pressure evicted would come back by itself. */
  readonly personsHold: Hold | undefined
}

/** A service that is shown here, or the sentence that says why there is none. */
export function knownService({ session, agent }: Rooms, ref: ServiceRef): Known | string {
  const current = session()
  const key = refKey(ref)
  if (!current) return `There is no cluster to ask about ${key}: ${agent.clusterMessage()}`
  const report = current.reconciler.report(key)
  const uid = report?.uid
  if (!report || uid === undefined) {
    return `This machine knows no InferenceService ${key}; look at its name and namespace.`
  }
  const { hold } = report
  return { session: current, report, uid, personsHold: hold?.by === 'person' ? hold : undefined }
}

/** Writes the hold down and lets it take effect. Throws StateFileError. */
export async function holdHere(rooms: Rooms, known: Known, cause: HoldCause, message: string): Promise<void> {
  const { namespace, name, key } = known.report
  const target = { uid: known.uid, namespace, name, cluster: known.session.cluster.api.context.server }
  await rooms.absences.hold(target, { kind: 'held', cause, since: new Date().toISOString(), message })
  known.session.reconciler.enqueue(key)
  rooms.agent.changed()
}

/** As {@link holdHere}. */
export async function dropHold(rooms: Rooms, { session, report, uid }: Known): Promise<void> {
  await rooms.absences.bringBack(uid)
  session.reconciler.enqueue(report.key)
  rooms.agent.changed()
}
