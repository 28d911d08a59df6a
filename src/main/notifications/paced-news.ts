import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { grouped, lossDueAt, newsIn, type News, type Watched } from './news.ts'

export interface PacedNewsOptions {
  readonly show: (news: News) => void
  /** A person wants notifications. */
  readonly isWanted: () => boolean
  readonly now?: () => number
}

/** News within this time are shown together. */
const gatherMs = 2_000
/** Between notifications, whatever happens. */
const quietMs = 15_000
/** The same news is not shown again for this long: a model that serves for a minute and crashes again is no news. */
const sameAgainMs = 600_000

/** Tells a person what is new, never more than they can read. */
export class PacedNews {
  readonly #options: PacedNewsOptions
  readonly #now: () => number
  #watched: Watched | undefined
  #snapshot: AgentSnapshot | undefined
  #waiting = new Map<string, News>()
  readonly #gatheredAt = new Map<string, number>()
  #shownAt = -Infinity
  #flush: NodeJS.Timeout | undefined
  #lossCheck: NodeJS.Timeout | undefined

  constructor(options: PacedNewsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  next(snapshot: AgentSnapshot): void {
    this.#snapshot = snapshot
    const { watched, news } = newsIn(this.#watched, snapshot, this.#now())
    this.#watched = watched
    if (this.#options.isWanted()) this.#gather(news)
    this.#followLoss(watched)
  }

  /** The cluster could not be seen while this machine slept. */
  woke(): void {
    const watched = this.#watched
    if (watched?.cluster.lostAt === undefined) return
    this.#watched = { ...watched, cluster: { ...watched.cluster, lostAt: this.#now() } }
  }

  stop(): void {
    clearTimeout(this.#flush)
    clearTimeout(this.#lossCheck)
  }

  #gather(news: readonly News[]): void {
    const now = this.#now()
    for (const one of news) {
      if (one.isPaced !== true && now - (this.#gatheredAt.get(one.id) ?? -Infinity) < sameAgainMs) continue
      this.#gatheredAt.set(one.id, now)
      this.#waiting.set(one.id, one)
    }
    if (this.#waiting.size === 0 || this.#flush) return
    this.#flush = setTimeout(() => this.#showAll(), Math.max(gatherMs, this.#shownAt + quietMs - now))
  }

  #showAll(): void {
    this.#flush = undefined
    const waiting = [...this.#waiting.values()]
    this.#waiting = new Map()
    for (const [id, at] of this.#gatheredAt) if (this.#now() - at >= sameAgainMs) this.#gatheredAt.delete(id)
    // It may have been turned off meanwhile.
    if (!this.#options.isWanted()) return
    this.#shownAt = this.#now()
    for (const one of grouped(waiting)) this.#options.show(one)
  }

  /** A timer checks for a lasting loss, since no snapshot comes while nothing changes. */
  #followLoss({ cluster }: Watched): void {
    clearTimeout(this.#lossCheck)
    const dueAt = lossDueAt(cluster)
    if (dueAt === undefined) return
    this.#lossCheck = setTimeout(
      () => {
        if (this.#snapshot) this.next(this.#snapshot)
      },
      Math.max(0, dueAt - this.#now()) + 1,
    )
  }
}
