import {
  editableRow,
  settingNames,
  type SettingName,
  type SettingsPatch,
  type SettingView,
} from '../contract/settings.ts'
import type { SettingKind } from '../contract/settings-table.ts'
import { VerbError } from './agent-session.ts'
import { formatBytes, formatDuration, nearest, parseBytes, parseDuration } from './go-flags.ts'

/** How people spell a setting: mostly as its flag. */
export function spellingOf(name: SettingName): string {
  const { spelled, flag } = editableRow(name)
  return spelled ?? flag
}

export const settingSpellings: readonly string[] = settingNames.map(spellingOf)

/** `default` gives the setting back. Throws VerbError; whether the value makes sense is for the agent to say. */
export function patchOf(spelled: string, text: string): Readonly<Record<string, unknown>> & SettingsPatch {
  const name = settingNames.find((one) => spellingOf(one) === spelled)
  if (name === undefined) {
    const near = nearest(spelled, settingSpellings)
    const advice = near === undefined ? `the settings are ${settingSpellings.join(', ')}` : `did you mean ${near}?`
    throw new VerbError(`There is no setting ${spelled}: ${advice}`)
  }
  return { [name]: text === 'default' ? null : parsed(spelled, editableRow(name).kind, text) }
}

export const spelledSetting = ({ name, value }: SettingView): { readonly spelled: string; readonly text: string } => ({
  spelled: spellingOf(name),
  text: value === null ? '-' : formatSetting(editableRow(name).kind, value),
})

/** As people write it. */
export function formatSetting(kind: SettingKind, value: string | number | boolean): string {
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (kind === 'duration') return formatDuration(value)
  return kind === 'bytes' ? formatBytes(value) : String(value)
}

function parsed(spelled: string, kind: SettingKind, text: string): string | number | boolean {
  const reader = readers[kind]
  if (!reader) return text
  const value = reader.read(text)
  if (value === undefined) throw new VerbError(`${spelled} wants ${reader.wants}, not ${JSON.stringify(text)}.`)
  return value
}

interface Reader {
  readonly wants: string
  readonly read: (text: string) => number | boolean | undefined
}

/** A unit that is not listed means text. */
const readers: Readonly<Partial<Record<SettingKind, Reader>>> = {
  duration: { wants: 'a duration such as 30s or 2m', read: parseDuration },
  bytes: { wants: 'a number of bytes such as 20Mi', read: parseBytes },
  count: { wants: 'a whole number', read: (text) => (/^\d+$/.test(text) ? Number(text) : undefined) },
  fraction: { wants: 'a fraction such as 0.75', read: (text) => (/^\d*\.?\d+$/.test(text) ? Number(text) : undefined) },
  number: { wants: 'a number such as 0.32', read: (text) => (/^\d*\.?\d+$/.test(text) ? Number(text) : undefined) },
  switch: { wants: 'on or off', read: (text) => (text === 'on' ? true : text === 'off' ? false : undefined) },
}
