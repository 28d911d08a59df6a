import type { ProcessFacts } from '../platform/platform.ts'
import { askActivity, type Activity, type CountersReading } from './activity.ts'
import type { HealthProbe, ProbeAnswer } from './health-probe.ts'
import {
  advanceOf,
  afterLook,
  cpuMsOf,
  isAlive,
  isWorking,
  steadyPulse,
  verdictOn,
  type Advance,
  type CpuSample,
  type LivenessTimings,
  type Look,
} from './liveness.ts'
import { pause, pauseUntilNext } from './pause.ts'
import type { Hang, Trouble } from './server-state.ts'

export interface LivenessWatch {
  readonly port: number
  readonly probe: HealthProbe
  readonly timings: LivenessTimings
  readonly signal: AbortSignal
  /** Its living processes. */
  readonly members: () => Promise<readonly ProcessFacts[]>
  /** False where asking for its counters would wake a server that sleeps when idle. */
  readonly asksForProgress: boolean
  /** Called on every change; a server starts out healthy. `trouble` is there while it is not. */
  readonly onHealth: (healthy: boolean, trouble?: Trouble) => void
  readonly onProbe: (seconds: number, healthy: boolean) => void
  readonly onCounters: (reading: CountersReading) => void
  readonly onTrouble: (message: string, error: unknown) => void
}

/** Resolves with the kind of hang, or undefined when the signal ended the watch. */
export async function watchLiveness(watch: LivenessWatch): Promise<Hang | undefined> {
  const { timings, signal } = watch
  const vitals = new Vitals(watch)
  let pulse = steadyPulse
  let told: Trouble | undefined
  let wasAsked = true
  const next = () =>
    pulse === steadyPulse ? pauseUntilNext(timings.everyMs, signal) : pause(timings.followUpMs, signal)
  while (await next()) {
    const look = await vitals.look(pulse !== steadyPulse)
    if (signal.aborted) return undefined
    if (look.kind === 'cannotAsk') {
      if (wasAsked) watch.onTrouble('could not ask a server whether it is well', look.reason)
      wasAsked = false
      continue
    }
    wasAsked = true
    pulse = afterLook(pulse, look, timings)
    const verdict = verdictOn(pulse, timings)
    const trouble = look.kind === 'missed' && verdict !== 'healthy' ? look.trouble : undefined
    if (verdict === 'hung') return trouble
    if (trouble !== told) watch.onHealth(trouble === undefined, trouble)
    told = trouble
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
    const [answer, activity] = await Promise.all([this.#probe(), again ? this.#ask() : undefined])
    if (answer.kind === 'answered') {
      this.#cpu = undefined
      return isAlive(answer.status) ? { kind: 'alive' } : { kind: 'missed', trouble: 'failing', working: false }
    }
    if (answer.kind === 'cannotAsk') return answer
    const speaks = activity !== undefined && (activity.kind === 'counted' || activity.kind === 'untold')
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

  async #ask(): Promise<Activity> {
    const { port, timings, signal, onCounters } = this.#watch
    const activity = await askActivity(port, timings.answerWithinMs, signal)
    if (activity.kind === 'counted' && !signal.aborted) onCounters(activity.reading)
    return activity
  }

  /** Looks now and then. */
  async isStuck(): Promise<boolean> {
    const { asksForProgress, timings, signal } = this.#watch
    if (!asksForProgress || performance.now() < this.#progressLookAt) return false
    this.#progressLookAt = performance.now() + timings.progressEveryMs
    const activity = await this.#ask()
    if (activity.kind === 'cannotAsk') return false
    if (activity.kind === 'counted') this.#tellsCounters = true
    const inFlight = activity.kind === 'counted' ? activity.requests > 0 : this.#tellsCounters
    const cpu = inFlight ? (await this.#facts())?.cpu : undefined
    if (signal.aborted) return false
    this.#advance = cpu && advanceOf(this.#advance, activity, cpu)
    return (this.#advance?.stuck ?? 0) >= timings.stuckLooks
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
      onTrouble('could not look at the processes of a server', error)
      return undefined
    }
  }
}
