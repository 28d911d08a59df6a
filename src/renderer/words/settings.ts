import { formatBytes, formatMemory, formatNumber, formatShare } from '../../contract/format.ts'
import { countsTexts, type SettingKind, type SettingSection } from '../../contract/settings-table.ts'
import {
  boundsOf,
  editableRow,
  formatSetting,
  type SettingName,
  settingNames,
  type SettingOrigin,
  type SettingsPatch,
  type SettingView,
  type StartSettingView,
} from '../../contract/settings.ts'
import { sharedWords, type Words } from '../../contract/words.ts'
import { type AnySetting, type ByteUnit, isOfStart, type SettingPart, textOf } from '../settings-draft.ts'
import { appWords, hubLoginWords, powerRuleWords, uninstallWords, updateWords } from './app.ts'
import { firstRunWords, placeWords } from './first-run.ts'
import { settingTexts } from './setting-texts.ts'
import { startSettingTexts } from './start-settings.ts'

const gib = 2 ** 30
/** GiB beside it, since that is what such a field is mostly written in. */
const size = (bytes: number) => (bytes >= gib ? formatMemory(bytes) : formatBytes(bytes))

const bounded = (name: SettingName, show: (value: number) => string): string => {
  const { min, max } = boundsOf(name)
  return `from ${show(min)} to ${show(max)}`
}

const wants: Readonly<Partial<Record<SettingKind, (name: SettingName) => string>>> = {
  duration: (name) => `a time ${bounded(name, (ms) => formatSetting('duration', ms))}, such as 30s, 2m or 1h30m`,
  bytes: (name) => `a size ${bounded(name, size)}, as a number with its unit`,
  fraction: (name) => `a fraction ${bounded(name, String)}, such as 0.75`,
  number: (name) => `a number ${bounded(name, formatNumber)}, such as 0.32`,
  path: () => 'an absolute path, which begins with /, of at most 1000 characters',
  executable: () => 'an absolute path, which begins with /, of at most 1000 characters',
  switch: () => 'on or off',
  choice: () => 'one of those shown',
}

const wantsOf = (name: SettingName): string =>
  settingTexts[name].wants ?? wants[editableRow(name).kind]?.(name) ?? 'something else'

const origins: Readonly<Record<SettingOrigin, string>> = {
  default: 'the default',
  flag: 'a flag of the agent',
  startFile: 'start-settings.json',
  person: 'you',
}

const pages: Readonly<Record<SettingSection, string>> = {
  General: 'General',
  Cluster: 'Cluster',
  Network: 'Network',
  Memory: 'Memory',
  Models: 'Models',
  Runtimes: 'Runtimes',
  Power: 'Power',
}

export const settingWords = {
  title: 'Settings',
  pages,
  pageList: 'Pages of the settings',
  first: 'Changed most',
  app: 'This app',
  /** What a setting is found by. */
  searched: (setting: AnySetting): readonly string[] => {
    const { title, help, more } = isOfStart(setting) ? startSettingTexts[setting.name] : settingTexts[setting.name]
    return [title, help, more ?? '', isOfStart(setting) ? setting.flag : `--${editableRow(setting.name).flag}`]
  },
  search: 'Search settings',
  found: (count: number) => (count === 0 ? 'Nothing found' : count === 1 ? '1 found' : `${count} found`),
  /** What is no row of the table, by the words that it is found by; the first is its title. */
  parts: {
    contexts: [placeWords.contexts],
    hostAddress: [placeWords.addresses, placeWords.otherAddressHelp],
    foundRuntimes: [placeWords.foundRuntimes, firstRunWords.runtimes],
    hubToken: [hubLoginWords.title, appWords.tokenHelp],
    powerRule: [powerRuleWords.title, powerRuleWords.states.installed],
    app: [
      sharedWords.loginItem,
      appWords.onQuit,
      sharedWords.onQuitHelp,
      sharedWords.notifications,
      appWords.showTitle,
    ],
    updates: [updateWords.title, updateWords.regularly, updateWords.channelHelp, updateWords.command],
    uninstall: [uninstallWords.title, uninstallWords.opens],
  } satisfies Record<SettingPart, readonly string[]>,
  /** The value of one that cannot be set here. */
  value({ name, value }: Pick<SettingView, 'name' | 'value'>): string {
    if (value === null) return 'not set'
    const { kind } = editableRow(name)
    if (kind === 'bytes' && typeof value === 'number') return size(value)
    const text = formatSetting(kind, value)
    return settingTexts[name].choices?.[text] ?? text
  },
  titleOf: (name: SettingName) => settingTexts[name].title,
  choicesOf: (name: SettingName) => settingTexts[name].choices,
  help: (name: SettingName) => settingTexts[name].help,
  more: (name: SettingName) => settingTexts[name].more,
  /** Of what a row shows when it is opened. */
  about: (title: string) => `About ${title}`,
  change: 'A change',
  counts: (name: SettingName) => countsTexts[editableRow(name).counts],
  countsFromStart: countsTexts.nextAgent,
  accepts: 'Accepts',
  wants: wantsOf,
  origin: 'Set by',
  origins,
  flag: 'Flag',
  /** What was set, a sentence for each. */
  changed: (settings: SettingsPatch): string =>
    settingNames
      .flatMap((name) => {
        const value = settings[name]
        return value === undefined ? [] : [changeOf(name, value)]
      })
      .join(' '),
  problem: (name: SettingName) => `It must be ${wantsOf(name)}.`,
  unitOf: (title: string) => `Unit of ${title}`,
  units: {
    ...{ '': 'B', k: 'kB', M: 'MB', G: 'GB', T: 'TB' },
    ...{ Ki: 'KiB', Mi: 'MiB', Gi: 'GiB', Ti: 'TiB' },
  } satisfies Record<ByteUnit, string>,
  /** What the number and its unit come to. */
  isBytes: (bytes: number) => `= ${size(bytes)}.`,
  byStartFile: 'A value set here wins over start-settings.json.',
  byFlag: 'The agent was started with this flag, which wins. Start the agent without it to set the value here.',
  needsShell: 'A page in a browser cannot change this. Run in a terminal on this Mac:',
  command: (spelled: string) => `metal-agent settings set ${spelled} VALUE`,
  copyCommand: (spelled: string) => `Copy command for ${spelled}`,
  placeholder: 'default',
  choose: 'Choose…',
  chooseFor: (title: string) => `Choose for ${title}`,
  useDefault: 'Use the default',
  defaultOf: (title: string) => `Use the default of ${title}`,
  /** At a field that a person has written in. */
  conflict: (view: SettingView) =>
    `It was set to ${textOf(view) || 'the default'} elsewhere in the meantime; Apply replaces that with what you wrote.`,
  take: 'Take that',
  takeOf: (title: string) => `Take that for ${title}`,
  willBeDefault: 'The default, once applied.',
  revert: 'Revert',
  apply: 'Apply',
  changes(count: number, problems: number): string {
    if (problems > 0) return problems === 1 ? '1 value cannot be applied:' : `${problems} values cannot be applied:`
    return count === 0 ? 'No changes' : count === 1 ? '1 change, not applied:' : `${count} changes, not applied:`
  },
  show: (title: string) => `Show ${title}`,
  startTitle: ({ name }: StartSettingView) => startSettingTexts[name].title,
  startHelp: ({ name }: StartSettingView) => startSettingTexts[name].help,
  startMore: ({ name }: StartSettingView) => startSettingTexts[name].more,
  startValue({ name, value }: StartSettingView): string {
    const { none = 'none' } = startSettingTexts[name]
    return value === '' ? none : value
  },
  startWhy({ name, line }: StartSettingView, startFile: string | undefined): string {
    const { elsewhere } = startSettingTexts[name]
    if (startFile !== undefined && line === undefined)
      return elsewhere ?? 'The app sets it when it starts the agent, so it cannot be changed here.'
    const why = elsewhere ?? 'The agent reads it only when it starts, so it cannot be changed here.'
    const how =
      startFile === undefined ? 'Start the agent with:' : `Add this line to ${startFile} and open the app again:`
    return `${why} ${how}`
  },
  copyStart: (view: StartSettingView) => `Copy line for ${startSettingTexts[view.name].title}`,
} as const satisfies Words

function changeOf(name: SettingName, value: SettingView['value']): string {
  const { counts: from, startsAs } = editableRow(name)
  const text = settingWords.value({ name, value })
  // A choice has a name of several words, which would run into the sentence.
  const set = settingTexts[name].choices === undefined ? `is set to ${text}` : `is now “${text}”`
  const emptied = startsAs === undefined ? 'is set back to the default' : 'is left empty'
  return `${settingTexts[name].title} ${value === null ? emptied : set} and ${countsTexts[from]}.`
}

export const budgetWords = {
  slider: 'Memory for models',
  share: (fraction: number, totalBytes: number) => `${formatShare(fraction)} · ${formatMemory(fraction * totalBytes)}`,
  ram: (bytes: number) => `memory ${formatMemory(bytes)}`,
  gpuLimit: (bytes: number) => `GPU limit ${formatMemory(bytes)}`,
  bytesCount: 'A fixed amount is set, which replaces the fraction.',
} as const satisfies Words
