import { formatBytes } from '../../contract/format.ts'
import type { Removal, Trace, TraceKind, TraceList } from '../../contract/uninstall.ts'
import { bytesOfTrace } from '../../installation/uninstall/uninstall.ts'

/** So many places of a kind are named; `--json` has them all. */
const mostPlaces = 6

/** Everything that is there, with a tick where it is to be removed. */
export function listText({ traces }: TraceList, chosen: ReadonlySet<TraceKind>): string {
  const width = String(traces.length).length
  return traces
    .map((trace, index) => {
      const bytes = bytesOfTrace(trace)
      const size = bytes === 0 ? '' : `  ${formatBytes(bytes)}`
      const head = `[${chosen.has(trace.kind) ? 'x' : ' '}] ${String(index + 1).padStart(width)}  ${trace.what}${size}`
      return [head, ...detailsOf(trace).map((line) => `${' '.repeat(6 + width)}${line}`)].join('\n')
    })
    .map((text) => `${text}\n`)
    .join('')
}

function detailsOf({ places, stays, problem }: Trace): string[] {
  const shown = places.slice(0, mostPlaces).map(({ path }) => path)
  const more = places.length - shown.length
  return [
    ...shown,
    ...(more > 0 ? [`and ${more} more`] : []),
    ...stays.map((sentence) => `Stays: ${sentence}`),
    ...(problem === undefined ? [] : [`Not known: ${problem}`]),
  ]
}

export const servingText = (serving: readonly string[]): string =>
  `${serving.length === 1 ? 'One model serves' : `${serving.length} models serve`}: ${serving.join(', ')}.`

/** What became of each, and by which lines a person does the rest. */
export function removalText(removals: readonly Removal[]): string {
  const lines = removals.flatMap(({ what, isGone, message, byHand }) => [
    `${isGone ? 'done' : 'LEFT'}  ${what}: ${message}`,
    ...byHand.map((line) => `      by hand: ${line}`),
  ])
  return lines.map((line) => `${line}\n`).join('')
}
