import { z } from 'zod'
import { formatByteCount, formatDuration, parseByteCount, parseDuration } from './format.ts'
import {
  type EditableRow,
  editableRows,
  mapRows,
  type SettingKind,
  type SettingRow,
  settingSections,
} from './settings-table.ts'

/**
 * Where a value comes from. A flag wins over what a person set, since the service manager says it at every start; the start file of the app
 * stands in place of the defaults.
 */
export const settingOrigin = z.enum(['default', 'flag', 'startFile', 'person'])
export type SettingOrigin = z.infer<typeof settingOrigin>

export const maxShownBytes = 1_000
const shown = z.string().max(maxShownBytes)

/** A setting that counts only as the agent is started with it, as the agent runs with it. */
export const startSettingView = z.object({
  name: shown,
  section: z.enum(settingSections),
  title: shown,
  help: shown,
  more: shown.optional(),
  /** As people write it; empty where there is none. */
  value: shown,
  /** What no value means. */
  none: shown.optional(),
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

/** One setting as it is now. */
export const settingView = z.object({
  name: settingsPatch.keyof(),
  value: z.union([z.string(), z.number(), z.boolean(), z.null()]),
  from: settingOrigin,
})
export type SettingView = z.infer<typeof settingView>

interface SettingTexts {
  readonly title: string
  readonly help: string
  readonly more?: string | undefined
  readonly choices?: SettingRow['choices']
}

/** All that is told of a setting, whatever its value: for who reads it in lines. */
export function settingText({ title, help, more, choices = {} }: SettingTexts): string {
  const meanings = Object.entries(choices).map(([value, meaning]) =>
    meaning.toLowerCase() === value ? value : `${value}: ${meaning.charAt(0).toLowerCase()}${meaning.slice(1)}`,
  )
  const sentences = [`${title}.`, help, more, meanings.length > 0 ? `${meanings.join('; ')}.` : undefined]
  return sentences.filter((sentence) => sentence !== undefined).join(' ')
}

/** What the schema says of no value at all, which names everything that it accepts; completes "It must be …". */
export function boundsText({ schema }: Pick<SettingRow, 'schema'>): string {
  const message = schema.safeParse(undefined).error?.issues[0]?.message ?? ''
  return message.replace(/^must (not )?be /, '$1')
}

/** What a person may write; completes "It must be …". */
export function acceptsText(row: SettingRow): string {
  const wants = readers[row.kind]?.wants
  if (row.kind === 'switch' && wants !== undefined) return wants
  return [...(wants === undefined ? [] : [wants]), boundsText(row)].join(', ')
}

/** The default as people write it, and what it means; undefined where there is none. */
export function defaultText({ kind, default: fallback, startsAs, defaultMeans }: SettingRow): string | undefined {
  if (startsAs !== undefined) return `${startsAs}; left empty: ${defaultMeans ?? ''}`
  if (fallback === undefined || typeof fallback === 'object') return defaultMeans
  const value = formatSetting(kind, fallback)
  return defaultMeans === undefined ? value : `${value} (${defaultMeans})`
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
  // Also as it is shown, such as 24 GiB.
  bytes: { wants: 'a size such as 20Mi', read: (text) => parseByteCount(text.replace(/ ?B$/, '').replace(' ', '')) },
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
