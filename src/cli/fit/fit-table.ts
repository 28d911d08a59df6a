import { formatBytes } from '../../contract/format.ts'
import { itemNames } from '../../agent-core/memory/estimate/summary.ts'
import type { Estimate, MemoryItems } from '../../agent-core/memory/estimate/items.ts'

/** Whether a model fits on this machine, in bytes. */
export interface FitAnswer {
  readonly items: MemoryItems
  readonly total: number
  readonly budget: number
  /** What the system could give now. */
  readonly available: number
  readonly fits: boolean
  readonly waysToFit: readonly { readonly sentence: string }[]
}

export interface FitDetails {
  readonly estimate: Estimate
  /** One sentence: where the budget comes from. */
  readonly budgetFrom: string
  readonly unicode: boolean
}

const barWidth = 30
const nameWidth = 18
const sizeWidth = 9

/**
 * The items stacked, each bar beginning where the one above ends, over a width that stands for the budget or, where it is the larger,
 * the total.
 */
export function renderFit(answer: FitAnswer, { estimate, budgetFrom, unicode }: FitDetails): string {
  const { items, total, budget, available, fits, waysToFit } = answer
  const scale = Math.max(total, budget, 1)
  const cell = (bytes: number) => Math.round((bytes / scale) * barWidth)
  const full = unicode ? '█' : '#'
  const empty = unicode ? '·' : '.'
  const row = (name: string, size: string, rest = '') =>
    `${name.padEnd(nameWidth)}${size.padStart(sizeWidth)}  ${rest}`.trimEnd()
  const bar = (from: number, to: number) => {
    const start = cell(from)
    // What is there is seen, however small.
    const end = Math.max(cell(to), to > from ? start + 1 : start)
    const shift = Math.max(0, end - barWidth)
    return `${empty.repeat(start - shift)}${full.repeat(end - start)}${empty.repeat(barWidth - end + shift)}`
  }
  let below = 0
  const stacked = (Object.keys(itemNames) as (keyof MemoryItems)[]).map((item) => {
    const from = below
    below += items[item]
    return row(capitalised(itemNames[item]), formatBytes(items[item]), bar(from, below))
  })
  const context =
    estimate.contextTokens === undefined
      ? []
      : [`${grouped(estimate.contextTokens)} tokens of context, ${slotsText(estimate.slots ?? 1)}`]
  return [
    ...context,
    ...stacked,
    row('Total', formatBytes(total), bar(0, total)),
    row('Budget', formatBytes(budget), budgetFrom),
    row('Available now', formatBytes(available)),
    ...(estimate.gpuBytes === undefined ? [] : [row('Of it on the GPU', formatBytes(estimate.gpuBytes))]),
    '',
    verdict(answer),
    ...(fits ? [] : waysToFit.map(({ sentence }) => `  ${unicode ? '•' : '-'} ${sentence}.`)),
    ...(estimate.guess === undefined ? [] : [`This is a guess. ${estimate.guess}`]),
    ...estimate.notes,
    '',
  ].join('\n')
}

function verdict({ fits, total, budget, available, waysToFit }: FitAnswer): string {
  if (fits) return 'It fits.'
  const missing = [
    ...(total > budget ? [`${formatBytes(total - budget)} more than the budget`] : []),
    ...(total > available ? [`${formatBytes(total - available)} more than is available now`] : []),
  ]
  const sentence = `It does not fit: it needs ${missing.join(' and ')}.`
  return waysToFit.length === 0
    ? `${sentence} Nothing on this machine would make it fit.`
    : `${sentence} What would help:`
}

const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`
const grouped = (count: number): string => count.toLocaleString('en-US')
const slotsText = (slots: number): string => (slots === 1 ? '1 slot' : `${slots} slots`)
