import { formatBytes, formatMemory, formatShare } from '../../contract/format.ts'
import { countsTexts } from '../../contract/settings-table.ts'
import {
  acceptsText,
  defaultText,
  editableRow,
  formatSetting,
  type SettingName,
  settingNames,
  type SettingOrigin,
  type SettingsPatch,
  type SettingView,
  spellingOf,
} from '../../contract/settings.ts'
import { sharedWords, type Words } from '../../contract/words.ts'
import type { SettingPart } from '../settings-draft.ts'
import { appWords, hubLoginWords, powerRuleWords, uninstallWords, updateWords } from './app.ts'
import { firstRunWords, placeWords } from './first-run.ts'

const gib = 2 ** 30
/** GiB beside it, since that is what such a field is mostly written in. */
const size = (bytes: number) => (bytes >= gib ? formatMemory(bytes) : formatBytes(bytes))

const origins: Readonly<Record<SettingOrigin, string>> = {
  default: 'the default',
  flag: 'a flag of the agent',
  startFile: 'start-settings.json; a value set here wins',
  person: 'you',
}

export const settingWords = {
  title: 'Settings',
  pageList: 'Pages of the settings',
  first: 'Changed most',
  app: 'This app',
  search: 'Search settings',
  found: (count: number) => (count === 0 ? 'Nothing found' : `${count} found`),
  /** What is no row of the table, by the words that it is found by; the first is its title. */
  parts: {
    contexts: [placeWords.contexts],
    hostAddress: [placeWords.addresses, placeWords.otherAddressHelp],
    foundRuntimes: [placeWords.foundRuntimes, firstRunWords.runtimes],
    hubToken: [hubLoginWords.title, appWords.tokenHelp],
    powerRule: [powerRuleWords.title, powerRuleWords.states.installed],
    app: [sharedWords.loginItem, appWords.onQuit, sharedWords.notifications, appWords.showTitle],
    updates: [updateWords.title, updateWords.regularly, updateWords.command],
    uninstall: [uninstallWords.title, uninstallWords.opens],
  } satisfies Record<SettingPart, readonly string[]>,
  about: (title: string) => `About ${title}`,
  /** What was set, a sentence for each. */
  changed: (settings: SettingsPatch): string =>
    settingNames
      .flatMap((name) => {
        const value = settings[name]
        return value === undefined ? [] : [changeOf(name, value)]
      })
      .join(' '),
  problem: (name: SettingName) => `It must be ${acceptsText(editableRow(name))}.`,
  /** What a number of bytes comes to. */
  isBytes: (bytes: number) => `= ${size(bytes)}.`,
  placeholder: 'default',
  choose: 'Choose…',
  chooseFor: (title: string) => `Choose for ${title}`,
  useDefault: 'Use the default',
  defaultOf: (title: string) => `Use the default of ${title}`,
  willBeDefault: 'The default, once applied.',
  revert: 'Revert',
  apply: 'Apply',
  changes(count: number, problems: number): string {
    if (problems > 0) return problems === 1 ? '1 value cannot be applied:' : `${problems} values cannot be applied:`
    return count === 0 ? 'No changes' : count === 1 ? '1 change, not applied:' : `${count} changes, not applied:`
  },
  show: (title: string) => `Show ${title}`,
  copyLine: (title: string) => `Copy line for ${title}`,
  /** How to change a setting that the agent reads only at its start. `startFile`: the app's, undefined if the agent is started with flags. */
  stated(canBe: boolean, startFile: string | undefined): string {
    if (!canBe) return 'The app sets it when it starts the agent, so it cannot be changed here.'
    const how =
      startFile === undefined ? 'Start the agent with:' : `Add this line to ${startFile} and open the app again:`
    return `The agent reads it only when it starts, so it cannot be changed here. ${how}`
  },
} as const satisfies Words

/** What few want to know of a setting, by name. */
export function factsOf({ name, from }: SettingView): (readonly [name: string, value: string])[] {
  const row = editableRow(name)
  const isWritten = row.kind !== 'switch' && row.kind !== 'choice'
  const fallback = isWritten ? defaultText(row) : undefined
  return [
    ...(isWritten ? [['Accepts', acceptsText(row)] as const] : []),
    ...(fallback === undefined ? [] : [['Default', fallback] as const]),
    ['A change', countsTexts[row.counts]],
    ['Set by', origins[from]],
    ['Flag', `--${row.flag}`],
  ]
}

/** Why a setting cannot be set here, and what sets it elsewhere; undefined where it can. */
export function whyFixed(
  { name, from }: SettingView,
  trust: 'page' | 'shell',
): { readonly why: string; readonly line?: string } | undefined {
  if (from === 'flag') {
    return {
      why: 'The agent was started with this flag, which wins. Start the agent without it to set the value here.',
    }
  }
  if (trust === 'shell' || editableRow(name).trust === 'page') return undefined
  return {
    why: 'A page in a browser cannot change this. Run in a terminal on this Mac:',
    line: `metal-agent settings set ${spellingOf(name)} VALUE`,
  }
}

/** As it is said where it cannot be set here. */
export function valueText(name: SettingName, value: SettingView['value']): string {
  if (value === null) return 'not set'
  const { kind, choices } = editableRow(name)
  if (kind === 'bytes' && typeof value === 'number') return size(value)
  const text = formatSetting(kind, value)
  return choices?.[text] ?? text
}

function changeOf(name: SettingName, value: SettingView['value']): string {
  const { counts, startsAs, choices, title } = editableRow(name)
  const text = valueText(name, value)
  // A choice has a name of several words, which would run into the sentence.
  const set = choices === undefined ? `is set to ${text}` : `is now “${text}”`
  const emptied = startsAs === undefined ? 'is set back to the default' : 'is left empty'
  return `${title} ${value === null ? emptied : set} and ${countsTexts[counts]}.`
}

export const budgetWords = {
  slider: 'Memory for models',
  share: (fraction: number, totalBytes: number) => `${formatShare(fraction)} · ${formatMemory(fraction * totalBytes)}`,
  limits: (totalBytes: number, gpuLimitBytes: number | undefined) =>
    `${gpuLimitBytes === undefined ? '' : `GPU limit ${formatMemory(gpuLimitBytes)}, `}memory ${formatMemory(totalBytes)}. A fixed amount replaces the fraction.`,
} as const satisfies Words
