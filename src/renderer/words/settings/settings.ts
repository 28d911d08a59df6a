import { formatBytes, formatMemory, formatNumber, parseByteCount } from '../../../contract/format.ts'
import {
  boundsOf,
  editableRow,
  formatSetting,
  type SettingName,
  settingNames,
  type SettingOrigin,
  type SettingsPatch,
  type SettingView,
  spellingOf,
  type StartSettingView,
} from '../../../contract/settings.ts'
import type { EditableRow, SettingKind } from '../../../contract/settings-table.ts'
import type { ByteUnit } from '../../byte-text.ts'
import type { SettingSection } from '../../setting-sections.ts'
import { textOf } from '../../settings-draft.ts'
import { settingTexts } from './editable.ts'
import { startSettingTexts } from './start.ts'

/** Completes "A change …" and "… is set to 30s and …". */
const counts: Readonly<Record<EditableRow['counts'], string>> = {
  now: 'counts at once',
  nextDownload: 'counts for each download that begins after it',
  nextServer: 'counts for each server that starts after it',
  nextAgent: 'counts from the next start of the agent',
}

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
  count: (name) => `a whole number ${bounded(name, String)}`,
  fraction: (name) => `a part ${bounded(name, String)}, such as 0.75`,
  number: (name) => `a number ${bounded(name, formatNumber)}, such as 0.32`,
  path: () => 'an absolute path, which begins with /, of at most 1000 characters',
  executable: () => 'an absolute path, which begins with /, of at most 1000 characters',
  switch: () => 'on or off',
  choice: () => 'one of those shown',
}

const origins: Readonly<Record<SettingOrigin, string>> = {
  default: 'default',
  flag: 'from the command line of the agent',
  startFile: 'from start-settings.json',
  person: 'chosen here',
}

export const settingWords = {
  title: 'Settings',
  sections: {
    cluster: 'Cluster',
    network: 'Network',
    memory: 'Memory',
    runtimes: 'Runtimes',
    models: 'Models',
    power: 'Power',
    general: 'General',
  } satisfies Record<SettingSection, string>,
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
  help(name: SettingName): string {
    const { counts: from } = editableRow(name)
    return `${settingTexts[name].help} A change ${counts[from]}. On the command line: ${spellingOf(name)}.`
  },
  /** What was set, a sentence for each. */
  changed: (settings: SettingsPatch): string =>
    settingNames
      .flatMap((name) => {
        const value = settings[name]
        return value === undefined ? [] : [changeOf(name, value)]
      })
      .join(' '),
  problem: (name: SettingName) =>
    `It must be ${settingTexts[name].wants ?? wants[editableRow(name).kind]?.(name) ?? 'something else'}.`,
  unitOf: (title: string) => `Unit of ${title}`,
  units: {
    ...{ '': 'B', k: 'kB', M: 'MB', G: 'GB', T: 'TB' },
    ...{ Ki: 'KiB', Mi: 'MiB', Gi: 'GiB', Ti: 'TiB' },
  } satisfies Record<ByteUnit, string>,
  /** What the number and its unit come to. */
  isBytes: (bytes: number) => `= ${size(bytes)}.`,
  byStartFile: 'It stands in start-settings.json; what is set here wins.',
  byFlag: 'It was given on the command line of the agent, which wins: start the agent without it to set it here.',
  needsShell: 'A page in a browser may not set it. In a terminal on this Mac:',
  command: (spelled: string) => `metal-agent settings set ${spelled} VALUE`,
  copyCommand: (spelled: string) => `Copy command for ${spelled}`,
  placeholder: 'default',
  choose: 'Choose…',
  chooseFor: (title: string) => `Choose for ${title}`,
  useDefault: 'Use the default',
  defaultOf: (title: string) => `Use the default of ${title}`,
  /** At a field that a person has written in. */
  conflict: (view: SettingView) =>
    `Meanwhile it was set to ${textOf(view) || 'the default'} elsewhere; Apply sets what you wrote instead.`,
  take: 'Take that',
  takeOf: (title: string) => `Take that for ${title}`,
  willBeDefault: 'The default, once applied.',
  revert: 'Revert',
  apply: 'Apply',
  changes(count: number, problems: number): string {
    if (problems > 0) return problems === 1 ? '1 field is not right.' : `${problems} fields are not right.`
    return count === 0 ? 'No changes' : count === 1 ? '1 change, not applied' : `${count} changes, not applied`
  },
  fromStart: 'Set when the agent starts',
  startTitle: ({ name }: StartSettingView) => startSettingTexts[name].title,
  startHelp: ({ name }: StartSettingView) => startSettingTexts[name].help,
  startValue({ name, value, from }: StartSettingView): string {
    const { none = 'none', isBytes = false } = startSettingTexts[name]
    const bytes = isBytes ? parseByteCount(value) : undefined
    const text = value === '' ? none : bytes === undefined ? value : size(bytes)
    return `${text} · ${origins[from]}`
  },
  why: 'Why not here',
  startWhy({ name, line }: StartSettingView, startFile: string | undefined): string {
    const { elsewhere } = startSettingTexts[name]
    if (startFile === undefined)
      return `${elsewhere ?? 'It counts from the start, so it cannot be changed while the agent runs.'} Start the agent with:`
    if (line === undefined) return elsewhere ?? 'It counts from the start, and the app decides about it.'
    return `${elsewhere ?? 'It counts from the start, so it cannot be changed while the agent runs.'} Write into ${startFile}, and open the app anew:`
  },
  copyStart: (view: StartSettingView) => `Copy line for ${startSettingTexts[view.name].title}`,
} as const

function changeOf(name: SettingName, value: SettingView['value']): string {
  const { counts: from, startsAs } = editableRow(name)
  const text = settingWords.value({ name, value })
  // A choice has a name of several words, which would run into the sentence.
  const set = settingTexts[name].choices === undefined ? `is set to ${text}` : `is now “${text}”`
  const emptied = startsAs === undefined ? 'is set back to the default' : 'is left empty'
  return `${settingTexts[name].title} ${value === null ? emptied : set} and ${counts[from]}.`
}
