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

/** One setting of the agent. Flags, their help, the files of settings, `metal-agent settings`, the window's rows and docs/settings.md are made of such rows. */
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
  /** A flag of the Go agent keeps what that takes: `what` is a sentence of the help, without its full stop, `schema` is what `read` makes of it. */
  readonly flagTakes?: {
    readonly what: string
    readonly schema?: z.ZodType
    /** Undefined = as if the flag were not given. */
    read?(given: string | number): unknown
  }
  /** Of its row in the window. */
  readonly title: string
  /** What it does: one short sentence. */
  readonly help: string
  /** What few need to know of it, as sentences. */
  readonly more?: string
  /** What each value of a choice means, as it is offered. */
  readonly choices?: Readonly<Record<string, string>>
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

export const offAtFirst = {
  kind: 'switch',
  schema: z.boolean({ error: 'must be true or false' }),
  default: false,
} as const

/** One of a few values, each with what it means. */
function choice<const Values extends Readonly<Record<string, string>>>(choices: Values) {
  const values = Object.keys(choices) as (keyof Values & string)[]
  const error = `must be ${values.slice(0, -1).join(', ')} or ${values.at(-1) ?? ''}`
  return { kind: 'choice', choices, schema: z.enum(values, { error }) } as const
}

/** For a flag of the Go agent that takes negative numbers. */
export const negativeMeansZero = {
  what: 'Less than 0 means 0',
  read: (given: number) => Math.max(0, given),
} as const

/** For a flag of the Go agent that takes any duration. */
export const zeroMeansDefault = {
  what: '0 or less means the default',
  schema: z.number().positive('must be longer than nothing'),
  read: (ms: number) => (ms > 0 ? ms : undefined),
} as const

const namespaceMessage = 'must be the name of a namespace, of at most 63 characters'

const clusterRows = {
  kubeconfig: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: '$KUBECONFIG, then ~/.kube/config',
    section: 'Cluster',
    flag: 'kubeconfig',
    flagTakes: {
      what: 'A relative path starts at the folder in which the agent is started',
      schema: nonEmpty,
    },
    title: 'Kubeconfig',
    help: 'The file that says how to reach clusters.',
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
    title: 'Namespace',
    help: 'Only the InferenceServices of this namespace are served.',
    counts: 'now',
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

/** The path of a program that a person installs; see `findExecutable`. */
const program = <Name extends string>(name: Name, help: string) =>
  ({
    kind: 'executable',
    schema: absolutePath,
    defaultMeans: 'found in the folders of Homebrew or ~/.local/bin, on Linux in PATH too',
    section: 'Runtimes',
    flagTakes: {
      what: 'A name without a slash is searched for in PATH',
      schema: nonEmpty,
    },
    title: `Path of ${name}`,
    help,
    counts: 'nextServer',
    trust: 'shell',
  }) as const

const serverRows = {
  llamaServer: {
    ...program('llama-server', 'Serves GGUF models.'),
    flag: 'llama-server',
    aliases: ['llama-server-bin'],
  },
  mlxLm: { ...program('mlx-lm', 'Serves MLX models.'), flag: 'mlx-lm-bin' },
  mlxServer: { ...program('mlx-server', 'Serves MLX models.'), flag: 'mlx-server-bin' },
  vllmSwift: { ...program('vllm-swift', 'Serves MLX models.'), flag: 'vllm-swift-bin' },
  tensorfold: { ...program('tensorfold', 'Serves MLX models.'), flag: 'tensorfold-bin' },
  ollamaBin: { ...program('ollama', 'Started when the agent keeps Ollama running.'), flag: 'ollama-bin' },
  ollamaStart: {
    ...offAtFirst,
    section: 'Runtimes',
    flag: 'ollama-start',
    title: 'Keep Ollama running',
    help: 'The agent starts Ollama at its port, and stops it when the agent ends.',
    more: 'An Ollama that answers there already is used as it is and never stopped.',
    counts: 'now',
    trust: 'page',
  },
  omlxBin: { ...program('omlx', 'Started when the agent keeps oMLX running.'), flag: 'omlx-bin' },
  omlxStart: {
    ...offAtFirst,
    section: 'Runtimes',
    flag: 'omlx-start',
    title: 'Keep oMLX running',
    help: 'The agent starts oMLX at its port, and stops it when the agent ends.',
    more: 'The agent gives it settings and models of its own. An oMLX that answers there already is used as it is and never stopped.',
    counts: 'now',
    trust: 'page',
  },
  drainLimitMs: {
    kind: 'duration',
    schema: number(0, hourMs, 'must be from 0 to 1h'),
    default: 30_000,
    section: 'Runtimes',
    flag: 'drain-timeout',
    title: 'Time for requests to finish',
    help: 'A server that stops cuts off requests after this time; 0s means at once.',
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
    title: 'Load timeout',
    help: 'A server that loads without progress for this long is restarted.',
    more: 'It counts too for an oMLX that the agent starts and that does not answer yet.',
    counts: 'nextServer',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

const publishingRows = {
  listen: {
    ...choice({
      all: 'Anyone on any network',
      published: 'Anyone on the published network',
      gateway: 'Only through the gateway',
    }),
    default: 'all',
    section: 'Network',
    flag: 'listen',
    title: 'Who can reach models',
    help: 'Only the gateway checks requests and asks for API keys.',
    more: 'Without it, whoever reaches this machine, or its published address, uses a model without a password. The gateway listens at the published address, and asks for an API key if the service names one.',
    counts: 'nextServer',
    // It opens models to a network.
    trust: 'shell',
  },
  publish: {
    ...choice({ auto: 'Automatic', relay: "By LLMKube's relay", direct: 'Directly' }),
    default: 'auto',
    section: 'Network',
    flag: 'publish',
    title: 'How pods reach a model',
    help: 'At the address of this machine, or by a relay of LLMKube.',
    more: 'LLMKube 0.10 has the relay. It asks this machine over TLS at --ingress-port, and models listen only on this machine. Automatic uses the relay if the cluster has one.',
    counts: 'now',
    // It opens models to a network.
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

const endpointMessage = 'must be an http:// or https:// address of at most 1000 characters'

const modelRows = {
  downloadBytesPerSecond: {
    kind: 'bytes',
    schema: whole(0, 1_000_000_000_000, 'must be from 0 to 1T'),
    default: 0,
    defaultMeans: 'no limit',
    section: 'Models',
    isFirst: true,
    flag: 'download-limit',
    title: 'Download limit per second',
    help: 'For all downloads together, such as 20Mi.',
    counts: 'now',
    trust: 'page',
  },
  namespaceModelBytes: {
    kind: 'bytes',
    schema: whole(0, 1_000_000_000_000_000, 'must be from 0 to 1000T'),
    default: 0,
    defaultMeans: 'half of the volume',
    section: 'Models',
    flag: 'namespace-model-limit',
    title: 'Store limit per namespace',
    help: 'For all models that one namespace fetched, such as 200Gi.',
    counts: 'nextDownload',
    trust: 'page',
  },
  hubEndpoint: {
    kind: 'text',
    schema: z.url({ protocol: /^https?$/, error: endpointMessage }).max(1_000, endpointMessage),
    defaultMeans: '$HF_ENDPOINT, then https://huggingface.co',
    section: 'Models',
    flag: 'hub-endpoint',
    title: 'Hugging Face address',
    help: 'The Hugging Face Hub or a mirror. The token is sent there.',
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
    title: 'Hugging Face token file',
    help: 'A file that contains only the token.',
    counts: 'nextDownload',
    trust: 'shell',
  },
  caFile: {
    kind: 'path',
    schema: absolutePath,
    section: 'Models',
    flag: 'ca-file',
    title: 'Certificate authorities',
    help: 'A PEM file of authorities that downloads trust beside the usual ones.',
    counts: 'nextDownload',
    // The authorities that downloads trust decide which code and models are run.
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

const memoryRows = {
  memoryFraction: {
    kind: 'fraction',
    schema: number(0, 1, 'must be from 0 (automatic) to 1'),
    default: 0,
    defaultMeans: 'automatic: 0.67, above 36Gi 0.75, from 128Gi 0.9',
    section: 'Memory',
    isFirst: true,
    flag: 'memory-fraction',
    flagTakes: negativeMeansZero,
    title: 'Fraction of memory for models',
    help: 'What all models may use together: 0.5 is half, 0 is automatic.',
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
    title: 'Fixed amount of memory for models',
    help: 'What all models may use together, such as 24Gi, in place of the fraction.',
    counts: 'now',
    trust: 'page',
  },
  memoryCheckMode: {
    ...choice({ enforce: 'Refuse it', warn: 'Let it start' }),
    default: 'enforce',
    section: 'Memory',
    flag: 'memory-check-mode',
    title: 'Model with unknown memory need',
    help: 'What happens to a model whose memory need cannot be estimated.',
    counts: 'now',
    trust: 'page',
  },
  evictionEnabled: {
    ...offAtFirst,
    section: 'Memory',
    isFirst: true,
    flag: 'eviction-enabled',
    spelled: 'eviction',
    title: 'Evict models when memory runs out',
    help: 'The least important model goes first, and comes back later.',
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

const powerRows = {
  sleepPolicy: {
    ...choice({
      never: 'Never',
      'while-serving': 'While a model loads or answers',
      'while-loaded': 'While a model is in memory',
    }),
    default: 'while-serving',
    section: 'Power',
    isFirst: true,
    flag: 'sleep-policy',
    title: 'Keep this machine awake',
    help: 'On mains. The display may sleep.',
    counts: 'now',
    trust: 'page',
  },
  awakeOnBattery: {
    ...offAtFirst,
    section: 'Power',
    flag: 'awake-on-battery',
    title: 'Keep it awake on battery too',
    help: 'As the sleep policy says. A request may use up the battery.',
    counts: 'now',
    trust: 'page',
  },
  applePowerEnabled: {
    ...offAtFirst,
    section: 'Power',
    flag: 'apple-power-enabled',
    title: 'Measure power',
    help: 'With powermetrics it needs a sudo rule, which metal-agent power install installs.',
    counts: 'now',
    // It has root run a program, though none that it chooses.
    trust: 'shell',
  },
  powerSource: {
    ...choice({ powermetrics: 'powermetrics', macmon: 'macmon' }),
    default: 'powermetrics',
    section: 'Power',
    flag: 'power-source',
    title: 'Program that measures power',
    help: 'The powermetrics of macOS needs root; macmon does not, and is installed by brew install macmon.',
    counts: 'now',
    // It chooses which program is run, and whether root runs it.
    trust: 'shell',
  },
  macmonBin: {
    ...program('macmon', 'Measures power without root.'),
    flag: 'macmon-bin',
    section: 'Power',
    counts: 'now',
  },
} as const satisfies Readonly<Record<string, EditableRow>>

/** As the Go agent reads `--log-level`: whatever it does not know means info. */
export function parseLogLevel(text: string): 'debug' | 'info' | 'warn' | 'error' {
  const level = text.toLowerCase()
  if (level === 'warning') return 'warn'
  return level === 'debug' || level === 'warn' || level === 'error' ? level : 'info'
}

const agentRows = {
  logLevel: {
    ...choice({ debug: 'Everything', info: 'Usual', warn: 'Warnings', error: 'Errors' }),
    default: 'info',
    section: 'General',
    flag: 'log-level',
    flagTakes: { what: 'Anything else means info', read: parseLogLevel },
    title: "Detail of the agent's log",
    help: 'How much the agent writes to its own log.',
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

/** Where model servers listen: at every address, at the published one alone, or on this machine, with the gateway before them. */
export type ListenMode = keyof typeof publishingRows.listen.choices
/** How pods reach a service: at this machine's own address, by LLMKube's relay, or by the one that the cluster knows. */
export type PublishMode = keyof typeof publishingRows.publish.choices
export type SleepPolicy = keyof typeof powerRows.sleepPolicy.choices
