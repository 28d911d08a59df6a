import type { StartSettingName } from '../../../contract/settings.ts'

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
    elsewhere: 'It is chosen among the contexts above; one that is stated at the start can only be changed there.',
  },
  inferenceServiceAllowlist: {
    title: 'Services this machine may claim',
    help: 'Names of InferenceServices.',
    none: 'all',
  },
  modelStore: { title: 'Folder of models', help: 'Where models are downloaded to.' },
  allowedModelRoots: {
    title: 'Folders a Model may name',
    help: 'A Model that names a file of this machine may name one below these folders, and below the folder of models.',
    none: 'only the folder of models',
  },
  allowedDownloadHosts: {
    title: 'Hosts beside public addresses',
    help: 'Host names, addresses or blocks of a private network that models may be downloaded from, such as a mirror or a NAS.',
    none: 'public addresses alone',
  },
  hubLoginNamespaces: {
    title: 'Namespaces that share the Hugging Face token',
    help: 'Models of these namespaces may be downloaded with the token of this machine.',
    none: 'none: it serves only what you fetch yourself',
  },
  runtime: { title: 'Runtime of a service that names none', help: 'Only llama-server is built yet.' },
  allowUnsafeExtraArgs: {
    title: 'Pass on unsafe arguments',
    help: 'Who may write an InferenceService could then run programs, and read and write files of this user.',
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
    help: 'Memory that is available, as a part of all memory: 0.2 is a fifth.',
  },
  memoryPressureCritical: {
    title: 'Memory is critically short below',
    help: 'As a part of all memory. Nothing is started then, and models are evicted where that is on.',
  },
  hostIp: {
    title: 'Address at the start',
    help: 'The IPv4 address by which the cluster reaches this machine.',
    none: 'chosen among those of this machine',
    elsewhere: 'It is chosen among the addresses above; one that is stated at the start can only be changed there.',
  },
  powermetrics: {
    title: 'Path of powermetrics',
    help: "Any other path than that of macOS switches the measurement off, since sudo's rule names that one.",
  },
  port: {
    title: 'Port of health and metrics',
    help: '/healthz, /readyz and /metrics on 127.0.0.1, for this machine alone. 0 = none.',
  },
  uiPort: {
    title: 'Port of this page',
    help: 'On 127.0.0.1, for browsers on this machine alone. 0 = any free port.',
    none: 'opened when asked, by metal-agent ui',
  },
  metricsAddress: {
    title: 'Listen for Prometheus at',
    help: 'An address and a port of this machine at which a Prometheus on the network gets /metrics, and nothing else.',
    none: 'nothing listens on the network',
  },
  metricsTokenFile: {
    title: 'Token file for Prometheus',
    help: 'Only who sends the token in this file gets metrics over the network. The file has to belong to this user alone.',
    none: 'none',
  },
  stateDir: {
    title: 'State folder',
    help: 'Lock, socket, logs and what was set are kept there; one agent at a time uses it.',
  },
  logFile: { title: 'Log file of the agent', help: 'Bounded by the two settings below.', none: 'standard error' },
  logFileBytes: {
    title: 'Size of an agent log file',
    help: 'A file of this size is set aside, and the next one begun.',
    isBytes: true,
  },
  logFileCount: { title: 'Agent log files to keep', help: 'The one that is written counts as well.' },
  logFormat: {
    title: "Format of the agent's log",
    help: 'With auto it is text in a terminal, and JSON anywhere else.',
  },
}
