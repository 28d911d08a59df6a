import type { ModelLooks } from './model-looks.ts'
import type { ClusterLink } from '../cluster/cluster-link.ts'
import type { ClusterSession } from '../cluster/cluster-session.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { RelayIngress } from '../gateway/relay-ingress.ts'
import type { History } from '../history/history.ts'
import { type ApiError, rootMessage } from '../kube/api-error.ts'
import type { Memory } from '../memory/memory.ts'
import type { LoginSources } from '../models/hub/token.ts'
import type { Models } from '../models/models.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { Power, PowerOptions } from '../power/power.ts'
import type { Supply } from '../power/supply.ts'
import type { PublishedAddress } from '../publishing/host-address.ts'
import type { UnloadReasons } from '../reconcile/unload-reasons.ts'
import type { ServiceReport } from '../reconcile/service-report.ts'
import type { Dialects } from '../runtimes/dialect.ts'
import type { InstalledRuntimes } from '../runtimes/installed.ts'
import type { StartedDaemons } from '../runtimes/started-daemons.ts'
import type { Servers } from '../servers/servers.ts'
import type { PersonSettings } from '../settings/person-settings.ts'
import type { LogLevel } from '../settings/settings.ts'
import type { Executable } from '../util/find-executable.ts'
import { refKey } from '../util/object-key.ts'
import { command, type CommandInput, type CommandResult, type ServiceRef } from '../../contract/commands.ts'
import type { Hold, HoldCause } from '../../contract/service.ts'
import type { SettingName } from '../../contract/settings.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'

/** The rooms of the agent that commands and queries reach. */
export interface Rooms {
  readonly unloadReasons: UnloadReasons
  readonly history: History
  readonly settings: PersonSettings
  readonly servers: Servers
  readonly daemons: StartedDaemons
  readonly installed: InstalledRuntimes
  readonly dialects: Dialects
  readonly models: Models
  readonly memory: Memory
  readonly power: Power
  readonly supply: Supply
  readonly address: PublishedAddress
  readonly relays: RelayIngress
  /** Undefined where this host starts none. */
  readonly gateway: Gateway | undefined
  readonly link: ClusterLink
  readonly platform: Platform
  readonly env: NodeJS.ProcessEnv
  readonly log: Logger
  readonly nodeId: string
  readonly llamaServer: () => Promise<Executable>
  readonly hasMetal: () => boolean
  /** What one query found out of models and the next need not ask again. */
  readonly looks: ModelLooks
  readonly keptHubToken: LoginSources['keptHubToken']
  /** For tests: see `AgentOptions`. */
  readonly powerTrial: Partial<Pick<PowerOptions, 'platform' | 'commands'>> | undefined
  readonly snapshot: () => AgentSnapshot
  /** Something that a snapshot shows has changed. */
  readonly changed: () => void
  readonly onLogLevel: ((level: LogLevel) => void) | undefined
  /** Undefined where the host of the agent does not let it end itself. */
  readonly onShutdown: ((request: ShutdownRequest) => void) | undefined
}

export interface ShutdownRequest {
  /** Servers and what is published are left to the next agent. */
  readonly keepServing: boolean
}

export interface Known {
  readonly session: ClusterSession
  readonly report: ServiceReport
  readonly uid: string
  /** What a person held back stays as they said; what memory pressure evicted would come back by itself. */
  readonly personsHold: Hold | undefined
}

/** A service that is shown here, or the sentence that says why there is none. */
export function knownService({ link }: Rooms, ref: ServiceRef): Known | string {
  const { session } = link
  const key = refKey(ref)
  if (!session) return `There is no cluster to ask about ${key}: ${link.view().message}`
  const report = session.reconciler.report(key)
  const uid = report?.uid
  if (!report && session.cluster.synced) {
    return `This machine knows no InferenceService ${key}; check its name and namespace.`
  }
  if (!report || uid === undefined) return `This machine has not read ${key} yet: try again in a moment.`
  const { hold } = report
  return { session, report, uid, personsHold: hold?.by === 'person' ? hold : undefined }
}

/** Writes the hold down and lets it take effect. Throws StateFileError. */
export async function holdHere(rooms: Rooms, known: Known, cause: HoldCause, message: string): Promise<void> {
  const { namespace, name, key } = known.report
  const target = { uid: known.uid, namespace, name, cluster: known.session.cluster.api.context.server }
  await rooms.unloadReasons.hold(target, { kind: 'held', cause, since: new Date().toISOString(), message })
  known.session.reconciler.enqueue(key)
  rooms.changed()
}

/** As {@link holdHere}. */
export async function dropHold(rooms: Rooms, { session, report, uid }: Known): Promise<void> {
  await rooms.unloadReasons.bringBack(uid)
  session.reconciler.enqueue(report.key)
  rooms.changed()
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

/** A refusal with the YAML that a person with more rights can apply instead. */
export const refusedWithYaml = (message: string, yaml: string): CommandResult => ({
  outcome: 'refused',
  by: 'cluster',
  message,
  yaml,
})

export const clusterWords = (what: string, error: ApiError): string =>
  `${what}: the cluster ${clusterAnswer(error)} (${error.code === undefined ? rootMessage(error) : error.detail}).`

const clusterAnswer = ({ code }: ApiError): string =>
  code === undefined ? 'does not answer' : code === 401 ? 'does not accept these credentials' : 'refused it'

const refusal = (by: 'agent' | 'cluster', message: string, instead?: Instead): CommandResult => ({
  outcome: 'refused',
  by,
  message,
  ...(instead && { instead: { label: instead.label, command: command.parse(instead.command) } }),
})
