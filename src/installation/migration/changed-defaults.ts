import { formatGib } from '../../contract/format.ts'
import { textOf, type GoAgentCommand } from './go-agent-flags.ts'

export interface DefaultsFacts {
  readonly command: GoAgentCommand
  readonly totalBytes: number
  /** The log of the Go agent. */
  readonly logFile: string | undefined
  /** The log of ours. */
  readonly ownLog: string
}

interface ChangedDefault {
  /** Absent = no flag of the Go agent says it. */
  readonly flag?: string
  readonly theirs: (facts: DefaultsFacts) => string
  readonly ours: (facts: DefaultsFacts) => string
  readonly keep?: string
  readonly applies?: (facts: DefaultsFacts) => boolean
}

/** From here on the Go agent's share of memory and ours differ. */
const bigMemoryBytes = 128 * 2 ** 30

const changes: readonly ChangedDefault[] = [
  {
    flag: 'memory-fraction',
    theirs: ({ totalBytes }) => `75 % of ${formatGib(totalBytes)} may be taken by one model`,
    ours: () => '90 % by all models together',
    keep: '--memory-fraction 0.75',
    applies: ({ totalBytes, command }) =>
      totalBytes >= bigMemoryBytes && Number(command.values.get('memory-fraction')) <= 0,
  },
  {
    flag: 'memory-fraction',
    theirs: () => 'each model is compared with the budget by itself',
    ours: () => 'all models together have to fit, so a model that was started beside others may wait for memory',
    applies: ({ totalBytes, command }) =>
      totalBytes < bigMemoryBytes || Number(command.values.get('memory-fraction')) > 0,
  },
  {
    flag: 'llama-server-startup-timeout',
    theirs: () => 'the longest start of a server',
    ours: () => 'the longest time without progress while a model loads',
  },
  {
    flag: 'max-watch-failures',
    theirs: () => 'so many failed looks at the cluster end the agent and its models',
    ours: () => 'a cluster that does not answer ends nothing',
  },
  {
    flag: 'allow-unsafe-extra-args',
    theirs: () => '0.9 passes every argument of spec.extraArgs on',
    ours: () => 'only those that change how llama-server computes',
    keep: '--allow-unsafe-extra-args',
    applies: ({ command }) => command.values.get('allow-unsafe-extra-args') !== true,
  },
  {
    flag: 'allowed-download-hosts',
    theirs: () => '0.9 fetches models from any address',
    ours: () => 'from public addresses and those that are listed',
    keep: '--allowed-download-hosts NAS.LAN',
    applies: ({ command }) => textOf(command, 'allowed-download-hosts') === '',
  },
  {
    theirs: () => 'the context of the kubeconfig that is current at each start',
    ours: () => 'the context that was served first, until another is chosen with "metal-agent context use"',
    applies: ({ command }) => textOf(command, 'kube-context') === '',
  },
  {
    theirs: () => 'the Mac may go to sleep under its models',
    ours: () => 'on mains it stays awake while models load or answer',
    keep: '--sleep-policy never',
  },
  {
    theirs: ({ logFile }) => `the log is ${logFile ?? 'where it was started'}`,
    ours: ({ ownLog }) => `the log is in ${ownLog}`,
  },
]

/** One sentence for each default that counts here and was another there. */
export const changedDefaults = (facts: DefaultsFacts): string[] =>
  changes
    .filter(({ applies }) => applies?.(facts) ?? true)
    .map(({ flag, theirs, ours, keep }) => {
      const what = flag === undefined ? '' : `--${flag}: `
      const kept = keep === undefined ? '' : `; "-- ${keep}" keeps it`
      return `${what}there ${theirs(facts)}, here ${ours(facts)}${kept}.`
    })
