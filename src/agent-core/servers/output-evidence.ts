import { findFirstError, lastLines } from './first-error.ts'
import type { ReadableOutput } from './output-log.ts'
import { readLines } from './output-reader.ts'
import type { Evidence } from './server-state.ts'

/** The first error of a start is near its beginning; a server that writes more than this before it has long been noise. */
const searchBytes = 4 * 1024 * 1024
const tailBytes = 256 * 1024
const tailLines = 200

/**
 * What the output of the current run from `offset` on, as far as it is kept, says about an exit. Out of a start the first error counts,
 * since the others follow from it; a server that served for hours may have complained about requests all along, so there it is the
 * first of the last lines.
 */
export async function readEvidence(
  log: ReadableOutput,
  { offset, outOf }: { offset: number; outOf: 'start' | 'serving' },
): Promise<Evidence> {
  const extent = await log.extent()
  if (extent === undefined) return { tail: [] }
  const { fileId, to } = extent
  const first = Math.max(offset, extent.from)
  const tail = lastLines(await textBetween(log, { fileId, from: Math.max(first, to - tailBytes), to }), tailLines)
  const searchTo = Math.min(to, first + searchBytes)
  const early = outOf === 'start' ? await firstErrorBetween(log, { fileId, from: first, to: searchTo }) : undefined
  const firstError = early ?? findFirstError(tail)
  return firstError === undefined ? { tail } : { firstError, tail }
}

interface Range {
  readonly fileId: string
  readonly from: number
  readonly to: number
}

async function textBetween(log: ReadableOutput, range: Range): Promise<string> {
  const lines: string[] = []
  for await (const read of readLines(log, range)) lines.push(...read.lines.map(({ text }) => text))
  return lines.join('\n')
}

async function firstErrorBetween(log: ReadableOutput, range: Range): Promise<string | undefined> {
  for await (const { lines } of readLines(log, range)) {
    const found = findFirstError(lines.map(({ text }) => text))
    if (found !== undefined) return found
  }
  return undefined
}
