import { parseByteCount } from '../contract/format.ts'
import type { SettingSection } from '../contract/settings-table.ts'
import {
  editableRow,
  formatSetting,
  readSetting,
  type SettingName,
  settingNames,
  type SettingsPatch,
  type SettingView,
  type StartSettingView,
} from '../contract/settings.ts'

/** What a person wrote over a setting and has not applied yet. */
export interface Written {
  /** Null gives the setting back to its default. */
  readonly text: string | null
  /** What the setting was when the person began. */
  readonly over: SettingView
}
export type Draft = Readonly<Partial<Record<SettingName, Written>>>

/** The draft with this in the field; undefined, or what the setting is anyway, takes the field out of the draft. */
export function withWritten(draft: Draft, view: SettingView, text: string | null | undefined): Draft {
  const { [view.name]: before, ...others } = draft
  if (text === undefined || !isChange(view, text)) return others
  return { ...others, [view.name]: { text, over: before?.over ?? view } }
}

const isChange = (view: SettingView, text: string | null): boolean =>
  text === null ? view.from === 'person' : text !== textOf(view) && !isSameValue(view, text)

/** Such as 1024Mi and 1Gi. */
function isSameValue({ name, value }: SettingView, text: string): boolean {
  const { kind } = editableRow(name)
  const read = kind === 'bytes' ? readSetting(kind, text) : undefined
  return read?.ok === true && read.value === value
}

/** Whether somebody else has set it since the person began to write. */
export const isConflict = ({ over }: Written, { value, from }: SettingView): boolean =>
  over.value !== value || over.from !== from

/** What of it is a change of what the agent says now. */
export function changedIn(draft: Draft, views: readonly SettingView[]): Draft {
  return Object.fromEntries(
    views.flatMap((view): [SettingName, Written][] => {
      const written = draft[view.name]
      return written && isChange(view, written.text) ? [[view.name, written]] : []
    }),
  )
}

type DraftResult =
  | { readonly ok: true; readonly patch: SettingsPatch }
  /** The fields that say what cannot be. */
  | { readonly ok: false; readonly problems: readonly SettingName[] }

/** What is left of it once `sent` was applied: what was written after that was sent stays. */
export const withoutSent = (draft: Draft, sent: Draft): Draft =>
  Object.fromEntries(
    settingNames.flatMap((name) => (draft[name]?.text === sent[name]?.text ? [] : [[name, draft[name]]])),
  )

/** The value as a person writes it; empty where the default says that there is none. */
export function textOf({ name, value }: Pick<SettingView, 'name' | 'value'>): string {
  if (value === null) return ''
  const { kind } = editableRow(name)
  return kind === 'bytes' && typeof value === 'number' ? byteTextOf(value) : formatSetting(kind, value)
}

/** What the field says: what was written, or else the value. */
export function textIn(draft: Draft, view: SettingView): string {
  const written = draft[view.name]
  return written === undefined ? textOf(view) : (written.text ?? '')
}

/** The change that the draft asks for, or which fields are not right. */
export function patchOfDraft(draft: Draft): DraftResult {
  const read = settingNames.flatMap((name) => {
    const written = draft[name]
    return written === undefined ? [] : [{ name, ...valueOf(name, written.text) }]
  })
  const problems = read.flatMap(({ name, isRight }) => (isRight ? [] : [name]))
  if (problems.length > 0) return { ok: false, problems }
  return { ok: true, patch: Object.fromEntries(read.map(({ name, value }) => [name, value])) }
}

/** The fields that say what cannot be. */
export function problemsIn(draft: Draft): readonly SettingName[] {
  const result = patchOfDraft(draft)
  return result.ok ? [] : result.problems
}

function valueOf(name: SettingName, text: string | null): { readonly value?: unknown; readonly isRight: boolean } {
  // A field that was emptied says the same as the button that gives the default back.
  if (text === null || text.trim() === '') return { value: null, isRight: true }
  const { kind, schema } = editableRow(name)
  const read = readSetting(kind, text.trim())
  const parsed = read.ok ? schema.safeParse(read.value) : undefined
  return parsed?.success === true ? { value: parsed.data, isRight: true } : { isRight: false }
}

/** As Kubernetes writes them, from the smallest to the largest; the first is of single bytes. */
export const byteUnits = ['', 'k', 'Ki', 'M', 'Mi', 'G', 'Gi', 'T', 'Ti'] as const
export type ByteUnit = (typeof byteUnits)[number]

/** In the largest unit that leaves a whole number; what {@link parseByteCount} reads back. */
export function byteTextOf(bytes: number): string {
  const unit = byteUnits.findLast((one) => bytes > 0 && bytes % sizeOf(one) === 0) ?? ''
  return `${bytes / sizeOf(unit)}${unit}`
}

const sizeOf = (unit: ByteUnit): number => parseByteCount(`1${unit}`) ?? 1

/** The number, which may be anything a person wrote, and its unit; 0 and nothing have none. */
export function splitByteText(text: string): { readonly amount: string; readonly unit: ByteUnit | undefined } {
  const unit = byteUnits.findLast((one) => text.endsWith(one)) ?? ''
  const amount = text.slice(0, text.length - unit.length).trimEnd()
  return { amount, unit: unit === '' && !(Number(amount) > 0) ? undefined : unit }
}

/** Nothing written is no number, whatever its unit; a unit that was written with the number counts. */
export function joinByteText(written: string, unit: ByteUnit): string {
  const { amount, unit: own = '' } = splitByteText(written.trim().replace(/B$/, ''))
  return amount === '' ? '' : `${amount}${own === '' ? unit : own}`
}

/** Any setting as the agent has it: one that can be changed, or one of its start. */
export type AnySetting = SettingView | StartSettingView
type Placed = Pick<SettingView, 'name'> | StartSettingView

export const isOfStart = (setting: Placed): setting is StartSettingView => 'section' in setting

/** What a page has beside rows of the table. A link leads to its element by this id. */
const partPages = {
  ...{ app: 'General', updates: 'General', uninstall: 'General' },
  ...{ contexts: 'Cluster', hostAddress: 'Network', foundRuntimes: 'Runtimes', hubToken: 'Models', powerRule: 'Power' },
} as const satisfies Readonly<Record<string, SettingSection>>
export type SettingPart = keyof typeof partPages
export const settingParts = Object.keys(partPages) as SettingPart[]

export const pageOf = (setting: Placed): SettingSection =>
  isOfStart(setting) ? setting.section : editableRow(setting.name).section

export const isFirst = (setting: Placed): boolean => !isOfStart(setting) && editableRow(setting.name).isFirst === true

/** The page that has the element of this id; undefined where none has it, or not yet. */
export function pageOfId(id: string, settings: readonly AnySetting[]): SettingSection | undefined {
  if (id in partPages) return partPages[id as SettingPart]
  const setting = settings.find(({ name }) => name === id)
  return setting && pageOf(setting)
}

/** Whether each word of what a person wrote is somewhere in those. */
export function isFound(text: string, words: readonly string[]): boolean {
  const all = words.join(' ').toLowerCase()
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word))
}
