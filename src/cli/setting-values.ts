import type { SettingName, SettingsPatch, SettingView } from '../contract/settings.ts'
import { VerbError } from './agent-session.ts'
import { formatBytes, formatDuration, nearest, parseBytes, parseDuration } from './go-flags.ts'

type Kind = 'text' | 'duration' | 'bytes' | 'count' | 'fraction' | 'switch'

/** How people spell the settings; as the flags of the same meaning. */
const spellings: readonly { readonly spelled: string; readonly name: SettingName; readonly kind: Kind }[] = [
  { spelled: 'llama-server', name: 'llamaServer', kind: 'text' },
  { spelled: 'namespace', name: 'namespace', kind: 'text' },
  { spelled: 'drain-timeout', name: 'drainLimitMs', kind: 'duration' },
  { spelled: 'startup-timeout', name: 'startupStallMs', kind: 'duration' },
  { spelled: 'server-log-size', name: 'serverLogBytes', kind: 'bytes' },
  { spelled: 'server-log-count', name: 'serverLogFiles', kind: 'count' },
  { spelled: 'download-limit', name: 'downloadBytesPerSecond', kind: 'bytes' },
  { spelled: 'downloads-at-once', name: 'downloadsAtOnce', kind: 'count' },
  { spelled: 'hub-endpoint', name: 'hubEndpoint', kind: 'text' },
  { spelled: 'hub-token-file', name: 'hubTokenFile', kind: 'text' },
  { spelled: 'ca-file', name: 'caFile', kind: 'text' },
  { spelled: 'disk-reserve', name: 'diskReserveBytes', kind: 'bytes' },
  { spelled: 'partial-keep', name: 'partialKeepMs', kind: 'duration' },
  { spelled: 'refresh-interval', name: 'refreshEveryMs', kind: 'duration' },
  { spelled: 'memory-fraction', name: 'memoryFraction', kind: 'fraction' },
  { spelled: 'memory-budget', name: 'memoryBudgetBytes', kind: 'bytes' },
  { spelled: 'memory-check-mode', name: 'memoryCheckMode', kind: 'text' },
  { spelled: 'eviction', name: 'evictionEnabled', kind: 'switch' },
  { spelled: 'eviction-share', name: 'evictionShare', kind: 'fraction' },
  { spelled: 'eviction-at-admission', name: 'evictionAtAdmission', kind: 'switch' },
  { spelled: 'come-back-after', name: 'comeBackMs', kind: 'duration' },
  { spelled: 'log-level', name: 'logLevel', kind: 'text' },
]

export const settingSpellings: readonly string[] = spellings.map(({ spelled }) => spelled)

/** `default` gives the setting back. Throws VerbError; whether the value makes sense is for the agent to say. */
export function patchOf(spelled: string, text: string): Readonly<Record<string, unknown>> & SettingsPatch {
  const known = spellings.find((one) => one.spelled === spelled)
  if (known === undefined) {
    const near = nearest(spelled, settingSpellings)
    const advice = near === undefined ? `the settings are ${settingSpellings.join(', ')}` : `did you mean ${near}?`
    throw new VerbError(`There is no setting ${spelled}: ${advice}`)
  }
  return { [known.name]: text === 'default' ? null : parsed(known, text) }
}

export function spelledSetting({ name, value }: SettingView): { readonly spelled: string; readonly text: string } {
  const known = spellings.find((one) => one.name === name)
  return { spelled: known?.spelled ?? name, text: value === null ? '-' : formatted(known?.kind ?? 'text', value) }
}

function parsed({ spelled, kind }: (typeof spellings)[number], text: string): string | number | boolean {
  if (kind === 'text') return text
  const value = parsers[kind](text)
  if (value === undefined) throw new VerbError(`${spelled} wants ${wanted[kind]}, not ${JSON.stringify(text)}.`)
  return value
}

function formatted(kind: Kind, value: string | number | boolean): string {
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (kind === 'duration') return formatDuration(value)
  return kind === 'bytes' ? formatBytes(value) : String(value)
}

const wanted = {
  duration: 'a duration such as 30s or 2m',
  bytes: 'a number of bytes such as 20Mi',
  count: 'a whole number',
  fraction: 'a fraction such as 0.75',
  switch: 'on or off',
} as const

const wholeNumber = (text: string): number | undefined => (/^\d+$/.test(text) ? Number(text) : undefined)

const parsers = {
  duration: parseDuration,
  bytes: parseBytes,
  count: wholeNumber,
  fraction: (text: string): number | undefined => (/^\d*\.?\d+$/.test(text) ? Number(text) : undefined),
  switch: (text: string): boolean | undefined => (text === 'on' ? true : text === 'off' ? false : undefined),
} as const
