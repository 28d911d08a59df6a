import type { ProcessFacts } from '../platform/platform.ts'
import { pause, pauseUntilNext } from '../util/pause.ts'
import type { Poller, Use } from './poller.ts'
import { isAlive, type HealthProbe, type ProbeAnswer } from './probe.ts'
import { cpuMsOf, isWorking, type CpuSample } from './process-group.ts'
import type { Hang, Trouble } from './server-state.ts'

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
type Look =
  | { readonly kind: 'alive' }
  /** `working`: it was silent, but seen to do something since the last look. */
  | { readonly kind: 'missed'; readonly trouble: Extract<Trouble, Hang>; readonly working: boolean }

/** Misses are counted, never timed: no probe is missed while the machine sleeps. */
interface Pulse {
  readonly missed: number
  readonly excused: number
}

const steadyPulse: Pulse = { missed: 0, excused: 0 }

function afterLook(pulse: Pulse, look: Look, { misses, excusedMisses }: LivenessTimings): Pulse {
  if (look.kind === 'alive') return steadyPulse
  const { missed, excused } = pulse
  if (!look.working || excused >= excusedMisses) return { missed: missed + 1, excused }
  return { missed: missed < misses ? 0 : missed, excused: excused + 1 }
}

function verdictOn({ missed }: Pulse, { misses, hungMisses }: LivenessTimings): 'healthy' | 'unhealthy' | 'hung' {
  if (missed >= hungMisses) return 'hung'
  return missed >= misses ? 'unhealthy' : 'healthy'
}

/** What requests in flight had cost when we last looked; undefined while there are none. */
export interface Advance extends CpuSample {
  readonly work: number
  /** Looks in a row that saw no change. */
  readonly stuck: number
}

/**
 * Between two looks a server that counts nothing may use less than `workingShare` of a processor while its GPU computes, but each step that it has the GPU
 * take costs more than this. An idle one costs as much with our health checks.
 */
const stillCpuMs = 50

/**
 * A server whose HTTP side answers may be stuck in a computation: its requests stay in flight, its counters stand still and it uses no
 * processor. A server that used to tell its counters and is silent now counts as unchanged; of one that counts nothing the connections that are
 * open are its requests.
 */
export function advanceOf(
  before: Advance | undefined,
  use: Pick<Use, 'answer' | 'requests' | 'work'>,
  cpu: CpuSample,
): Advance | undefined {
  const isUntold = use.answer === 'untold'
  if ((isUntold || use.answer === 'counted') && (use.requests ?? 0) === 0) return undefined
  const work = use.work ?? before?.work ?? 0
  const works = before !== undefined && (isUntold ? cpu.cpuMs - before.cpuMs >= stillCpuMs : isWorking(before, cpu))
  const stands = before !== undefined && work === before.work && !works
  return { ...cpu, work, stuck: stands ? before.stuck + 1 : 0 }
}

export interface LivenessWatch {
  readonly port: number
  readonly probe: HealthProbe
  /** Asks a server that counts nothing for a token, once its requests seem to stand still. */
  readonly token?: HealthProbe | undefined
  readonly timings: LivenessTimings
  readonly signal: AbortSignal
  /** Its living processes. */
  readonly members: () => Promise<readonly ProcessFacts[]>
  readonly poller: Pick<Poller, 'look'>
  /** False where asking for its counters would wake a server that sleeps when idle. */
  readonly asksForProgress: boolean
  /** Called on every change; a server starts out healthy. `trouble` is there while it is not. */
  readonly onHealth: (healthy: boolean, trouble?: Trouble) => void
  readonly onProbe: (seconds: number, healthy: boolean) => void
  readonly onTrouble: (message: string, error: unknown) => void
}

/** Resolves with the kind of hang, or undefined when the signal ended the watch. */
export async function watchLiveness(watch: LivenessWatch): Promise<Hang | undefined> {
  const { timings, signal } = watch
  const vitals = new Vitals(watch)
  let pulse = steadyPulse
  let reported: Extract<Trouble, Hang> | undefined
  let wasAsked = true
  const next = () =>
    pulse === steadyPulse ? pauseUntilNext(timings.everyMs, signal) : pause(timings.followUpMs, signal)
  while (await next()) {
    const look = await vitals.look(pulse !== steadyPulse)
    if (signal.aborted) return undefined
    if (look.kind === 'cannotAsk') {
      if (wasAsked) watch.onTrouble('could not check the health of a server', look.reason)
      wasAsked = false
      continue
    }
    wasAsked = true
    pulse = afterLook(pulse, look, timings)
    const verdict = verdictOn(pulse, timings)
    const trouble = look.kind === 'missed' && verdict !== 'healthy' ? look.trouble : undefined
    if (verdict === 'hung') return trouble
    if (trouble !== reported) watch.onHealth(trouble === undefined, trouble)
    reported = trouble
    if (look.kind === 'alive' && (await vitals.isStuck())) return 'stuck'
  }
  return undefined
}

/** The signs of life of one server, each asked for only when it is needed. */
class Vitals {
  readonly #watch: LivenessWatch
  /** At the last miss in a row. */
  #cpu: CpuSample | undefined
  #advance: Advance | undefined
  #tellsCounters = false
  #progressLookAt: number

  constructor(watch: LivenessWatch) {
    this.#watch = watch
    this.#progressLookAt = performance.now() + watch.timings.progressEveryMs
  }

  /** `again`: the last probe was missed, so that other signs of life count as well. */
  async look(again: boolean): Promise<Look | Extract<ProbeAnswer, { kind: 'cannotAsk' }>> {
    const { poller, timings } = this.#watch
    const withinMs = timings.answerWithinMs
    const [answer, use] = await Promise.all([
      this.#probe(),
      again ? poller.look({ withinMs, evenAsleep: true }) : undefined,
    ])
    if (answer.kind === 'answered') {
      this.#cpu = undefined
      return isAlive(answer.status) ? { kind: 'alive' } : { kind: 'missed', trouble: 'failing', working: false }
    }
    if (answer.kind === 'cannotAsk') return answer
    const speaks = use?.answer === 'counted' || use?.answer === 'untold'
    const facts = await this.#facts()
    // A server is not ended because its processes could not be looked at.
    if (!facts) return { kind: 'missed', trouble: 'silent', working: true }
    const { cpu, suspended } = facts
    const isSeenToWork = cpu === undefined ? !suspended : this.#cpu !== undefined && isWorking(this.#cpu, cpu)
    this.#cpu = cpu
    return { kind: 'missed', trouble: suspended ? 'suspended' : 'silent', working: speaks || isSeenToWork }
  }

  async #probe() {
    const { probe, port, timings, signal, onProbe } = this.#watch
    const askedAt = performance.now()
    const answer = await probe(port, timings.answerWithinMs, signal)
    const isHealthy = answer.kind === 'answered' && isAlive(answer.status)
    if (!signal.aborted && answer.kind !== 'cannotAsk') onProbe((performance.now() - askedAt) / 1_000, isHealthy)
    return answer
  }

  /** Asks only once in a while. */
  async isStuck(): Promise<boolean> {
    const { asksForProgress, timings, signal } = this.#watch
    if (!asksForProgress || performance.now() < this.#progressLookAt) return false
    this.#progressLookAt = performance.now() + timings.progressEveryMs
    const use = await this.#use()
    if (use === undefined || use.answer === 'cannotAsk') return false
    if (use.answer === 'counted') this.#tellsCounters = true
    const inFlight = use.answer === 'silent' ? this.#tellsCounters : use.requests !== undefined && use.requests > 0
    const cpu = inFlight ? (await this.#facts())?.cpu : undefined
    if (signal.aborted) return false
    this.#advance = cpu && advanceOf(this.#advance, use, cpu)
    if ((this.#advance?.stuck ?? 0) < timings.stuckLooks) return false
    return use.answer !== 'untold' || (await this.#answersNothing())
  }

  /** Undefined where the system does not tell the connections of a server that counts nothing. */
  async #use(): Promise<Use | undefined> {
    const { poller, token, timings, onTrouble } = this.#watch
    const connections = token !== undefined
    try {
      return await poller.look({ freshMs: timings.everyMs, withinMs: timings.answerWithinMs, connections })
    } catch (error) {
      onTrouble('could not tell whether a server is used', error)
      return undefined
    }
  }

  /** An open connection may be one that a client merely keeps, and the GPU may have long to do: who computes a token in as long again is not stuck. */
  async #answersNothing(): Promise<boolean> {
    const { token, port, timings, signal } = this.#watch
    const answer = await token?.(port, timings.stuckLooks * timings.progressEveryMs, signal)
    this.#advance = undefined
    return answer?.kind === 'silent' && !signal.aborted
  }

  /** `cpu` is absent where the system does not tell processor time. */
  async #facts(): Promise<{ readonly cpu: CpuSample | undefined; readonly suspended: boolean } | undefined> {
    const { members, onTrouble } = this.#watch
    try {
      const processes = await members()
      const cpuMs = cpuMsOf(processes)
      return {
        cpu: cpuMs === undefined ? undefined : { cpuMs, at: performance.now() },
        suspended: processes.some(({ suspended }) => suspended),
      }
    } catch (error) {
      onTrouble('could not read the processes of a server', error)
      return undefined
    }
  }
}
