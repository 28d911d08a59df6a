import { isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { defaultThresholds } from '../memory/watchdog.ts'
import { judgeVariable } from '../runtimes/environment-policy.ts'
import { defaultOmlxPort } from '../servers/omlx.ts'
import { parseAddressAndPort } from '../util/address-and-port.ts'
import { negativeMeansZero, nonEmpty, type SettingRow } from '../../contract/settings-table.ts'
import type { StartSettingName } from '../../contract/settings.ts'

const portMessage = 'must be a port number from 0 to 65535'
const portOrZero = z.int({ error: portMessage }).min(0, portMessage).max(65_535, portMessage)

const ingressPortMessage = 'must be a port number from 1 to 65535'
const addressMessage =
  'must be an address of this host, not a name, and a port from 1 to 65535, such as 192.168.1.20:9091 or 0.0.0.0:9091'

/** Where the agent itself listens for HTTP. */
const listenerRows = {
  port: {
    kind: 'port',
    schema: portOrZero,
    default: 9090,
    section: 'Network',
    flag: 'port',
    flagTakes: negativeMeansZero,
    help: 'port of /healthz, /readyz and /metrics on 127.0.0.1; 0 = none',
  },
  clientPort: {
    kind: 'port',
    schema: portOrZero,
    default: 9999,
    section: 'Network',
    flag: 'client-port',
    flagTakes: negativeMeansZero,
    help: 'port of the client proxy on 127.0.0.1, where programs of this machine reach every model that serves; 0 = none',
  },
  ingressPort: {
    kind: 'port',
    schema: z.int({ error: ingressPortMessage }).min(1, ingressPortMessage).max(65_535, ingressPortMessage),
    default: 9443,
    section: 'Network',
    flag: 'ingress-port',
    help: 'port, on every address, at which relays of LLMKube 0.10 reach models over TLS; the agent listens there only while a service is published through a relay',
  },
  metricsAddress: {
    kind: 'text',
    schema: z
      .string({ error: addressMessage })
      .refine((text) => parseAddressAndPort(text) !== undefined, addressMessage),
    defaultMeans: 'none',
    section: 'Network',
    flag: 'metrics-address',
    help: 'address and port at which Prometheus on the network may scrape /metrics, and nothing else, with the token in metrics-token of the state folder',
  },
} as const satisfies Readonly<Record<string, SettingRow>>

/** Keys of `spec.runtime`, one of which can be the agent's default; `llamacpp` and `llama-server` are the same. */
const runtimeNames = [
  'llama-server',
  'llamacpp',
  'mlx-lm',
  'mlx-server',
  'vllm-swift',
  'tensorfold',
  'omlx',
  'ollama',
] as const

const rangeMessage = 'must be two ports from 1 to 65535, the lower first, such as 30000-30099'
const portRange = z
  .object(
    {
      from: z.int({ error: rangeMessage }).min(1, rangeMessage),
      to: z.int({ error: rangeMessage }).max(65_535, rangeMessage),
    },
    { error: rangeMessage },
  )
  .refine(({ from, to }) => from <= to, rangeMessage)

/** The addresses an EndpointSlice refuses, and those no other machine can answer to. */
const unusableAddresses: Readonly<Record<string, string>> = {
  unspecified: 'the unspecified address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local address',
  ipv4Mapped: 'an IPv4 address in the form of IPv6',
  multicast: 'a multicast address',
  broadcast: 'the broadcast address',
}

const hostIpMessage = 'must be an IPv4 or IPv6 address of this host, such as 192.168.1.20'
const hostIp = z.string({ error: hostIpMessage }).check((context) => {
  const refuse = (message: string) => void context.issues.push({ code: 'custom', message, input: context.value })
  const isSix = isIPv6(context.value) && !context.value.includes('%')
  if (!isSix && !ipaddr.IPv4.isValidFourPartDecimal(context.value)) {
    refuse(hostIpMessage)
    return
  }
  const address = ipaddr.parse(context.value)
  // As the system writes it, so that it is the same as that of an interface.
  if (isSix && address.toString() !== context.value) refuse(`must be written as ${address.toString()}`)
  const kind = unusableAddresses[address.range()]
  if (kind !== undefined) refuse(`must be an address that the cluster can reach, and this is ${kind}`)
})

const rootsMessage = 'must be folders separated by commas, each an absolute path or one that begins with ~/'
const modelRoots = z.array(z.string().regex(/^(?:\/|~(?:\/|$))/, rootsMessage), { error: rootsMessage })

const variablesMessage = 'must be names of variables separated by commas, none of them one that no server may ever get'
const variableNames = z.array(
  z.string().refine((name) => judgeVariable(name, [name]) === 'passed', variablesMessage),
  { error: variablesMessage },
)

const hostsMessage =
  'must be host names, addresses or blocks of addresses separated by commas, such as nas.lan or 10.0.0.0/8'
const downloadHost = z
  .string()
  .refine(
    (text) => ipaddr.isValid(text.replace(/^\[(.+)\]$/, '$1')) || ipaddr.isValidCIDR(text) || isHostName(text),
    hostsMessage,
  )

/** No port, path or wildcard, which would look as if they counted. */
const isHostName = (text: string): boolean => /^[\p{L}\p{N}_.-]{1,253}$/u.test(text)

const logFileMessage = 'must be an absolute path of at most 1000 characters'

const thresholdMessage = 'must be a fraction of all memory, at least 0 and less than 1, such as 0.2'

/** Every setting that counts only as the agent is started with it. Those that a person may change later are in the contract. */
export const startRows = {
  context: {
    kind: 'text',
    schema: nonEmpty,
    defaultMeans: 'the one that was served last, at first its current context',
    section: 'Cluster',
    flag: 'context',
    aliases: ['kube-context'],
    help: 'context of the kubeconfig',
  },
  inferenceServiceAllowlist: {
    kind: 'list',
    schema: z.array(nonEmpty, { error: 'must be names separated by commas' }),
    default: [],
    defaultMeans: 'all',
    section: 'Cluster',
    flag: 'inference-service-allowlist',
    help: 'comma-separated names of the InferenceServices this agent may claim',
  },
  modelStore: {
    kind: 'path',
    schema: nonEmpty,
    required: true,
    section: 'Models',
    flag: 'model-store',
    help: 'folder of downloaded models (the Go agent keeps them in /tmp/llmkube-models, which a reboot empties)',
  },
  allowedModelRoots: {
    kind: 'list',
    schema: modelRoots,
    default: [],
    defaultMeans: 'none, so only the model store',
    section: 'Models',
    flag: 'allowed-model-roots',
    help: 'comma-separated folders of this machine, absolute or with ~/, from which a Model may name files by path',
  },
  allowedDownloadHosts: {
    kind: 'list',
    schema: z.array(downloadHost, { error: hostsMessage }),
    default: [],
    defaultMeans: 'only public addresses',
    section: 'Models',
    flag: 'allowed-download-hosts',
    help: 'comma-separated host names, addresses or blocks (10.0.0.0/8) that models may be fetched from in addition to public addresses outside this network',
  },
  hubLoginNamespaces: {
    kind: 'list',
    schema: z.array(nonEmpty, { error: 'must be names of namespaces separated by commas' }),
    default: [],
    defaultMeans: 'none, so only metal-agent models pull',
    section: 'Models',
    flag: 'hub-login-namespaces',
    help: 'comma-separated namespaces whose Models may be fetched with the Hub login of this machine (--hub-token-file, HF_TOKEN, hf auth login)',
  },
  runtime: {
    kind: 'choice',
    schema: z.enum(runtimeNames, { error: `must be one of ${runtimeNames.join(', ')}` }),
    defaultMeans: 'llama-server for GGUF, mlx-lm for MLX and safetensors, ollama for ollama://',
    section: 'Runtimes',
    flag: 'runtime',
    flagTakes: {
      what: 'an empty one means the default',
      read: (name: string) => name || undefined,
    },
    help: 'runtime of a service that names none: llama-server, mlx-lm, mlx-server, vllm-swift, tensorfold, omlx or ollama',
  },
  allowUnsafeExtraArgs: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    section: 'Runtimes',
    flag: 'allow-unsafe-extra-args',
    help: 'pass on arguments of spec.extraArgs that can run programs, read or write files of this user, or are unknown',
  },
  allowedEnv: {
    kind: 'list',
    schema: variableNames,
    default: [],
    defaultMeans: 'a few switches of llama.cpp',
    section: 'Runtimes',
    flag: 'allowed-env',
    help: 'comma-separated names of the variables that a server gets from spec.env',
  },
  ollamaPort: {
    kind: 'port',
    schema: portOrZero,
    default: 11_434,
    section: 'Runtimes',
    flag: 'ollama-port',
    flagTakes: negativeMeansZero,
    help: 'port on 127.0.0.1 of the Ollama that a person runs or --ollama-start starts; 0 = no Ollama',
  },
  omlxPort: {
    kind: 'port',
    schema: portOrZero,
    default: defaultOmlxPort,
    section: 'Runtimes',
    flag: 'omlx-port',
    flagTakes: negativeMeansZero,
    help: 'port on 127.0.0.1 of the oMLX that a person runs or --omlx-start starts; 0 = no oMLX',
  },
  portRange: {
    kind: 'portRange',
    schema: portRange,
    defaultMeans: 'any free port',
    section: 'Network',
    flag: 'port-range',
    help: 'ports of model servers as FROM-TO, so that a firewall rule can name them',
  },
  memoryPressureWarning: {
    kind: 'fraction',
    schema: z.number({ error: thresholdMessage }),
    default: defaultThresholds.warning,
    section: 'Memory',
    flag: 'memory-pressure-warning',
    help: 'fraction of memory still available below which memory is short',
  },
  memoryPressureCritical: {
    kind: 'fraction',
    schema: z.number({ error: thresholdMessage }),
    default: defaultThresholds.critical,
    section: 'Memory',
    flag: 'memory-pressure-critical',
    help: 'fraction of memory still available below which memory is critically short and nothing starts',
  },
  hostIp: {
    kind: 'text',
    schema: hostIp,
    defaultMeans: 'chosen from its network interfaces',
    section: 'Network',
    flag: 'host-ip',
    help: 'IPv4 or IPv6 address at which the cluster reaches this machine',
  },
  ...listenerRows,
  stateDir: {
    kind: 'path',
    schema: nonEmpty,
    required: true,
    section: 'General',
    flag: 'state-dir',
    help: 'folder of the lock, socket, logs and node id; one agent at a time uses it',
  },
  logFile: {
    kind: 'path',
    schema: z.string({ error: logFileMessage }).startsWith('/', logFileMessage).max(1_000, logFileMessage),
    defaultMeans: 'standard error',
    section: 'General',
    flag: 'log-file',
    flagTakes: {
      what: 'never a relative path',
      read: (path: string) => path,
    },
    help: "file for the agent's own log, of at most 50 MB in five files",
  },
} as const satisfies Readonly<Record<StartSettingName, SettingRow>>

/** The app decides about these itself; a context that a person chose stands in the agent's settings. */
export const notInStartFile = { context: true, stateDir: true, logFile: true } as const
