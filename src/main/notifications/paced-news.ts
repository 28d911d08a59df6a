import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { lossDueAt, newsIn, type News, type Watched } from './news.ts'

export interface PacedNewsOptions {
  readonly show: (news: News) => void
  /** A person wants notifications. */
  readonly isWanted: () => boolean
  readonly now?: () => number
}

/** Tells a person what is new from one snapshot to the next. */
export class PacedNews {
  readonly #options: PacedNewsOptions
  readonly #now: () => number
  #watched: Watched | undefined
  #lossCheck: NodeJS.Timeout | undefined

  constructor(options: PacedNewsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  next(snapshot: AgentSnapshot): void {
    const { watched, news } = newsIn(this.#watched, snapshot, this.#now())
    this.#watched = watched
    if (this.#options.isWanted()) for (const one of news) this.#options.show(one)
    clearTimeout(this.#lossCheck)
    // A timer checks for a lasting loss, since no snapshot comes while nothing changes.
    const dueAt = lossDueAt(watched)
    if (dueAt !== undefined)
      this.#lossCheck = setTimeout(() => this.next(snapshot), Math.max(0, dueAt - this.#now()) + 1)
  }

  /** The cluster could not be seen while this machine slept. */
  woke(): void {
    const watched = this.#watched
    if (watched?.cluster.lostAt === undefined) return
    this.#watched = { ...watched, cluster: { ...watched.cluster, lostAt: this.#now() } }
  }
}
