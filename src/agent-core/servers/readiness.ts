import type { PortHolder, PortListeners } from '../platform/platform.ts'
import { isAlive, type HealthProbe } from './probe.ts'
import { ownFailure } from '../util/error-code.ts'
import { pause } from '../util/pause.ts'

export interface StartWatch {
  readonly port: number
  readonly stallMs: number
  readonly probe: HealthProbe
  readonly listeners: () => Promise<PortListeners>
  /** Figures of the start; growth of any of them counts as progress. */
  readonly figures: () => Promise<StartFigures>
  /** Its first process waits for another, also for one that has ended. */
  readonly isLauncher?: boolean
  /** For tests: how long processor time alone counts as progress. */
  readonly busyLimitMs?: number
  readonly signal: AbortSignal
  readonly onLoading: () => void
  /** Called for every look that says nothing about the server, as this process could not ask or could not tell who answered. */
  readonly onBlindLook?: () => void
  readonly onTrouble: (message: string, error: unknown) => void
}

export interface StartFigures {
  readonly residentBytes: number
  readonly outputBytes: number
  /** Undefined where the system does not tell; then any start counts as one at work. */
  readonly cpuMs: number | undefined
  readonly processes: number
}

export type StartVerdict =
  | { readonly kind: 'ready' }
  | { readonly kind: 'stalled' }
  /** It says over and over that it cannot serve. */
  | { readonly kind: 'failing' }
  /** Its first process is left alone by the one that it waits for. */
  | { readonly kind: 'alone' }
  /** Something else answers on the port. */
  | { readonly kind: 'portTaken'; readonly holders: readonly PortHolder[] }
  /** The signal ended the watch. */
  | { readonly kind: 'over' }

/** A server that accepts and says nothing is asked again, on a new connection. */
const probeLimitMs = 2_000

/** An answer without a visible listener: the listener has just gone, or is hidden from us, which further such answers show. */
const unseenAnswersAllowed = 3

/** It may still be setting up when it is asked for the first time. */
const failuresAllowed = 3

/** Follows a start until the server answers 200 on its own port, or makes no progress for too long. */
export async function watchStart(watch: StartWatch): Promise<StartVerdict> {
  const { port, stallMs, probe, signal } = watch
  const startedAt = performance.now()
  const progress = new StartProgress(watch)
  let loading = false
  let unseen = 0
  let failures = 0
  let wasAsked = true

  for (;;) {
    const answer = await probe(port, Math.min(probeLimitMs, stallMs), signal)
    if (signal.aborted) return { kind: 'over' }
    if (answer.kind === 'cannotAsk' && wasAsked) {
      watch.onTrouble('could not ask a server whether it is ready', answer.reason)
    }
    wasAsked = answer.kind !== 'cannotAsk'
    let isBlind = !wasAsked
    if (answer.kind === 'answered') {
      const verdict = await listenersVerdict(watch)
      isBlind = verdict.kind === 'unknown'
      if (verdict.kind === 'foreign') return { kind: 'portTaken', holders: verdict.holders }
      if (verdict.kind === 'unseen' && ++unseen >= unseenAnswersAllowed) return { kind: 'portTaken', holders: [] }
      if (verdict.kind === 'ours' && answer.status === 200) return { kind: 'ready' }
      if (verdict.kind === 'ours' && !isAlive(answer.status) && ++failures >= failuresAllowed)
        return { kind: 'failing' }
      if (verdict.kind === 'ours' && answer.status === 503 && !loading) {
        loading = true
        watch.onLoading()
      }
    }
    if (isBlind) {
      watch.onBlindLook?.()
      progress.skip()
    } else if (await progress.stalled()) return { kind: progress.isAlone ? 'alone' : 'stalled' }
    if (!(await pause(probePauseMs(performance.now() - startedAt), signal))) return { kind: 'over' }
  }
}

const minPauseMs = 25
const maxPauseMs = 250

/** A tenth of the time it took so far: small servers are seen at once, big ones are not pestered. */
export const probePauseMs = (elapsedMs: number): number => Math.min(maxPauseMs, Math.max(minPauseMs, elapsedMs / 10))

type ListenersVerdict =
  | { readonly kind: 'ours' }
  | { readonly kind: 'foreign'; readonly holders: readonly PortHolder[] }
  | { readonly kind: 'unseen' }
  | { readonly kind: 'unknown' }

/** Ours only when no other process listens there: two listeners of one port share its connections. */
async function listenersVerdict({ listeners, onTrouble }: StartWatch): Promise<ListenersVerdict> {
  try {
    const { ours, others } = await listeners()
    if (others.length > 0) return { kind: 'foreign', holders: others }
    return ours.length > 0 ? { kind: 'ours' } : { kind: 'unseen' }
  } catch (error) {
    onTrouble('could not tell who listens on the port', error)
    return { kind: 'unknown' }
  }
}

/** Touching a few pages is no progress: a server that hangs does that as well. */
const minGrowthBytes = 256 * 1024

/** Within a sample; what a server that hangs spends on our probes is less. */
const minBusyMs = 50

/** Compiling shaders writes nothing and takes no memory, but ends; a loop that does not end looks the same. */
const defaultBusyLimitMs = 10 * 60_000

const maxSampleMs = 1_000

/** A launcher that is alone and does not grow for so long starts no other process, however busy it asks for the last one. */
const aloneMs = 5_000

/** Adds up the time without growth, over samples taken now and then. */
class StartProgress {
  readonly #watch: StartWatch
  readonly #sampleMs: number
  #best = { residentBytes: 0, outputBytes: 0, cpuMs: 0 }
  #sampledAt = performance.now()
  #idleMs = 0
  /** Processor time spent since a figure last grew. */
  #busyMs = 0
  #processes = 0
  #hadOthers = false

  constructor(watch: StartWatch) {
    this.#watch = watch
    this.#sampleMs = Math.min(maxSampleMs, watch.stallMs / 8)
  }

  /** Between one of the processes that a launcher starts and the next it may be alone, and works. */
  get isAlone(): boolean {
    return this.#watch.isLauncher === true && this.#hadOthers && this.#processes === 1
  }

  /** The time since the last sample says nothing about the server. */
  skip(): void {
    this.#sampledAt = performance.now()
  }

  async stalled(): Promise<boolean> {
    const sinceMs = performance.now() - this.#sampledAt
    if (sinceMs < this.#sampleMs) return false
    this.#sampledAt += sinceMs
    const stepMs = Math.min(sinceMs, longestStepMs)
    const sign = await this.#sign()
    if (sign === 'unknown') return false
    this.#busyMs = sign === 'growth' ? 0 : this.#busyMs + stepMs
    const { stallMs, busyLimitMs = defaultBusyLimitMs } = this.#watch
    const advances = sign === 'growth' || (sign === 'work' && this.#busyMs < busyLimitMs && !this.isAlone)
    this.#idleMs = advances ? 0 : this.#idleMs + stepMs
    return this.#idleMs >= (this.isAlone ? Math.min(stallMs, aloneMs) : stallMs)
  }

  async #sign(): Promise<'growth' | 'work' | 'none' | 'unknown'> {
    try {
      const { residentBytes, outputBytes, cpuMs, processes } = await this.#watch.figures()
      this.#processes = processes
      this.#hadOthers ||= processes > 1
      const grew = residentBytes >= this.#best.residentBytes + minGrowthBytes || outputBytes > this.#best.outputBytes
      const works = cpuMs === undefined || cpuMs - this.#best.cpuMs >= minBusyMs
      this.#best = {
        residentBytes: grew ? Math.max(residentBytes, this.#best.residentBytes) : this.#best.residentBytes,
        outputBytes: Math.max(outputBytes, this.#best.outputBytes),
        cpuMs: cpuMs ?? this.#best.cpuMs,
      }
      return grew ? 'growth' : works ? 'work' : 'none'
    } catch (error) {
      this.#watch.onTrouble('could not measure the progress of a start', error)
      return ownFailure(error) === undefined ? 'none' : 'unknown'
    }
  }
}

/** One step of the loop takes no longer by itself: what is above it the machine slept, or we did, and the server no less. */
const longestStepMs = probeLimitMs + maxPauseMs + maxSampleMs
