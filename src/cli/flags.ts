import { defaultOutputLimits } from '../agent-core/process/output-rotation.ts'
import { defaultDownloads, defaultMemorySettings } from '../agent-core/settings.ts'
import type { FlagSpec } from './go-flags.ts'

export const flagGroups = [
  'Cluster',
  'Models',
  'llama-server',
  'Memory',
  'Publishing',
  'Agent',
  'Not in effect yet',
] as const
type FlagGroup = (typeof flagGroups)[number]

export interface Flag extends FlagSpec {
  readonly group: FlagGroup
  readonly help: string
  /** What an empty or zero default stands for. */
  readonly defaultMeans?: string
  /** Why a given flag changes nothing; completes "<flag> is not in effect: …". */
  readonly notInEffect?: string
}

export interface FlagDefaults {
  readonly modelStore: string
  readonly stateDir: string
}

const power = { group: 'Not in effect yet', notInEffect: 'power is not measured yet' } as const
const otherRuntime = { group: 'Not in effect yet', notInEffect: 'only the runtime llama-server is built yet' } as const

/** Every flag of the Go agent with its name, meaning and default (model store aside), then our own. */
export const flagTable = (defaults: FlagDefaults): Readonly<Record<string, Flag>> => ({
  kubeconfig: {
    kind: 'string',
    default: '',
    group: 'Cluster',
    help: 'kubeconfig file',
    defaultMeans: '$KUBECONFIG, then the service account if in a Pod, then ~/.kube/config',
  },
  context: {
    kind: 'string',
    default: '',
    group: 'Cluster',
    help: 'context of the kubeconfig, pinned for as long as the agent runs',
    defaultMeans: 'its current context at start',
  },
  namespace: {
    kind: 'string',
    default: 'default',
    group: 'Cluster',
    help: 'namespace whose InferenceServices are watched; an empty one means all',
  },
  'all-namespaces': { kind: 'bool', default: false, group: 'Cluster', help: 'watch every namespace' },
  'inference-service-allowlist': {
    kind: 'string',
    default: '',
    group: 'Cluster',
    help: 'comma-separated names of the InferenceServices this agent may claim',
    defaultMeans: 'all',
  },
  'max-watch-failures': {
    kind: 'int',
    default: 3,
    group: 'Cluster',
    help: 'kept for compatibility: failures of watching never end the agent',
    notInEffect: 'a cluster that does not answer never ends the agent, it is asked again with back-off',
  },
  'model-store': {
    kind: 'string',
    default: defaults.modelStore,
    group: 'Models',
    help: 'folder of downloaded models (the Go agent keeps them in /tmp/llmkube-models, which a reboot empties)',
  },
  'download-limit': {
    kind: 'bytes',
    default: 0,
    group: 'Models',
    help: 'bytes per second of all downloads together, such as 20Mi',
    defaultMeans: 'no limit',
  },
  'downloads-at-once': {
    kind: 'int',
    default: defaultDownloads.downloadsAtOnce,
    group: 'Models',
    help: 'how many models are downloaded at the same time; the others wait',
  },
  'hub-endpoint': {
    kind: 'string',
    default: '',
    group: 'Models',
    help: 'address of the Hugging Face Hub or of a mirror',
    defaultMeans: '$HF_ENDPOINT, then https://huggingface.co',
  },
  'hub-token-file': {
    kind: 'string',
    default: '',
    group: 'Models',
    help: "file that holds the Hub's token",
    defaultMeans: '$HF_TOKEN, then the file that hf auth login writes',
  },
  'ca-file': {
    kind: 'string',
    default: '',
    group: 'Models',
    help: 'PEM file of certificate authorities that downloads trust beside the usual ones',
  },
  'disk-reserve': {
    kind: 'bytes',
    default: 0,
    group: 'Models',
    help: "bytes of the model store's volume that downloads leave free",
    defaultMeans: 'the smaller of 2Gi and 1 % of it',
  },
  'partial-keep': {
    kind: 'duration',
    default: defaultDownloads.partialKeepMs,
    group: 'Models',
    help: 'how long the rest of a download that was cut short is kept',
  },
  'refresh-interval': {
    kind: 'duration',
    default: defaultDownloads.refreshEveryMs,
    group: 'Models',
    help: 'how often the source of a Model with refreshPolicy OnChange is asked for changes',
  },
  runtime: {
    kind: 'string',
    default: 'llama-server',
    group: 'Models',
    help: 'runtime of a service that names none: llama-server, omlx, ollama, vllm-swift or mlx-server',
  },
  'llama-server': {
    kind: 'string',
    default: '',
    group: 'llama-server',
    help: 'path of the llama-server binary',
    defaultMeans: '/opt/homebrew/bin, then /usr/local/bin, then PATH on Linux',
  },
  'llama-server-bin': {
    kind: 'string',
    default: '',
    group: 'llama-server',
    help: 'another name of --llama-server',
    aliasOf: 'llama-server',
  },
  'llama-server-port': {
    kind: 'int',
    default: 0,
    group: 'llama-server',
    help: 'fixed port of llama-server, which leaves room for one service',
    defaultMeans: 'a free port for each service',
  },
  'port-range': {
    kind: 'string',
    default: '',
    group: 'llama-server',
    help: 'ports of model servers as FROM-TO, so that a firewall rule can name them',
    defaultMeans: 'any free port',
  },
  'llama-server-startup-timeout': {
    kind: 'duration',
    default: 120_000,
    group: 'llama-server',
    help: 'longest time without progress while a model loads; 0 or less means the default',
  },
  'drain-timeout': {
    kind: 'duration',
    default: 30_000,
    group: 'llama-server',
    help: 'how long requests in flight may take to finish before their server is stopped; 0 cuts them',
  },
  'memory-fraction': {
    kind: 'float',
    default: defaultMemorySettings.memoryFraction,
    group: 'Memory',
    help: 'fraction of memory that models may hold together',
    defaultMeans: 'automatic: 0.67, above 36Gi 0.75, from 128Gi 0.9',
  },
  'memory-budget': {
    kind: 'bytes',
    default: 0,
    group: 'Memory',
    help: 'bytes that models may hold together, such as 24Gi, instead of a fraction',
    defaultMeans: 'the fraction counts',
  },
  'memory-check-mode': {
    kind: 'string',
    default: defaultMemorySettings.memoryCheckMode,
    group: 'Memory',
    help: 'enforce refuses a start whose memory cannot be checked, warn lets it pass',
  },
  'memory-watchdog-interval': {
    kind: 'duration',
    default: defaultMemorySettings.memoryWatchdogIntervalMs,
    group: 'Memory',
    help: 'how often memory is looked at; 0 for only when a start asks',
  },
  'memory-pressure-warning': {
    kind: 'float',
    default: defaultMemorySettings.memoryPressureWarning,
    group: 'Memory',
    help: 'available fraction below which memory is short',
  },
  'memory-pressure-critical': {
    kind: 'float',
    default: defaultMemorySettings.memoryPressureCritical,
    group: 'Memory',
    help: 'available fraction below which memory is critically short, and nothing is started',
  },
  'eviction-enabled': {
    kind: 'bool',
    default: defaultMemorySettings.evictionEnabled,
    group: 'Memory',
    help: 'evict the least important model when memory is critically short',
  },
  'eviction-share': {
    kind: 'float',
    default: defaultMemorySettings.evictionShare,
    group: 'Memory',
    help: 'fraction of memory that models must hold before one of them is evicted',
  },
  'eviction-at-admission': {
    kind: 'bool',
    default: defaultMemorySettings.evictionAtAdmission,
    group: 'Memory',
    help: 'let a start of higher priority evict models of lower priority',
  },
  'come-back-after': {
    kind: 'duration',
    default: defaultMemorySettings.comeBackMs,
    group: 'Memory',
    help: 'how long memory pressure must have been normal before an evicted model comes back',
  },
  'host-ip': {
    kind: 'string',
    default: '',
    group: 'Publishing',
    help: 'IPv4 address of this host as the cluster reaches it',
    defaultMeans: 'chosen among its network interfaces',
  },
  port: {
    kind: 'int',
    default: 9090,
    group: 'Agent',
    help: 'port of /healthz, /readyz and /metrics on 127.0.0.1; 0 for none',
  },
  ui: {
    kind: 'int',
    default: 0,
    bare: '0',
    group: 'Agent',
    help: 'serve the window for a browser on 127.0.0.1, at this port or any free one, and print its address',
    defaultMeans: 'when asked, by metal-agent ui',
  },
  'state-dir': {
    kind: 'string',
    default: defaults.stateDir,
    group: 'Agent',
    help: 'folder of the lock, socket, logs and node id; one agent at a time uses it',
  },
  'server-log-size': {
    kind: 'bytes',
    default: defaultOutputLimits.bytes,
    group: 'Agent',
    help: "longest that each file of a server's log may get, such as 512Ki or 1Gi",
  },
  'server-log-count': {
    kind: 'int',
    default: defaultOutputLimits.count,
    group: 'Agent',
    help: "how many older files of a server's log are kept",
  },
  'log-level': {
    kind: 'string',
    default: 'info',
    group: 'Agent',
    help: 'debug, info, warn or error; anything else means info',
  },
  'log-format': {
    kind: 'string',
    default: 'auto',
    group: 'Agent',
    help: 'auto (text on a terminal, JSON otherwise), text or json',
  },
  version: { kind: 'bool', default: false, group: 'Agent', help: 'print version, git commit and build date' },
  'client-port': {
    kind: 'int',
    default: 9999,
    group: 'Not in effect yet',
    notInEffect: 'the client proxy is not built yet',
    help: 'port of the OpenAI proxy on 127.0.0.1; 0 for none',
  },
  'apple-power-enabled': { kind: 'bool', default: false, ...power, help: 'measure power with powermetrics' },
  'apple-power-interval': { kind: 'duration', default: 1_000, ...power, help: 'how often power is measured' },
  'powermetrics-bin': {
    kind: 'string',
    default: '/usr/bin/powermetrics',
    ...power,
    help: 'powermetrics; any other path switches the measurement off',
  },
  'omlx-bin': {
    kind: 'string',
    default: '',
    ...otherRuntime,
    help: 'path of the omlx binary',
    defaultMeans: 'Homebrew, then /usr/local',
  },
  'omlx-port': { kind: 'int', default: 8000, ...otherRuntime, help: 'port of the oMLX daemon' },
  'omlx-startup-timeout': {
    kind: 'duration',
    default: 120_000,
    ...otherRuntime,
    help: 'how long the oMLX daemon may start',
  },
  'ollama-port': { kind: 'int', default: 11434, ...otherRuntime, help: 'port of the Ollama daemon' },
  'vllm-swift-bin': {
    kind: 'string',
    default: '',
    ...otherRuntime,
    help: 'path of the vllm-swift binary',
    defaultMeans: 'Homebrew, then /usr/local',
  },
  'vllm-swift-startup-timeout': {
    kind: 'duration',
    default: 120_000,
    ...otherRuntime,
    help: 'how long vllm-swift may start',
  },
  'mlx-server-bin': {
    kind: 'string',
    default: '',
    ...otherRuntime,
    help: 'path of the mlx-server binary',
    defaultMeans: 'Homebrew, then /usr/local',
  },
  'mlx-server-port': { kind: 'int', default: 8080, ...otherRuntime, help: 'port of mlx-server' },
  'mlx-server-startup-timeout': {
    kind: 'duration',
    default: 120_000,
    ...otherRuntime,
    help: 'how long mlx-server may start',
  },
})
