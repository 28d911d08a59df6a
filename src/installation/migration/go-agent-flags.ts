import { FlagError, parseGoFlags, type FlagSpec, type FlagValue } from '../../agent-core/util/go-flags.ts'
import { formatDuration } from '../../contract/format.ts'

/** What becomes of a flag of LLMKube's Go agent here. */
type Fate =
  /** There is a flag of this name with this meaning. */
  | { readonly kept: true }
  /** Decided by what is found on the machine: see `plan.ts`. */
  | { readonly kept: 'planned' }
  /** Completes "--flag is left out: …". */
  | { readonly kept: false; readonly why: string }

export type GoAgentFlag = FlagSpec & Fate

const kept = { kept: true } as const
const text = { kind: 'string', default: '' } as const
const otherRuntime = { kept: false, why: 'only the runtime llama-server is built here yet' } as const
const noRelay = { kept: false, why: 'this agent publishes its servers directly, and has no ingress' } as const

/** Every flag of 0.9.19 with its default, then those of 0.10. */
export const goAgentFlags: Readonly<Record<string, GoAgentFlag>> = {
  namespace: { kind: 'string', default: 'default', ...kept },
  'model-store': { kind: 'string', default: '/tmp/llmkube-models', kept: 'planned' },
  'llama-server': { ...text, ...kept },
  'llama-server-port': { kind: 'int', default: 0, ...kept },
  runtime: { kind: 'string', default: 'llama-server', ...kept },
  'omlx-bin': { ...text, ...otherRuntime },
  'omlx-port': { kind: 'int', default: 8000, ...otherRuntime },
  'ollama-port': { kind: 'int', default: 11434, ...otherRuntime },
  'vllm-swift-bin': { ...text, ...otherRuntime },
  'mlx-server-bin': { ...text, ...otherRuntime },
  'mlx-server-port': { kind: 'int', default: 8080, ...otherRuntime },
  port: { kind: 'int', default: 9090, ...kept },
  'client-port': { kind: 'int', default: 9999, kept: false, why: 'the client proxy is not built here yet' },
  'log-level': { kind: 'string', default: 'info', ...kept },
  'host-ip': { ...text, ...kept },
  'memory-fraction': { kind: 'float', default: 0, ...kept },
  'memory-check-mode': { kind: 'string', default: 'enforce', ...kept },
  'memory-watchdog-interval': { kind: 'duration', default: 10_000, ...kept },
  'memory-pressure-warning': { kind: 'float', default: 0.2, ...kept },
  'memory-pressure-critical': { kind: 'float', default: 0.1, ...kept },
  'eviction-enabled': { kind: 'bool', default: false, ...kept },
  'max-watch-failures': {
    kind: 'int',
    default: 3,
    kept: false,
    why: 'a cluster that does not answer never ends this agent',
  },
  'inference-service-allowlist': { ...text, ...kept },
  'llama-server-startup-timeout': { kind: 'duration', default: 120_000, ...kept },
  'omlx-startup-timeout': { kind: 'duration', default: 120_000, ...otherRuntime },
  'vllm-swift-startup-timeout': { kind: 'duration', default: 120_000, ...otherRuntime },
  'mlx-server-startup-timeout': { kind: 'duration', default: 120_000, ...otherRuntime },
  'apple-power-enabled': { kind: 'bool', default: false, ...kept },
  'apple-power-interval': { kind: 'duration', default: 1_000, ...kept },
  'powermetrics-bin': { kind: 'string', default: '/usr/bin/powermetrics', ...kept },
  version: { kind: 'bool', default: false, kept: false, why: 'it only prints the version' },
  kubeconfig: { ...text, ...kept },
  'ingress-port': { kind: 'int', default: 9443, ...noRelay },
  'state-dir': { ...text, kept: false, why: 'that folder holds the identity of an ingress, which this agent has not' },
  'legacy-direct-endpoints': { kind: 'bool', default: false, ...noRelay },
  'allowed-model-roots': { ...text, ...kept },
  'allowed-download-hosts': { ...text, ...kept },
  'allow-unsafe-extra-args': { kind: 'bool', default: false, ...kept },
  'kube-context': { ...text, ...kept },
  'tensorfold-bin': { ...text, ...otherRuntime },
  'tensorfold-startup-timeout': { kind: 'duration', default: 600_000, ...otherRuntime },
}

/** The command line of a Go agent. */
export interface GoAgentCommand {
  readonly values: ReadonlyMap<string, FlagValue>
  readonly given: ReadonlySet<string>
  /** The Go agent ignores everything from the first word on that is no flag. */
  readonly ignored: readonly string[]
}

/** Throws FlagError, whose message is one sentence. */
export function readGoAgentCommand(args: readonly string[]): GoAgentCommand {
  const joined = args.find((word) => /^--?[\w-]+\s+\S/.test(word))
  if (joined !== undefined) {
    throw new FlagError(
      `${JSON.stringify(joined)} stands in one <string> and has to be two: the flag in one, its value in the next.`,
    )
  }
  const { values, given, rest } = parseGoFlags(goAgentFlags, args)
  return { values, given, ignored: rest }
}

export const textOf = ({ values }: GoAgentCommand, flag: string): string => String(values.get(flag) ?? '')

/** As it is written behind the flag. */
export function written(flag: string, value: FlagValue): string {
  if (goAgentFlags[flag]?.kind === 'duration') return formatDuration(Number(value))
  return String(value)
}

/** The same for our agent; flags that stand for their default say nothing and are left out. */
export const keptFlags = ({ values, given }: GoAgentCommand): string[] =>
  [...given].flatMap((flag) => {
    const value = values.get(flag)
    return goAgentFlags[flag]?.kept === true && value !== undefined ? [`--${flag}=${written(flag, value)}`] : []
  })

/** One sentence for each flag that is left out. */
export const leftOut = ({ given, ignored }: GoAgentCommand): string[] => [
  ...[...given].flatMap((flag) => {
    const fate = goAgentFlags[flag]
    return fate?.kept === false ? [`--${flag} is left out: ${fate.why}.`] : []
  }),
  ...(ignored.length > 0
    ? [
        `${JSON.stringify(ignored.join(' '))} is left out: the Go agent ignored it, since it stands behind a word that is no flag.`,
      ]
    : []),
]
