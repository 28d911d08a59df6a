import type { HealthProbe } from './health-probe.ts'
import { pause } from './pause.ts'

export interface LivenessWatch {
  readonly port: number
  readonly probe: HealthProbe
  readonly timings: LivenessTimings
  readonly signal: AbortSignal
  /** Called on every change; a server starts out healthy. */
  readonly onHealth: (healthy: boolean) => void
}

export interface LivenessTimings {
  readonly everyMs: number
  readonly answerWithinMs: number
  /** Probes in a row without a sign of life until it counts as unhealthy. */
  readonly misses: number
}

/** An exit is an event, so this only has to notice a server that hangs: within twenty seconds or so, at next to no cost. */
export const livenessTimings: LivenessTimings = { everyMs: 5_000, answerWithinMs: 5_000, misses: 3 }

/** Runs until the signal ends it. */
export async function watchLiveness({ port, probe, timings, signal, onHealth }: LivenessWatch): Promise<void> {
  let missed = 0
  while (await pause(timings.everyMs, signal)) {
    const answer = await probe(port, timings.answerWithinMs, signal)
    if (signal.aborted) return
    const wasHealthy = missed < timings.misses
    missed = answer.kind === 'answered' && isAlive(answer.status) ? 0 : missed + 1
    const healthy = missed < timings.misses
    if (healthy !== wasHealthy) onHealth(healthy)
  }
}

/** 503 is how llama-server says that it is busy with itself; other answers from 500 on mean that it cannot serve. */
const isAlive = (status: number) => status < 500 || status === 503
