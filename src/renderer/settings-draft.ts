import type { SettingSection } from '../contract/settings-table.ts'
import {
  editableRow,
  formatSetting,
  readSetting,
  type SettingName,
  settingNames,
  type SettingsPatch,
  type SettingView,
} from '../contract/settings.ts'

/** What a person wrote over settings and has not applied yet; null gives a setting back to its default. */
export type Draft = Readonly<Partial<Record<SettingName, string | null>>>

/** The draft with this in the field; what the setting is anyway takes the field out of the draft. */
export function withWritten(draft: Draft, view: SettingView, text: string | null): Draft {
  const { [view.name]: _before, ...others } = draft
  return isChange(view, text) ? { ...others, [view.name]: text } : others
}

const isChange = (view: SettingView, text: string | null): boolean =>
  text === null ? view.from === 'person' : text !== textOf(view) && valueOf(view.name, text)?.value !== view.value

/** What of it is a change of what the agent says now. */
export const changedIn = (draft: Draft, views: readonly SettingView[]): Draft =>
  Object.fromEntries(
    views.flatMap((view) => {
      const text = draft[view.name]
      return text !== undefined && isChange(view, text) ? [[view.name, text]] : []
    }),
  )

/** What is left of it once `sent` was applied: what was written after that was sent stays. */
export const withoutSent = (draft: Draft, sent: Draft): Draft =>
  Object.fromEntries(settingNames.flatMap((name) => (draft[name] === sent[name] ? [] : [[name, draft[name]]])))

/** The value as a person writes it; empty where the default says that there is none. */
export const textOf = ({ name, value }: SettingView): string =>
  value === null ? '' : formatSetting(editableRow(name).kind, value)

/** The change that the draft asks for, without the fields that cannot be. */
export function patchOfDraft(draft: Draft): {
  readonly patch: SettingsPatch
  readonly problems: readonly SettingName[]
} {
  const names = settingNames.filter((name) => draft[name] !== undefined)
  const read = names.map((name) => ({ name, right: valueOf(name, draft[name] ?? null) }))
  return {
    patch: Object.fromEntries(read.flatMap(({ name, right }) => (right ? [[name, right.value]] : []))),
    problems: read.flatMap(({ name, right }) => (right ? [] : [name])),
  }
}

/** Undefined where it is not right. A field that was emptied says the same as the button that gives the default back. */
function valueOf(name: SettingName, text: string | null): { readonly value: unknown } | undefined {
  if (text === null || text.trim() === '') return { value: null }
  const { kind, schema } = editableRow(name)
  const read = readSetting(kind, text.trim())
  const parsed = read.ok ? schema.safeParse(read.value) : undefined
  return parsed?.success === true ? { value: parsed.data } : undefined
}

/** What a page has beside rows of the table. A link leads to its element by this id. */
const partPages = {
  app: 'General',
  updates: 'General',
  uninstall: 'General',
  contexts: 'Cluster',
  hostAddress: 'Network',
  foundRuntimes: 'Runtimes',
  hubToken: 'Models',
  powerRule: 'Power',
} as const satisfies Readonly<Record<string, SettingSection>>
export type SettingPart = keyof typeof partPages
export const settingParts = Object.keys(partPages) as SettingPart[]

/** The page that has the part or setting of this name; undefined where none has it. */
export function pageOf(id: string): SettingSection | undefined {
  const name = settingNames.find((one) => one === id)
  return id in partPages ? partPages[id as SettingPart] : name && editableRow(name).section
}
