import { formatSetting, readSetting } from '../contract/setting-text.ts'
import {
  editableRow,
  settingNames,
  type SettingName,
  type SettingsPatch,
  type SettingView,
} from '../contract/settings.ts'
import { settingGroups } from '../contract/setting-row.ts'

/** What a person wrote and has not applied yet; null gives the setting back to its default. */
export type Draft = Readonly<Partial<Record<SettingName, string | null>>>

export type DraftResult =
  | { readonly ok: true; readonly patch: SettingsPatch }
  | { readonly ok: false; readonly problems: Readonly<Partial<Record<SettingName, string>>> }

/** What is left of it once `sent` was applied: what was written after that was sent stays. */
export const withoutSent = (draft: Draft, sent: Draft): Draft =>
  Object.fromEntries(settingNames.flatMap((name) => (draft[name] === sent[name] ? [] : [[name, draft[name]]])))

/** The value as a person writes it; empty where the default says that there is none. */
export const textOf = ({ name, value }: Pick<SettingView, 'name' | 'value'>): string =>
  value === null ? '' : formatSetting(editableRow(name).kind, value)

/** The change that the draft asks for, or what is wrong at which field: "must be …" as a sentence. */
export function patchOfDraft(draft: Draft): DraftResult {
  const read = settingNames.flatMap((name) => {
    const text = draft[name]
    return text === undefined ? [] : [{ name, ...valueOf(name, text) }]
  })
  const problems = Object.fromEntries(
    read.flatMap(({ name, problem }) => (problem === undefined ? [] : [[name, problem]])),
  )
  if (Object.keys(problems).length > 0) return { ok: false, problems }
  return { ok: true, patch: Object.fromEntries(read.map(({ name, value }) => [name, value])) }
}

function valueOf(name: SettingName, text: string | null): { readonly value?: unknown; readonly problem?: string } {
  // A field that was emptied says the same as the button that gives the default back.
  if (text === null || text.trim() === '') return { value: null }
  const { kind, schema } = editableRow(name)
  const read = readSetting(kind, text.trim())
  if (!read.ok) return { problem: `It wants ${read.wants}.` }
  const parsed = schema.safeParse(read.value)
  return parsed.success
    ? { value: parsed.data }
    : { problem: `It ${parsed.error.issues[0]?.message ?? 'cannot be that'}.` }
}

/** By the sections of the settings table, in its order. */
export function inSections(
  settings: readonly SettingView[],
): { readonly group: string; readonly settings: readonly SettingView[] }[] {
  return settingGroups.flatMap((group) => {
    const found = settings.filter(({ name }) => editableRow(name).group === group)
    return found.length === 0 ? [] : [{ group, settings: found }]
  })
}
