import { z } from 'zod'
import { countsTexts, mapRows, type EditableRow } from './setting-row.ts'
import { editableRows } from './settings-table.ts'
import { settingOrigin } from './start-settings.ts'

type Rows = typeof editableRows
/** Of a setting that a person may change while the agent runs. */
export type SettingName = keyof Rows

/** The name of a setting whose change counts at once. */
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

/** Of a setting whose value is a number. */
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
