import { isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { serverRuntimes } from '../servers/probe.ts'
import { judgeVariable } from '../runtimes/environment-policy.ts'
import { defaultOmlxPort } from '../servers/omlx.ts'
import { parseAddressAndPort } from '../util/address-and-port.ts'
import {
  absolutePath,
  negativeMeansZero,
  nonEmpty,
  offAtFirst,
  type SettingRow,
} from '../../contract/settings-table.ts'

const portMessage = 'must be a port number from 0 to 65535'
const portOrZero = z.int({ error: portMessage }).min(0, portMessage).max(65_535, portMessage)

const ingressPortMessage = 'must be a port number from 1 to 65535'
const clientHostsMessage = 'must be host names separated by commas, such as host.docker.internal'
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
    title: 'Port of health and metrics',
    help: '/healthz, /readyz and /metrics, only for this machine; 0 is none.',
  },
  clientPort: {
    kind: 'port',
    schema: portOrZero,
    default: 9999,
    section: 'Network',
    flag: 'client-port',
    flagTakes: negativeMeansZero,
    title: 'Port of the client proxy',
    help: 'Programs of this machine reach every model there, at 127.0.0.1; 0 is none.',
  },
  clientHosts: {
    kind: 'list',
    schema: z
      .array(
        z
          .string()
          .toLowerCase()
          .regex(/^[\w.-]{1,253}$/, clientHostsMessage),
        { error: clientHostsMessage },
      )
      .max(100, clientHostsMessage),
    default: [],
    defaultMeans: 'none',
    section: 'Network',
    flag: 'client-hosts',
    title: 'Names of the client proxy',
    help: 'By which containers here ask it.',
  },
  ingressPort: {
    kind: 'port',
    schema: z.int({ error: ingressPortMessage }).min(1, ingressPortMessage).max(65_535, ingressPortMessage),
    default: 9443,
    section: 'Network',
    flag: 'ingress-port',
    title: 'Port of the relay ingress',
    help: 'The relays of LLMKube 0.10 reach models there, with a token and TLS.',
    more: 'It listens at every address, but only while a service is published through a relay.',
  },
  metricsAddress: {
    kind: 'text',
    schema: z
      .string({ error: addressMessage })
      .refine((text) => parseAddressAndPort(text) !== undefined, addressMessage),
    defaultMeans: 'none',
    section: 'Network',
    flag: 'metrics-address',
    title: 'Address for Prometheus',
    help: 'Prometheus on the network gets /metrics at this address and port, and nothing else.',
    more: 'It must send a token.',
  },
  metricsTokenFile: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: 'metrics-token of the state folder',
    section: 'Network',
    flag: 'metrics-token-file',
    flagTakes: {
      what: 'Never a relative path',
      read: (path: string) => path,
    },
    title: 'Token file for Prometheus',
    help: 'Prometheus must send the token in this file, which only this user may read.',
    more: 'The agent makes one where there is none, and reads it at each scrape.',
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

const offeredMessage = `must be runtimes separated by commas, from ${serverRuntimes.join(', ')}`

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
export const unusableAddresses: Readonly<Record<string, string>> = {
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

/** Every setting that counts only as the agent is started with it. Those that a person may change later are in the contract. */
export const startRows = {
  context: {
    kind: 'text',
    schema: nonEmpty,
    defaultMeans: 'the one that was served last, at first its current context',
    section: 'Cluster',
    flag: 'context',
    aliases: ['kube-context'],
    title: 'Context at the start',
    help: 'The kubeconfig context whose cluster this machine serves.',
    more: 'Without it, another one may be chosen while the agent runs.',
  },
  inferenceServiceAllowlist: {
    kind: 'list',
    schema: z.array(nonEmpty, { error: 'must be names separated by commas' }),
    default: [],
    defaultMeans: 'all',
    section: 'Cluster',
    flag: 'inference-service-allowlist',
    title: 'Services this machine may claim',
    help: 'Names of InferenceServices; all others are left to other machines.',
  },
  modelStore: {
    kind: 'path',
    schema: nonEmpty,
    required: true,
    section: 'Models',
    flag: 'model-store',
    title: 'Model store',
    help: 'The folder of downloaded models.',
    more: 'The Go agent keeps them in /tmp/llmkube-models, which a reboot empties.',
  },
  allowedModelRoots: {
    kind: 'list',
    schema: modelRoots,
    default: [],
    defaultMeans: 'none, so only the model store',
    section: 'Models',
    flag: 'allowed-model-roots',
    title: 'Folders a Model may name',
    help: 'Folders, absolute or with ~/, from which a Model may name files by path.',
  },
  allowedDownloadHosts: {
    kind: 'list',
    schema: z.array(downloadHost, { error: hostsMessage }),
    default: [],
    defaultMeans: 'only public addresses',
    section: 'Models',
    flag: 'allowed-download-hosts',
    title: 'Private hosts to download from',
    help: 'Names, addresses or blocks of a private network, such as nas.lan or 10.0.0.0/8.',
  },
  hubLoginNamespaces: {
    kind: 'list',
    schema: z.array(nonEmpty, { error: 'must be names of namespaces separated by commas' }),
    default: [],
    defaultMeans: 'none, so only metal-agent models pull',
    section: 'Models',
    flag: 'hub-login-namespaces',
    title: 'Namespaces that share the Hugging Face token',
    help: 'Their Models may be downloaded with the token of this machine.',
  },
  runtime: {
    kind: 'choice',
    schema: z.enum(runtimeNames, { error: `must be one of ${runtimeNames.join(', ')}` }),
    defaultMeans: 'llama-server for GGUF, mlx-lm for MLX and safetensors, ollama for ollama://',
    section: 'Runtimes',
    flag: 'runtime',
    flagTakes: {
      what: 'An empty one means the default',
      read: (name: string) => name || undefined,
    },
    title: 'Default runtime',
    help: 'Serves the services that name no runtime.',
  },
  runtimes: {
    kind: 'list',
    schema: z
      .array(z.enum(serverRuntimes, { error: offeredMessage }), { error: offeredMessage })
      .min(1, offeredMessage),
    defaultMeans: 'all',
    section: 'Runtimes',
    flag: 'runtimes',
    title: 'Runtimes offered',
    help: 'These serve models here, the preferred one first.',
  },
  allowUnsafeExtraArgs: {
    ...offAtFirst,
    section: 'Runtimes',
    flag: 'allow-unsafe-extra-args',
    title: 'Pass on unsafe arguments',
    help: 'Whoever may write an InferenceService can then run programs, and read and write files, as this user.',
    more: 'These are arguments of spec.extraArgs that do so, or that are unknown.',
  },
  allowedEnv: {
    kind: 'list',
    schema: variableNames,
    default: [],
    defaultMeans: 'a few switches of llama.cpp',
    section: 'Runtimes',
    flag: 'allowed-env',
    title: 'Variables a service may set',
    help: 'Names of the variables that a server gets from spec.env.',
  },
  ollamaPort: {
    kind: 'port',
    schema: portOrZero,
    default: 11_434,
    section: 'Runtimes',
    flag: 'ollama-port',
    flagTakes: negativeMeansZero,
    title: 'Port of Ollama',
    help: 'Where an Ollama listens on this machine; 0 is none.',
  },
  omlxPort: {
    kind: 'port',
    schema: portOrZero,
    default: defaultOmlxPort,
    section: 'Runtimes',
    flag: 'omlx-port',
    flagTakes: negativeMeansZero,
    title: 'Port of oMLX',
    help: 'Where an oMLX listens on this machine; 0 is none.',
  },
  portRange: {
    kind: 'portRange',
    schema: portRange,
    defaultMeans: 'any free port',
    section: 'Network',
    flag: 'port-range',
    title: 'Ports of model servers',
    help: 'A range as FROM-TO, which a firewall rule can name.',
  },
  hostIp: {
    kind: 'text',
    schema: hostIp,
    defaultMeans: 'chosen from its network interfaces',
    section: 'Network',
    flag: 'host-ip',
    title: 'Address at the start',
    help: 'The IPv4 or IPv6 address at which the cluster reaches this machine.',
    more: 'Without it, another one may be chosen while the agent runs.',
  },
  ...listenerRows,
  stateDir: {
    kind: 'path',
    schema: nonEmpty,
    required: true,
    section: 'General',
    flag: 'state-dir',
    title: 'State folder',
    help: 'Holds the lock, settings, logs and the socket. One agent at a time uses it.',
  },
  logFile: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: 'standard error',
    section: 'General',
    flag: 'log-file',
    flagTakes: {
      what: 'Never a relative path',
      read: (path: string) => path,
    },
    title: 'Log file of the agent',
    help: 'Five files of at most 10 MiB.',
  },
} as const satisfies Readonly<Record<string, SettingRow>>
export type StartSettingName = keyof typeof startRows
export const startSettingNames = Object.keys(startRows) as StartSettingName[]

/** The app decides about these itself; a context that a person chose stands in the agent's settings. */
export const notInStartFile = { context: true, stateDir: true, logFile: true } as const
