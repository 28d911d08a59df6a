import type { Progress } from '../../contract/service.ts'
import type { Cluster } from '../kube/cluster.ts'
import { ModelError } from '../models/errors.ts'
import type { LocalModel, Models } from '../models/models.ts'
import { jitteredMs } from '../util/back-off.ts'
import { messageOf } from '../util/message-of.ts'
import { DownloadStory, type DownloadNote } from './download-story.ts'
import { fetchRequest, type FetchRequest } from './model-request.ts'
import { isModelWanted, isRunning, type ModelFacts } from './plan/facts.ts'
import type { FetchView, Observation } from './plan/observation.ts'
import type { DesiredServer, FetchedContent } from './reading.ts'
import type { ServiceSettings } from './service-rooms.ts'

/** First and longest wait before the next attempt at what a model's source did not do. */
const backOff = { firstMs: 1_000, maxMs: 300_000 }

export interface ModelFetchOptions {
  readonly models: Models
  readonly cluster: Pick<Cluster, 'api'>
  readonly settings: Pick<ServiceSettings, 'refreshEveryMs'>
  readonly tell: (note: DownloadNote) => void
  /** The first failure in a row, with what happens next. */
  readonly onFailure: (message: string) => void
  /** The fetch ended, or says something else than before: its service is to be looked at. */
  readonly onNews: () => void
  /** A figure changed. */
  readonly onProgress: () => void
  readonly now: () => number
  readonly random: () => number
}

type FetchOutcome =
  | { readonly kind: 'done'; readonly model: LocalModel }
  | { readonly kind: 'failed'; readonly message: string; readonly terminal: boolean; readonly retryAfterMs: number }

/** The fetch of one content key, from its beginning until another key is wanted. */
interface Fetching {
  readonly request: FetchRequest
  readonly cancelled: AbortController
  progress: Progress | undefined
  outcome: FetchOutcome | undefined
  /** The outcome is another content than the store had at first. */
  isNewer: boolean
  /** What a person should know of a model that is here, such as that its source could not be asked. */
  notice: string | undefined
  /** The progress message that was reported last. */
  said: string | undefined
  timer: NodeJS.Timeout | undefined
  /** Since when the source is not to be asked again; undefined while it is asked. */
  waitsSince: number | undefined
}

type Work<T> = (how: { signal: AbortSignal; onProgress: (progress: Progress) => void }) => Promise<T>

/**
 * The model of one service: the fetch that is under way or over, and when one that failed is tried again. A Model with refreshPolicy
 * OnChange is then kept as new as its source, the old content serving until the new one is here.
 */
export class ModelFetch {
  readonly #options: ModelFetchOptions
  #fetching: Fetching | undefined
  #failures = 0
  #retryAt: number | undefined
  /** As {@link ModelFetch.#retryAt}, also after a refusal, while a server has the model. */
  #lookAgainAt = 0
  /** The pid of the server whose model was recorded as used. */
  #usedPid: number | undefined

  constructor(options: ModelFetchOptions) {
    this.#options = options
  }

  view(): FetchView {
    if (!this.#fetching) return { kind: 'none' }
    const { outcome, progress } = this.#fetching
    const source = this.#fetching.request.key
    if (!outcome) {
      const message = progress?.message
      return { kind: 'running', source, ...(message !== undefined && { message }) }
    }
    if (outcome.kind === 'done') return { kind: 'done', source }
    return { kind: 'failed', source, message: outcome.message, retryAt: outcome.terminal ? undefined : this.#retryAt }
  }

  /** Undefined where nothing was fetched. */
  get content(): FetchedContent | undefined {
    if (!this.#fetching) return undefined
    const { request, isNewer, notice } = this.#fetching
    return { source: request.key, revision: this.model?.revision, isNewer, notice }
  }

  get model(): LocalModel | undefined {
    const outcome = this.#fetching?.outcome
    return outcome?.kind === 'done' ? outcome.model : undefined
  }

  /** Progress of the fetch, including that of newer content; undefined once it is over. */
  get progress(): Progress | undefined {
    const { outcome, notice, progress } = this.#fetching ?? {}
    return outcome && notice === undefined ? undefined : progress
  }

  get isRunning(): boolean {
    return this.#fetching !== undefined && this.#fetching.outcome === undefined
  }

  /**
   * A serving model needs no fetch, except to keep it as new as its source. Returns when a first look at the source that failed is to be
   * repeated.
   */
  keepFresh(
    desiredServer: DesiredServer,
    observed: ModelFacts & Pick<Observation, 'server' | 'now'>,
  ): number | undefined {
    const { server, now } = observed
    const isFollowed = desiredServer.model.refreshPolicy === 'OnChange'
    const isServed = isRunning(server) && server.digest === desiredServer.digest
    if (!isFollowed || !isServed || !isModelWanted(observed)) return undefined
    if (this.#fetching && this.#fetching.outcome?.kind !== 'failed') return undefined
    if (this.#fetching && this.#lookAgainAt > now) return this.#lookAgainAt
    this.begin(desiredServer)
    return undefined
  }

  /** After a change of the setting: the interval counts from when the source was asked last. */
  refreshIntervalChanged(): void {
    const fetching = this.#fetching
    const since = fetching?.waitsSince
    if (!fetching || since === undefined) return
    this.#refreshIn(fetching, this.#nextRefreshMs(fetching) - (this.#options.now() - since))
    fetching.waitsSince = since
  }

  /** Begins a fetch, which replaces the one under way. */
  begin({ service, spec, model }: DesiredServer): void {
    const { models, cluster, settings } = this.#options
    const request = fetchRequest({
      api: cluster.api,
      namespace: service.metadata.namespace,
      name: spec.modelRef,
      spec: model,
      refreshEveryMs: settings.refreshEveryMs,
    })
    if (this.#fetching?.request.key !== request.key) this.#failures = 0
    this.cancel()
    const fetching: Fetching = {
      ...{ request, cancelled: new AbortController(), isNewer: false },
      ...{ progress: undefined, outcome: undefined, notice: undefined, said: undefined },
      ...{ timer: undefined, waitsSince: undefined },
    }
    this.#fetching = fetching
    void this.#outcomeOf(fetching, (how) => models.ensure(request, how)).then((outcome) => {
      if (fetching.cancelled.signal.aborted || outcome === undefined) return
      this.#end(fetching, outcome)
      if (outcome.kind !== 'done' || !request.refreshEveryMs) return
      // Files downloaded a moment ago need not be compared with their source; files that the store had do.
      this.#refreshIn(fetching, fetching.progress === undefined ? 0 : this.#nextRefreshMs(fetching))
    })
  }

  /** The file is gone, or nothing is wanted: the next fetch begins at the beginning. */
  cancel(): void {
    clearTimeout(this.#fetching?.timer)
    this.#fetching?.cancelled.abort()
    this.#fetching = undefined
  }

  /** A server with this model answers. Once for each server. */
  markUsed(pid: number): void {
    if (this.#usedPid === pid || !this.#fetching || !this.model) return
    this.#usedPid = pid
    void this.#options.models.markUsed(this.#fetching.request, this.model)
  }

  async #outcomeOf(
    fetching: Fetching,
    work: Work<LocalModel | undefined>,
    onFirst: () => void = () => undefined,
  ): Promise<FetchOutcome | undefined> {
    const { tell, now } = this.#options
    const { signal } = fetching.cancelled
    const story = new DownloadStory({ now })
    const say = (note: DownloadNote | undefined): void => {
      if (note && !signal.aborted) tell(note)
    }
    try {
      const model = await work({
        signal,
        onProgress: (progress) => {
          fetching.progress = progress
          onFirst()
          say(story.progress(progress))
          this.#progressed(fetching)
        },
      })
      if (!model) return undefined
      say(story.done(model.sizeBytes))
      return { kind: 'done', model }
    } catch (error) {
      return failure(error)
    }
  }

  #progressed(fetching: Fetching): void {
    const message = fetching.outcome && fetching.notice === undefined ? undefined : fetching.progress?.message
    if (fetching.said !== message || fetching.outcome !== undefined) this.#options.onNews()
    fetching.said = message
    this.#options.onProgress()
  }

  #end(fetching: Fetching, outcome: FetchOutcome): void {
    fetching.outcome = outcome
    fetching.notice = undefined
    if (outcome.kind === 'failed') {
      const { now, random, onFailure } = this.#options
      this.#failures += 1
      const delay = Math.max(outcome.retryAfterMs, jitteredMs(backOff, this.#failures, random))
      this.#retryAt = now() + delay
      this.#lookAgainAt = now() + Math.max(delay, outcome.terminal ? this.#options.settings.refreshEveryMs() : 0)
      const next = outcome.terminal ? '' : ` Next attempt in ${Math.ceil(delay / 1_000)} s.`
      if (this.#failures === 1) onFailure(`${outcome.message}${next}`)
    } else {
      this.#failures = 0
    }
    this.#options.onNews()
  }

  #refreshIn(fetching: Fetching, ms: number): void {
    clearTimeout(fetching.timer)
    fetching.waitsSince = this.#options.now()
    fetching.timer = setTimeout(() => void this.#refresh(fetching), Math.max(0, ms)).unref()
  }

  async #refresh(fetching: Fetching): Promise<void> {
    const { request, outcome: current, cancelled } = fetching
    fetching.waitsSince = undefined
    if (current?.kind !== 'done') return
    const outcome = await this.#outcomeOf(
      fetching,
      (how) => this.#options.models.refresh(request, current.model, how),
      () => (fetching.notice = 'A newer version of the model is being fetched; it takes over when it has arrived.'),
    )
    if (cancelled.signal.aborted) return
    const nextMs = this.#nextRefreshMs(fetching)
    if (outcome?.kind === 'done') {
      fetching.isNewer = true
      this.#end(fetching, outcome)
    } else {
      fetching.notice =
        outcome &&
        `It is not known whether the model changed at its source: ${outcome.message} The source is asked again later.`
      this.#progressed(fetching)
    }
    this.#refreshIn(fetching, nextMs)
  }

  /** Many agents that started together do not ask together. */
  #nextRefreshMs({ request }: Fetching): number {
    return (request.refreshEveryMs?.() ?? 0) * (0.8 + 0.4 * this.#options.random())
  }
}

function failure(error: unknown): FetchOutcome {
  if (error instanceof ModelError) {
    const { kind, message, retryAfterMs } = error
    return { kind: 'failed', message, terminal: kind === 'terminal', retryAfterMs: retryAfterMs ?? 0 }
  }
  const words = messageOf(error)
  return { kind: 'failed', message: `The model cannot be fetched: ${words}.`, terminal: false, retryAfterMs: 0 }
}
