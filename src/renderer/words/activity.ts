import type { CommandInput } from '../../contract/commands.ts'
import { formatDay, formatTime, formatTokens } from '../../contract/format.ts'
import type { HistoryEntry } from '../../contract/queries.ts'
import { editableRow, formatSetting, settingNames, type SettingsPatch } from '../../contract/settings.ts'
import { actionWords, type Words } from '../../contract/words.ts'
import { answerWords } from './services.ts'
import { settingWords } from './settings.ts'
import { overviewWords } from './window.ts'

export const activityWords = {
  title: 'Activity',
  filter: 'Filter',
  filterHint: 'A service, or a word',
  problemsOnly: 'Only problems',
  nothing: 'Nothing has happened yet.',
  noMatch: 'Nothing in the list matches.',
  more: 'Show more',
  open: (name: string) => `Show ${name}`,
  kinds: {
    added: 'Added',
    deleted: 'Deleted',
    started: 'Started',
    ready: 'Ready',
    crashed: 'Crashed',
    stopped: 'Stopped',
    evicted: 'Evicted',
    broughtBack: 'Brought back',
    refused: 'Refused',
    addressChanged: 'Address changed',
    settingsChanged: 'Settings changed',
    machineEnded: 'Machine ended',
    agentStarted: 'Agent started',
    agentStopped: 'Agent stopped',
  } satisfies Record<HistoryEntry['kind'], string>,
  message: ({ message, settings }: HistoryEntry): string =>
    settings === undefined ? message : `Set by a person: ${settingWords.changed(settings)}`,
  /** By this computer's clock and calendar. */
  time: (at: string) => formatTime(new Date(at)),
  day: (at: string) => formatDay(new Date(at)),
  /** Label of the button that undoes the command. */
  undo(command: CommandInput): string {
    switch (command.name) {
      case 'bringBack':
        return actionWords.bringBack.label
      case 'start':
        return actionWords.start.label
      case 'resumeNode':
        return overviewWords.resume
      case 'pauseNode':
        return 'Pause again'
      case 'protect':
        return command.protect ? 'Protect again' : actionWords.unprotect.label
      case 'setHostAddress':
        return command.address === 'automatic' ? 'Back to automatic' : `Back to ${command.address}`
      case 'selectContext':
        return `Back to ${command.context}`
      case 'setContextSize':
        return command.contextSize === null ? 'Back to the default' : `Back to ${formatTokens(command.contextSize)}`
      case 'updateSettings':
        return settingsBack(command.settings)
      default:
        return answerWords.undo
    }
  },
} as const satisfies Words

/** A value that would be too long for a button is left to the settings. */
const longestValue = 24

function settingsBack(settings: SettingsPatch): string {
  const names = settingNames.filter((name) => settings[name] !== undefined)
  const [name] = names
  if (name === undefined || names.length > 1) return 'Set them back'
  const value = settings[name]
  if (value == null) return 'Back to the default'
  const text = formatSetting(editableRow(name).kind, value)
  return text.length > longestValue ? 'Set it back' : `Back to ${text}`
}
