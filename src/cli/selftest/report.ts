import type { Check, Finding, Verdict } from './check.ts'

export interface ReportLine extends Pick<Check, 'id' | 'asks' | 'expected'>, Finding {
  readonly ms: number
}

/** What the report is about: neither names nor folders of the person, since it is to be pasted in public. */
export interface ReportHead {
  readonly version: string
  readonly system: string
}

export interface Report extends ReportHead {
  readonly lines: readonly ReportLine[]
  /** Asked on Macs only. */
  readonly onlyOnMacs: readonly string[]
}

const verdictWords: Readonly<Record<Verdict, string>> = {
  asExpected: 'as expected',
  different: 'DIFFERENT',
  notHere: 'not here',
  couldNotAsk: 'could not ask',
}

const column = 15

export const headText = ({ version, system }: ReportHead): string => `metal-agent selftest ${version} on ${system}\n\n`

/** Three lines, of which the first says the verdict. */
export function lineText({ id, asks, expected, found, verdict }: ReportLine): string {
  const rows = [
    [verdictWords[verdict], `${asks} (${id})`],
    ['  expected', expected],
    ['  found', found],
  ] as const
  return rows.map(([name, text]) => `${name.padEnd(column)}${text}\n`).join('')
}

export function footText({ lines, onlyOnMacs }: Pick<Report, 'lines' | 'onlyOnMacs'>): string {
  const count = (verdict: Verdict) => lines.filter((line) => line.verdict === verdict).length
  const counts = `${count('asExpected')} as expected, ${count('different')} different, ${count('notHere')} not here, ${count('couldNotAsk')} could not be asked.`
  const rest = onlyOnMacs.length === 0 ? [] : [`For a Mac only: ${onlyOnMacs.join(', ')}.`]
  const advice = 'What only a person can see is in docs/verified.md. To report, paste all of this into an issue.'
  return `\n${[counts, ...rest, advice].join('\n')}\n`
}
