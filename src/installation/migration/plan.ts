import { specRefusal } from '../../agent-core/reconcile/runtime-choice.ts'
import { formatBytes, formatSpan } from '../../contract/format.ts'
import type { ClusterLook, FoundService } from './cluster-look.ts'
import { changedDefaults } from './changed-defaults.ts'
import { keptFlags, leftOut, textOf, type GoAgentCommand } from './go-agent-flags.ts'
import type { GoAgentJob } from './go-agent-job.ts'
import type { GoAgentProcess, GoServer } from './go-agent-processes.ts'
import { copiedBytesPerSecond, type StoreLook, type StorePlan } from './store-look.ts'

/** What was found on the machine and in the cluster; nothing of it was changed. */
export interface Findings {
  readonly job: GoAgentJob | undefined
  readonly command: GoAgentCommand
  /** The ones that the job, or a person, started. */
  readonly agents: readonly GoAgentProcess[]
  readonly store: StoreLook
  /** A sentence where it does not answer. */
  readonly cluster: ClusterLook | string
  readonly totalBytes: number
  readonly ownLog: string
  /** The address that our agent would publish by itself. */
  readonly ownAddress: string | undefined
  /** What a person wants our agent to be started with besides. */
  readonly ownFlags: readonly string[]
  /** What else stands in the way, one sentence each. */
  readonly problems: readonly string[]
  /** Of `--version`; absent where the Go agent does not say. */
  readonly version: string | undefined
}

/** One service that changes hands. */
export interface Transfer {
  readonly service: FoundService
  /** Of the Go agent; absent where nothing listens on the published port any more. */
  readonly server: GoServer | undefined
}

export interface MigrationPlan {
  /** What our agent is started with. */
  readonly flags: readonly string[]
  readonly store: StorePlan
  /** In this order: the one that costs least if it fails goes first. */
  readonly transfers: readonly Transfer[]
  /** What our agent serves by now. */
  readonly moved: readonly FoundService[]
  /** Servers that a Go agent started and forgot. */
  readonly strays: readonly GoServer[]
  /** Nothing is begun while there is one. */
  readonly problems: readonly string[]
  /** Services that would not be served here; begun only when a person says so. */
  readonly refusals: readonly string[]
  readonly kept: readonly string[]
  readonly changed: readonly string[]
  readonly notes: readonly string[]
}

export function planMigration(findings: Findings): MigrationPlan {
  const { command, cluster, agents, store, ownFlags, job } = findings
  const look = typeof cluster === 'string' ? undefined : cluster
  const flags = [
    ...keptFlags(command),
    ...environmentFlags(job),
    ...storeFlags(store.plan),
    ...addressFlags(findings),
    ...ownFlags,
  ]
  const servers = agents.flatMap((agent) => agent.servers)
  const transfers = transfersOf(look?.services ?? [], servers, store.plan)
  const needed = new Set(transfers.map(({ server }) => server?.pid))
  return {
    flags,
    store: store.plan,
    transfers,
    moved: (look?.services ?? []).filter(({ isMoved }) => isMoved),
    strays: servers.filter(({ pid }) => !needed.has(pid)),
    problems: [
      ...findings.problems,
      ...store.problems,
      ...(typeof cluster === 'string' ? [cluster] : rightsProblem(cluster)),
    ],
    refusals: (look?.services ?? []).flatMap((service) => refusalOf(service, flags, store.plan)),
    kept: keptSentences(findings, transfers, flags),
    changed: [...leftOut(command), ...changedDefaults({ ...findings, logFile: job?.logFile })],
    notes: [
      ...store.notes,
      ...environmentNotes(job),
      ...newcomers(look?.services ?? [], transfers),
      ...foreign(look?.services ?? []),
    ],
  }
}

/** Smallest first: what is wrong with all of them shows with the least to go back for. */
function transfersOf(services: readonly FoundService[], servers: readonly GoServer[], store: StorePlan): Transfer[] {
  const sizeOf = ({ model }: FoundService): number =>
    store.how === 'link' || store.how === 'copy'
      ? store.files
          .filter(({ path }) => path.startsWith(`${model?.name ?? ''}/`))
          .reduce((sum, { bytes }) => sum + bytes, 0)
      : 0
  return services
    .filter(({ published, isMoved }) => published !== undefined && !isMoved)
    .toSorted((a, b) => sizeOf(a) - sizeOf(b))
    .map((service) => ({ service, server: servers.find(({ port }) => port === service.published?.port) }))
}

const nameOf = ({ namespace, name }: FoundService): string => `${namespace}/${name}`

function storeFlags(store: StorePlan): string[] {
  return store.how === 'inPlace' ? [`--model-store=${store.to}`] : []
}

/** What the Go agent had from its environment. */
function environmentFlags(job: GoAgentJob | undefined): string[] {
  const kubeconfig = job?.environment['KUBECONFIG'] ?? ''
  return kubeconfig === '' || kubeconfig.includes(':') ? [] : [`--kubeconfig=${kubeconfig}`]
}

function environmentNotes(job: GoAgentJob | undefined): string[] {
  const environment = job?.environment ?? {}
  const several = environment['KUBECONFIG']?.includes(':') === true
  const others = Object.keys(environment).filter(
    (name) => !['PATH', 'KUBECONFIG'].includes(name) && !name.startsWith('GGML_'),
  )
  return [
    ...(several
      ? [`KUBECONFIG of ${job?.label ?? ''} names several files: give the one that counts with "-- --kubeconfig FILE".`]
      : []),
    ...(others.length > 0
      ? [
          `${others.join(', ')} of the plist's environment ${others.length === 1 ? 'is' : 'are'} not taken over: servers here get no variables of the agent's.`,
        ]
      : []),
  ]
}

/** The address that the cluster knows stays, also where ours would choose another. */
function addressFlags({ cluster, command, ownAddress }: Findings): string[] {
  const theirs = addressOf(cluster)
  return textOf(command, 'host-ip') === '' && theirs !== undefined && theirs !== ownAddress
    ? [`--host-ip=${theirs}`]
    : []
}

const addressOf = (cluster: Findings['cluster']): string | undefined =>
  typeof cluster === 'string' ? undefined : cluster.services.find(({ published }) => published)?.published?.address

const rightsProblem = ({ missingRights }: ClusterLook): string[] =>
  missingRights.length === 0
    ? []
    : [
        `The kubeconfig's user may not ${missingRights.join(', ')}, which this agent needs: ask for these rights, or name another kubeconfig with "-- --kubeconfig FILE".`,
      ]

/** As far as it can be told before the start. */
function refusalOf(service: FoundService, flags: readonly string[], store: StorePlan): string[] {
  const refusal = specRefusal(service.spec, {
    allowsUnsafe: flags.some((flag) => /^--?allow-unsafe-extra-args(=true)?$/.test(flag)),
    modelRoots: [store.to],
    allowedEnv: [],
  })
  return refusal === undefined ? [] : [`${nameOf(service)} would not be served: ${refusal.message}`]
}

function keptSentences(
  { job, command, cluster, version, agents, store }: Findings,
  transfers: readonly Transfer[],
  flags: readonly string[],
): string[] {
  const who = `LLMKube's Go agent${version === undefined ? '' : ` ${version}`}`
  const where = job === undefined ? 'started by hand' : `${job.label}, ${job.file}`
  const runs = agents.map(
    ({ pid, servers, suspended }) =>
      `process ${pid}${suspended ? ', paused' : ''} with ${servers.length} ${servers.length === 1 ? 'server' : 'servers'}`,
  )
  const address = textOf(command, 'host-ip') || addressOf(cluster)
  return [
    `${who} (${where})${runs.length === 0 ? ' does not run' : `: ${runs.join('; ')}`}.`,
    `Flags: ${flags.length === 0 ? 'none' : flags.join(' ')}.`,
    `Namespace: ${textOf(command, 'namespace') || 'all'}.${address === undefined ? '' : ` Address: ${address}.`}`,
    `Services with their ClusterIP: ${transfers.map(({ service }) => nameOf(service)).join(', ') || 'none are published from here'}.`,
    storeSentence(store.plan),
  ]
}

function storeSentence(store: StorePlan): string {
  switch (store.how) {
    case 'none':
      return `Models: in ${store.to}.`
    case 'inPlace':
      return `Models: ${formatBytes(store.bytes)} stay where they are, in ${store.to}.`
    case 'link':
      return `Models: ${formatBytes(store.bytes)} in ${store.files.length === 1 ? '1 file gets' : `${store.files.length} files get`} a second name in ${store.to}, which no reboot empties; nothing is copied.`
    case 'copy':
      return `Models: ${formatBytes(store.bytes)} in ${store.files.length === 1 ? '1 file is' : `${store.files.length} files are`} copied to another volume, to ${store.to}, before anything is stopped: about ${formatSpan((1_000 * store.bytes) / copiedBytesPerSecond)}.`
  }
}

/** Wanted, and not published by anybody. */
function newcomers(services: readonly FoundService[], transfers: readonly Transfer[]): string[] {
  const known = new Set(transfers.map(({ service }) => service))
  const fresh = services.filter(
    (one) =>
      !known.has(one) && !one.isMoved && one.elsewhere === undefined && one.spec.replicas > 0 && !one.spec.suspend,
  )
  return fresh.length === 0
    ? []
    : [`Not served now, and started by this agent as soon as it runs: ${fresh.map(nameOf).join(', ')}.`]
}

const foreign = (services: readonly FoundService[]): string[] =>
  services.flatMap((one) =>
    one.elsewhere === undefined
      ? []
      : [`${nameOf(one)} is served by another machine (${one.elsewhere}) and is left alone.`],
  )
