import { isDeepStrictEqual } from 'node:util'
import { seesFigures, type Looker } from '../../../contract/client.ts'
import type { RuntimeFigures as RuntimeFiguresView } from '../../../contract/service.ts'
import { formatDecimal, formatShare, formatTokenRate } from '../../../contract/format.ts'
import type { CountersReading, RuntimeCounters } from '../probe.ts'
import type { CountedServer } from '../service-server.ts'
import { steadyNow, wallTimeOf } from '../../util/steady-clock.ts'
import type { Use } from '../poller.ts'
import { OwnPace, type Slowness } from './own-pace.ts'
import { addTo, RunCounts, type RuntimeTotals } from './run-counts.ts'

export interface RuntimeFiguresOptions {
  /** The servers that run now. */
  readonly servers: () => readonly CountedServer[]
  /** Every server was asked; complete: each answered, so that the totals are as of now. */
  readonly onAsked?: (answers: { readonly isComplete: boolean }) => void
  /** Called when a figure has changed. */
  readonly onChange: () => void
  /** The steady clock, unless stated. */
  readonly now?: () => number
}

const menuEveryMs = 5_000
const windowEveryMs = 2_000
/** For so long an answer that did not come is that of a busy server. */
const silenceMs = 15_000
/** Totals kept of services that are gone; those of existing services are never dropped. */
const maxTotals = 1_000

interface Run {
  readonly counts: RunCounts
  readonly since: number
  answer: 'counted' | 'untold' | 'silent'
}

/**
 * What the servers say of their own work: every reading of their counters is noted here, whoever asked for it. They are asked for it while a
 * menu or a window looks, and by `refresh`.
 */
export class RuntimeFigures implements AsyncDisposable {
  readonly #options: RuntimeFiguresOptions
  readonly #now: () => number
  readonly #pace = new OwnPace()
  /** By run. */
  readonly #runs = new Map<string, Run>()
  readonly #totals = new Map<string, RuntimeTotals>()
  #views: ReadonlyMap<string, RuntimeFiguresView> = new Map()
  #everyMs: number | undefined
  #next: NodeJS.Timeout | undefined
  /** Drops figures that nobody refreshes, so that old ones are not shown as current. */
  #hide: NodeJS.Timeout | undefined
  #round: Promise<void> | undefined
  #isEnded = false

  constructor(options: RuntimeFiguresOptions) {
    this.#options = options
    this.#now = options.now ?? steadyNow
  }

  /** Asks at once, and then again and again until nobody looks. */
  setLooker(looker: Looker | undefined): void {
    if (this.#isEnded) return
    this.#everyMs = seesFigures(looker) ? (looker === 'menu' ? menuEveryMs : windowEveryMs) : undefined
    clearTimeout(this.#next)
    if (this.#everyMs === undefined) this.#show(new Map())
    else void this.#keepAsking()
  }

  /** Asks every server once, for as long as one second; calls join. Never rejects. */
  refresh(): Promise<void> {
    if (this.#isEnded) return Promise.resolve()
    this.#round ??= this.#askAll().finally(() => (this.#round = undefined))
    return this.#round
  }

  /** Every reading of a server that still runs. */
  note(
    server: Pick<CountedServer, 'key' | 'digest' | 'isFound' | 'run'>,
    { counters, askedAt }: CountersReading,
  ): void {
    const { key, digest, isFound } = server
    const run = this.#run(server)
    run.answer = 'counted'
    const isFirst = run.counts.last === undefined
    const stretch = run.counts.add({ counters, askedAt, at: this.#now() })
    // What a server that was found running counted before, an earlier agent has counted.
    const more = stretch ?? (isFirst && !isFound ? counters : {})
    this.#totals.set(key, addTo(this.#totals.get(key) ?? {}, more))
    const { generatedTokens = 0, generationSeconds = 0 } = stretch ?? {}
    if (!stretch?.isOneRequest) return
    const { at, contextTokens } = stretch
    this.#pace.add({ at, digest, contextTokens, generatedTokens, seconds: generationSeconds })
  }

  /** Undefined where no server of the key was asked, or none is ready. */
  view(key: string): RuntimeFiguresView | undefined {
    return this.#views.get(key)
  }

  /**
   * By key: what was counted since this agent began, as of the last look at each server; over restarts and swaps of servers it only
   * rises. `refresh` brings it up to date.
   */
  totals(): ReadonlyMap<string, RuntimeTotals> {
    return this.#totals
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#next)
    clearTimeout(this.#hide)
    this.#everyMs = undefined
    await this.#round
  }

  async #keepAsking(): Promise<void> {
    await this.refresh()
    clearTimeout(this.#next)
    if (this.#everyMs !== undefined) this.#next = setTimeout(() => void this.#keepAsking(), this.#everyMs).unref()
  }

  async #askAll(): Promise<void> {
    const { servers } = this.#options
    const answers = await Promise.all(servers().map((server) => this.#ask(server)))
    if (this.#isEnded) return
    this.#forgetGone()
    this.#options.onAsked?.({ isComplete: !answers.includes('silent') && !answers.includes('cannotAsk') })
    this.#show(new Map(servers().flatMap((server) => this.#viewOf(server))))
    clearTimeout(this.#hide)
    if (this.#everyMs === undefined) this.#hide = setTimeout(() => this.#show(new Map()), silenceMs).unref()
  }

  #show(views: ReadonlyMap<string, RuntimeFiguresView>): void {
    const isSame = isDeepStrictEqual(views, this.#views)
    this.#views = views
    if (!isSame) this.#options.onChange()
  }

  async #ask(server: CountedServer): Promise<Use['answer']> {
    if (server.sleepsWhenIdle || !server.isWell) return 'notAsked'
    // No earlier answer will do, since totals count as of now; a question under way is shared.
    const { answer } = await server.look()
    // A run that ended meanwhile may be forgotten already: as a new one its whole count would come again.
    if (!this.#options.servers().some(({ run }) => run === server.run)) return 'notAsked'
    if (answer === 'untold' || answer === 'silent') this.#run(server).answer = answer
    return answer
  }

  #run({ run }: Pick<CountedServer, 'run'>): Run {
    const known = this.#runs.get(run)
    if (known) return known
    const begun: Run = { counts: new RunCounts(), since: this.#now(), answer: 'silent' }
    this.#runs.set(run, begun)
    this.#forgetGone()
    return begun
  }

  #forgetGone(): void {
    const present = this.#options.servers()
    const runs = new Set(present.map(({ run }) => run))
    const keys = new Set(present.map(({ key }) => key))
    for (const run of this.#runs.keys()) if (!runs.has(run)) this.#runs.delete(run)
    for (const key of this.#totals.keys()) {
      if (this.#totals.size <= maxTotals) return
      if (!keys.has(key)) this.#totals.delete(key)
    }
  }

  #viewOf(server: CountedServer): [key: string, view: RuntimeFiguresView][] {
    const { key, digest, sleepsWhenIdle } = server
    if (!server.isWell) return []
    if (sleepsWhenIdle) return [[key, notReported(asked.never)]]
    const run = this.#runs.get(server.run)
    if (!run) return []
    const now = this.#now()
    const { last, movedAt } = run.counts
    if (run.answer === 'untold') return [[key, notReported(asked.inVain)]]
    if (last && (run.answer === 'counted' || now - last.at <= silenceMs)) {
      const lastRequestAt = movedAt === undefined ? undefined : wallTimeOf(movedAt).toISOString()
      const slowness = this.#pace.slowness(digest, now)
      return [[key, figuresOf({ counters: last.counters, rates: run.counts.rates(now), lastRequestAt, slowness })]]
    }
    return last || now - run.since > silenceMs ? [[key, notReported(asked.withoutAnswer)]] : []
  }
}

const asked = {
  never: 'Its figures are not read: a server that sleeps when idle would count that as a request.',
  inVain: 'Its runtime reports no figures that this agent understands.',
  withoutAnswer: 'Its runtime does not answer when asked for its figures.',
} as const

const notReported = (message: string): RuntimeFiguresView => ({ state: 'notReported', message })

interface Known {
  readonly counters: RuntimeCounters
  readonly rates: { readonly prompt?: number; readonly generation?: number }
  readonly lastRequestAt: string | undefined
  readonly slowness: Slowness | undefined
}

/** The figures as people see them, rounded. */
function figuresOf({ counters, rates, lastRequestAt, slowness }: Known): RuntimeFiguresView {
  const { requestsRunning, requestsWaiting, kvUse } = counters
  return {
    state: 'reported',
    ...(rates.prompt !== undefined && { promptTokensPerSecond: tenths(rates.prompt) }),
    ...(rates.generation !== undefined && { generatedTokensPerSecond: tenths(rates.generation) }),
    ...(requestsRunning !== undefined && { requestsRunning: Math.round(requestsRunning) }),
    ...(requestsWaiting !== undefined && { requestsWaiting: Math.round(requestsWaiting) }),
    ...(kvUse !== undefined && { kvUse: Math.round(kvUse * 1_000) / 1_000 }),
    ...(lastRequestAt !== undefined && { lastRequestAt }),
    ...(slowness && { slow: slowSentence(slowness) }),
  }
}

/** Rounded, so that it stays the same while nothing changes that a person can tell. */
const tenths = (rate: number): number => Math.round(rate * 10) / 10

const slowSentence = ({ perSecond, usual }: Slowness): string =>
  `Generates ${formatTokenRate(perSecond)}, ${formatShare(1 - perSecond / usual)} less than the ${formatDecimal(usual)} it reached before: this machine may be too hot, or something else uses its GPU.`
