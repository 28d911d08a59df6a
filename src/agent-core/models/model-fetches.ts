import type { Progress } from '../../contract/service.ts'
import { untilAborted } from '../util/until-aborted.ts'
import type { EnsureOptions, LocalModel, ModelRequest } from './model-request.ts'
import { SharedWork, type Waiters } from './shared-work.ts'
import { shownSource } from './source.ts'

interface FetchedModel {
  readonly model: string
  /** In a view without credentials and query. */
  readonly source: string
}

export interface FetchState extends FetchedModel {
  callers: number
  /** Absent until the server answered. */
  progress?: Progress
}

interface ModelFetchesOptions {
  /** Every caller leaves with it. */
  readonly stopping: AbortSignal
  /** One ended, however it did. */
  readonly onEnd: () => void
}

/** What is being resolved or fetched: once for each Model name and what is wanted, however many callers want it. */
export class ModelFetches {
  readonly #options: ModelFetchesOptions
  readonly #work = new SharedWork<LocalModel, Progress, FetchedModel>()

  constructor(options: ModelFetchesOptions) {
    this.#options = options
  }

  get models(): ReadonlySet<string> {
    return new Set(this.#work.jobs.map(({ about }) => about.model))
  }

  /** Sorted by model, then source. */
  states(): FetchState[] {
    return this.#work.jobs
      .map(({ about, callers, news: progress }) => ({
        model: about.model,
        source: shownSource(about.source),
        callers,
        ...(progress === undefined ? {} : { progress }),
      }))
      .sort((a, b) => a.model.localeCompare(b.model) || a.source.localeCompare(b.source))
  }

  /** Rejects at once where the signal is aborted or the agent stops; work without a waiting caller ends by itself. */
  async join(
    key: string,
    { name, source }: ModelRequest,
    { signal, onProgress = () => undefined }: EnsureOptions,
    work: (waiters: Waiters<Progress>) => Promise<LocalModel>,
  ): Promise<LocalModel> {
    const { stopping, onEnd } = this.#options
    const leaving = AbortSignal.any([signal, stopping])
    const about = { model: name, source }
    const fetched = async (): Promise<LocalModel> => {
      const { result, release } = await this.#work.join(key, {
        about,
        work: (waiters) => work(waiters).finally(onEnd),
        signal: leaving,
        onNews: onProgress,
      })
      await release()
      return result
    }
    leaving.throwIfAborted()
    return untilAborted(fetched(), leaving)
  }

  /** When all that is under way by now is over. */
  idle(): Promise<void> {
    return this.#work.idle()
  }
}
