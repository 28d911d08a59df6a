import type { MemoryFiguresView, MemoryStateView } from '../contract/memory.ts'
import { heldBytesOf, type ServiceFigures, type ServiceState, type ServiceView } from '../contract/service.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'

/** One model's part of the memory, in bytes. */
export interface ModelShare {
  readonly uid: string
  readonly name: string
  readonly state: ServiceState
  /** Measured; where that is not known yet, or leaves its weights out, what it was estimated to need. Absent of a server that starts: it has only begun to take that. */
  readonly bytes: number | undefined
  readonly isMeasured: boolean
  /** What it will still take while it starts. */
  readonly promisedBytes: number
}

/** The memory of this machine, in parts that make up the whole. */
export interface MemoryShares {
  readonly totalBytes: number
  readonly models: readonly ModelShare[]
  /** Absent where the system does not say what is available. */
  readonly otherBytes: number | undefined
}

/** Absent while the size of the memory is not known. */
export function memoryShares(
  memory: MemoryStateView | undefined,
  figures: MemoryFiguresView | undefined,
  { services, figures: byUid }: Pick<AgentSnapshot, 'services' | 'figures'>,
): MemoryShares | undefined {
  if (memory?.totalBytes === undefined) return undefined
  const { totalBytes } = memory
  const models = services.flatMap((service) => modelShare(service, byUid[service.uid]) ?? [])
  const available = figures?.availableBytes
  if (available === undefined) return { totalBytes, models, otherBytes: undefined }
  const heldBytes = models.reduce((total, { bytes = 0 }) => total + bytes, 0)
  return { totalBytes, models, otherBytes: Math.max(0, totalBytes - available - heldBytes) }
}

function modelShare(
  { uid, name, state, pid, memory }: ServiceView,
  figures: ServiceFigures = {},
): ModelShare | undefined {
  const need = memory?.needBytes ?? 0
  const { footprintBytes } = figures
  const held = heldBytesOf(figures)
  if (held === undefined && pid === undefined) return undefined
  const base = { uid, name, state }
  if (state === 'starting') {
    const promisedBytes = Math.max(0, need - (footprintBytes ?? 0))
    return { ...base, bytes: footprintBytes, isMeasured: footprintBytes !== undefined, promisedBytes }
  }
  return { ...base, bytes: held ?? need, isMeasured: held !== undefined && held === footprintBytes, promisedBytes: 0 }
}

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
