import { untilAborted } from '../util/until-aborted.ts'

/** The work's view of the callers that wait for it. */
export interface Waiters<News> {
  /** Aborted when the last of them has left. */
  readonly signal: AbortSignal
  /** The latest progress is told to callers that join later too. */
  readonly tell: (news: News) => void
}

export interface JoinOptions<Result, News, About> {
  /** What the work is about, for those who list it. */
  readonly about?: About
  /** Begun only where none of this key is running. */
  readonly work: (waiters: Waiters<News>) => Promise<Result>
  readonly signal: AbortSignal
  readonly onNews: (news: News) => void
}

/** The result, as long as it is held. */
export interface Share<Result> {
  readonly result: Result
  /** True where no other caller holds it: later callers then wait for its release, and begin a new one. */
  readonly takeAlone: () => boolean
  readonly release: () => Promise<void>
}

interface Job<Result, News, About> {
  readonly about: About | undefined
  readonly ending: AbortController
  /** The callers that wait for the result, or hold it. */
  readonly holders: Set<{ readonly onNews: (news: News) => void }>
  news: News | undefined
  /** Callers can no longer join it. */
  isClosed: boolean
  isOver: boolean
  readonly done: Promise<Result>
  /** When the next of this key may begin. */
  readonly over: PromiseWithResolvers<undefined>
}

/**
 * Work that several callers share: the first of a key begins it, all hear of its progress and get its result or its error, and it is
 * aborted when the last of them leaves. As long as a caller holds the result, later callers get it as well.
 */
export class SharedWork<Result, News, About = undefined> {
  readonly #jobs = new Map<string, Job<Result, News, About>>()
  readonly #onLetGo: ((result: Result) => Promise<void>) | undefined

  /** `onLetGo`: when the last holder of a result let go; the next work of its key begins after it. */
  constructor({ onLetGo }: { readonly onLetGo?: (result: Result) => Promise<void> } = {}) {
    this.#onLetGo = onLetGo
  }

  /** Running, or finished and held. */
  get keys(): ReadonlySet<string> {
    return new Set(this.#jobs.keys())
  }

  get jobs(): { readonly about: About | undefined; readonly callers: number; readonly news: News | undefined }[] {
    return [...this.#jobs.values()].map(({ about, holders, news }) => ({ about, callers: holders.size, news }))
  }

  /** Throws what the work throws, or the signal's reason: for the last one to leave, when the work has ended. */
  async join(key: string, { about, work, signal, onNews }: JoinOptions<Result, News, About>): Promise<Share<Result>> {
    signal.throwIfAborted()
    let job = this.#jobs.get(key)
    while (job?.isClosed === true) {
      await untilAborted(job.over.promise, signal)
      job = this.#jobs.get(key)
    }
    return this.#hold(key, job ?? this.#begin(key, about, work), signal, onNews)
  }

  /** When all that is under way by now is over. */
  async idle(): Promise<void> {
    await Promise.all([...this.#jobs.values()].map(({ over }) => over.promise))
  }

  #begin(
    key: string,
    about: About | undefined,
    work: (waiters: Waiters<News>) => Promise<Result>,
  ): Job<Result, News, About> {
    const result = Promise.withResolvers<Result>()
    const job: Job<Result, News, About> = {
      ...{ about, ending: new AbortController(), holders: new Set(), news: undefined },
      ...{ isClosed: false, isOver: false, done: result.promise, over: Promise.withResolvers<undefined>() },
    }
    const tell = (news: News): void => {
      job.news = news
      for (const { onNews } of job.holders) onNews(news)
    }
    result.resolve(work({ signal: job.ending.signal, tell }))
    this.#jobs.set(key, job)
    job.done.catch(() => this.#end(key, job))
    return job
  }

  async #hold(
    key: string,
    job: Job<Result, News, About>,
    signal: AbortSignal,
    onNews: (news: News) => void,
  ): Promise<Share<Result>> {
    const holder = { onNews }
    const left = Promise.withResolvers<never>()
    const leave = (): void => {
      job.holders.delete(holder)
      if (job.holders.size === 0) {
        job.isClosed = true
        job.ending.abort(signal.reason)
      }
      left.reject(signal.reason)
    }
    const letGo = async (result: Result): Promise<void> => {
      job.holders.delete(holder)
      if (job.holders.size > 0 || job.isOver) return
      job.isOver = true
      job.isClosed = true
      try {
        await this.#onLetGo?.(result)
      } finally {
        this.#end(key, job)
      }
    }
    job.holders.add(holder)
    signal.addEventListener('abort', leave, { once: true })
    if (job.news !== undefined) onNews(job.news)
    try {
      const result = await Promise.race([job.done, left.promise])
      signal.throwIfAborted()
      return {
        result,
        takeAlone: () => {
          job.isClosed ||= job.holders.size === 1
          return job.holders.size === 1
        },
        release: () => letGo(result),
      }
    } catch (error) {
      job.holders.delete(holder)
      if (job.holders.size === 0) await job.done.then(letGo, () => undefined)
      throw error
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  #end(key: string, job: Job<Result, News, About>): void {
    if (this.#jobs.get(key) === job) this.#jobs.delete(key)
    job.over.resolve(undefined)
  }
}
