import path from 'node:path'
import { z } from 'zod'
import type { SettingName } from '../contract/settings.ts'
import { agentSettings, parseLogLevel, runtimeNames, type AgentSettings } from '../agent-core/settings.ts'
import { flagTable, type FlagDefaults } from './flags.ts'
import { FlagError, nearest, parseGoFlags, type ParsedFlags } from './go-flags.ts'

export type RunRequest = { readonly kind: 'help' } | { readonly kind: 'version' } | RunWithSettings
interface RunWithSettings {
  readonly kind: 'run'
  readonly settings: AgentSettings
}

/** What the agent's own command line asks for; throws {@link FlagError}. Relative paths are taken from `cwd`. */
export function parseRunArguments(args: readonly string[], defaults: FlagDefaults, cwd: string): RunRequest {
  const parsed = parseGoFlags(flagTable(defaults), args)
  if (parsed.help) return { kind: 'help' }
  if (parsed.values.get('version') === true) return { kind: 'version' }
  const [stray] = parsed.rest
  if (stray !== undefined) throw strayWord(stray, args)
  return { kind: 'run', settings: settingsFrom(parsed, defaults, cwd) }
}

/** How the flags are spelled as one table of text, number and switch values. */
const flagValues = z.object({
  kubeconfig: z.string(),
  context: z.string(),
  namespace: z.string(),
  'all-namespaces': z.boolean(),
  'inference-service-allowlist': z.string(),
  'model-store': z.string(),
  runtime: z.string(),
  'llama-server': z.string(),
  'llama-server-port': z.number(),
  'port-range': z.string(),
  'llama-server-startup-timeout': z.number(),
  'drain-timeout': z.number(),
  'host-ip': z.string(),
  port: z.number(),
  ui: z.number(),
  'state-dir': z.string(),
  'server-log-size': z.number(),
  'server-log-count': z.number(),
  'download-limit': z.number(),
  'downloads-at-once': z.number(),
  'hub-endpoint': z.string(),
  'hub-token-file': z.string(),
  'ca-file': z.string(),
  'disk-reserve': z.number(),
  'partial-keep': z.number(),
  'refresh-interval': z.number(),
  'memory-fraction': z.number(),
  'memory-budget': z.number(),
  'memory-check-mode': z.string(),
  'memory-watchdog-interval': z.number(),
  'memory-pressure-warning': z.number(),
  'memory-pressure-critical': z.number(),
  'eviction-enabled': z.boolean(),
  'eviction-share': z.number(),
  'eviction-at-admission': z.boolean(),
  'come-back-after': z.number(),
  'log-level': z.string(),
  'log-format': z.string(),
})

const defaultStartupTimeoutMs = 120_000

function settingsFrom(parsed: ParsedFlags, defaults: FlagDefaults, cwd: string): AgentSettings {
  const flags = flagValues.parse(Object.fromEntries(parsed.values))
  if (flags['all-namespaces'] && parsed.given.has('namespace') && flags.namespace !== '') {
    throw new FlagError('--namespace and --all-namespaces contradict each other: give one of them.')
  }
  if (flags['llama-server-port'] > 0 && flags['port-range'] !== '') {
    throw new FlagError('--llama-server-port and --port-range contradict each other: give one of them.')
  }
  const resolved = (file: string) => (file === '' ? '' : path.resolve(cwd, file))
  const result = agentSettings.safeParse({
    kubeconfig: resolved(flags.kubeconfig) || undefined,
    context: flags.context || undefined,
    namespace: flags['all-namespaces'] ? undefined : flags.namespace || undefined,
    inferenceServiceAllowlist: flags['inference-service-allowlist']
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
    modelStore: resolved(flags['model-store']),
    stateDir: resolved(flags['state-dir']),
    runtime: flags.runtime || 'llama-server',
    llamaServer: binaryPath(flags['llama-server'], cwd),
    llamaServerPort: Math.max(0, flags['llama-server-port']),
    portRange: parsePortRange(flags['port-range']),
    llamaServerStartupTimeoutMs:
      flags['llama-server-startup-timeout'] > 0 ? flags['llama-server-startup-timeout'] : defaultStartupTimeoutMs,
    drainTimeoutMs: flags['drain-timeout'],
    hostIp: flags['host-ip'] || undefined,
    port: Math.max(0, flags.port),
    serverLogBytes: flags['server-log-size'],
    serverLogCount: flags['server-log-count'],
    downloadBytesPerSecond: flags['download-limit'],
    downloadsAtOnce: flags['downloads-at-once'],
    hubEndpoint: flags['hub-endpoint'] || undefined,
    hubTokenFile: resolved(flags['hub-token-file']) || undefined,
    caFile: resolved(flags['ca-file']) || undefined,
    diskReserveBytes: flags['disk-reserve'],
    partialKeepMs: flags['partial-keep'],
    refreshEveryMs: flags['refresh-interval'],
    memoryFraction: Math.max(0, flags['memory-fraction']),
    memoryBudgetBytes: flags['memory-budget'] === 0 ? undefined : flags['memory-budget'],
    memoryCheckMode: flags['memory-check-mode'],
    memoryWatchdogIntervalMs: Math.max(0, flags['memory-watchdog-interval']),
    memoryPressureWarning: flags['memory-pressure-warning'],
    memoryPressureCritical: flags['memory-pressure-critical'],
    evictionEnabled: flags['eviction-enabled'],
    evictionShare: flags['eviction-share'],
    evictionAtAdmission: flags['eviction-at-admission'],
    comeBackMs: flags['come-back-after'],
    uiPort: parsed.given.has('ui') ? flags.ui : undefined,
    logLevel: parseLogLevel(flags['log-level']),
    logFormat: flags['log-format'],
    givenByFlags: givenByFlags(parsed),
    flagsNotInEffect: notInEffect(parsed, defaults),
  })
  if (result.success) return result.data
  throw settingError(result.error, parsed)
}

/** What a person may also set while the agent runs. */
const flagsOfSettings: readonly (readonly [SettingName, ...string[]])[] = [
  ['namespace', 'namespace', 'all-namespaces'],
  ['llamaServer', 'llama-server'],
  ['startupStallMs', 'llama-server-startup-timeout'],
  ['drainLimitMs', 'drain-timeout'],
  ['serverLogBytes', 'server-log-size'],
  ['serverLogFiles', 'server-log-count'],
  ['downloadBytesPerSecond', 'download-limit'],
  ['downloadsAtOnce', 'downloads-at-once'],
  ['hubEndpoint', 'hub-endpoint'],
  ['hubTokenFile', 'hub-token-file'],
  ['caFile', 'ca-file'],
  ['diskReserveBytes', 'disk-reserve'],
  ['partialKeepMs', 'partial-keep'],
  ['refreshEveryMs', 'refresh-interval'],
  ['memoryFraction', 'memory-fraction'],
  ['memoryBudgetBytes', 'memory-budget'],
  ['memoryCheckMode', 'memory-check-mode'],
  ['evictionEnabled', 'eviction-enabled'],
  ['evictionShare', 'eviction-share'],
  ['evictionAtAdmission', 'eviction-at-admission'],
  ['comeBackMs', 'come-back-after'],
  ['logLevel', 'log-level'],
]

const givenByFlags = ({ given }: ParsedFlags): SettingName[] =>
  flagsOfSettings.flatMap(([setting, ...flags]) => (flags.some((flag) => given.has(flag)) ? [setting] : []))

/** A name without a slash is left to a search of PATH. */
function binaryPath(file: string, cwd: string): string | undefined {
  if (file === '') return undefined
  return file.includes('/') ? path.resolve(cwd, file) : file
}

function parsePortRange(text: string): { from: number; to: number } | undefined {
  if (text === '') return undefined
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text)
  return { from: Number(match?.[1] ?? 0), to: Number(match?.[2] ?? 0) }
}

/** A switch turned off or a value of 0 asks for nothing, so there is nothing to warn about. */
function notInEffect(parsed: ParsedFlags, defaults: FlagDefaults): { flag: string; reason: string }[] {
  const table = flagTable(defaults)
  return [...parsed.given].flatMap((flag) => {
    const reason = table[flag]?.notInEffect
    const value = parsed.values.get(flag)
    return reason === undefined || value === false || value === 0 ? [] : [{ flag, reason }]
  })
}

function settingError(error: z.ZodError, parsed: ParsedFlags): FlagError {
  const [issue] = error.issues
  const setting = String(issue?.path[0] ?? '')
  const flag = flagOfSetting[setting] ?? setting
  const value = parsed.values.get(flag)
  const hint = flag === 'runtime' ? nearest(String(value), runtimeNames) : undefined
  const instead = value === '' ? '' : `, not ${JSON.stringify(value)}`
  const problem = `--${flag} ${issue?.message ?? 'cannot be used'}${instead}`
  return new FlagError(hint === undefined ? `${problem}.` : `${problem}: did you mean ${hint}?`)
}

const flagOfSetting: Readonly<Record<string, string>> = {
  inferenceServiceAllowlist: 'inference-service-allowlist',
  modelStore: 'model-store',
  stateDir: 'state-dir',
  llamaServer: 'llama-server',
  llamaServerPort: 'llama-server-port',
  portRange: 'port-range',
  llamaServerStartupTimeoutMs: 'llama-server-startup-timeout',
  drainTimeoutMs: 'drain-timeout',
  hostIp: 'host-ip',
  uiPort: 'ui',
  logFormat: 'log-format',
  serverLogBytes: 'server-log-size',
  serverLogCount: 'server-log-count',
  downloadBytesPerSecond: 'download-limit',
  downloadsAtOnce: 'downloads-at-once',
  hubEndpoint: 'hub-endpoint',
  hubTokenFile: 'hub-token-file',
  caFile: 'ca-file',
  diskReserveBytes: 'disk-reserve',
  partialKeepMs: 'partial-keep',
  refreshEveryMs: 'refresh-interval',
  memoryFraction: 'memory-fraction',
  memoryBudgetBytes: 'memory-budget',
  memoryCheckMode: 'memory-check-mode',
  memoryWatchdogIntervalMs: 'memory-watchdog-interval',
  memoryPressureWarning: 'memory-pressure-warning',
  memoryPressureCritical: 'memory-pressure-critical',
  evictionShare: 'eviction-share',
  comeBackMs: 'come-back-after',
}

/** The Go agent ignores everything after such a word, flags included; that is how a switch is set by mistake. */
function strayWord(word: string, args: readonly string[]): FlagError {
  const before = args[args.indexOf(word) - 1]
  const advice =
    /^(true|false)$/i.test(word) && before?.startsWith('-')
      ? `write ${before}=${word}`
      : 'the agent takes flags only, and metal-agent --help lists them'
  return new FlagError(`${JSON.stringify(word)} is not a flag: ${advice}.`)
}
