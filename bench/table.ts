import type { Row, Unit } from './row.ts'
import { statisticsOf } from './statistics.ts'

const heads = ['', 'median', 'min – max', 'runs', 'Go agent', 'goal', 'met'] as const

/** As plain text, with what there is to say about a row below it. */
export function table(rows: readonly Row[]): string {
  const cells = rows.map(cellsOf)
  const widths = heads.map((head, column) => Math.max(head.length, ...cells.map((line) => line[column]?.length ?? 0)))
  const format = (line: readonly string[]): string =>
    line
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd()
  const remarks = rows.flatMap((row) =>
    [row.note, isMet(row) === false ? row.missedBecause : undefined]
      .filter((text) => text !== undefined)
      .map((text) => `${row.what}: ${text}`),
  )
  return [format(heads), ...cells.map(format), '', ...remarks].join('\n')
}

/** Undefined where there is no goal. */
export const isMet = ({ values, goal }: Row): boolean | undefined =>
  goal === undefined ? undefined : statisticsOf(values).median <= goal

function cellsOf(row: Row): string[] {
  const { what, unit, values, goAgent, goal } = row
  const { median, min, max, runs } = statisticsOf(values)
  const met = isMet(row)
  return [
    what,
    figure(median, unit),
    runs === 1 ? '' : `${number(min, unit)} – ${number(max, unit)}`,
    String(runs),
    goAgent === undefined ? '' : `${goAgent} ${unit}`,
    goal === undefined ? '' : `≤ ${goal} ${unit}`.trimEnd(),
    met === undefined ? '' : met ? 'yes' : 'NO',
  ]
}

const figure = (value: number, unit: Unit): string => `${number(value, unit)} ${unit}`.trimEnd()

const decimals: Record<Unit, number> = { '': 0, s: 3, ms: 2, '%': 2, MiB: 1, '/min': 1 }

const number = (value: number, unit: Unit): string => value.toFixed(decimals[unit])
