import { startRows } from '../agent-core/settings/start-rows.ts'
import {
  editableRow,
  formatSetting,
  readSetting,
  settingNames,
  type SettingsPatch,
  type SettingView,
  spellingOf,
  startSettingNames,
  type StartSettingView,
} from '../contract/settings.ts'
import { countsTexts, type SettingKind, type SettingRow } from '../contract/settings-table.ts'
import { VerbError } from './agent-session.ts'
import { nearest } from '../agent-core/util/go-flags.ts'

const none = '-'

export const settingSpellings: readonly string[] = settingNames.map(spellingOf)

/** Of those that count only from the start. */
export const startSpellings: readonly string[] = startSettingNames.map((name) => startRows[name].flag)

/** `default` gives the setting back. Throws VerbError; whether the value makes sense is for the agent to say. */
export function patchOf(spelled: string, text: string): Readonly<Record<string, unknown>> & SettingsPatch {
  const name = settingNames.find((one) => spellingOf(one) === spelled)
  if (name === undefined) {
    if (startSpellings.includes(spelled)) {
      throw new VerbError(
        `${spelled} ${countsTexts.nextAgent}: start the agent with --${spelled}, or in the app say it in start-settings.json.`,
      )
    }
    const near = nearest(spelled, settingSpellings)
    const advice = near === undefined ? `the settings are ${settingSpellings.join(', ')}` : `did you mean ${near}?`
    throw new VerbError(`There is no setting ${spelled}: ${advice}`)
  }
  return { [name]: text === 'default' ? null : parsed(spelled, editableRow(name).kind, text) }
}

interface SpelledSetting {
  readonly spelled: string
  readonly text: string
}

export const spelledSetting = ({ name, value }: SettingView): SpelledSetting => ({
  spelled: spellingOf(name),
  text: value === null ? none : formatSetting(editableRow(name).kind, value),
})

export function spelledStartSetting({ name, value }: StartSettingView): SpelledSetting & { readonly help: string } {
  const { flag, help, defaultMeans }: SettingRow = startRows[name]
  const meaning = value === '' && defaultMeans !== undefined ? `; ${none} = ${defaultMeans}` : ''
  return {
    spelled: flag,
    text: value === '' ? none : value,
    help: `${help.charAt(0).toUpperCase()}${help.slice(1)}${meaning}. A change ${countsTexts.nextAgent}.`,
  }
}

function parsed(spelled: string, kind: SettingKind, text: string): string | number | boolean {
  const read = readSetting(kind, text)
  if (!read.ok) throw new VerbError(`${spelled} wants ${read.wants}, not ${JSON.stringify(text)}.`)
  return read.value
}
