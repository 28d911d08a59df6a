import type { Cluster } from '../kube/cluster.ts'
import type { Logger } from '../observability/logger.ts'
import type { WaysToPublish } from '../publishing/ways.ts'
import { isAlive } from '../servers/probe.ts'
import type { Servers } from '../servers/servers.ts'
import { defaultEveryMs, watchLateTicks } from '../util/late-tick.ts'
import { pause } from '../util/pause.ts'
import { within } from '../util/within.ts'

/** The system goes to sleep soon after it said so, whether or not we are done. */
const withdrawLimitMs = 1_000
/** A server that answered before the sleep answers at once after it, or is in trouble. */
const answerWithinMs = 1_000
const askAgainMs = 500
/** A look that takes longer is not waited for; what is published meanwhile is corrected when it ends. */
const lookLimitMs = 500
/**
 * macOS waits up to 30 s for programs that hold up a sleep it announced, and may wake for a moment without saying so: only a machine that
 * stayed awake for longer than this is not going to sleep.
 */
const provesAwakeMs = 60_000

export interface SleepOptions {
  readonly servers: Pick<Servers, 'state' | 'answers'>
  /** The session with a cluster, where there is one. */
  readonly session: () =>
    | {
        readonly cluster: Pick<Cluster, 'reconnect'>
        readonly publisher: Pick<WaysToPublish, 'withdrawAll'>
        readonly reconciler: { enqueue(key: string): void; enqueueAll(): void }
      }
    | undefined
  readonly log: Logger
  /** The machine woke, perhaps in another network, or with its plug pulled. */
  readonly refresh?: () => Promise<unknown>
}

/** What is done around a sleep of this machine: nothing is published while it sleeps, nor after it before its server has answered. */
export class Sleep {
  readonly #options: SleepOptions
  #isAsleep = false
  /** Ticks in a row that came on time since the sleep was announced. */
  #ticksAwake = 0
  /** Services whose servers have not answered since the machine woke. */
  readonly #unverified = new Set<string>()
  readonly #ticks: Disposable
  #ended = new AbortController()

  constructor(options: SleepOptions) {
    this.#options = options
    this.#ticks = watchLateTicks({
      onLate: (lateMs) => this.#stoodStill(lateMs),
      onTime: () => this.#ticked(),
    })
  }

  /** Why no requests are to be sent to the server of this service. */
  silenceOf(key: string): 'asleep' | 'unverified' | undefined {
    if (this.#isAsleep) return 'asleep'
    return this.#unverified.has(key) ? 'unverified' : undefined
  }

  /** The machine is about to sleep. Resolves when nothing is published, or the time is up; models stay in memory. */
  async suspend(): Promise<void> {
    const { session, log } = this.#options
    this.#isAsleep = true
    this.#ticksAwake = 0
    this.#stopVerifying()
    const { publisher, reconciler } = session() ?? {}
    const unfinished = (await publisher?.withdrawAll(withdrawLimitMs)) ?? []
    for (const { key, message: reason } of unfinished) log.warn('not withdrawn', { key, reason })
    reconciler?.enqueueAll()
    log.info('about to sleep', { withdrawn: unfinished.length === 0 })
  }

  /**
   * The machine woke, or may have slept without saying so. Everything is read again; what was withdrawn is published when its server has
   * answered, and what was not is withdrawn where its server does not. Resolves when each has answered or is no longer ready.
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
    await this.#refresh()
    log.info('awake', { servers: ready.size, wasAnnounced: wasAsleep })
    await Promise.all([...ready].map(([key, { port }]) => this.#verify({ key, port }, signal)))
    if (wasAsleep) session()?.reconciler.enqueueAll()
  }

  [Symbol.dispose](): void {
    this.#ticks[Symbol.dispose]()
    this.#stopVerifying()
  }

  /** So that nothing is published for a moment as it was before the sleep. */
  async #refresh(): Promise<void> {
    const { refresh, log } = this.#options
    try {
      await within(lookLimitMs, refresh?.())
    } catch (error) {
      log.error('not checked after a sleep', { error })
    }
  }

  /** The end of an announced sleep is announced too; where it is not, the ticks that follow show it. */
  #stoodStill(lateMs: number): void {
    this.#ticksAwake = 0
    if (this.#isAsleep) return
    const text = 'this machine may have slept: everything is checked again'
    this.#options.log.warn('stood still', { lateMs: Math.round(lateMs), text })
    this.#resumeAlone()
  }

  #ticked(): void {
    if (!this.#isAsleep || ++this.#ticksAwake * defaultEveryMs <= provesAwakeMs) return
    this.#options.log.warn('no sleep', {
      text: 'a sleep was announced, but this machine is awake: everything is checked again',
    })
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
    // A server that is no longer ready is withdrawn for that, and is healthy again once it answers a probe.
    while (isReady() && !isOver()) {
      const answer = await servers.answers(key, answerWithinMs, signal)
      if (isOver() || !answer) break
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

  /** A service whose server has not answered stays silent: a sleep that follows at once, or a second announcement, proves nothing. */
  #stopVerifying(): void {
    this.#ended.abort()
    this.#ended = new AbortController()
  }
}
