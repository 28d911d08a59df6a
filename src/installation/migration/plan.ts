import { specRefusal } from '../../agent-core/reconcile/runtime-choice.ts'
import { formatBytes, formatGib, formatSpan } from '../../contract/format.ts'
import type { ClusterLook, FoundService } from './cluster.ts'
import type { GoIdentity } from './identity.ts'
import {
  keptFlags,
  leftOut,
  textOf,
  withServers,
  type GoAgentCommand,
  type GoAgentJob,
  type GoAgentProcess,
  type GoServer,
} from './go-agent.ts'
import { copiedBytesPerSecond, type StorePlan } from './store.ts'

/** What was found on the machine and in the cluster; nothing of it was changed. */
export interface Findings {
  readonly job: GoAgentJob | undefined
  readonly command: GoAgentCommand
  /** The one that the job, or a person, started. */
  readonly agent: GoAgentProcess | undefined
  readonly store: StorePlan
  /** Of a Go agent in relay mode; undefined where it publishes its servers directly. */
  readonly identity?: GoIdentity | undefined
  /** A string is one sentence why the cluster does not answer. */
  readonly cluster: ClusterLook | string
  readonly totalBytes: number
  readonly ownLog: string
  /** The address that our agent would publish by itself. */
  readonly ownAddress: string | undefined
  /** Further flags that a person gives for our agent. */
  readonly ownFlags: readonly string[]
  /** Other obstacles, one sentence each. */
  readonly problems: readonly string[]
  /** The Go agent's version, where it says it. */
  readonly version: string | undefined
}

/** One service that changes hands. */
export interface Transfer {
  readonly service: FoundService
  /** The Go agent's server; absent where nothing listens on the published port. */
  readonly server: GoServer | undefined
}

export interface MigrationPlan {
  /** The flags of our agent. */
  readonly flags: readonly string[]
  /** In the order of the move: the cheapest to take back goes first. */
  readonly transfers: readonly Transfer[]
  /** Services that our agent serves already. */
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
  const { command, cluster, agent, store, ownFlags, job } = findings
  const look = typeof cluster === 'string' ? undefined : cluster
  const services = look?.services ?? []
  const flags = [
    ...keptFlags(command),
    // Pods reach a Go agent in relay mode only through relays; `auto` could publish the services directly, to everybody in this network.
    ...(findings.identity ? ['--publish=relay'] : []),
    ...environmentFlags(job),
    ...(store.how === 'inPlace' ? [`--model-store=${store.to}`] : []),
    ...addressFlags(findings),
    ...ownFlags,
  ]
  const servers = agent?.servers ?? []
  const transfers = transfersOf(services, servers, store)
  const needed = new Set(transfers.map(({ server }) => server?.pid))
  return {
    flags,
    transfers,
    moved: services.filter(({ isMoved }) => isMoved),
    strays: servers.filter(({ pid }) => !needed.has(pid)),
    problems: [
      ...findings.problems,
      ...store.problems,
      ...(findings.identity?.problem === undefined ? [] : [findings.identity.problem]),
      ...(typeof cluster === 'string' ? [cluster] : rightsProblem(cluster)),
    ],
    refusals: services.flatMap((service) => refusalOf(service, flags, store)),
    kept: keptSentences(findings, transfers, flags),
    changed: [...leftOut(command), ...changedDefaults(findings)],
    notes: [
      ...store.notes,
      ...identityNotes(findings),
      ...environmentNotes(job),
      ...newcomers(services, transfers),
      ...foreign(services),
    ],
  }
}

/** Smallest first: what is wrong with all of them shows where it costs least. */
function transfersOf(services: readonly FoundService[], servers: readonly GoServer[], store: StorePlan): Transfer[] {
  const sizeOf = ({ spec }: FoundService): number =>
    store.files.filter(({ path }) => path.startsWith(`${spec.modelRef}/`)).reduce((sum, { bytes }) => sum + bytes, 0)
  return services
    .filter(({ published, isMoved }) => published !== undefined && !isMoved)
    .toSorted((a, b) => sizeOf(a) - sizeOf(b))
    .map((service) => ({ service, server: servers.find(({ port }) => port === enginePortOf(service)) }))
}

const enginePortOf = ({ published, isRelayed }: FoundService): number | undefined =>
  isRelayed ? published?.enginePort : published?.port

/** Relays that know the Go agent by another key than the one that is copied are replaced by LLMKube's controller. */
function identityNotes({ identity, cluster }: Findings): string[] {
  const pins = typeof cluster === 'string' ? [] : cluster.pins
  return identity?.pin === undefined || pins.every((pin) => pin === identity.pin)
    ? []
    : [
        `The cluster knows another key than the one in ${identity.folder}, which the Go agent would use from its next start on: LLMKube's controller will restart each relay.`,
      ]
}

const nameOf = ({ namespace, name }: FoundService): string => `${namespace}/${name}`

/** Flags in place of what the Go agent had from its environment. */
function environmentFlags(job: GoAgentJob | undefined): string[] {
  const kubeconfig = job?.environment['KUBECONFIG'] ?? ''
  return kubeconfig === '' || kubeconfig.includes(':') ? [] : [`--kubeconfig=${kubeconfig}`]
}

function environmentNotes(job: GoAgentJob | undefined): string[] {
  if (!job) return []
  const { environment, label } = job
  const notes: string[] = []
  if (environment['KUBECONFIG']?.includes(':') === true) {
    notes.push(`KUBECONFIG of ${label} names several files: give the one to use with "-- --kubeconfig FILE".`)
  }
  const others = Object.keys(environment).filter(
    (name) => !['PATH', 'KUBECONFIG'].includes(name) && !name.startsWith('GGML_'),
  )
  if (others.length > 0) {
    const are = others.length === 1 ? 'is' : 'are'
    notes.push(
      `${others.join(', ')} of the plist's environment ${are} not taken over: servers here do not get the agent's variables.`,
    )
  }
  return notes
}

/** The address that the cluster knows stays, even where our agent would choose another. */
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

/** The sentence for a service that our agent would refuse, as far as that is known before the start. */
function refusalOf(service: FoundService, flags: readonly string[], store: StorePlan): string[] {
  const refusal = specRefusal(service.spec, {
    allowsUnsafe: flags.some((flag) => /^--?allow-unsafe-extra-args(=true)?$/.test(flag)),
    modelRoots: [store.to],
    allowedEnv: [],
  })
  return refusal === undefined ? [] : [`${nameOf(service)} would not be served: ${refusal.message}`]
}

function keptSentences(
  { job, command, cluster, version, agent, store, identity }: Findings,
  transfers: readonly Transfer[],
  flags: readonly string[],
): string[] {
  const who = `LLMKube's Go agent${version === undefined ? '' : ` ${version}`}`
  const where = job === undefined ? 'started by hand' : `${job.label}, ${job.file}`
  const runs = agent
    ? `: process ${agent.pid}${agent.suspended ? ', paused' : ''} ${withServers(agent)}`
    : ' does not run'
  const address = textOf(command, 'host-ip') || addressOf(cluster)
  return [
    `${who} (${where})${runs}.`,
    `Flags: ${flags.length === 0 ? 'none' : flags.join(' ')}.`,
    `Namespace: ${textOf(command, 'namespace') || 'all'}.${address === undefined ? '' : ` Address: ${address}.`}`,
    `Services with their ClusterIP: ${transfers.map(({ service }) => nameOf(service)).join(', ') || 'none are published from here'}.`,
    storeSentence(store),
    ...(identity?.pin === undefined
      ? []
      : [`Identity by which relays know this machine: certificate and key of ${identity.folder}.`]),
  ]
}

function storeSentence(store: StorePlan): string {
  const count = store.files.length
  switch (store.how) {
    case 'none':
      return `Models: in ${store.to}.`
    case 'inPlace':
      return `Models: ${formatBytes(store.bytes)} stay where they are, in ${store.to}.`
    case 'link':
      return `Models: ${formatBytes(store.bytes)} in ${count === 1 ? '1 file gets' : `${count} files get`} a second name in ${store.to}, which no reboot empties; nothing is copied.`
    case 'copy':
      return `Models: ${formatBytes(store.bytes)} in ${count === 1 ? '1 file is' : `${count} files are`} copied to another volume, to ${store.to}, before anything is stopped: about ${formatSpan((1_000 * store.bytes) / copiedBytesPerSecond)}.`
  }
}

/** Services that are wanted and that nobody publishes. */
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

const section = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : `\n${title}:\n${lines.map((line) => `  ${line}\n`).join('')}`

/** The plan as a person reads it. */
export function planText(plan: MigrationPlan): string {
  const { transfers, strays } = plan
  const isRelayed = transfers.some(({ service }) => service.isRelayed)
  const restarts = transfers.map(({ service, server }) =>
    server === undefined
      ? `${service.namespace}/${service.name} is started: nothing answers for it now.`
      : `${service.namespace}/${service.name} is restarted once (process ${server.pid}, port ${server.port}).`,
  )
  return [
    section('Kept', plan.kept),
    section('Different from now on', plan.changed),
    section('Restarts', [
      ...restarts,
      ...strays.map(({ pid, port }) => `Process ${pid} (port ${port}) serves nothing that is published and is ended.`),
      ...(transfers.length > 0 ? [isRelayed ? whyTogether : whyOnce] : []),
    ]),
    section('To know', plan.notes),
    section('Would not be served here', plan.refusals),
    section('In the way', plan.problems),
  ]
    .join('')
    .replace(/^\n/, '')
}

const whyOnce =
  "A running server of the Go agent cannot be taken over: it belongs to that agent's process group, which launchd ends with the agent, and its output goes nowhere. The models move one at a time while the others keep serving."

const whyTogether =
  'Relays connect to the Go agent, which forwards their requests to its servers. At a moment without requests the Go agent ends with all of them; this agent then listens at its port and starts the models.'

/** From here on the Go agent's share of memory and ours differ. */
const bigMemoryBytes = 128 * 2 ** 30

/** One sentence for each default that counts here and was another there. */
function changedDefaults({ command, totalBytes, job, ownLog, identity }: Findings): string[] {
  const given = (flag: string) => command.values.get(flag)
  const differs = (theirs: string, ours: string, { flag = '', keep = '' } = {}): string =>
    `${flag && `--${flag}: `}there ${theirs}, here ${ours}${keep && `; "-- ${keep}" keeps it`}.`
  const isOtherShare = totalBytes >= bigMemoryBytes && Number(given('memory-fraction')) <= 0
  return [
    isOtherShare
      ? differs(`75 % of ${formatGib(totalBytes)} may be taken by one model`, '90 % by all models together', {
          flag: 'memory-fraction',
          keep: '--memory-fraction 0.75',
        })
      : differs(
          'each model is compared with the budget by itself',
          'all models together have to fit, so a model may wait for memory beside others',
          { flag: 'memory-fraction' },
        ),
    differs('the longest start of a server', 'the longest time without progress while a model loads', {
      flag: 'llama-server-startup-timeout',
    }),
    differs('that many watch failures end the agent and its models', 'a cluster that does not answer ends nothing', {
      flag: 'max-watch-failures',
    }),
    given('allow-unsafe-extra-args') !== true &&
      differs('every argument of spec.extraArgs is passed on', 'only those that change how llama-server computes', {
        ...{ flag: 'allow-unsafe-extra-args', keep: '--allow-unsafe-extra-args' },
      }),
    given('allowed-download-hosts') === '' &&
      differs('models are downloaded from any address', 'from public addresses and those that are listed', {
        ...{ flag: 'allowed-download-hosts', keep: '--allowed-download-hosts NAS.LAN' },
      }),
    identity === undefined &&
      given('legacy-direct-endpoints') !== true &&
      differs('services are published directly', "for LLMKube's relay if the cluster has one", {
        ...{ flag: 'publish', keep: '--publish direct' },
      }),
    given('kube-context') === '' &&
      differs(
        'the context of the kubeconfig that is current at each start',
        'the context that was served first, until another is chosen with "metal-agent context use"',
      ),
    differs('the Mac may go to sleep while models run', 'on mains it stays awake while models load or answer', {
      keep: '--sleep-policy never',
    }),
    differs(`the log is ${job?.logFile ?? 'where it was started'}`, `the log is in ${ownLog}`),
  ].filter((sentence) => sentence !== false)
}
