import { allRows, type AgentSettingName } from '../agent-core/settings/settings.ts'
import { emptyValues, type FlagKind, type FlagSpec, type FlagValue } from '../agent-core/util/go-flags.ts'
import { formatByteCount, formatDuration } from '../contract/format.ts'
import { settingText } from '../contract/settings.ts'
import {
  mapRows,
  type SettingKind,
  type SettingRow,
  type SettingSection,
  settingSections,
} from '../contract/settings-table.ts'
import { exitCodes } from './io.ts'

export interface Flag extends FlagSpec {
  readonly section: SettingSection
  readonly help: string
  /** What an empty or zero default stands for. */
  readonly defaultMeans?: string | undefined
  /** The setting it states; absent for an action, and for a flag that changes nothing. */
  readonly setting?: AgentSettingName
  /** Why a given flag changes nothing; completes "<flag> is not in effect: …". */
  readonly notInEffect?: string
}

export interface FlagDefaults {
  readonly modelStore: string
  readonly stateDir: string
}

export const flagKinds: Readonly<Record<SettingKind, FlagKind>> = {
  text: 'string',
  choice: 'string',
  path: 'string',
  executable: 'string',
  list: 'string',
  portRange: 'string',
  port: 'int',
  bytes: 'bytes',
  duration: 'duration',
  fraction: 'float',
  number: 'float',
  switch: 'bool',
}

/** Every flag: those of settings, then the others; by section, each with the Go agent's name, meaning and default where that agent has it. */
export function flagTable(defaults: FlagDefaults): Readonly<Record<string, Flag>> {
  const ofSettings = mapRows(allRows, (row: SettingRow, setting) => settingFlags(row, setting, defaults))
  const flags = [...Object.values(ofSettings).flat(), ...Object.entries(otherFlags)]
  return Object.fromEntries(settingSections.flatMap((section) => flags.filter(([, flag]) => flag.section === section)))
}

function settingFlags(row: SettingRow, setting: AgentSettingName, defaults: FlagDefaults): [string, Flag][] {
  const { flag, aliases = [], section, flagTakes, startsAs } = row
  const kind = flagKinds[row.kind]
  const more = [startsAs && `An empty one means ${row.defaultMeans ?? ''}.`, flagTakes && `${flagTakes.what}.`]
  const help = [settingText(row), ...more].filter((text) => text !== undefined).join(' ')
  const fallback = setting in defaults ? defaults[setting as keyof FlagDefaults] : (startsAs ?? row.default)
  const defaultMeans = startsAs === undefined ? row.defaultMeans : undefined
  return [
    [flag, { kind, default: asFlagValue(fallback, kind), section, help, defaultMeans, setting }],
    ...aliases.map((alias): [string, Flag] => [
      alias,
      { kind, default: emptyValues[kind], section, help: `Another name of --${flag}.`, aliasOf: flag },
    ]),
  ]
}

const asFlagValue = (value: SettingRow['default'], kind: FlagKind): FlagValue =>
  typeof value === 'object' ? value.join(',') : (value ?? emptyValues[kind])

const oneTimeout = 'one setting is for all runtimes, --startup-timeout'

type WithoutEffect = readonly [kind: FlagKind, usual: FlagValue, why: string]

/** Flags of the Go agent that change nothing here: what they state is a constant. */
function withoutEffect(flags: Readonly<Record<string, WithoutEffect>>): Readonly<Record<string, Flag>> {
  const entries = Object.entries(flags).map(([name, [kind, fallback, why]]): [string, Flag] => [
    name,
    { kind, default: fallback, section: 'General', help: `Kept for compatibility: ${why}.`, notInEffect: why },
  ])
  return Object.fromEntries(entries)
}

/** Actions, other ways to state a setting, and what the Go agent takes and we do not have yet. */
const otherFlags: Readonly<Record<string, Flag>> = {
  'all-namespaces': {
    kind: 'bool',
    default: false,
    section: 'Cluster',
    help: 'Every namespace is watched.',
    setting: 'namespace',
  },
  'max-watch-failures': {
    kind: 'int',
    default: 3,
    section: 'Cluster',
    help: 'Kept for compatibility: watch failures never end the agent.',
    notInEffect: 'a cluster that does not answer never ends the agent, which asks again with back-off',
  },
  'legacy-direct-endpoints': {
    kind: 'bool',
    default: false,
    section: 'Network',
    help: "The name that LLMKube's agent has for --publish direct.",
    setting: 'publish',
  },
  'llama-server-port': {
    kind: 'int',
    default: 0,
    section: 'Network',
    help: 'The same as --port-range N-N, which leaves room for only one model server; 0 or less means any free port.',
    setting: 'portRange',
  },
  ...withoutEffect({
    'mlx-server-port': [
      'int',
      8_080,
      'the first mlx-server gets port 8080 if it is free, and --port-range says otherwise',
    ],
    'omlx-startup-timeout': ['duration', 120_000, oneTimeout],
    'vllm-swift-startup-timeout': ['duration', 120_000, oneTimeout],
    'mlx-server-startup-timeout': ['duration', 120_000, oneTimeout],
    'tensorfold-startup-timeout': ['duration', 600_000, oneTimeout],
    'memory-watchdog-interval': ['duration', 10_000, 'memory is checked every 10 s, and every 5 s while it is short'],
    'memory-pressure-warning': ['float', 0.2, 'memory is short below 20 % available'],
    'memory-pressure-critical': ['float', 0.1, 'memory is critically short below 10 % available'],
    'apple-power-interval': ['duration', 1_000, 'power is measured every second while somebody views it'],
    'powermetrics-bin': [
      'string',
      '/usr/bin/powermetrics',
      'the sudo rule names /usr/bin/powermetrics, and no other is run',
    ],
  }),
  version: { kind: 'bool', default: false, section: 'General', help: 'Print version, git commit and build date.' },
}

const intro = `metal-agent serves the InferenceServices of a Kubernetes cluster natively on this host.

Usage:
  metal-agent [flags]        run the agent; metal-agent help flags lists its flags
  metal-agent <verb> …       talk to the running agent; metal-agent help <verb> lists its options
`

const flagIntro = `Flags take one dash or two, and a value after a space or "=" (a switch only after "="). A DURATION is
written as 10s, 2m or 1m30s, and BYTES as 512Ki, 20Mi or 1Gi.
`

export const exitCodeTexts: readonly (readonly [code: number, meaning: string])[] = [
  [exitCodes.done, 'done or started'],
  [exitCodes.failed, 'failed'],
  [exitCodes.wrongUsage, 'wrong usage'],
  [exitCodes.noAgent, 'no agent is running'],
  [exitCodes.refused, 'refused by the agent or the cluster'],
  [exitCodes.notAvailable, 'the agent cannot fix that itself (doctor --fix)'],
  [exitCodes.doesNotFit, 'the model does not fit on this machine or beside the running models'],
]

/** Every flag by section. */
export function flagsText(defaults: FlagDefaults): string {
  const flags = Object.entries(flagTable(defaults))
  const width = Math.max(...flags.map(([name, flag]) => flagUsage(name, flag).length))
  const sections = settingSections.map((section) => {
    const lines = flags
      .filter(([, flag]) => flag.section === section)
      .map(([name, flag]) => `  ${flagUsage(name, flag).padEnd(width)}  ${flag.help}${defaultText(flag)}`)
    return `\n${section}:\n${lines.join('\n')}\n`
  })
  return `${flagIntro}${sections.join('')}`
}

/** One screen: a line for each verb, how it is used and what it does. */
export function helpText(verbs: readonly (readonly [usage: string, does: string])[]): string {
  const width = Math.max(...verbs.map(([usage]) => usage.length))
  const lines = verbs.map(([usage, does]) => `  ${usage.padEnd(width)}  ${does}\n`)
  const codes = exitCodeTexts.map(([code, meaning]) => `  ${code}  ${meaning}\n`)
  return `${intro}\nVerbs:\n${lines.join('')}\nExit codes:\n${codes.join('')}`
}

const placeholders = {
  ...{ string: ' TEXT', bool: '', int: ' N', float: ' X' },
  ...{ duration: ' DURATION', bytes: ' BYTES' },
} as const

export const flagUsage = (name: string, { kind }: Flag) => `--${name}${placeholders[kind]}`

export function defaultText(flag: Flag): string {
  if (flag.aliasOf !== undefined) return ''
  if (flag.defaultMeans !== undefined) return ` (default: ${flag.defaultMeans})`
  if (flag.default === '' || flag.default === false) return ''
  return ` (default ${formatValue(flag)})`
}

function formatValue({ kind, default: value }: Flag): string {
  if (kind === 'duration') return formatDuration(Number(value))
  return kind === 'bytes' ? formatByteCount(Number(value)) : JSON.stringify(value)
}
