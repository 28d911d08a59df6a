import type { Cluster } from '../kube/cluster.ts'
import type { Logger } from '../observability/logger.ts'
import { isAlive } from '../servers/probe.ts'
import { pause } from '../util/pause.ts'
import { probeHealth } from '../servers/probe.ts'
import type { Servers } from '../servers/servers.ts'
import type { Publisher } from '../publishing/publisher.ts'
import type { Silence } from '../reconcile/plan/observation.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import { defaultEveryMs, watchLateTicks } from '../util/late-tick.ts'
import { within } from '../util/within.ts'

/** The system sleeps soon after it said so, whether or not we are done. */
const withdrawLimitMs = 1_000
/** A server that answered before the sleep answers at once after it, or is in trouble. */
const answerWithinMs = 1_000
const askAgainMs = 500
/** A look that takes longer is not waited for; what is published meanwhile is put right when it ends. */
const lookLimitMs = 500
/**
 * macOS waits up to 30 s for programs that hold up a sleep it announced, and may wake for a moment without a word: only a machine that was
 * awake for longer than that does not sleep.
 */
const provesAwakeMs = 60_000

/** What a sleep needs of the session with a cluster. */
export interface SleepSession {
  readonly cluster: Pick<Cluster, 'reconnect'>
  readonly publisher: Pick<Publisher, 'withdrawAll'>
  readonly reconciler: Pick<Reconciler, 'enqueue' | 'enqueueAll'>
}

export interface SleepOptions {
  readonly servers: Pick<Servers, 'state'>
  readonly session: () => SleepSession | undefined
  readonly log: Logger
  /** Every five seconds, unless a sleep is announced: how late that came. */
  readonly onTick?: (lateMs: number) => void
  /** A sleep is announced. */
  readonly onSleep?: () => void
  /** The machine woke, perhaps in another network, or with its plug pulled. */
  readonly lookAnew?: () => Promise<unknown>
}

/** What is done around a sleep of this machine: nothing is published while it sleeps, and nothing after it that does not answer. */
export class Sleep {
  readonly #options: SleepOptions
  #isAsleep = false
  /** Ticks in a row that came on time since the sleep was announced. */
  #ticksAwake = 0
  /** Their servers have not answered since the machine woke. */
  readonly #unverified = new Set<string>()
  readonly #ticks: Disposable
  #ended = new AbortController()

  constructor(options: SleepOptions) {
    this.#options = options
    this.#ticks = watchLateTicks({
      onLate: (lateMs) => this.#stoodStill(lateMs),
      onTime: (lateMs) => this.#ticked(lateMs),
    })
  }

  silenceOf(key: string): Silence | undefined {
    if (this.#isAsleep) return 'asleep'
    return this.#unverified.has(key) ? 'unverified' : undefined
  }

  /** The machine is about to sleep. Resolves when nothing is published any more, or the time is up; models stay in memory. */
  async suspend(): Promise<void> {
    const { session, log } = this.#options
    this.#isAsleep = true
    this.#options.onSleep?.()
    this.#ticksAwake = 0
    this.#stopVerifying()
    const { publisher, reconciler } = session() ?? {}
    const unfinished = (await publisher?.withdrawAll(withdrawLimitMs)) ?? []
    for (const { key, message: reason } of unfinished) log.warn('not withdrawn', { key, reason })
    reconciler?.enqueueAll()
    log.info('about to sleep', { withdrawn: unfinished.length === 0 })
  }

  /**
   * The machine woke, or may have slept without saying so. Everything is read anew; what was withdrawn is published when its server has
   * answered, and what was not is withdrawn where its server does not. Resolves when each has answered or is not ready any more.
   */
  async resume(): Promise<void> {
    const { servers, session, log } = this.#options
    const wasAsleep = this.#isAsleep
    this.#stopVerifying()
    const { signal } = this.#ended
    const ready = new Map(
      [...servers.state()].flatMap(([key, state]) => (state.kind === 'ready' && state.healthy ? [[key, state]] : [])),
    )
    if (wasAsleep) for (const key of ready.keys()) this.#unverified.add(key)
    for (const key of this.#unverified) if (!ready.has(key)) this.#unverified.delete(key)
    this.#isAsleep = false
    session()?.cluster.reconnect()
    await this.#lookAnew()
    log.info('awake', { servers: ready.size, wasAnnounced: wasAsleep })
    await Promise.all([...ready].map(([key, { port }]) => this.#verify({ key, port }, signal)))
    if (wasAsleep) session()?.reconciler.enqueueAll()
  }

  [Symbol.dispose](): void {
    this.#ticks[Symbol.dispose]()
    this.#stopVerifying()
  }

  /** So that nothing is published for a moment as it was right before the sleep. */
  async #lookAnew(): Promise<void> {
    const { lookAnew, log } = this.#options
    try {
      await within(lookLimitMs, lookAnew?.())
    } catch (error) {
      log.error('not looked at after a sleep', { error })
    }
  }

  /** Whoever announced a sleep says when it is over; where nobody does, the ticks that follow say it. */
  #stoodStill(lateMs: number): void {
    this.#ticksAwake = 0
    if (this.#isAsleep) return
    this.#options.onTick?.(lateMs)
    const text = 'this machine may have slept: all is verified'
    this.#options.log.warn('stood still', { lateMs: Math.round(lateMs), text })
    this.#resumeAlone()
  }

  #ticked(lateMs: number): void {
    if (!this.#isAsleep) this.#options.onTick?.(lateMs)
    if (!this.#isAsleep || ++this.#ticksAwake * defaultEveryMs <= provesAwakeMs) return
    this.#options.log.warn('no sleep', { text: 'a sleep was announced, but this machine is awake: all is verified' })
    this.#resumeAlone()
  }

  #resumeAlone(): void {
    this.resume().catch((error: unknown) => this.#options.log.error('not verified after a sleep', { error }))
  }

  async #verify({ key, port }: { readonly key: string; readonly port: number }, signal: AbortSignal): Promise<void> {
    const { servers, session, log } = this.#options
    const isReady = () => {
      const state = servers.state().get(key)
      return state?.kind === 'ready' && state.healthy && state.port === port
    }
    const isOver = () => signal.aborted
    // What is not ready any more is withdrawn for that, and healthy again by an answer.
    while (isReady() && !isOver()) {
      const answer = await probeHealth(port, answerWithinMs, signal)
      if (isOver()) return
      if (answer.kind === 'answered' && isAlive(answer.status)) break
      if (answer.kind !== 'cannotAsk' && !this.#unverified.has(key)) {
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

  /** What has not answered stays silent: a sleep that follows at once, or a second word of the same one, proves nothing. */
  #stopVerifying(): void {
    this.#ended.abort()
    this.#ended = new AbortController()
  }
}
