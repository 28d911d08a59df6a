import { z } from 'zod'

/** What a value is: how people write and read it, and what its flag takes. Durations are milliseconds. */
export type SettingKind =
  | 'text'
  | 'choice'
  | 'path'
  /** A path, or a name that is looked for in PATH. */
  | 'executable'
  /** Separated by commas. */
  | 'list'
  | 'port'
  | 'portRange'
  | 'bytes'
  | 'duration'
  | 'fraction'
  | 'number'
  | 'switch'

/** As a person reads them, one after the other: the pages of the window, and the parts of --help and docs/settings.md. */
export const settingSections = ['General', 'Cluster', 'Network', 'Memory', 'Models', 'Runtimes', 'Power'] as const
export type SettingSection = (typeof settingSections)[number]

/** When a change takes effect; completes "<setting> …" and "A change …". */
export const countsTexts = {
  now: 'takes effect at once',
  nextDownload: 'takes effect for downloads that start after it',
  nextServer: 'takes effect for servers that start after it',
  nextAgent: 'takes effect at the next start of the agent',
} as const

/** One setting of the agent. Flags, their help, the files of settings, `metal-agent settings` and docs/settings.md are made of such rows. */
export interface SettingRow {
  readonly kind: SettingKind
  /** Each message completes "<name> …"; the one about no value at all says everything that is accepted. */
  readonly schema: z.ZodType
  /** Absent = as `defaultMeans` says. */
  readonly default?: string | number | boolean | readonly string[]
  readonly defaultMeans?: string
  /** The value at the start where neither a flag nor a person sets one, for a setting in which no value means something else. */
  readonly startsAs?: string
  /** There is no agent without a value; where it runs decides about the default. */
  readonly required?: true
  readonly section: SettingSection
  /** What suits depends on the person, so the window shows it before all others. */
  readonly isFirst?: true
  /** Without dashes. */
  readonly flag: string
  readonly aliases?: readonly string[]
  /** A flag of the Go agent keeps what that takes: `what` completes "…; <what>" in the help, `schema` is what `read` makes of it. */
  readonly flagTakes?: {
    readonly what: string
    readonly schema?: z.ZodType
    /** Undefined = as if the flag were not given. */
    read?(given: string | number): unknown
  }
  readonly help: string
}

/** A setting that a person may change while the agent runs. */
export interface EditableRow extends SettingRow {
  /** In `metal-agent settings`; absent = as the flag. */
  readonly spelled?: string
  readonly counts: keyof typeof countsTexts
  /**
   * `page`: a page in a browser may set it too. `shell`: chooses an executable or what else amounts to running commands, reading files as
   * this user or serving another cluster, so only a person with a shell or the app on this machine may.
   */
  readonly trust: 'page' | 'shell'
}

/** The same names, with the value made of each row. */
export function mapRows<Name extends string, Row extends SettingRow, Made>(
  rows: Readonly<Record<Name, Row>>,
  make: (row: Row, name: Name) => Made,
): Record<Name, Made> {
  const entries = Object.entries<Row>(rows).map(([name, row]) => [name, make(row, name as Name)])
  return Object.fromEntries(entries) as Record<Name, Made>
}

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

export const number = (min: number, max: number, error: string) => z.number({ error }).min(min, error).max(max, error)
export const whole = (min: number, max: number, error: string) => z.int({ error }).min(min, error).max(max, error)

export const nonEmpty = z.string({ error: 'must not be empty' }).min(1, 'must not be empty')

const absoluteMessage = 'must be an absolute path'
export const absolutePath = z
  .string({ error: absoluteMessage })
  .startsWith('/', absoluteMessage)
  .max(1_000, 'must be at most 1000 characters')

/** For a flag of the Go agent that takes negative numbers. */
export const negativeMeansZero = {
  what: 'less than 0 means 0',
  read: (given: number) => Math.max(0, given),
} as const

/** For a flag of the Go agent that takes any duration. */
export const zeroMeansDefault = {
  what: '0 or less means the default',
  schema: z.number().positive('must be longer than nothing'),
  read: (ms: number) => (ms > 0 ? ms : undefined),
} as const

const namespaceMessage = 'must be the name of a namespace, of at most 63 characters'

export const clusterRows = {
  kubeconfig: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: '$KUBECONFIG, then the service account if in a Pod, then ~/.kube/config',
    section: 'Cluster',
    flag: 'kubeconfig',
    flagTakes: {
      what: 'a relative path starts at the folder in which the agent is started',
      schema: nonEmpty,
    },
    help: 'kubeconfig file',
    counts: 'now',
    // It names programs to be run, and clusters to be served.
    trust: 'shell',
  },
  namespace: {
    kind: 'text',
    schema: z.string({ error: namespaceMessage }).min(1, namespaceMessage).max(63, namespaceMessage),
    startsAs: 'default',
    defaultMeans: 'all',
    section: 'Cluster',
    isFirst: true,
    flag: 'namespace',
    help: 'namespace whose InferenceServices are watched',
    counts: 'now',
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

/** The path of a program that a person installs; see `findExecutable`. */
const program = (flag: string, help: string) =>
  ({
    kind: 'executable',
    schema: absolutePath,
    defaultMeans:
      '/opt/homebrew/bin, then /usr/local/bin, then ~/.local/bin, then on Linux PATH and /home/linuxbrew/.linuxbrew/bin',
    section: 'Runtimes',
    flag,
    flagTakes: {
      what: 'a name without a slash is searched for in PATH',
      schema: nonEmpty,
    },
    help,
    counts: 'nextServer',
    trust: 'shell',
  }) as const satisfies EditableRow

export const serverRows = {
  llamaServer: { ...program('llama-server', 'path of the llama-server binary'), aliases: ['llama-server-bin'] },
  mlxLm: program('mlx-lm-bin', 'path of mlx_lm.server'),
  mlxServer: program('mlx-server-bin', 'path of the mlx-server binary'),
  vllmSwift: program('vllm-swift-bin', 'path of the vllm-swift binary'),
  tensorfold: program('tensorfold-bin', 'path of the tensorfold binary'),
  ollamaBin: program('ollama-bin', 'path of the ollama binary that --ollama-start starts'),
  ollamaStart: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    section: 'Runtimes',
    flag: 'ollama-start',
    help: 'keep Ollama running at --ollama-port and stop it when the agent ends; an Ollama that already answers there is used as it is and never stopped',
    counts: 'now',
    trust: 'page',
  },
  omlxBin: program('omlx-bin', 'path of the omlx binary that --omlx-start starts'),
  omlxStart: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    section: 'Runtimes',
    flag: 'omlx-start',
    help: 'keep oMLX running at --omlx-port, with settings and models of its own, and stop it when the agent ends; an oMLX that already answers there is used as it is and never stopped',
    counts: 'now',
    trust: 'page',
  },
  drainLimitMs: {
    kind: 'duration',
    schema: number(0, hourMs, 'must be from 0 to 1h'),
    default: 30_000,
    section: 'Runtimes',
    flag: 'drain-timeout',
    help: 'how long requests in flight may take to finish before their server stops; 0 cuts them off at once',
    counts: 'nextServer',
    trust: 'page',
  },
  startupStallMs: {
    kind: 'duration',
    schema: number(1_000, dayMs, 'must be from 1s to 24h'),
    defaultMeans: '2m; mlx-lm 5m, tensorfold 10m',
    section: 'Runtimes',
    flag: 'startup-timeout',
    aliases: ['llama-server-startup-timeout'],
    flagTakes: zeroMeansDefault,
    help: 'longest time without progress while a model loads or an oMLX that the agent starts does not answer yet',
    counts: 'nextServer',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

export const listenModes = ['all', 'published', 'gateway'] as const
/** Where model servers listen: at every address, at the published one alone, or on this machine, with the gateway before them. */
export type ListenMode = (typeof listenModes)[number]

export const publishModes = ['auto', 'relay', 'direct'] as const
/** How pods reach a service: at this machine's own address, by LLMKube's relay, or by the one that the cluster knows. */
export type PublishMode = (typeof publishModes)[number]

export const publishingRows = {
  listen: {
    kind: 'choice',
    schema: z.enum(listenModes, { error: `must be ${listenModes.slice(0, -1).join(', ')} or ${listenModes.at(-1)}` }),
    default: 'all',
    section: 'Network',
    flag: 'listen',
    help: 'where model servers listen: all (every address of this machine, open to its networks without a password), published (only the published address, just as open), or gateway (only this machine; the gateway listens at the published address, checks each request and asks for an API key if a service names one)',
    counts: 'nextServer',
    // It opens models to a network.
    trust: 'shell',
  },
  publish: {
    kind: 'choice',
    schema: z.enum(publishModes, {
      error: `must be ${publishModes.slice(0, -1).join(', ')} or ${publishModes.at(-1)}`,
    }),
    default: 'auto',
    section: 'Network',
    flag: 'publish',
    help: "how pods reach a service: direct (at this machine's address, as with LLMKube 0.9), relay (by LLMKube 0.10's relay, which asks the gateway at --ingress-port over TLS; models listen only on this machine), or auto (through the relay if the cluster has one, otherwise directly)",
    counts: 'now',
    // It opens models to a network.
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

const endpointMessage = 'must be an http:// or https:// address of at most 1000 characters'

export const modelRows = {
  downloadBytesPerSecond: {
    kind: 'bytes',
    schema: whole(0, 1_000_000_000_000, 'must be from 0 to 1T'),
    default: 0,
    defaultMeans: 'no limit',
    section: 'Models',
    isFirst: true,
    flag: 'download-limit',
    help: 'bytes per second for all downloads together, such as 20Mi',
    counts: 'now',
    trust: 'page',
  },
  hubEndpoint: {
    kind: 'text',
    schema: z.url({ protocol: /^https?$/, error: endpointMessage }).max(1_000, endpointMessage),
    defaultMeans: '$HF_ENDPOINT, then https://huggingface.co',
    section: 'Models',
    flag: 'hub-endpoint',
    help: 'address of the Hugging Face Hub or of a mirror',
    counts: 'nextDownload',
    // The token goes there.
    trust: 'shell',
  },
  hubTokenFile: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: 'what the app keeps, then $HF_TOKEN, then the file that hf auth login writes',
    section: 'Models',
    flag: 'hub-token-file',
    help: "file that holds the Hub's token",
    counts: 'nextDownload',
    trust: 'shell',
  },
  caFile: {
    kind: 'path',
    schema: absolutePath,
    section: 'Models',
    flag: 'ca-file',
    help: 'PEM file of certificate authorities that downloads trust in addition to the usual ones',
    counts: 'nextDownload',
    // The authorities that downloads trust decide which code and models are run.
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

export const memoryRows = {
  memoryFraction: {
    kind: 'fraction',
    schema: number(0, 1, 'must be a fraction of all memory from 0 (automatic) to 1'),
    default: 0,
    defaultMeans: 'automatic: 0.67, above 36Gi 0.75, from 128Gi 0.9',
    section: 'Memory',
    isFirst: true,
    flag: 'memory-fraction',
    flagTakes: negativeMeansZero,
    help: 'fraction of memory that models may hold together',
    counts: 'now',
    trust: 'page',
  },
  memoryBudgetBytes: {
    kind: 'bytes',
    schema: z
      .int({ error: 'must be from 1Mi to 100T' })
      .min(1_048_576, 'must be at least 1Mi')
      .max(100_000_000_000_000, 'must be at most 100T'),
    defaultMeans: 'the fraction counts',
    section: 'Memory',
    flag: 'memory-budget',
    help: 'bytes that models may hold together, such as 24Gi, instead of a fraction',
    counts: 'now',
    trust: 'page',
  },
  memoryCheckMode: {
    kind: 'choice',
    schema: z.enum(['enforce', 'warn'], { error: 'must be enforce or warn' }),
    default: 'enforce',
    section: 'Memory',
    flag: 'memory-check-mode',
    help: 'what to do with a start whose memory cannot be checked: enforce refuses it, warn allows it',
    counts: 'now',
    trust: 'page',
  },
  evictionEnabled: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    section: 'Memory',
    isFirst: true,
    flag: 'eviction-enabled',
    spelled: 'eviction',
    help: 'evict the least important model when memory is critically short',
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

export const sleepPolicies = ['never', 'while-serving', 'while-loaded'] as const
export type SleepPolicy = (typeof sleepPolicies)[number]

export const powerRows = {
  sleepPolicy: {
    kind: 'choice',
    schema: z.enum(sleepPolicies, { error: 'must be never, while-serving or while-loaded' }),
    default: 'while-serving',
    section: 'Power',
    isFirst: true,
    flag: 'sleep-policy',
    help: 'keep this machine awake on mains: never, while-serving (while models load or answer), or while-loaded (while one is in memory)',
    counts: 'now',
    trust: 'page',
  },
  awakeOnBattery: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    section: 'Power',
    flag: 'awake-on-battery',
    help: 'keep this machine awake on battery too, as the sleep policy says',
    counts: 'now',
    trust: 'page',
  },
  applePowerEnabled: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    section: 'Power',
    flag: 'apple-power-enabled',
    help: 'measure the power of this Mac; powermetrics needs a sudo rule, which metal-agent power install installs',
    counts: 'now',
    // It has root run a program, though none that it chooses.
    trust: 'shell',
  },
  powerSource: {
    kind: 'choice',
    schema: z.enum(['powermetrics', 'macmon'], { error: 'must be powermetrics or macmon' }),
    default: 'powermetrics',
    section: 'Power',
    flag: 'power-source',
    help: 'what measures power: powermetrics, which must run as root, or macmon, which must be installed (brew install macmon)',
    counts: 'now',
    // It chooses which program is run, and whether root runs it.
    trust: 'shell',
  },
  macmonBin: { ...program('macmon-bin', 'path of the macmon binary'), section: 'Power', counts: 'now' },
} as const satisfies Readonly<Record<string, EditableRow>>

/** As the Go agent reads `--log-level`: whatever it does not know means info. */
export function parseLogLevel(text: string): 'debug' | 'info' | 'warn' | 'error' {
  const level = text.toLowerCase()
  if (level === 'warning') return 'warn'
  return level === 'debug' || level === 'warn' || level === 'error' ? level : 'info'
}

export const agentRows = {
  logLevel: {
    kind: 'choice',
    schema: z.enum(['debug', 'info', 'warn', 'error'], { error: 'must be debug, info, warn or error' }),
    default: 'info',
    section: 'General',
    flag: 'log-level',
    flagTakes: { what: 'anything else means info', read: parseLogLevel },
    help: "detail of the agent's own log: debug, info, warn or error",
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

/** Every setting that a person may change while the agent runs, by section. The others are in agent-core/settings. */
export const editableRows = {
  ...clusterRows,
  ...serverRows,
  ...modelRows,
  ...memoryRows,
  ...publishingRows,
  ...powerRows,
  ...agentRows,
} as const
