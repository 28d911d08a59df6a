import { editableRow, settingNames, type SettingsPatch, type SettingView } from '../contract/settings.ts'
import { formatSetting, readSetting, spellingOf } from '../contract/setting-text.ts'
import type { SettingKind } from '../contract/setting-row.ts'
import { VerbError } from './agent-session.ts'
import { nearest } from '../agent-core/support/go-flags.ts'

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

function parsed(spelled: string, kind: SettingKind, text: string): string | number | boolean {
  const read = readSetting(kind, text)
  if (!read.ok) throw new VerbError(`${spelled} wants ${read.wants}, not ${JSON.stringify(text)}.`)
  return read.value
}
