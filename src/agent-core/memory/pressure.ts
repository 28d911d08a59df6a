/** From the most harmless to the worst. */
const pressureLevels = ['normal', 'warning', 'critical'] as const
export type PressureLevel = (typeof pressureLevels)[number]

/** Fractions of all memory: with less than this available, pressure is at least at that level. */
export interface PressureThresholds {
  readonly warning: number
  readonly critical: number
}

/** The Go agent's `--memory-pressure-warning` and `--memory-pressure-critical`. */
export const defaultThresholds: PressureThresholds = { warning: 0.2, critical: 0.1 }

/** What completes "<setting> …" where the thresholds cannot be used; undefined where they can. */
export function thresholdProblem({ warning, critical }: PressureThresholds): string | undefined {
  const areFractions = [warning, critical].every((threshold) => threshold >= 0 && threshold < 1)
  if (!areFractions) return 'must be a fraction of all memory from 0 to below 1, such as 0.2'
  if (critical < warning || (critical === 0 && warning === 0)) return undefined
  return `must be above --memory-pressure-critical (${critical})`
}

export interface MemorySample {
  readonly totalBytes: number
  readonly availableBytes: number
  /** The kernel's own level, where it tells one. */
  readonly kernelLevel?: PressureLevel | undefined
  /** Of a kernel that compresses memory before it is short. */
  readonly isCompressed?: boolean | undefined
}

/** How long and by how much memory must be better before the level goes down. */
export const hysteresis = {
  /** Fraction of all memory by which a threshold must be exceeded for the short wait to do. */
  margin: 0.03,
  waitMs: 30_000,
  /** Enough without the margin as well, so that a level just above its threshold is left in the end. */
  longWaitMs: 300_000,
  /** A level that could not be read again for so long is not known any more. */
  staleMs: 60_000,
}

/** A time since which every sample was below the present level, and the worst of these samples. */
interface Calm {
  readonly since: number
  readonly worst: PressureLevel
}

export interface Pressure {
  /** Unknown before the first sample that could be read, and when the last of them is too old. */
  readonly level: PressureLevel | 'unknown'
  readonly since: number
  readonly readAt?: number
  /** Below the level by the margin; or without it. */
  readonly clearlyCalm?: Calm | undefined
  readonly barelyCalm?: Calm | undefined
}

/**
 * The pressure after one more sample; `undefined` stands for a sample that could not be read, which changes a level only to unknown, and
 * that only when it lasts. Up at once; down by the rules of `hysteresis`. `now` in milliseconds.
 */
export function nextPressure(
  before: Pressure | undefined,
  sample: MemorySample | undefined,
  thresholds: PressureThresholds,
  now: number,
): Pressure {
  if (sample === undefined) return withoutSample(before, now)
  const level = levelOf(sample, thresholds)
  if (before === undefined || before.level === 'unknown') return { level, since: now, readAt: now }
  if (rank(level) > rank(before.level)) return { level, since: now, readAt: now }

  const clearLevel = levelOf(sample, {
    warning: thresholds.warning + hysteresis.margin,
    critical: thresholds.critical + hysteresis.margin,
  })
  const clearlyCalm = nextCalm(before.clearlyCalm, clearLevel, before.level, now)
  const barelyCalm = nextCalm(before.barelyCalm, level, before.level, now)
  const calm =
    (lasted(clearlyCalm, hysteresis.waitMs, now) && clearlyCalm) ||
    (lasted(barelyCalm, hysteresis.longWaitMs, now) && barelyCalm)
  if (calm) return { level: calm.worst, since: now, readAt: now }
  return { level: before.level, since: before.since, readAt: now, clearlyCalm, barelyCalm }
}

/**
 * The worse of the kernel's level and what the available fraction says. A kernel that compresses lets applications have nearly all memory and
 * is content: there the fraction says one level less than it would, until the kernel says something itself.
 */
export function levelOf(sample: MemorySample, limits: PressureThresholds): PressureLevel {
  const { totalBytes, availableBytes, kernelLevel, isCompressed = false } = sample
  const fraction = availableBytes / totalBytes
  const byFraction = fraction < limits.critical ? 'critical' : fraction < limits.warning ? 'warning' : 'normal'
  return isCompressed && kernelLevel === 'normal' ? milder(byFraction) : worse(byFraction, kernelLevel ?? 'normal')
}

const milder = (level: PressureLevel): PressureLevel => (level === 'critical' ? 'warning' : 'normal')

/** The time of calm begins anew after a sample that could not be read, since pressure may have risen in between. */
function withoutSample(before: Pressure | undefined, now: number): Pressure {
  if (before === undefined) return { level: 'unknown', since: now }
  const { level, since, readAt } = before
  const isStale = level !== 'unknown' && readAt !== undefined && now - readAt >= hysteresis.staleMs
  if (isStale) return { level: 'unknown', since: now, readAt }
  return { level, since, ...(readAt !== undefined && { readAt }) }
}

function nextCalm(before: Calm | undefined, sampled: PressureLevel, present: PressureLevel, now: number) {
  if (rank(sampled) >= rank(present)) return undefined
  return before ? { since: before.since, worst: worse(before.worst, sampled) } : { since: now, worst: sampled }
}

const lasted = (calm: Calm | undefined, ms: number, now: number): boolean =>
  calm !== undefined && now - calm.since >= ms

const rank = (level: PressureLevel): number => pressureLevels.indexOf(level)

const worse = (one: PressureLevel, other: PressureLevel): PressureLevel => (rank(one) > rank(other) ? one : other)
