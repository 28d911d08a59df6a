import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { settingsPatch } from '../contract/settings.ts'
import { defaultEvictionShare } from './memory/eviction.ts'
import { comeBackTimes } from './memory/come-back.ts'
import { defaultThresholds, thresholdProblem } from './memory/pressure.ts'
import { defaultWatchdogIntervalMs } from './memory/watchdog.ts'

/** Keys of `spec.runtime`, of which the agent can be told a default; `llamacpp` and `llama-server` are the same. */
export const runtimeNames = ['llama-server', 'llamacpp', 'omlx', 'ollama', 'vllm-swift', 'mlx-server'] as const

const logLevels = ['error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof logLevels)[number]

/** As the Go agent reads `--log-level`: whatever it does not know means info. */
export function parseLogLevel(text: string): LogLevel {
  switch (text.toLowerCase()) {
    case 'debug':
      return 'debug'
    case 'warn':
    case 'warning':
      return 'warn'
    case 'error':
      return 'error'
    default:
      return 'info'
  }
}

const logFormats = ['auto', 'text', 'json'] as const
export type LogFormat = (typeof logFormats)[number]

const portMessage = 'must be a port number from 0 to 65535'
const portOrZero = z.int({ error: portMessage }).min(0, portMessage).max(65_535, portMessage)

const rangeMessage = 'must be two ports from 1 to 65535, the lower first, such as 30000-30099'
const portRange = z
  .object({
    from: z.int({ error: rangeMessage }).min(1, rangeMessage),
    to: z.int({ error: rangeMessage }).max(65_535, rangeMessage),
  })
  .refine(({ from, to }) => from <= to, rangeMessage)

/** The addresses an EndpointSlice refuses, and those no other machine can answer to. */
const unusableAddresses: Readonly<Record<string, string>> = {
  unspecified: 'the unspecified address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local address',
  multicast: 'a multicast address',
  broadcast: 'the broadcast address',
}

const hostIp = z.string().check((context) => {
  const refuse = (message: string) => void context.issues.push({ code: 'custom', message, input: context.value })
  if (!ipaddr.IPv4.isValidFourPartDecimal(context.value)) {
    refuse('must be an IPv4 address of this host, such as 192.168.1.20')
    return
  }
  const kind = unusableAddresses[ipaddr.IPv4.parse(context.value).range()]
  if (kind !== undefined) refuse(`must be an address that the cluster can reach, and this is ${kind}`)
})

const minLogBytes = 64 * 1024
const maxLogCount = 100
const logCountMessage = `must be a number from 0 to ${maxLogCount}`

const nonEmpty = z.string().min(1, 'must not be empty')

const atOnceMessage = 'must be a number from 1 to 16'

export const defaultDownloads = {
  downloadsAtOnce: 2,
  partialKeepMs: 7 * 24 * 3_600_000,
  refreshEveryMs: 10 * 60_000,
} as const

const refreshMessage = 'must be from 10s to 168h'
const fractionMessage = 'must be a fraction of all memory from 0 (automatic) to 1'
const budgetMessage = 'must be at least 1Mi'
const shareMessage = 'must be a fraction of all memory from 0 to 1'
const comeBackMessage = 'must be from 1s to 24h'

/** What is done about memory where nobody says otherwise. */
export const defaultMemorySettings = {
  memoryFraction: 0,
  memoryCheckMode: 'enforce',
  memoryWatchdogIntervalMs: defaultWatchdogIntervalMs,
  memoryPressureWarning: defaultThresholds.warning,
  memoryPressureCritical: defaultThresholds.critical,
  evictionEnabled: false,
  evictionShare: defaultEvictionShare,
  evictionAtAdmission: false,
  comeBackMs: comeBackTimes.backOff.firstMs,
} as const

const maxDrainMs = 60 * 60_000
const drainMessage = 'must be from 0 to 1h'

const allSettings = z.object({
  /** Absent = as kubectl looks for one. */
  kubeconfig: nonEmpty.optional(),
  /** Absent = the kubeconfig's current context. */
  context: nonEmpty.optional(),
  /** Absent = all namespaces. */
  namespace: nonEmpty.optional(),
  /** Names of the InferenceServices this agent may claim; empty = all. */
  inferenceServiceAllowlist: z.array(nonEmpty),
  modelStore: nonEmpty,
  stateDir: nonEmpty,
  /** The runtime of a service that names none. */
  runtime: z.enum(runtimeNames, { error: `must be one of ${runtimeNames.join(', ')}` }),
  /** Absent = looked for in the usual places. */
  llamaServer: nonEmpty.optional(),
  /** The one port of llama-server; 0 = any free one, or one of `portRange`. */
  llamaServerPort: portOrZero,
  portRange: portRange.optional(),
  /** The longest time without progress that a starting llama-server is given. */
  llamaServerStartupTimeoutMs: z.number().positive('must be longer than nothing'),
  /** How long requests in flight may take to finish before their server is stopped; 0 = they are cut. */
  drainTimeoutMs: z.number().min(0, drainMessage).max(maxDrainMs, drainMessage),
  /** What is published in EndpointSlices; absent = chosen among this host's addresses. */
  hostIp: hostIp.optional(),
  /** Of /healthz, /readyz and /metrics on 127.0.0.1; 0 = none. */
  port: portOrZero,
  /** Of the window for a browser, on 127.0.0.1; 0 = any free one, absent = served when somebody asks. */
  uiPort: portOrZero.optional(),
  /** How long each file with the output of a server may get. */
  serverLogBytes: z.int().min(minLogBytes, 'must be at least 64Ki'),
  /** How many files of older output are kept for each server. */
  serverLogCount: z.int().min(0, logCountMessage).max(maxLogCount, logCountMessage),
  /** Of all downloads together; 0 = no limit. */
  downloadBytesPerSecond: z.int().min(0, 'must not be negative').default(0),
  downloadsAtOnce: z.int().min(1, atOnceMessage).max(16, atOnceMessage).default(defaultDownloads.downloadsAtOnce),
  /** Absent = HF_ENDPOINT, else the public Hub. */
  hubEndpoint: z.url({ protocol: /^https?$/, error: 'must be an https:// address' }).optional(),
  /** Absent = HF_TOKEN, else the file that `hf auth login` writes. */
  hubTokenFile: nonEmpty.optional(),
  caFile: nonEmpty.optional(),
  /** Of the model store's volume; 0 = the smaller of 2 GiB and 1 % of it. */
  diskReserveBytes: z.int().min(0, 'must not be negative').default(0),
  partialKeepMs: z.number().min(0, 'must not be negative').default(defaultDownloads.partialKeepMs),
  refreshEveryMs: z
    .number()
    .min(10_000, refreshMessage)
    .max(604_800_000, refreshMessage)
    .default(defaultDownloads.refreshEveryMs),
  /** Of all memory, for models; 0 = the guide's table. */
  memoryFraction: z.number({ error: fractionMessage }).min(0, fractionMessage).max(1, fractionMessage).default(0),
  /** Instead of a fraction. */
  memoryBudgetBytes: z.int().min(1_048_576, budgetMessage).optional(),
  memoryCheckMode: z
    .enum(['enforce', 'warn'], { error: 'must be enforce or warn' })
    .default(defaultMemorySettings.memoryCheckMode),
  /** 0 = memory is only looked at when a start asks for it. */
  memoryWatchdogIntervalMs: z
    .number()
    .min(0, 'must not be negative')
    .max(86_400_000, 'must be at most 24h')
    .default(defaultMemorySettings.memoryWatchdogIntervalMs),
  memoryPressureWarning: z.number().default(defaultMemorySettings.memoryPressureWarning),
  memoryPressureCritical: z.number().default(defaultMemorySettings.memoryPressureCritical),
  /** Whether models are evicted when memory is critically short. */
  evictionEnabled: z.boolean().default(defaultMemorySettings.evictionEnabled),
  /** Of all memory, that our models must hold before one of them is evicted. */
  evictionShare: z
    .number({ error: shareMessage })
    .min(0, shareMessage)
    .max(1, shareMessage)
    .default(defaultMemorySettings.evictionShare),
  /** Whether a start of higher priority may evict servers of lower priority. */
  evictionAtAdmission: z.boolean().default(defaultMemorySettings.evictionAtAdmission),
  /** How long pressure must have been normal before what was evicted once comes back. */
  comeBackMs: z
    .number()
    .min(1_000, comeBackMessage)
    .max(86_400_000, comeBackMessage)
    .default(defaultMemorySettings.comeBackMs),
  logLevel: z.enum(logLevels),
  logFormat: z.enum(logFormats, { error: `must be one of ${logFormats.join(', ')}` }),
  /** Settings that flags state: what a person sets while the agent runs counts only for the others. */
  givenByFlags: z.array(settingsPatch.keyof()).default([]),
  /** Flags that were given and understood but change nothing, each with the reason. */
  flagsNotInEffect: z.array(z.object({ flag: z.string(), reason: z.string() })),
})

/** What an agent is told when it starts. Messages complete the sentence "<name of the setting> …". */
export const agentSettings = allSettings.superRefine((settings, context) => {
  const { memoryPressureWarning: warning, memoryPressureCritical: critical } = settings
  const message = thresholdProblem({ warning, critical })
  if (message === undefined) return
  const isCritical = !(critical >= 0 && critical < 1)
  context.addIssue({
    code: 'custom',
    path: [isCritical ? 'memoryPressureCritical' : 'memoryPressureWarning'],
    message,
  })
})
export type AgentSettings = z.infer<typeof agentSettings>

/** True sentences a person should read when the agent starts, here and in its snapshot. */
export function startNotices(settings: AgentSettings): string[] {
  return settings.flagsNotInEffect.map(({ flag, reason }) => `--${flag} is not in effect: ${reason}.`)
}
