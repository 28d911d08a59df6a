import { z } from 'zod'
import { command, serviceRef } from './commands.ts'
import { diagnosticFile, doctorReport, fleetMember, fromClusterView, probeImage, unservedView } from './doctor.ts'
import { fitQuery, fitView } from './fit.ts'
import { logPage, logQuery } from './log.ts'
import { sizingView } from './memory.ts'
import { deletionView } from './model-application.ts'
import { hubLoginView, modelStoreView } from './models.ts'
import { isLocalSource } from './names.ts'
import { powerRuleView } from './power.ts'
import type { EditableRow } from './settings-table.ts'
import { daemonStartSettings, settingsPatch, settingView, startSettingView } from './settings.ts'

export const historyKinds = [
  'added',
  'deleted',
  'started',
  'ready',
  'crashed',
  'stopped',
  'evicted',
  'broughtBack',
  'refused',
  'addressChanged',
  'settingsChanged',
  'agentStarted',
  'agentStopped',
  'machineEnded',
] as const

/** Something that happened here and that a person may ask about later. */
export const historyEntry = z.object({
  /** Rises by one with each entry, over restarts of the agent too. */
  id: z.int().positive(),
  at: z.iso.datetime(),
  kind: z.enum(historyKinds),
  /** Absent for what concerns the whole agent. */
  service: serviceRef.optional(),
  /** One sentence: what happened, and why or on whose request. */
  message: z.string(),
  /** What a person set, as it may be shown; the message says it to who reads no data. */
  settings: settingsPatch.optional().catch(undefined),
  /** What sets back what a person changed, as long as nothing else has changed it since. */
  undo: command.optional().catch(undefined),
})
export type HistoryEntry = z.infer<typeof historyEntry>

/** A program that serves models, as it is found on the agent's machine now. */
export const runtimeView = z.object({
  name: z.string(),
  /** The formats of Models that it serves. */
  formats: z.array(z.string()),
  /** Absent where it is not found; `message` says what to do. */
  path: z.string().optional(),
  /** As the program tells it; absent where it does not. */
  version: z.string().optional(),
  /** Absent where it was run and answered as it should. */
  message: z.string().optional(),
  /** The setting by which the agent starts it and keeps it running; absent where it runs or is started already, or cannot be. */
  start: z.enum(daemonStartSettings).optional().catch(undefined),
  /** The line that installs it here; only in the answer to the query, and where something on this machine can. */
  install: z.string().optional(),
})
export type RuntimeView = z.infer<typeof runtimeView>

/** `unverified`: it is there, and did not answer as this runtime does, or is too old. */
export const runtimeState = ({ path, message }: RuntimeView): 'ready' | 'unverified' | 'missing' =>
  path === undefined ? 'missing' : message === undefined ? 'ready' : 'unverified'

/** So many entries a person may ask for; the whole history has no more. */
export const maxPage = 2_000
const limit = z.int().min(1).max(maxPage).default(50)

/** Answers that are looked up on request, since they are too long or too rarely used for the snapshot. */
export const query = z.discriminatedUnion('name', [
  /** Newest first. */
  z.object({
    name: z.literal('history'),
    service: serviceRef.optional(),
    limit,
  }),
  /** Kubernetes Events of a service, or of all that are shown; newest first. */
  z.object({ name: z.literal('events'), service: serviceRef.optional(), limit }),
  /** What the cluster says of an InferenceService in its status. */
  z.object({ name: z.literal('conditions'), service: serviceRef }),
  logQuery,
  /** What a person asks of one server. */
  z.object({ name: z.literal('server'), service: serviceRef }),
  z.object({ name: z.literal('settings') }),
  z.object({ name: z.literal('contexts') }),
  z.object({ name: z.literal('hostAddresses') }),
  z.object({ name: z.literal('runtimes') }),
  /** Takes up to ten seconds. */
  z.object({ name: z.literal('doctor') }),
  /** Why an InferenceService of the cluster is not served by this machine. */
  z.object({ name: z.literal('unserved') }),
  /** What a person may send to whoever is to help them. */
  z.object({ name: z.literal('diagnostics') }),
  /** Makes a Pod in the cluster that asks this service, and deletes it; takes up to a minute. Withdrawn, the Pod is deleted at once. */
  z.object({ name: z.literal('fromCluster'), service: serviceRef, image: probeImage.optional() }),
  /** Every Mac that has a Lease beside this one's. */
  z.object({ name: z.literal('fleet') }),
  z.object({ name: z.literal('models') }),
  z.object({ name: z.literal('hubLogin') }),
  z.object({ name: z.literal('powerRule') }),
  z.object({ name: z.literal('sizing') }),
  fitQuery,
  /** What `deleteModel` would delete. */
  z.object({ name: z.literal('deletion'), service: serviceRef }),
])
export type Query = z.output<typeof query>
export type QueryInput = z.input<typeof query>
export type QueryName = Query['name']

export const eventView = z.object({
  at: z.iso.datetime(),
  type: z.string(),
  reason: z.string(),
  message: z.string(),
  count: z.int().positive(),
  service: serviceRef,
  /** The component that reported it, such as `llmkube-metal-agent`. */
  source: z.string(),
})
export type EventView = z.infer<typeof eventView>

export const conditionView = z.object({
  type: z.string(),
  /** `True`, `False` or `Unknown`. */
  status: z.string(),
  /** Empty where nobody says. */
  reason: z.string(),
  message: z.string(),
  /** Absent where the cluster does not tell. */
  since: z.iso.datetime().optional(),
})
export type ConditionView = z.infer<typeof conditionView>

export const contextView = z.object({
  name: z.string(),
  /** The API server's URL; empty where the kubeconfig does not say. */
  server: z.string(),
  /** The one the agent uses. */
  inUse: z.boolean(),
  /** The kubeconfig's own `current-context`. */
  isDefault: z.boolean(),
})

export const hostAddressView = z.object({
  address: z.string(),
  /** Name of the network interface, such as `en0`. */
  interface: z.string(),
  inUse: z.boolean(),
  /** Absent where it may be chosen; else one sentence why it should not be. */
  unfit: z.string().optional(),
})

export const serverView = z.object({
  /** The command line of the process that runs, quoted for a shell unless `isUnquoted`; secrets in it are hidden. Absent where none runs. */
  commandLine: z.string().optional(),
  /** Not to be pasted: it lost its quotes, or is cut. */
  isUnquoted: z.boolean().optional(),
  /** What the server that crashed last printed last, oldest first. */
  crashLines: z.array(z.string()),
})
export type ServerDetailsView = z.infer<typeof serverView>

/** By name of the query. A question that cannot be answered is a `QueryFailure` instead. */
export const answers = {
  history: z.object({ entries: z.array(historyEntry), hasMore: z.boolean() }),
  events: z.object({ events: z.array(eventView), hasMore: z.boolean() }),
  conditions: z.object({ conditions: z.array(conditionView) }),
  log: logPage,
  server: serverView,
  settings: z.object({
    settings: z.array(settingView),
    /** Those that count only from the start. */
    start: z.array(startSettingView),
    /** The app's start file, which stands in for flags; absent if the agent is started with flags. */
    startFile: z.string().optional(),
  }),
  contexts: z.object({ kubeconfig: z.string(), contexts: z.array(contextView) }),
  hostAddresses: z.object({ automatic: z.boolean(), message: z.string(), addresses: z.array(hostAddressView) }),
  runtimes: z.object({ runtimes: z.array(runtimeView) }),
  doctor: doctorReport,
  unserved: z.object({ services: z.array(unservedView), hasMore: z.boolean() }),
  diagnostics: z.object({ files: z.array(diagnosticFile) }),
  fromCluster: fromClusterView,
  fleet: z.object({ members: z.array(fleetMember), hasMore: z.boolean() }),
  models: modelStoreView,
  hubLogin: hubLoginView,
  powerRule: powerRuleView,
  sizing: sizingView,
  fit: fitView,
  deletion: deletionView,
} satisfies Record<QueryName, z.ZodType>

export type Answer<N extends QueryName = QueryName> = z.infer<(typeof answers)[N]>

/**
 * Which carriers may ask it, as with commands: a source may name files of this machine, and a page may not find out by it which there are;
 * nor may it have an image run in the cluster.
 */
export function trustOfQuery(query: Query): EditableRow['trust'] {
  if (query.name === 'fromCluster') return query.image === undefined ? 'page' : 'shell'
  return query.name === 'fit' && isLocalSource(query.source) ? 'shell' : 'page'
}
