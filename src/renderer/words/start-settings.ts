import type { StartSettingName } from '../../contract/settings.ts'
import { runtimePortTexts } from './runtime-settings.ts'

interface StartSettingText {
  readonly title: string
  readonly help: string
  /** What no value means. */
  readonly none?: string
  /** What else decides about it while the agent runs; in place of why it cannot be set here. */
  readonly elsewhere?: string
  /** The value is a number of bytes. */
  readonly isBytes?: true
}

/** What a person reads of each setting that counts only from the start of the agent. */
export const startSettingTexts: Readonly<Record<StartSettingName, StartSettingText>> = {
  context: {
    title: 'Context at the start',
    help: 'The context of the kubeconfig that is served.',
    none: 'the one that was served last',
    elsewhere: 'Choose a context above; one that is given at the start can only be changed there.',
  },
  inferenceServiceAllowlist: {
    title: 'Services this machine may claim',
    help: 'Names of InferenceServices.',
    none: 'all',
  },
  leaseNamespace: {
    title: 'Namespace of the Lease',
    help: 'A Lease there tells the cluster what this machine can run: runtimes, memory and models.',
    none: 'the watched one, else default',
  },
  zone: { title: 'Zone of this machine', help: 'Where it is, such as office: its Lease says so.', none: 'not told' },
  modelStore: { title: 'Folder of models', help: 'Where models are downloaded to.' },
  allowedModelRoots: {
    title: 'Folders a Model may name',
    help: 'A Model may use files of this machine only below these folders and below the folder of models.',
    none: 'only the folder of models',
  },
  allowedDownloadHosts: {
    title: 'Private hosts to download from',
    help: 'Host names, addresses or blocks of a private network that models may be downloaded from, such as a mirror or a NAS.',
    none: 'only public addresses',
  },
  hubLoginNamespaces: {
    title: 'Namespaces that share the Hugging Face token',
    help: 'Models of these namespaces may be downloaded with the token of this machine.',
    none: 'none: only downloads that you start yourself use it',
  },
  runtime: {
    title: 'Runtime of a service that names none',
    help: 'Left empty: llama-server for GGUF models, mlx-lm for MLX models, Ollama for those of its library.',
  },
  runtimes: {
    title: 'Runtimes offered',
    help: 'Which runtimes serve models here, the preferred one first.',
    none: 'all',
  },
  allowUnsafeExtraArgs: {
    title: 'Pass on unsafe arguments',
    help: 'Lets anyone who may write an InferenceService run programs, and read and write files, as this user.',
  },
  allowedEnv: {
    title: 'Variables a service may set',
    help: 'Names of the variables of spec.env that a server gets.',
    none: 'a few switches of llama.cpp',
  },
  llamaServerPort: {
    title: 'Port of llama-server',
    help: 'A fixed port leaves room for one service. 0 = a free port for each service.',
  },
  ...runtimePortTexts,
  portRange: {
    title: 'Ports of model servers',
    help: 'A range that the rule of a firewall can name.',
    none: 'any free port',
  },
  memoryWatchdogIntervalMs: {
    title: 'Look at memory every',
    help: '0s = only when a server starts, ends or waits for memory, or somebody asks.',
  },
  memoryPressureWarning: {
    title: 'Memory is short below',
    help: 'Available memory as a fraction of all memory: 0.2 is a fifth.',
  },
  memoryPressureCritical: {
    title: 'Memory is critically short below',
    help: 'Available memory as a fraction of all memory. Below it nothing starts, and models are evicted if that is on.',
  },
  hostIp: {
    title: 'Address at the start',
    help: 'The address, of IPv4 or IPv6, by which the cluster reaches this machine.',
    none: 'chosen among those of this machine',
    elsewhere: 'Choose an address above; one that is given at the start can only be changed there.',
  },
  powermetrics: {
    title: 'Path of powermetrics',
    help: 'A path other than the one of macOS turns measuring off, since the sudo rule names that one.',
  },
  port: {
    title: 'Port of health and metrics',
    help: '/healthz, /readyz and /metrics on 127.0.0.1, for this machine alone. 0 = none.',
  },
  clientPort: {
    title: 'Port of the client proxy',
    help: 'On 127.0.0.1, for programs of this machine: every model that serves, by its name. 0 = none. An agent of the command has it, one of the app not yet.',
  },
  ingressPort: {
    title: 'Port of the relay ingress',
    help: 'On every address, for the relays of LLMKube 0.10, which show a token and speak TLS. Nothing listens there while no service is published that way.',
  },
  uiPort: {
    title: 'Port of this page',
    help: 'On 127.0.0.1, for browsers on this machine alone. 0 = any free port.',
    none: 'opened when asked, by metal-agent ui',
  },
  metricsAddress: {
    title: 'Listen for Prometheus at',
    help: 'An address and a port of this machine at which Prometheus on the network may scrape /metrics, and nothing else.',
    none: 'nothing listens on the network',
  },
  metricsTokenFile: {
    title: 'Token file for Prometheus',
    help: 'Prometheus must send the token in this file to get metrics over the network. The file must belong to this user alone.',
    none: 'none',
  },
  stateDir: {
    title: 'State folder',
    help: 'Holds the lock, the socket, logs and settings; one agent at a time uses it.',
  },
  logFile: { title: 'Log file of the agent', help: 'Bounded by the two settings below.', none: 'standard error' },
  logFileBytes: {
    title: 'Size of an agent log file',
    help: 'A log file that reaches this size is closed, and a new one begins.',
    isBytes: true,
  },
  logFileCount: { title: 'Agent log files to keep', help: 'Including the one that is being written.' },
  logFormat: { title: "Format of the agent's log", help: 'With auto: text in a terminal, JSON anywhere else.' },
}
