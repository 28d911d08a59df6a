import { uptime } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PanicFuseView } from '../../contract/power.ts'
import type { History } from '../history/history.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { isOver } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { StateFile } from '../state/state-file.ts'
import { awakeTimeout, type AwakeTimeout } from '../util/awake-timeout.ts'
import {
  cutShort,
  fuseFile,
  fuseSentence,
  heldSentence,
  nothingEnded,
  noticedSentence,
  outlived,
  servedAgain,
  turnSentence,
  verdictOn,
  withAgent,
  withEnd,
  withReport,
  withReported,
  type AskedStart,
  type FuseState,
  type NotedStart,
  type StartVerdict,
} from './fuse-state.ts'

export interface FuseTimings {
  /** A machine that stays up this long after a model start does not end because of it. */
  readonly outliveMs: number
  /** All models that are to start ask within this time; then it is known which is the smallest. */
  readonly gatherMs: number
  /** How often, and how many times, the panic report is looked for after the boot. */
  readonly reportEveryMs: number
  readonly reportLooks: number
}

const fuseTimings: FuseTimings = { outliveMs: 30 * 60_000, gatherMs: 10_000, reportEveryMs: 60_000, reportLooks: 10 }
/** Each step towards `outliveMs` wakes the processor. */
const longestStepMs = 30_000

export interface PanicFuseOptions {
  readonly stateDir: string
  readonly platform: Pick<Platform, 'hasPanicReportSince'>
  readonly servers: Pick<Servers, 'onChange' | 'state'>
  readonly memory: {
    readonly budget?: { readonly bytes: number } | undefined
    listen(listener: { readonly onSample: () => void }): unknown
  }
  readonly history: Pick<History, 'add'>
  readonly log: Logger
  /** Its service may ask again. */
  readonly enqueue: (key: string) => void
  readonly onChange: () => void
  readonly timings?: Partial<FuseTimings> | undefined
  readonly now?: () => number
  /** Since the machine started. */
  readonly uptimeMs?: () => number
}

/** Why a model is not started now, after the machine ended while models ran. */
export interface FuseObstacle {
  readonly reason: 'HeldAfterPanic' | 'StartsInTurn'
  readonly message: string
}

interface WaitingModel extends AskedStart {
  /** Digest of the server that is to start: another one may be smaller. */
  readonly of: string
}

interface OutlivingStart {
  readonly at: number
  /** Time awake until it counts as survived, counted from the end of the timer that runs now. */
  readonly leftMs: number
}

/**
 * Keeps models from taking this machine down again and again: after one disorderly end they start one by one; after two, or a kernel
 * panic, large ones wait for a person. Its state survives the agent.
 */
export class PanicFuse implements Disposable {
  readonly notice: string | undefined
  readonly #options: PanicFuseOptions
  readonly #timings: FuseTimings
  readonly #now: () => number
  readonly #file: StateFile<FuseState>
  readonly #leave: () => void
  readonly #reportLooks = new AbortController()
  /** What counts, even where the disk did not take it. */
  #state: FuseState
  #bootId = ''
  readonly #waiting = new Map<string, WaitingModel>()
  /** The key whose model may load now. */
  #current: string | undefined
  /** While it runs, others may ask and be smaller. */
  #gather: NodeJS.Timeout | undefined
  #outliving: AwakeTimeout | undefined
  /** The latest start since the one that `#outliving` waits for. */
  #nextOutliving: OutlivingStart | undefined
  /** As of the last look at memory. */
  #budgetBytes: number | undefined
  #isDisposed = false

  private constructor(options: PanicFuseOptions, file: StateFile<FuseState>) {
    const { servers, memory, timings, now = Date.now } = options
    this.#options = options
    this.#timings = { ...fuseTimings, ...timings }
    this.#now = now
    this.#file = file
    this.#state = file.value
    this.notice = file.notice
    this.#budgetBytes = memory.budget?.bytes
    memory.listen({ onSample: () => this.#followBudget() })
    this.#leave = servers.onChange((key, state) => {
      if (state.kind === 'starting' && state.unasked !== true) this.#started(this.#now())
      if (state.kind !== 'ready' && !isOver(state)) return
      if (this.#current === key) this.#current = undefined
      this.#wake()
    })
  }

  /** Throws StateFileError. */
  static async open(options: PanicFuseOptions): Promise<PanicFuse> {
    const file = await StateFile.open<FuseState>({
      file: join(options.stateDir, 'panic-fuse.json'),
      schema: fuseFile,
      initial: nothingEnded,
      keeps: 'how this machine last went down, and which models are held back because of it',
      maxBytes: 65_536,
    })
    return new PanicFuse(options, file)
  }

  /**
   * To be called before the ledger forgets what an earlier boot ran (`starts`), and before anything is started. `bootId` is empty where
   * the system does not say. Never rejects.
   */
  async booted({ bootId, starts }: { readonly bootId: string; readonly starts: readonly NotedStart[] }): Promise<void> {
    this.#bootId = bootId
    const cut = cutShort(this.#state, bootId, starts)
    const before = this.#state
    const noticedAt = new Date(this.#now()).toISOString()
    const last = latestOf(cut)
    const hasReport = cut.length > 0 && (await this.#hasReportSince(last))
    await this.#note((state) => withAgent(withEnd(state, cut, { noticedAt, hasReport }), null))
    if (this.#state.ends !== before.ends) this.#tellNoticed()
    if (cut.length > 0 && !hasReport) void this.#lookForReport(last)
    const ours = starts.filter((start) => start.bootId === bootId)
    if (ours.length === 0) return
    // Whatever the clock says, a start is neither later than now nor earlier than the boot.
    const uptimeMs = (this.#options.uptimeMs ?? systemUptimeMs)()
    this.#started(latestOf(ours), Math.min(Math.max(0, this.#now() - latestOf(ours)), uptimeMs))
  }

  /** The agent was asked to end while models run: an end of the machine that follows is an orderly one. Never rejects. */
  async leaving(): Promise<void> {
    const runs = [...this.#options.servers.state().values()].some((state) => !isOver(state))
    // Written before anything else: a machine that is shut down may not wait for more.
    if (runs) await this.#note((state) => withAgent(state, this.#bootId))
  }

  /** Whether the model may start now. If it may, it has the turn until it has loaded, ended, or {@link forget} is called. */
  ask(key: string, of: string, needBytes: number | undefined): FuseObstacle | undefined {
    if (this.#isOff) return undefined
    if (!this.#waiting.has(key)) this.#gatherMore()
    const start = { key, of, needBytes }
    this.#waiting.set(key, start)
    const obstacle = this.#obstacle(start)
    if (obstacle !== undefined) this.#options.onChange()
    else {
      this.#waiting.delete(key)
      this.#current = key
    }
    return obstacle
  }

  /** Whether the hold of this service has yet to be reported in the cluster; from now on it counts as reported, for later agents too. */
  isNews(key: string): boolean {
    if (this.#state.held === null || this.#state.told.includes(key)) return false
    void this.#note((state) => withReported(state, key))
    return true
  }

  /** What stands in the way of a start that was asked for. Undefined = it may ask. */
  obstacleOf(key: string, of: string | undefined): FuseObstacle | undefined {
    const start = this.#waiting.get(key)
    return start && start.of === of ? this.#obstacle(start) : undefined
  }

  /** This service is not to start, or cannot: others no longer wait for it. */
  forget(key: string): void {
    const isCurrent = this.#current === key
    if (isCurrent) this.#current = undefined
    if (this.#waiting.delete(key) || isCurrent) this.#wake()
  }

  forgetWhere(isLeft: (key: string) => boolean): void {
    const keys = [...this.#waiting.keys(), ...(this.#current === undefined ? [] : [this.#current])]
    for (const key of keys.filter(isLeft)) this.forget(key)
  }

  /** A person wants all models served. False where nothing is held or waits for its turn. Throws StateFileError; then nothing has changed. */
  async serveAgain(): Promise<boolean> {
    if (this.#isOff) return false
    await this.#file.update(() => servedAgain(this.#state))
    this.#state = servedAgain(this.#state)
    this.#reportLooks.abort()
    this.#wake()
    return true
  }

  get view(): PanicFuseView | undefined {
    if (this.#isOff) return undefined
    const { held, ends } = this.#state
    const waiting = [...this.#waiting.values()].filter((start) => this.#verdict(start).kind === 'held')
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
    this.#isDisposed = true
    this.#leave()
    this.#reportLooks.abort()
    this.#outliving?.clear()
    clearTimeout(this.#gather)
  }

  get #isOff(): boolean {
    return this.#state.held === null && this.#state.ends.length === 0
  }

  #obstacle(start: WaitingModel): FuseObstacle | undefined {
    const verdict = this.#verdict(start)
    switch (verdict.kind) {
      case 'go':
        return undefined
      case 'held':
        return {
          reason: 'HeldAfterPanic',
          message: heldSentence(this.#state, start, this.#options.memory.budget?.bytes),
        }
      case 'inTurn':
        return { reason: 'StartsInTurn', message: turnSentence(this.#state, verdict.behind) }
    }
  }

  #verdict(start: WaitingModel): StartVerdict {
    return verdictOn(start, {
      state: this.#state,
      budgetBytes: this.#options.memory.budget?.bytes,
      waiting: [...this.#waiting.values()],
      loading: this.#current ?? this.#loadingBesides(start.key),
      isGathering: this.#gather !== undefined,
    })
  }

  #loadingBesides(key: string): string | undefined {
    const loading = [...this.#options.servers.state()].find(
      ([other, state]) => other !== key && (state.kind === 'starting' || state.kind === 'loading'),
    )
    return loading?.[0]
  }

  #gatherMore(): void {
    clearTimeout(this.#gather)
    this.#gather = setTimeout(() => {
      this.#gather = undefined
      this.#wake()
    }, this.#timings.gatherMs).unref()
  }

  #followBudget(): void {
    const { budget } = this.#options.memory
    if (budget?.bytes === this.#budgetBytes) return
    this.#budgetBytes = budget?.bytes
    this.#wake()
  }

  #wake(): void {
    if (this.#isDisposed || this.#waiting.size === 0) return
    for (const key of this.#waiting.keys()) this.#options.enqueue(key)
    this.#options.onChange()
  }

  /**
   * Waits, in time awake, until the machine has survived this start. One timer runs at a time and none is restarted: a later start never
   * postpones an earlier one.
   */
  #started(at: number, agoMs = 0): void {
    const leftMs = Math.max(0, this.#timings.outliveMs - agoMs)
    if (this.#outliving) this.#nextOutliving = { at, leftMs: Math.max(0, leftMs - this.#outliving.leftMs) }
    else this.#outlive({ at, leftMs })
  }

  #outlive({ at, leftMs }: OutlivingStart): void {
    const onDue = (): void => {
      const next = this.#nextOutliving
      this.#outliving = undefined
      this.#nextOutliving = undefined
      if (next) this.#outlive(next)
      void this.#note((state) => outlived(state, new Date(at).toISOString(), this.#bootId)).then(() => this.#wake())
    }
    this.#outliving = awakeTimeout(onDue, leftMs, { longestStepMs })
  }

  /** Never rejects. */
  async #lookForReport(since: number): Promise<void> {
    const { reportEveryMs, reportLooks } = this.#timings
    const { signal } = this.#reportLooks
    // A person may have all models served again meanwhile, or the agent may end.
    const isOver = (): boolean => signal.aborted
    for (let looks = 0; looks < reportLooks; looks += 1) {
      await delay(reportEveryMs, undefined, { signal, ref: false }).catch(() => undefined)
      const isFound = !isOver() && (await this.#hasReportSince(since))
      if (isOver()) return
      if (!isFound) continue
      // Not news where the machine has survived that end meanwhile.
      const isNews = await this.#note((state) => withReport(state, new Date(this.#now()).toISOString()))
      if (isNews && !isOver()) {
        this.#tellNoticed()
        this.#wake()
      }
      return
    }
  }

  #hasReportSince(time: number): Promise<boolean> {
    const { platform, log } = this.#options
    return platform.hasPanicReportSince(new Date(time)).catch((error: unknown) => {
      log.warn('panic reports not read', { error })
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

  /** Counts at once, and is written where the disk allows. False where it changes nothing. */
  async #note(change: (state: FuseState) => FuseState): Promise<boolean> {
    const next = change(this.#state)
    if (next === this.#state) return false
    this.#state = next
    await this.#file
      .update(() => this.#state)
      .catch((error: unknown) => this.#options.log.warn('state of the panic fuse not written', { error }))
    return true
  }
}

const systemUptimeMs = (): number => uptime() * 1_000
const latestOf = (starts: readonly NotedStart[]): number =>
  Math.max(...starts.map(({ intendedAt }) => Date.parse(intendedAt)))
