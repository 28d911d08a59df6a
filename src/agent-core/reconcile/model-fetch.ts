import type { Progress } from '../../contract/service.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { LocalModel, Models } from '../models/models.ts'
import { jitteredMs } from '../util/back-off.ts'
import type { DownloadNote } from './download-story.ts'
import { FetchActivity, type FetchOutcome } from './fetch-activity.ts'
import { fetchRequest } from './model-request.ts'
import { isModelWanted, isRunning, type ModelFacts } from './plan/facts.ts'
import type { FetchView, Observation } from './plan/observation.ts'
import type { FetchedContent, DesiredServer } from './reading.ts'
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

/** The model of one service: the fetch that is under way or over, and when one that failed is tried again. */
export class ModelFetch {
  readonly #options: ModelFetchOptions
  #activity: FetchActivity | undefined
  #failures = 0
  #retryAt: number | undefined
  /** The pid of the server whose model was recorded as used. */
  #usedPid: number | undefined

  constructor(options: ModelFetchOptions) {
    this.#options = options
  }

  view(): FetchView {
    if (!this.#activity) return { kind: 'none' }
    const { source, outcome, progress } = this.#activity
    if (!outcome) {
      const message = progress?.message
      return { kind: 'running', source, ...(message !== undefined && { message }) }
    }
    if (outcome.kind === 'done') return { kind: 'done', source }
    return { kind: 'failed', source, message: outcome.message, retryAt: outcome.terminal ? undefined : this.#retryAt }
  }

  /** Undefined where nothing was fetched. */
  get content(): FetchedContent | undefined {
    if (!this.#activity) return undefined
    const { source, isNewer, notice } = this.#activity
    return { source, revision: this.model?.revision, isNewer, notice }
  }

  get model(): LocalModel | undefined {
    const outcome = this.#activity?.outcome
    return outcome?.kind === 'done' ? outcome.model : undefined
  }

  get progress(): Progress | undefined {
    return this.#activity?.progress
  }

  get isRunning(): boolean {
    return this.#activity !== undefined && this.#activity.outcome === undefined
  }

  /** A serving model needs no fetch, except to keep it as new as its source. */
  keepFresh(desiredServer: DesiredServer, observed: ModelFacts & Pick<Observation, 'server'>): void {
    const { server } = observed
    if (this.#activity || !isModelWanted(observed) || !isRunning(server)) return
    const isOnChange = desiredServer.model.refreshPolicy === 'OnChange'
    if (isOnChange && server.digest === desiredServer.digest) this.begin(desiredServer)
  }

  /** The interval of the settings is another now. */
  refreshIntervalChanged(): void {
    this.#activity?.intervalChanged()
  }

  begin({ service, spec, model }: DesiredServer): void {
    const { models, cluster, settings, tell, now, random } = this.#options
    const request = fetchRequest({
      api: cluster.api,
      namespace: service.metadata.namespace,
      name: spec.modelRef,
      spec: model,
      refreshEveryMs: settings.refreshEveryMs,
    })
    if (this.#activity?.source !== request.key) this.#failures = 0
    this.#activity?.cancel()
    let said: string | undefined
    const activity: FetchActivity = new FetchActivity({
      models,
      request,
      tell,
      now,
      random,
      onProgress: () => {
        const message = activity.progress?.message
        if (said !== message || activity.outcome !== undefined) this.#options.onNews()
        said = message
        this.#options.onProgress()
      },
      onEnd: (outcome) => this.#ended(outcome),
    })
    this.#activity = activity
  }

  /** The file is gone, or nothing is wanted any more: the next fetch begins anew. */
  cancel(): void {
    this.#activity?.cancel()
    this.#activity = undefined
  }

  /** A server with this model answers. Once for each server. */
  markUsed(pid: number): void {
    if (this.#usedPid === pid || !this.#activity || !this.model) return
    this.#usedPid = pid
    void this.#options.models.markUsed(this.#activity.request, this.model)
  }

  #ended(outcome: FetchOutcome): void {
    if (outcome.kind === 'failed') {
      this.#failures += 1
      const { now, random, onFailure } = this.#options
      const delay = Math.max(outcome.retryAfterMs, jitteredMs(backOff, this.#failures, random))
      this.#retryAt = now() + delay
      const next = outcome.terminal ? '' : ` Next attempt in ${Math.ceil(delay / 1_000)} s.`
      if (this.#failures === 1) onFailure(`${outcome.message}${next}`)
    } else {
      this.#failures = 0
    }
    this.#options.onNews()
  }
}
