import type { Renewal } from '../cluster/cluster-choice.ts'
import type { History } from '../history/history.ts'
import { type ApiError, rootMessage } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import type { Memory } from '../memory/memory.ts'
import type { Models } from '../models/models.ts'
import type { Logger } from '../observability/logger.ts'
import type { Energy } from '../power/energy.ts'
import type { PanicFuse } from '../power/panic-fuse.ts'
import type { Power } from '../power/power.ts'
import type { HostCandidate } from '../publishing/host-address.ts'
import type { UnloadReasons } from '../reconcile/unload-reasons.ts'
import type { WaysToPublish } from '../publishing/ways.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import type { ServiceReport } from '../reconcile/service-report.ts'
import type { RuntimeWork } from '../runtimes/runtime-work.ts'
import type { Servers } from '../servers/servers.ts'
import type { PersonSettings } from '../settings/person-settings.ts'
import type { LogLevel } from '../settings/settings.ts'
import { refKey } from '../util/object-key.ts'
import { command, type CommandInput, type CommandResult, type ServiceRef } from '../../contract/commands.ts'
import type { Hold, HoldCause } from '../../contract/service.ts'
import type { SettingName } from '../../contract/settings.ts'

/** What commands act on. */
export interface Rooms {
  readonly unloadReasons: UnloadReasons
  readonly fuse: Pick<PanicFuse, 'serveAgain'>
  readonly history: History
  readonly settings: PersonSettings
  readonly servers: Servers
  readonly daemons: { readonly settingsChanged: () => void }
  readonly runtimeWork: Pick<RuntimeWork, 'begin' | 'cancel' | 'view'>
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
  readonly publisher: Pick<WaysToPublish, 'modeChanged'>
  readonly reconciler: Reconciler
}

/** What only the agent itself can do. */
interface AgentControls {
  /** Why there is no session, in a sentence. */
  readonly clusterMessage: () => string
  /** A context of the kubeconfig as it is now; throws KubeconfigError. */
  readonly loadContext: (name: string) => Promise<PinnedContext>
  /** Takes the credentials that the kubeconfig has by now for the context that is served. */
  readonly renewCredentials: (context: PinnedContext) => Promise<Renewal>
  /** Why nothing could be served there, as a sentence; undefined where its cluster answers and has LLMKube. */
  readonly doubtAbout: (context: PinnedContext, namespace: string | undefined) => Promise<string | undefined>
  /** Reads the context that is served, or the current one, from this kubeconfig; without `file` from the usual one. Throws KubeconfigError. */
  readonly loadKubeconfig: (file: string | undefined) => Promise<PinnedContext>
  /** The one that is served, or is about to be; undefined while there is none. */
  readonly servedContext: () => PinnedContext | undefined
  /**
   * Stops what is no longer served, then serves the context in the namespace that is set; returns at once. `where` completes
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
  await rooms.unloadReasons.hold(target, { kind: 'held', cause, since: new Date().toISOString(), message })
  known.session.reconciler.enqueue(key)
  rooms.agent.changed()
}

/** As {@link holdHere}. */
export async function dropHold(rooms: Rooms, { session, report, uid }: Known): Promise<void> {
  await rooms.unloadReasons.bringBack(uid)
  session.reconciler.enqueue(report.key)
  rooms.agent.changed()
}

export type Outcome = Promise<CommandResult>

export const done = (message: string): CommandResult => ({ outcome: 'done', message })

export const accepted = (message: string): CommandResult => ({ outcome: 'accepted', message })

export const failed = (message: string): CommandResult => ({ outcome: 'failed', message })

interface Instead {
  readonly command: CommandInput
  readonly label: string
}

export const refused = (message: string, instead?: Instead): CommandResult => refusal('agent', message, instead)

/** A change of several settings, for one of them. */
export const refusedSetting = (setting: SettingName, message: string): CommandResult => ({
  ...{ outcome: 'refused', by: 'agent', message, setting },
})

/** In the cluster's own words. */
export const refusedByCluster = (what: string, error: ApiError, instead?: Instead): CommandResult =>
  refusal('cluster', clusterWords(what, error), instead)

/** With the YAML that a person with more rights can apply instead. */
export const refusedWithYaml = (message: string, yaml: string): CommandResult => ({
  outcome: 'refused',
  by: 'cluster',
  message,
  yaml,
})

export const clusterWords = (what: string, error: ApiError): string =>
  error.code === undefined
    ? `${what}: the cluster does not answer (${rootMessage(error)}).`
    : `${what}: the cluster refused it (${error.detail}).`

const refusal = (by: 'agent' | 'cluster', message: string, instead?: Instead): CommandResult => ({
  outcome: 'refused',
  by,
  message,
  ...(instead && { instead: { label: instead.label, command: command.parse(instead.command) } }),
})
