import { untilAborted } from '../util/until-aborted.ts'

/** The work's view of the callers that wait for it. */
export interface Waiters<News> {
  /** Aborted when the last of them has left. */
  readonly signal: AbortSignal
  /** The latest news is told to callers that join later too. */
  readonly tell: (news: News) => void
}

export interface JoinOptions<Result, News, About> {
  /** What the work is about, for those who list it. */
  readonly about: About
  /** Begun only where none of this key is running. */
  readonly work: (waiters: Waiters<News>) => Promise<Result>
  readonly signal: AbortSignal
  readonly onNews: (news: News) => void
}

interface Job<Result, News, About> {
  readonly about: About
  readonly ending: AbortController
  readonly callers: Set<{ readonly onNews: (news: News) => void }>
  news: News | undefined
  readonly done: Promise<Result>
}

/**
 * Work that several callers share: the first of a key begins it, all hear of its news and get its result or its error, and it is
 * aborted when the last of them leaves. A caller that comes while it is being aborted waits for its end and begins it again.
 */
export class SharedWork<Result, News, About> {
  readonly #jobs = new Map<string, Job<Result, News, About>>()

  get jobs(): { readonly about: About; readonly callers: number; readonly news: News | undefined }[] {
    return [...this.#jobs.values()].map(({ about, callers, news }) => ({ about, callers: callers.size, news }))
  }

  /** Throws what the work throws, or the signal's reason at once. */
  async join(key: string, options: JoinOptions<Result, News, About>): Promise<Result> {
    const { signal, onNews } = options
    signal.throwIfAborted()
    let job = this.#jobs.get(key)
    while (job?.ending.signal.aborted === true) {
      await untilAborted(job.done.then(nothing, nothing), signal)
      job = this.#jobs.get(key)
    }
    const { callers, done, ending, news } = job ?? this.#begin(key, options)
    const caller = { onNews }
    callers.add(caller)
    if (news !== undefined) onNews(news)
    try {
      return await untilAborted(done, signal)
    } finally {
      callers.delete(caller)
      if (callers.size === 0) ending.abort(signal.reason)
    }
  }

  /** When all that is under way by now is over. */
  async idle(): Promise<void> {
    await Promise.allSettled([...this.#jobs.values()].map(({ done }) => done))
  }

  #begin(key: string, { about, work }: JoinOptions<Result, News, About>): Job<Result, News, About> {
    const { promise: done, resolve } = Promise.withResolvers<Result>()
    const job: Job<Result, News, About> = {
      ...{ about, ending: new AbortController(), callers: new Set(), news: undefined, done },
    }
    const tell = (news: News): void => {
      job.news = news
      for (const { onNews } of job.callers) onNews(news)
    }
    const over = (): void => void this.#jobs.delete(key)
    done.then(over, over)
    this.#jobs.set(key, job)
    resolve(work({ signal: job.ending.signal, tell }))
    return job
  }
}

const nothing = (): void => undefined
