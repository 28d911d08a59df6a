import type { ClusterSession } from './cluster-session.ts'
import type { Logger } from './observability/logger.ts'
import { isAlive } from './process/liveness.ts'
import { pause } from './process/pause.ts'
import { probeHealth } from './process/health-probe.ts'
import type { Servers } from './process/servers.ts'

/** The system sleeps soon after it said so, whether or not we are done. */
const withdrawLimitMs = 1_000
/** A server that answered before the sleep answers at once after it, or is in trouble. */
const answerWithinMs = 1_000
const askAgainMs = 500
/** After that the watch over the server knows better. */
const verifyLimitMs = 30_000

export interface SleepOptions {
  readonly servers: Servers
  readonly session: () => ClusterSession | undefined
  readonly log: Logger
}

/** What is done around a sleep of this machine: nothing is published while it sleeps, and nothing after it that does not answer. */
export class Sleep {
  readonly #options: SleepOptions
  #isAsleep = false
  /** Their servers have not answered since the machine woke. */
  readonly #unverified = new Set<string>()
  #ended = new AbortController()

  constructor(options: SleepOptions) {
    this.#options = options
  }

  /** Whether pods must not be sent to the server of this service. */
  isSilent(key: string): boolean {
    return this.#isAsleep || this.#unverified.has(key)
  }

  /** The machine is about to sleep. Resolves when nothing is published any more, or the time is up; models stay in memory. */
  async suspend(): Promise<void> {
    const { session, log } = this.#options
    this.#isAsleep = true
    this.#stopVerifying()
    const { publisher, reconciler } = session() ?? {}
    const unfinished = (await publisher?.withdrawAll(withdrawLimitMs)) ?? []
    for (const { key, message: reason } of unfinished) log.warn('not withdrawn', { key, reason })
    reconciler?.enqueueAll()
    log.info('about to sleep', { withdrawn: unfinished.length === 0 })
  }

  /**
   * The machine woke, or may have slept without saying so. Everything is read anew; what was withdrawn is published when its server has
   * answered, and what was not is withdrawn where its server does not. Resolves when each has answered or was given up.
   */
  async resume(): Promise<void> {
    const { servers, session, log } = this.#options
    const wasAsleep = this.#isAsleep
    this.#stopVerifying()
    const { signal } = this.#ended
    const ready = [...servers.state()].flatMap(([key, state]) =>
      state.kind === 'ready' ? [{ key, port: state.port }] : [],
    )
    if (wasAsleep) for (const { key } of ready) this.#unverified.add(key)
    this.#isAsleep = false
    session()?.cluster.resync()
    log.info('awake', { servers: ready.length, wasAnnounced: wasAsleep })
    await Promise.all(ready.map((server) => this.#verify(server, signal)))
    if (wasAsleep) session()?.reconciler.enqueueAll()
  }

  [Symbol.dispose](): void {
    this.#stopVerifying()
  }

  async #verify({ key, port }: { readonly key: string; readonly port: number }, signal: AbortSignal): Promise<void> {
    const { servers, session, log } = this.#options
    const until = performance.now() + verifyLimitMs
    const isSame = () => {
      const state = servers.state().get(key)
      return state?.kind === 'ready' && state.port === port
    }
    const isOver = () => signal.aborted
    while (isSame() && !isOver() && performance.now() < until) {
      const answer = await probeHealth(port, answerWithinMs, signal)
      if (isOver()) return
      if (answer.kind === 'answered' && isAlive(answer.status)) break
      if (!this.#unverified.has(key)) {
        log.warn('silent after a sleep', { key, port })
        this.#unverified.add(key)
        session()?.reconciler.enqueue(key)
      }
      await pause(askAgainMs, signal)
    }
    if (isOver()) return
    this.#unverified.delete(key)
    session()?.reconciler.enqueue(key)
  }

  #stopVerifying(): void {
    this.#ended.abort()
    this.#ended = new AbortController()
    this.#unverified.clear()
  }
}
