import { uptime } from 'node:os'
import { join } from 'node:path'
import type { PanicFuseView } from '../../../contract/power.ts'
import type { History } from '../../history/history.ts'
import type { Logger } from '../../observability/logger.ts'
import type { Platform } from '../../platform/platform.ts'
import type { Servers } from '../../servers/servers.ts'
import { isOver } from '../../servers/server-state.ts'
import { StateFile } from '../../state/state-file.ts'
import { fuseFile, nothingEnded, type FuseState } from './fuse-state.ts'
import { fuseSentence, heldSentence, noticedSentence, turnSentence } from './fuse-words.ts'
import { isFoundLater } from './late-report.ts'
import { cutShort, isInTurn, outlived, servedAgain, withAgent, withEnd, withReport, withTold } from './machine-end.ts'
import type { Boot } from './machine-end.ts'
import { OutlivedStarts } from './outlived-starts.ts'
import { verdictOn, type StartVerdict } from './start-order.ts'
import { StartTurns, type WaitingModel } from './start-turns.ts'

export interface FuseTimings {
  /** A machine that lives on for so long after a model was started does not end because of it. */
  readonly outliveMs: number
  /** All that are to start ask within so long; then it is known which is the smallest. */
  readonly gatherMs: number
  /** How often, and how many times, the report of a panic is looked for after the boot. */
  readonly reportEveryMs: number
  readonly reportLooks: number
}

const fuseTimings: FuseTimings = { outliveMs: 30 * 60_000, gatherMs: 10_000, reportEveryMs: 60_000, reportLooks: 10 }

export interface PanicFuseOptions {
  readonly stateDir: string
  readonly platform: Pick<Platform, 'hasPanicReportSince'>
  readonly servers: Pick<Servers, 'onChange' | 'state'>
  /** Undefined where it is not known. */
  readonly budgetBytes: () => number | undefined
  readonly history: Pick<History, 'add'>
  readonly log: Logger
  /** Its service may ask again. */
  readonly enqueue: (key: string) => void
  readonly onChange: () => void
  readonly timings?: Partial<FuseTimings>
  readonly now?: () => number
  /** Since the machine started. */
  readonly uptimeMs?: () => number
}

const uptimeMs = (): number => uptime() * 1_000

/** Why a model is not started now, after the machine ended while models ran. */
export interface FuseObstacle {
  readonly reason: 'HeldAfterPanic' | 'StartsInTurn'
  readonly message: string
}

/**
 * Keeps a machine that models take down from doing so again and again: after one disorderly end they start one by one, after more, or a
 * panic, large ones wait for a person. What it knows outlives the agent.
 */
export class PanicFuse implements Disposable {
  readonly notice: string | undefined
  readonly #options: PanicFuseOptions
  readonly #timings: FuseTimings
  readonly #now: () => number
  readonly #file: StateFile<FuseState>
  readonly #turns: StartTurns
  readonly #leave: () => void
  readonly #starts: OutlivedStarts
  /** For the report of a panic, which may come late. */
  readonly #looks = new AbortController()
  /** Of what counts although the disk may not have taken it. */
  #state: FuseState
  #bootId = ''
  #isDisposed = false

  private constructor(options: PanicFuseOptions, file: StateFile<FuseState>) {
    this.#options = options
    this.#timings = { ...fuseTimings, ...options.timings }
    this.#now = options.now ?? Date.now
    this.#file = file
    this.#state = file.value
    this.notice = file.notice
    this.#turns = new StartTurns(this.#timings.gatherMs, () => this.#wake())
    this.#starts = new OutlivedStarts(this.#timings.outliveMs, (startedAt) => void this.#outlived(startedAt))
    this.#leave = options.servers.onChange((key, state) => {
      if (state.kind === 'starting' && state.unasked !== true) this.#starts.started(this.#now())
      if (state.kind === 'ready' || isOver(state)) this.#turns.loaded(key)
    })
  }

  /** Throws StateFileError. */
  static async open(options: PanicFuseOptions): Promise<PanicFuse> {
    const file = await StateFile.open<FuseState>({
      file: join(options.stateDir, 'panic-fuse.json'),
      schema: fuseFile,
      initial: nothingEnded,
      keeps: 'how this machine ended before, and which models wait for that',
      maxBytes: 65_536,
    })
    return new PanicFuse(options, file)
  }

  /** To be told before the ledger forgets what an earlier boot ran, and before anything is started. Never rejects. */
  async booted({ bootId, starts }: Boot): Promise<void> {
    this.#bootId = bootId
    const cut = cutShort(this.#state, bootId, starts)
    const before = this.#state
    const noticedAt = new Date(this.#now()).toISOString()
    const last = Math.max(...cut.map(({ intendedAt }) => Date.parse(intendedAt)))
    const hasReport = cut.length > 0 && (await this.#hasReportSince(last))
    await this.#note((state) => withAgent(withEnd(state, cut, { noticedAt, hasReport }), null))
    if (this.#state.ends !== before.ends) this.#tellNoticed()
    if (cut.length > 0 && !hasReport) void this.#lookForReport(last)
    const ours = starts.filter((start) => start.bootId === bootId).map(({ intendedAt }) => Date.parse(intendedAt))
    const latest = Math.max(...ours)
    // A clock that was set since makes no start later than now, nor earlier than the boot.
    const agoMs = Math.min(Math.max(0, this.#now() - latest), (this.#options.uptimeMs ?? uptimeMs)())
    if (ours.length > 0) this.#starts.started(latest, agoMs)
  }

  /** The agent was asked to end while models run: an end of the machine that follows is an orderly one. Never rejects. */
  async leaving(): Promise<void> {
    const runs = [...this.#options.servers.state().values()].some((state) => !isOver(state))
    // First of all: a machine that is shut down may not wait for more.
    if (runs && this.#bootId !== '') await this.#note((state) => withAgent(state, this.#bootId))
  }

  /** Whether the model may start now; where it may, it has the turn until it has loaded, ended, or {@link forget} is called. */
  ask(key: string, of: string, needBytes: number | undefined): FuseObstacle | undefined {
    if (this.#isOff) return undefined
    const start = { key, of, needBytes }
    this.#turns.wait(start)
    const obstacle = this.#obstacle(start)
    if (obstacle === undefined) this.#turns.take(key)
    else this.#options.onChange()
    return obstacle
  }

  /** Whether the hold of this service is yet to be told in the cluster; from now on it is told, for later agents as well. */
  isNews(key: string): boolean {
    if (this.#state.held === null || this.#state.told.includes(key)) return false
    void this.#note((state) => withTold(state, key))
    return true
  }

  /** Of a start that was asked for: what stands in its way now. Undefined = it may ask. */
  obstacleOf(key: string, of: string | undefined): FuseObstacle | undefined {
    const start = this.#turns.waiting.get(key)
    return start && start.of === of ? this.#obstacle(start) : undefined
  }

  /** It is not to start, or cannot: others wait no longer for it. */
  forget(key: string): void {
    this.#turns.forget(key)
  }

  forgetWhere(isLeft: (key: string) => boolean): void {
    for (const key of this.#turns.keys()) if (isLeft(key)) this.forget(key)
  }

  budgetChanged(): void {
    if (this.#turns.waiting.size > 0) this.#wake()
  }

  /** A person wants all models served. False where nothing is held and nothing waits its turn. Throws StateFileError; then nothing has changed. */
  async serveAgain(): Promise<boolean> {
    if (this.#isOff) return false
    await this.#file.update(() => servedAgain(this.#state))
    this.#state = servedAgain(this.#state)
    this.#looks.abort()
    this.#wake()
    return true
  }

  get view(): PanicFuseView | undefined {
    if (this.#isOff) return undefined
    const { held, ends } = this.#state
    const waiting = [...this.#turns.waiting.values()].filter((start) => this.#verdict(start).kind === 'held')
    return {
      state: held === null ? 'inTurn' : 'held',
      since: held?.since ?? ends[0]?.noticedAt ?? new Date(this.#now()).toISOString(),
      message: fuseSentence(
        this.#state,
        waiting.map(({ key }) => key),
      ),
    }
  }

  [Symbol.dispose](): void {
    this.#leave()
    this.#isDisposed = true
    this.#looks.abort()
    this.#starts[Symbol.dispose]()
    this.#turns[Symbol.dispose]()
  }

  get #isOff(): boolean {
    return this.#state.held === null && !isInTurn(this.#state)
  }

  #obstacle(start: WaitingModel): FuseObstacle | undefined {
    const verdict = this.#verdict(start)
    switch (verdict.kind) {
      case 'go':
        return undefined
      case 'held':
        return {
          reason: 'HeldAfterPanic',
          message: heldSentence(this.#state, start, this.#options.budgetBytes()),
        }
      case 'inTurn':
        return { reason: 'StartsInTurn', message: turnSentence(this.#state, verdict.behind) }
    }
  }

  #verdict(start: WaitingModel): StartVerdict {
    return verdictOn(start, {
      isInTurn: isInTurn(this.#state),
      isHeld: this.#state.held !== null,
      budgetBytes: this.#options.budgetBytes(),
      waiting: [...this.#turns.waiting.values()],
      loading: this.#turns.current ?? this.#loadingBesides(start.key),
      isGathering: this.#turns.isGathering,
    })
  }

  #loadingBesides(key: string): string | undefined {
    const loading = [...this.#options.servers.state()].find(
      ([other, state]) => other !== key && (state.kind === 'starting' || state.kind === 'loading'),
    )
    return loading?.[0]
  }

  #wake(): void {
    if (this.#isDisposed) return
    for (const key of this.#turns.waiting.keys()) this.#options.enqueue(key)
    this.#options.onChange()
  }

  async #outlived(startedAt: number): Promise<void> {
    const upTo = new Date(startedAt).toISOString()
    await this.#note((state) => outlived(state, upTo, this.#bootId))
    this.#wake()
  }

  /** Never rejects. */
  async #lookForReport(since: number): Promise<void> {
    const { reportEveryMs: everyMs, reportLooks: times } = this.#timings
    const { signal } = this.#looks
    if (!(await isFoundLater(() => this.#hasReportSince(since), { everyMs, times, signal }))) return
    const isNews = await this.#note((state) => withReport(state, new Date(this.#now()).toISOString()))
    // The machine may have outlived that end meanwhile, or a person may have had all models served again.
    if (!isNews || signal.aborted) return
    this.#tellNoticed()
    this.#wake()
  }

  #hasReportSince(time: number): Promise<boolean> {
    const { platform, log } = this.#options
    return platform.hasPanicReportSince(new Date(time)).catch((error: unknown) => {
      log.warn('reports of panics not seen', { error })
      return false
    })
  }

  #tellNoticed(): void {
    const { log, history, onChange } = this.#options
    const message = noticedSentence(this.#state)
    log.warn('the machine ended while models ran', { text: message })
    history.add({ kind: 'machineEnded', message })
    onChange()
  }

  /** At once; on disk where the disk takes it. False where it changes nothing. */
  async #note(change: (state: FuseState) => FuseState): Promise<boolean> {
    const next = change(this.#state)
    if (next === this.#state) return false
    this.#state = next
    await this.#file
      .update(() => this.#state)
      .catch((error: unknown) => {
        this.#options.log.warn('state of the panic fuse not written', { error })
      })
    return true
  }
}
