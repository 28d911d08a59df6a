import type { AgentSnapshot } from '../contract/snapshot.ts'

/** The whole machine's power at one time by the agent's clock, in milliseconds. */
export interface PowerSample {
  readonly at: number
  /** Absent where it was not measured or not reported. */
  readonly watts: number | undefined
}

/** How far back the trail goes, in milliseconds. */
export const trailMs = 120_000

/** One sample for each of these, in milliseconds: more, a person cannot tell apart. */
const stepMs = 1_000

/** Between two samples that are further apart nobody looked: what was drawn meanwhile is not known. */
const longestGapMs = 10_000

/** The trail with what a snapshot says; the same trail while power was never measured. */
export function withPower(
  trail: readonly PowerSample[],
  { now, powerFigures }: Pick<AgentSnapshot, 'now' | 'powerFigures'>,
): readonly PowerSample[] {
  const watts = powerFigures?.combinedWatts
  if (trail.length === 0 && watts === undefined) return trail
  const at = Math.floor(Date.parse(now) / stepMs) * stepMs
  // What is not before `at` was said in the same step, or by a clock that was set back.
  const kept = trail.filter((sample) => sample.at >= at - trailMs && sample.at < at)
  const next = [...kept, { at, watts }]
  return next.some((sample) => sample.watts !== undefined) ? next : []
}

/** The extremes of a trail, for words and for a scale. */
export function wattRange(
  trail: readonly PowerSample[],
): { readonly least: number; readonly most: number } | undefined {
  const known = trail.flatMap(({ watts }) => watts ?? [])
  return known.length === 0 ? undefined : { least: Math.min(...known), most: Math.max(...known) }
}

/** Points of the lines to draw, in a box of the given size; a time without figures, or without samples, is a gap between two lines. */
export function trailLines(
  trail: readonly PowerSample[],
  { width, height }: { readonly width: number; readonly height: number },
): readonly string[] {
  const range = wattRange(trail)
  const last = trail.at(-1)
  if (range === undefined || last === undefined) return []
  const top = Math.max(range.most, leastScaleWatts)
  const lines: string[][] = [[]]
  let before = trail[0]?.at ?? 0
  for (const { at, watts } of trail) {
    if (at - before > longestGapMs) lines.push([])
    before = at
    if (watts === undefined) lines.push([])
    else {
      const x = width * (1 - (last.at - at) / trailMs)
      lines.at(-1)?.push(`${x.toFixed(1)},${(height * (1 - watts / top)).toFixed(1)}`)
    }
  }
  return lines.filter((points) => points.length > 0).map((points) => points.join(' '))
}

/** In watts: an idle machine draws a low line, not noise at full height. */
const leastScaleWatts = 10
