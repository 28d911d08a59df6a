import { defaultStartupStallMs, defaultStopGraceMs } from './launch.ts'
import { cpuMsOf, missedAfterMs } from './liveness.ts'
import { watchLiveness } from './liveness-watch.ts'
import type { MemoryWatch } from './memory-watch.ts'
import type { ProcessGroup } from './process-group.ts'
import { watchStart, type StartFigures } from './readiness.ts'
import type { RunContext } from './run-context.ts'
import type { Hang, ServerState } from './server-state.ts'
import type { EndCause, EndOptions } from './termination.ts'

interface RunWatchOptions {
  readonly context: RunContext
  readonly pid: number
  readonly port: number
  /** Of a server that was ready before it was found. */
  readonly readySince: number | undefined
  /** It was found running instead of being started here. */
  readonly isFound: boolean
  readonly group: Pick<ProcessGroup, 'members'>
  readonly memory: MemoryWatch
  readonly tell: (state: ServerState) => void
  readonly end: (cause: EndCause, options?: EndOptions) => void
}

/** A server that hangs will hardly hear SIGTERM. */
const hungGraceMs = 2_000

/** Watches a run from its start over its readiness to its liveness, tells what it sees, and ends a run that stalls or hangs. */
export class RunWatch {
  readonly #options: RunWatchOptions
  #readySince: number | undefined
  #healthy: boolean

  constructor(options: RunWatchOptions) {
    this.#options = options
    this.#readySince = options.readySince
    this.#healthy = options.readySince !== undefined
  }

  /** Undefined where it never got ready. */
  get readySince(): number | undefined {
    return this.#readySince
  }

  get isHealthy(): boolean {
    return this.#healthy
  }

  /** Until the signal ends it, which an end of the run does. Never rejects. */
  async watch(signal: AbortSignal): Promise<void> {
    const { pid, port, context, memory, tell, end } = this.#options
    const { now, log } = context
    try {
      const verdict = await this.#start(signal)
      if (verdict.kind === 'stalled') this.#endSilent()
      if (verdict.kind === 'portTaken') end('portTaken', { holders: verdict.holders })
      if (verdict.kind !== 'ready' || signal.aborted) return
      const readySince = this.#readySince ?? now()
      this.#readySince = readySince
      this.#healthy = true
      tell({ kind: 'ready', since: now(), readySince, pid, port, healthy: true })
      const measuring = memory.watch(signal)
      const hang = await this.#liveness(signal, readySince)
      if (hang) end('hung', { hang, graceMs: Math.min(hungGraceMs, this.#stopGraceMs) })
      await measuring
    } catch (error) {
      log.error('the watch over a server failed', { pid, port, error })
      end('stalled')
    }
  }

  /** A server that was ready before it was found does not start any more, so its silence is a hang. */
  #endSilent(): void {
    const { end } = this.#options
    if (this.#readySince === undefined) end('stalled')
    else end('hung', { hang: 'silent', graceMs: Math.min(hungGraceMs, this.#stopGraceMs) })
  }

  async #start(signal: AbortSignal) {
    const { pid, port, context, isFound, tell } = this.#options
    const { platform, probe, liveness, now, log } = context
    // A server that was found running counts as what it was until it has been silent for as long as makes any server unhealthy.
    const endTrust = () => {
      this.#healthy = false
      tell({ kind: 'starting', since: now(), pid, port })
    }
    const trustMs = liveness.misses * liveness.answerWithinMs
    const trust = isFound ? setTimeout(endTrust, trustMs) : undefined
    try {
      return await watchStart({
        port,
        probe,
        signal,
        stallMs: this.#readySince === undefined ? this.#stallMs : missedAfterMs(liveness, liveness.hungMisses),
        listeners: () => platform.portListeners(port, pid),
        figures: () => this.#startFigures(),
        onLoading: () => {
          clearTimeout(trust)
          tell({ kind: 'loading', since: now(), pid, port })
        },
        onBlindLook: () => {
          if (this.#healthy) trust?.refresh()
        },
        onTrouble: (message, error) => log.warn(message, { pid, port, error }),
      })
    } finally {
      clearTimeout(trust)
    }
  }

  async #startFigures(): Promise<StartFigures> {
    const { memory, context } = this.#options
    const [members, written] = await Promise.all([memory.look(), context.output.extent()])
    const residentBytes = members.reduce((sum, member) => sum + (member.residentBytes ?? 0), 0)
    return { residentBytes, cpuMs: cpuMsOf(members), outputBytes: written?.to ?? 0 }
  }

  #liveness(signal: AbortSignal, readySince: number): Promise<Hang | undefined> {
    const { pid, port, context, group, tell } = this.#options
    const { launch, probe, liveness, onProbe, onCounters, now, log } = context
    return watchLiveness({
      port,
      signal,
      probe,
      timings: liveness,
      members: () => group.members(),
      asksForProgress: launch.sleepsWhenIdle !== true,
      onHealth: (healthy, trouble) => {
        this.#healthy = healthy
        tell({ kind: 'ready', since: now(), readySince, pid, port, healthy, ...(trouble && { trouble }) })
      },
      onProbe,
      onCounters,
      onTrouble: (message, error) => log.warn(message, { pid, port, error }),
    })
  }

  get #stallMs(): number {
    return this.#options.context.launch.startupStallMs ?? defaultStartupStallMs
  }

  get #stopGraceMs(): number {
    return this.#options.context.launch.stopGraceMs ?? defaultStopGraceMs
  }
}
