import type { Activity } from './activity.ts'
import type { Trouble } from './server-state.ts'

export interface LivenessTimings {
  /** Between probes of a server that answers. */
  readonly everyMs: number
  readonly answerWithinMs: number
  /** Between a probe that was missed and the next. */
  readonly followUpMs: number
  /** Misses in a row until it counts as unhealthy. */
  readonly misses: number
  /** Misses in a row until it counts as hung. */
  readonly hungMisses: number
  /** How many misses are forgiven to a server that is seen to work meanwhile. */
  readonly excusedMisses: number
  /** Between looks at whether requests in flight advance. */
  readonly progressEveryMs: number
  /** Looks in a row that saw requests in flight, and nothing advance, until it counts as hung. */
  readonly stuckLooks: number
}

/**
 * An exit is an event, so this only has to notice a server that hangs, at next to no cost. A miss takes three seconds, so one that hangs
 * is unhealthy within 10 + 8 s and counts as hung 15 s later; work excuses silence for five minutes, and requests may stand still as long.
 */
export const livenessTimings: LivenessTimings = {
  everyMs: 10_000,
  answerWithinMs: 2_000,
  followUpMs: 1_000,
  misses: 3,
  hungMisses: 8,
  excusedMisses: 100,
  progressEveryMs: 60_000,
  stuckLooks: 5,
}

/** From when a server stops answering until so many probes in a row were missed, at most. */
export const missedAfterMs = ({ everyMs, answerWithinMs, followUpMs }: LivenessTimings, misses: number): number =>
  everyMs + answerWithinMs + (misses - 1) * (followUpMs + answerWithinMs)

/** What one probe, and what was seen around it, says. */
export type Look =
  | { readonly kind: 'alive' }
  /** `working`: it was silent, but seen to do something since the last look. */
  | { readonly kind: 'missed'; readonly trouble: Trouble; readonly working: boolean }

/** Misses are counted, never timed: no probe is missed while the machine sleeps. */
export interface Pulse {
  readonly missed: number
  readonly excused: number
}

export const steadyPulse: Pulse = { missed: 0, excused: 0 }

export function afterLook(pulse: Pulse, look: Look, { misses, excusedMisses }: LivenessTimings): Pulse {
  if (look.kind === 'alive') return steadyPulse
  const { missed, excused } = pulse
  if (!look.working || excused >= excusedMisses) return { missed: missed + 1, excused }
  return { missed: missed < misses ? 0 : missed, excused: excused + 1 }
}

export function verdictOn(
  { missed }: Pulse,
  { misses, hungMisses }: LivenessTimings,
): 'healthy' | 'unhealthy' | 'hung' {
  if (missed >= hungMisses) return 'hung'
  return missed >= misses ? 'unhealthy' : 'healthy'
}

/** 503 is how llama-server says that it is busy with itself; other answers from 500 on mean that it cannot serve. */
export const isAlive = (status: number): boolean => status < 500 || status === 503

/** Waiting for a GPU takes less than computing, but more than a process that only answers "not now" to a few connections. */
const workingShare = 0.01

/** Did it use so much processor time that it must be at work? */
export const isWorking = (before: CpuSample, after: CpuSample): boolean =>
  after.cpuMs - before.cpuMs >= Math.max(finestCpuMs, (after.at - before.at) * workingShare)

/** The systems count processor time in steps of 10 ms. */
const finestCpuMs = 10

/** Of all together; undefined where the system does not tell it of one of them. */
export const cpuMsOf = (processes: readonly { readonly cpuMs?: number }[]): number | undefined =>
  processes.reduce<number | undefined>(
    (sum, { cpuMs }) => (sum === undefined || cpuMs === undefined ? undefined : sum + cpuMs),
    0,
  )

export interface CpuSample {
  readonly cpuMs: number
  /** On the monotonic clock. */
  readonly at: number
}

/** What requests in flight had cost when we last looked; undefined while there are none. */
export interface Advance extends CpuSample {
  readonly work: number
  /** Looks in a row that saw no change. */
  readonly stuck: number
}

/**
 * A server whose HTTP side answers may be stuck in a computation: its requests stay in flight, its counters stand still and it uses no
 * processor. A server that used to tell its counters and is silent now counts as unchanged.
 */
export function advanceOf(
  before: Advance | undefined,
  activity: Exclude<Activity, { kind: 'cannotAsk' }>,
  cpu: CpuSample,
): Advance | undefined {
  if (activity.kind === 'untold' || (activity.kind === 'counted' && activity.requests === 0)) return undefined
  const work = activity.kind === 'counted' ? activity.work : (before?.work ?? 0)
  const stands = before !== undefined && work === before.work && !isWorking(before, cpu)
  return { ...cpu, work, stuck: stands ? before.stuck + 1 : 0 }
}
