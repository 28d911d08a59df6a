import type { StartSettingName } from '../../contract/settings.ts'
import type { Words } from '../../contract/words.ts'

interface StartSettingText {
  readonly title: string
  readonly help: string
  readonly more?: string
  /** What no value means. */
  readonly none?: string
  /** What else decides about it while the agent runs; in place of why it cannot be set here. */
  readonly elsewhere?: string
}

/** What a person reads of each setting that counts only from the start of the agent. */
export const startSettingTexts: Readonly<Record<StartSettingName, StartSettingText>> = {
  context: {
    title: 'Context at the start',
    help: 'The kubeconfig context whose cluster this machine serves.',
    none: 'the one that was served last',
    elsewhere: 'Choose the context under Cluster. A context that is set at the start can be changed only there.',
  },
  inferenceServiceAllowlist: {
    title: 'Services this machine may claim',
    help: 'Other InferenceServices are left to other machines.',
    none: 'all',
  },
  modelStore: { title: 'Model store', help: 'Downloads go there.' },
  allowedModelRoots: {
    title: 'Folders a Model may name',
    help: 'A Model may use files in these folders and no other files of this machine.',
    none: 'only the model store',
  },
  allowedDownloadHosts: {
    title: 'Private hosts to download from',
    help: 'Names, addresses or blocks of a private network, such as a NAS.',
    none: 'only public addresses',
  },
  hubLoginNamespaces: {
    title: 'Namespaces that share the Hugging Face token',
    help: 'Their Models may be downloaded with the token of this machine.',
    none: 'none, only your own downloads use it',
  },
  runtime: {
    title: 'Default runtime',
    help: 'Serves the services that name no runtime.',
    more: 'Left empty: llama-server for GGUF models, mlx-lm for MLX models, Ollama for models of its library.',
    none: 'by the format of the model',
  },
  allowUnsafeExtraArgs: {
    title: 'Pass on unsafe arguments',
    help: 'Whoever may write an InferenceService can then run programs, and read and write files, as this user.',
  },
  allowedEnv: {
    title: 'Variables a service may set',
    help: 'A server gets these variables of spec.env.',
    none: 'a few switches of llama.cpp',
  },
  ollamaPort: { title: 'Port of Ollama', help: 'Where an Ollama listens on this machine. 0 = there is none.' },
  omlxPort: { title: 'Port of oMLX', help: 'Where an oMLX listens on this machine. 0 = there is none.' },
  portRange: {
    title: 'Ports of model servers',
    help: 'A range that a firewall rule can name.',
    none: 'any free port',
  },
  memoryPressureWarning: {
    title: 'Memory is short below',
    help: 'A fraction of all memory: 0.2 is a fifth.',
  },
  memoryPressureCritical: {
    title: 'Memory is critically short below',
    help: 'A fraction of all memory. Below it nothing starts, and models are evicted if eviction is on.',
  },
  hostIp: {
    title: 'Address at the start',
    help: 'The IPv4 or IPv6 address at which the cluster reaches this machine.',
    none: 'chosen from the addresses of this machine',
    elsewhere: 'Choose the address under Network. An address that is set at the start can be changed only there.',
  },
  port: {
    title: 'Port of health and metrics',
    help: '/healthz, /readyz and /metrics, only for this machine. 0 = none.',
  },
  clientPort: {
    title: 'Port of the client proxy',
    help: 'Programs of this machine reach every model there. 0 = none.',
    more: "It listens at 127.0.0.1. The agent of the command has it; the app's agent does not have it yet.",
  },
  ingressPort: {
    title: 'Port of the relay ingress',
    help: 'The relays of LLMKube 0.10 reach models there, with a token and TLS.',
    more: 'It listens at every address, but only while a service is published through a relay.',
  },
  metricsAddress: {
    title: 'Listen for Prometheus at',
    help: 'Prometheus on the network gets /metrics at this address and port, and nothing else.',
    more: 'It must send the token in the file metrics-token of the state folder.',
    none: 'nothing listens on the network',
  },
  stateDir: {
    title: 'State folder',
    help: 'Holds settings, logs and the socket. One agent at a time uses it.',
  },
  logFile: {
    title: 'Log file of the agent',
    help: 'Five files of at most 10 MiB.',
    none: 'standard error',
  },
} as const satisfies Words
