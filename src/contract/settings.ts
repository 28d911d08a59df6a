import { z } from 'zod'
import { formatByteCount, formatDuration, parseByteCount, parseDuration } from './format.ts'
import {
  countsTexts,
  type EditableRow,
  editableRows,
  mapRows,
  type SettingKind,
  settingSections,
} from './settings-table.ts'

/** Settings that count only as the agent is started with them; what else there is to know of each is in agent-core. */
export const startSettingNames = [
  'context',
  'inferenceServiceAllowlist',
  'modelStore',
  'allowedModelRoots',
  'allowedDownloadHosts',
  'hubLoginNamespaces',
  'runtime',
  'allowUnsafeExtraArgs',
  'allowedEnv',
  'ollamaPort',
  'omlxPort',
  'portRange',
  'memoryPressureWarning',
  'memoryPressureCritical',
  'hostIp',
  'port',
  'clientPort',
  'ingressPort',
  'metricsAddress',
  'stateDir',
  'logFile',
] as const
export type StartSettingName = (typeof startSettingNames)[number]

/**
 * Where a value comes from. A flag wins over what a person set, since the service manager says it at every start; the start file of the app
 * stands in place of the defaults.
 */
export const settingOrigin = z.enum(['default', 'flag', 'startFile', 'person'])
export type SettingOrigin = z.infer<typeof settingOrigin>

export const maxShownBytes = 1_000
const shown = z.string().max(maxShownBytes)

/** One of them as the agent runs with it. */
export const startSettingView = z.object({
  name: z.enum(startSettingNames),
  section: z.enum(settingSections),
  /** As people write it; empty where there is none. */
  value: shown,
  from: settingOrigin,
  /** The flag with the value, or with an example where there is none. */
  flag: shown,
  /** The same as a line of the app's start file; absent where that does not take it. */
  line: shown.optional(),
})
export type StartSettingView = z.infer<typeof startSettingView>

type Rows = typeof editableRows
/** The name of a setting that a person may change while the agent runs. */
export type SettingName = keyof Rows

/** The settings that name the program of a runtime. */
export type ProgramSetting =
  'llamaServer' | 'mlxLm' | 'mlxServer' | 'vllmSwift' | 'tensorfold' | 'ollamaBin' | 'omlxBin'
/** The settings by which a person has the agent start a daemon. */
export const daemonStartSettings = ['ollamaStart', 'omlxStart'] as const satisfies readonly SettingName[]
export type DaemonStartSetting = (typeof daemonStartSettings)[number]

/** The name of a setting whose change takes effect at once. */
export type ImmediateSetting = {
  readonly [Name in SettingName]: Rows[Name]['counts'] extends 'now' ? Name : never
}[SettingName]

type PatchShape = { readonly [Name in SettingName]: z.ZodOptional<z.ZodNullable<Rows[Name]['schema']>> }

/** The settings that a person may change while the agent runs; a missing one keeps its value, null goes back to the default. */
export const settingsPatch = z.strictObject(
  mapRows(editableRows, (row: EditableRow) => row.schema.nullable().optional()) as PatchShape,
)
export type SettingsPatch = z.infer<typeof settingsPatch>

export const settingNames = settingsPatch.keyof().options

export const editableRow = (name: SettingName): EditableRow => editableRows[name]

/** Smallest and largest value of a setting that is a number. */
export function boundsOf(name: SettingName): { readonly min: number; readonly max: number } {
  const { schema } = editableRow(name)
  if (!(schema instanceof z.ZodNumber)) throw new TypeError(`${name} is no number.`)
  return { min: schema.minValue ?? -Infinity, max: schema.maxValue ?? Infinity }
}

/** One setting as it is now. */
export const settingView = z.object({
  name: settingsPatch.keyof(),
  value: z.union([z.string(), z.number(), z.boolean(), z.null()]),
  from: settingOrigin,
  /** What it does, its unit, and from when a change counts. */
  help: z.string(),
})
export type SettingView = z.infer<typeof settingView>

export function settingHelp(name: SettingName): string {
  const { kind, help, defaultMeans, default: fallback = null, counts } = editableRow(name)
  const unit = kind === 'duration' ? ' (in milliseconds)' : ''
  const meaning = defaultMeans === undefined ? '' : `; ${String(fallback)} = ${defaultMeans}`
  return `${help.charAt(0).toUpperCase()}${help.slice(1)}${unit}${meaning}. A change ${countsTexts[counts]}.`
}

/** How people spell a setting: mostly as its flag. */
export function spellingOf(name: SettingName): string {
  const { spelled, flag } = editableRow(name)
  return spelled ?? flag
}

/** As people write it. */
export function formatSetting(kind: SettingKind, value: string | number | boolean): string {
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (kind === 'duration') return formatDuration(value)
  return kind === 'bytes' ? formatByteCount(value) : String(value)
}

/** What a person wrote, as a value; whether it makes sense is for the setting's schema to say. */
export function readSetting(
  kind: SettingKind,
  text: string,
): { readonly ok: true; readonly value: string | number | boolean } | { readonly ok: false; readonly wants: string } {
  const reader = readers[kind]
  if (!reader) return { ok: true, value: text }
  const value = reader.read(text)
  return value === undefined ? { ok: false, wants: reader.wants } : { ok: true, value }
}

interface Reader {
  readonly wants: string
  readonly read: (text: string) => number | boolean | undefined
}

/** A unit that is not listed means text. */
const readers: Readonly<Partial<Record<SettingKind, Reader>>> = {
  duration: { wants: 'a duration such as 30s or 2m', read: parseDuration },
  bytes: { wants: 'a number of bytes such as 20Mi', read: parseByteCount },
  fraction: {
    wants: 'a fraction such as 0.75',
    read: (text) => (/^(?:\d+(?:\.\d+)?|\.\d+)$/.test(text) ? Number(text) : undefined),
  },
  number: {
    wants: 'a number such as 0.32',
    read: (text) => (/^(?:\d+(?:\.\d+)?|\.\d+)$/.test(text) ? Number(text) : undefined),
  },
  switch: { wants: 'on or off', read: (text) => (text === 'on' ? true : text === 'off' ? false : undefined) },
}
