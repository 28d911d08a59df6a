import type { CommandInput } from '../../contract/commands.ts'
import {
  formatCost,
  formatCount,
  formatDay,
  formatEnergy,
  formatPerToken,
  formatShortDay,
  formatTime,
  formatTokens,
  formatWeekday,
} from '../../contract/format.ts'
import { coverageLine, type EnergySpan, type EnergyView, type ServiceEnergy } from '../../contract/power.ts'
import type { HistoryEntry } from '../../contract/queries.ts'
import { editableRow, formatSetting, settingNames, type SettingsPatch } from '../../contract/settings.ts'
import { actionWords, type Words } from '../../contract/words.ts'
import type { EnergyTime, ServiceName } from '../energy-time.ts'
import { answerWords, notReported } from './services.ts'
import { settingWords } from './settings.ts'
import { overviewWords } from './window.ts'

export const activityWords = {
  title: 'Activity',
  history: 'History',
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

const energy = (joules: number | undefined) => (joules === undefined ? notReported : formatEnergy(joules))

/** A span is named by its middle, which lies in it whatever the clocks were set to that day. */
const middle = (from: string, time: EnergyTime) => new Date(Date.parse(from) + (time === 'day' ? 30 : 720) * 60_000)

const hour = (from: string) => formatTime(new Date(from))

/** By this computer's clock and calendar. */
const spanName = (from: string, time: EnergyTime) => (time === 'day' ? hour(from) : formatDay(middle(from, time)))

const service = ({ namespace, name }: ServiceName, rows: readonly ServiceName[]) => {
  if (name === '') return 'Other services'
  const isShared = rows.some((row) => row.name === name && row.namespace !== namespace)
  return isShared ? `${name} (${namespace})` : name
}

const withCost = (text: string, cost: number | undefined, currency: string | undefined) =>
  cost === undefined ? text : `${text} · ${formatCost(cost, currency)}`

export const energyWords = {
  title: 'Energy',
  time: 'Time',
  times: { day: '24 h', week: '7 days', month: '30 days' } satisfies Record<EnergyTime, string>,
  notMeasured: 'Energy is known only while power is measured.',
  notHere: 'Energy is measured on Macs only.',
  nothing: 'No figures are kept for this time.',
  total: ({ joules, cost, currency }: EnergyView) =>
    joules === undefined ? `Energy ${notReported}` : withCost(formatEnergy(joules), cost, currency),
  /** What the total is of. */
  of: 'CPU, GPU and ANE of this Mac, all programs together.',
  coverage: (view: EnergyView) => (view.measuredMs === 0 ? 'Power was not measured in this time.' : coverageLine(view)),
  service,
  services: 'Energy of each service',
  own: 'While no service worked',
  estimate:
    'The share of each service is an estimate from its tokens while power was measured: the power of one process cannot be measured.',
  share: ({ joules, cost }: ServiceEnergy, view: EnergyView) =>
    view.joules === undefined
      ? `energy ${notReported}`
      : `about ${withCost(formatEnergy(joules), cost, view.currency)}`,
  ownShare: ({ ownJoules }: EnergyView) => energy(ownJoules),
  tokens: (
    { generatedTokens, promptTokens, requests, joulesPerGeneratedToken }: ServiceEnergy,
    { joules }: EnergyView,
  ) =>
    [
      generatedTokens === undefined ? `tokens ${notReported}` : `${formatCount(generatedTokens)} tokens generated`,
      promptTokens === undefined ? `prompts ${notReported}` : `${formatCount(promptTokens)} of prompts`,
      ...(requests === undefined ? [] : [`${formatCount(requests)} requests`]),
      ...(joules === undefined
        ? []
        : joulesPerGeneratedToken === undefined
          ? [`energy per token ${notReported}`]
          : [`about ${formatPerToken(joulesPerGeneratedToken)} J per generated token`]),
    ].join(' · '),
  parts: (chosen: string | undefined) => chosen ?? 'services',
  rest: 'rest of this Mac',
  choose: (name: string) => `Show ${name} in the bars`,
  /** Describes the bars to screen readers. */
  bars(time: EnergyTime, spans: readonly EnergySpan[]): string {
    const known = spans.filter((span) => span.joules !== undefined)
    const per = time === 'day' ? 'hour' : 'day'
    const most = known.toSorted((a, b) => (b.joules ?? 0) - (a.joules ?? 0))[0]
    if (most === undefined) return `Energy per ${per}: ${notReported}`
    return `Energy per ${per}: measured in ${known.length} of ${spans.length}, most ${time === 'day' ? 'at' : 'on'} ${spanName(most.from, time)} with ${energy(most.joules)}. The table has all of them.`
  },
  bar: ({ from, joules }: EnergySpan, time: EnergyTime) => `${spanName(from, time)}: ${energy(joules)}`,
  tick(from: string, time: EnergyTime): string {
    if (time === 'day') return hour(from)
    return time === 'week' ? formatWeekday(middle(from, time)) : formatShortDay(middle(from, time))
  },
  top: (spans: readonly EnergySpan[]) => energy(Math.max(...spans.map(({ joules = 0 }) => joules))),
  table: 'As a table',
  columns: (time: EnergyTime) => [time === 'day' ? 'Hour' : 'Day', 'Whose', 'Energy'] as const,
  spanName,
  everything: 'This Mac',
  cell: ({ joules, cost }: EnergySpan, currency: string | undefined) =>
    joules === undefined ? notReported : withCost(formatEnergy(joules), cost, currency),
  serviceCell: ({ joules, cost }: ServiceEnergy, span: EnergySpan, currency: string | undefined) =>
    span.joules === undefined ? notReported : `about ${withCost(formatEnergy(joules), cost, currency)}`,
} as const satisfies Words
