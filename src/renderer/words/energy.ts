import { coverageLine, type EnergySpan, type EnergyView, type ServiceEnergy } from '../../contract/power.ts'
import {
  formatCost,
  formatCount,
  formatDay,
  formatEnergy,
  formatPerToken,
  formatShortDay,
  formatTime,
  formatWeekday,
} from '../../contract/format.ts'
import type { EnergyTime, ServiceName } from '../energy-time.ts'
import { notReported } from './services.ts'

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
  notMeasured: 'Power is not measured, so neither is energy.',
  notHere: 'Energy is measured on Macs only.',
  nothing: 'Nothing is kept of this time.',
  total: ({ joules, cost, currency }: EnergyView) =>
    joules === undefined ? `Energy ${notReported}` : withCost(formatEnergy(joules), cost, currency),
  /** What the total is of. */
  of: 'CPU, GPU and ANE of this Mac, whoever uses them.',
  coverage: (view: EnergyView) => (view.measuredMs === 0 ? 'Power was not measured in this time.' : coverageLine(view)),
  service,
  services: 'Energy of each service',
  own: 'While no service worked',
  estimate:
    'The parts of services are estimates, by the tokens that each had while power was measured: no source tells the power of one process.',
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
  /** Of the bars, for those who do not see them. */
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
} as const
