import { cleanText } from '../../contract/clean-text.ts'
import { formatBytes, formatCount } from '../../contract/format.ts'
import { itemNames } from '../../agent-core/memory/estimate/summary.ts'
import type { Estimate, MemoryItems } from '../../agent-core/memory/estimate/items.ts'
import type { Shortage } from '../../agent-core/memory/room.ts'
import { refKey } from '../../agent-core/util/object-key.ts'
import type { FitDecision } from '../../agent-core/api/fit/fit-decision.ts'
import type { FitMachine } from './fit-machine.ts'

/** Whether a model fits on this machine, in bytes; `--json` prints it as it is. */
export interface FitAnswer {
  readonly items: MemoryItems
  readonly total: number
  readonly budget: number
  /** What the system could give now. */
  readonly available: number
  /** Whose figures and settings these are: the running agent's, or this machine's as the command sees it. */
  readonly from: 'agent' | 'machine'
  /** By services, as namespace/name, whose servers run or start; the largest first. */
  readonly held: readonly { readonly service: string; readonly bytes: number }[]
  /** What starting servers will still take of what is available. */
  readonly promised: number
  /** Beside what runs. */
  readonly fits: boolean
  /** Services, as namespace/name, without which it fits; absent where it fits as it is, or not even alone. */
  readonly fitsWhenStopped?: readonly string[]
  readonly waysToFit: readonly { readonly sentence: string }[]
}

export interface FitDetails {
  readonly estimate: Estimate
  readonly decision: FitDecision
  readonly machine: Pick<FitMachine, 'fromMessage' | 'budgetHow' | 'pressure' | 'waiting'>
  readonly unicode: boolean
}

const barWidth = 30
const nameWidth = 18
const sizeWidth = 9

/**
 * The items stacked, each bar beginning where the one above ends, over a width that stands for the budget or, where it is the larger,
 * the total. Names of applications and of services come from elsewhere, so each line is cleaned and stays one.
 */
export function renderFit(answer: FitAnswer, { estimate, decision, machine, unicode }: FitDetails): string {
  const { items, total, budget, available, held, promised, fits, waysToFit } = answer
  const scale = Math.max(total, budget, 1)
  const cell = (bytes: number) => Math.round((bytes / scale) * barWidth)
  const full = unicode ? '█' : '#'
  const empty = unicode ? '·' : '.'
  const row = (name: string, size: string, rest = '') =>
    `${name.padEnd(nameWidth)}${size.padStart(sizeWidth)}  ${rest}`.trimEnd()
  const bar = (from: number, to: number) => {
    const start = cell(from)
    // An item shows at least one cell, however small.
    const end = Math.max(cell(to), to > from ? start + 1 : start)
    const shift = Math.max(0, end - barWidth)
    return `${empty.repeat(start - shift)}${full.repeat(end - start)}${empty.repeat(barWidth - end + shift)}`
  }
  let below = 0
  const stacked = (Object.keys(itemNames) as (keyof MemoryItems)[]).flatMap((item) => {
    const { [item]: bytes } = items
    if (bytes === undefined) return []
    const from = below
    below += bytes
    return [row(capitalised(itemNames[item]), formatBytes(bytes), bar(from, below))]
  })
  const context =
    estimate.contextTokens === undefined
      ? []
      : [`${formatCount(estimate.contextTokens)} tokens of context, ${slotsText(estimate.slots ?? 1)}`]
  return [
    ...context,
    ...stacked,
    row('Total', formatBytes(total), bar(0, total)),
    row('Budget', formatBytes(budget), machine.budgetHow),
    ...(held.length === 0 ? [] : [row('Held by servers', formatBytes(sumOf(held)), held.map(holderText).join(', '))]),
    row('Available now', formatBytes(available)),
    ...(promised === 0 ? [] : [row('Of it promised', formatBytes(promised), 'to servers that start')]),
    ...(estimate.gpuBytes === undefined ? [] : [row('Of it on the GPU', formatBytes(estimate.gpuBytes))]),
    '',
    verdict(answer, decision),
    ...(fits ? [] : waysToFit.map(({ sentence }) => `  ${unicode ? '•' : '-'} ${sentence}.`)),
    ...(estimate.guess === undefined ? [] : [`This is a guess. ${estimate.guess}`]),
    ...obstacles(machine),
    ...estimate.notes,
    machine.fromMessage,
    '',
  ]
    .map(cleanText)
    .join('\n')
}

function verdict(answer: FitAnswer, decision: FitDecision): string {
  const runsNothing = answer.held.length === 0
  const hasWays = answer.waysToFit.length > 0
  switch (decision.kind) {
    case 'fits':
      return runsNothing ? 'It fits.' : 'It fits beside what runs.'
    case 'whenStopped': {
      const { stop, shortage } = decision
      const freed = stop.reduce((sum, { committedBytes }) => sum + committedBytes, 0)
      const names = listed(stop.map(refKey))
      const when = stop.length === answer.held.length ? 'It fits alone, when' : 'It fits when'
      const stopped = `${names} ${stop.length === 1 ? 'is' : 'are'} stopped, which frees ${formatBytes(freed)}`
      const sentence = `It does not fit beside what runs: it needs ${missing(shortage, 'than the budget has left', 'than is available now')}. ${when} ${stopped}.`
      return hasWays ? `${sentence} What else would help:` : sentence
    }
    case 'not': {
      const sentence = runsNothing
        ? `It does not fit: it needs ${missing(decision.shortage, 'than the budget', 'than is available now')}.`
        : `It does not fit, even with everything stopped: it would still need ${missing(decision.shortage, 'than the budget', 'than would be available')}.`
      return hasWays ? `${sentence} What would help:` : `${sentence} Nothing on this machine would make it fit.`
    }
  }
}

const missing = ({ budget, available }: Shortage, thanBudget: string, thanAvailable: string): string =>
  [
    ...(budget > 0 ? [`${formatBytes(budget)} more ${thanBudget}`] : []),
    ...(available > 0 ? [`${formatBytes(available)} more ${thanAvailable}`] : []),
  ].join(' and ')

/** What keeps it from starting at once although it fits. */
function obstacles({ pressure, waiting }: FitDetails['machine']): string[] {
  return [
    ...(pressure === 'critical' ? ['Memory pressure is critical: nothing new is started until it has passed.'] : []),
    ...(waiting.length === 0
      ? []
      : [
          `${listed(waiting)} ${waiting.length === 1 ? 'waits' : 'wait'} for memory already: it is given by priority, then by age.`,
        ]),
  ]
}

const sumOf = (held: FitAnswer['held']): number => held.reduce((sum, { bytes }) => sum + bytes, 0)
const holderText = ({ service, bytes }: FitAnswer['held'][number]): string => `${service} ${formatBytes(bytes)}`
const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`
const slotsText = (slots: number): string => (slots === 1 ? '1 slot' : `${slots} slots`)

function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
}
