import { createHash } from 'node:crypto'
import type { Progress } from '../../contract/service.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { ModelSpec } from '../kube/resources.ts'
import { ModelError, type ModelErrorReason } from '../models/errors.ts'
import type { LocalModel, Models } from '../models/models.ts'
import { jitteredMs } from '../util/back-off.ts'
import { messageOf } from '../util/message-of.ts'
import { DownloadStory, type DownloadNote } from './download-story.ts'
import type { Draft } from './draft.ts'
import { contentKey, fetchRequest, type FetchRequest, type ServerFiles, serverFiles } from './model-request.ts'
import { isModelWanted, isRunning, type ModelFacts } from './plan/facts.ts'
import type { FetchRefusal, FetchView, Observation } from './plan/observation.ts'
import type { DesiredServer, FetchedContent } from './reading.ts'

/** First and longest wait before the next attempt at what a model's source did not do. */
const backOff = { firstMs: 1_000, maxMs: 300_000 }

/** How often the source of a Model with `refreshPolicy: OnChange` is asked whether it changed: a release is no matter of seconds, and a Hub counts requests. */
export const refreshTimes = { everyMs: 600_000 }

export interface ModelFetchOptions {
  readonly models: Models
  readonly cluster: Pick<Cluster, 'api'>
  /** For tests: how often a source is asked whether it changed. */
  readonly refreshEveryMs?: number | undefined
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

/** A model, and the Model that it drafts with. */
interface Brought {
  readonly model: LocalModel
  readonly draft: LocalModel | undefined
}

type FetchOutcome =
  | { readonly kind: 'done'; readonly brought: Brought; readonly files: ServerFiles }
  | {
      readonly kind: 'failed'
      readonly message: string
      readonly refusal?: FetchRefusal | undefined
      readonly terminal: boolean
      readonly retryAfterMs: number
    }

/** The fetch of one content key, from its beginning until another key is wanted. */
interface Fetching {
  /** Tells what is wanted apart: see `contentKey`. */
  readonly key: string
  readonly request: FetchRequest
  /** Where the draft weights are a Model of their own. */
  readonly draft: FetchRequest | undefined
  /** Where they are a file of the model. */
  readonly draftFile: string | undefined
  /** Which of the requests is under way, or was last. */
  at: FetchRequest
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
}

interface How {
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
}

/**
 * The model of one service and what it drafts with: the fetch that is under way or over, and when one that failed is tried again. A Model with
 * refreshPolicy OnChange is then kept as new as its source, the old content serving until the new one is here.
 */
export class ModelFetch {
  readonly #options: ModelFetchOptions
  #fetching: Fetching | undefined
  #failures = 0
  #retryAt: number | undefined
  /** As {@link ModelFetch.#retryAt}, also after a refusal, while a server has the model. */
  #lookAgainAt = 0
  /** The life of the server whose model was recorded as used. */
  #usedBy: number | undefined

  constructor(options: ModelFetchOptions) {
    this.#options = options
  }

  view(): FetchView {
    if (!this.#fetching) return { kind: 'none' }
    const { outcome, progress, key: source, at, draft } = this.#fetching
    if (!outcome) {
      const sentences = [at === draft ? `Its ${titleOf(at)} is fetched now.` : undefined, progress?.message]
      const message = sentences.filter((one) => one !== undefined).join(' ') || undefined
      return { kind: 'running', source, ...(message !== undefined && { message }) }
    }
    if (outcome.kind === 'done') return { kind: 'done', source }
    const { message, refusal, terminal } = outcome
    return { kind: 'failed', source, message, refusal, retryAt: terminal ? undefined : this.#retryAt }
  }

  /** Undefined where nothing was fetched. */
  get content(): FetchedContent | undefined {
    if (!this.#fetching) return undefined
    const { key, outcome, isNewer, notice } = this.#fetching
    const revision = outcome?.kind === 'done' ? revisionOf(outcome.brought) : undefined
    return { source: key, revision, isNewer, notice }
  }

  get model(): ServerFiles | undefined {
    const outcome = this.#fetching?.outcome
    return outcome?.kind === 'done' ? outcome.files : undefined
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
    const { model, draft } = desiredServer
    const isFollowed = [model, specOf(draft)].some((spec) => spec?.refreshPolicy === 'OnChange')
    const isServed = isRunning(server) && server.digest === desiredServer.digest
    if (!isFollowed || !isServed || !isModelWanted(observed)) return undefined
    if (this.#fetching && this.#fetching.outcome?.kind !== 'failed') return undefined
    if (this.#fetching && this.#lookAgainAt > now) return this.#lookAgainAt
    this.begin(desiredServer)
    return undefined
  }

  /** Begins a fetch, which replaces the one under way. */
  begin({ service, spec, model, draft }: DesiredServer): void {
    const { api } = this.#options.cluster
    const { namespace } = service.metadata
    const requestOf = (name: string, of: ModelSpec): FetchRequest => fetchRequest({ api, namespace, name, spec: of })
    const request = requestOf(spec.modelRef, model)
    const key = contentKey(model, draft)
    if (this.#fetching?.key !== key) this.#failures = 0
    this.cancel()
    const fetching: Fetching = {
      ...{ key, request, at: request, cancelled: new AbortController(), isNewer: false },
      draft: draft && 'model' in draft ? requestOf(draft.model, draft.spec) : undefined,
      draftFile: draft && 'file' in draft ? draft.file : undefined,
      ...{ progress: undefined, outcome: undefined, notice: undefined, said: undefined },
      timer: undefined,
    }
    this.#fetching = fetching
    void this.#outcomeOf(fetching, () => this.#bring(fetching)).then((outcome) => {
      if (fetching.cancelled.signal.aborted || outcome === undefined) return
      this.#end(fetching, outcome)
      if (outcome.kind !== 'done' || !followsSource(fetching)) return
      // Files downloaded a moment ago need not be compared with their source; files that the store had do.
      this.#refreshIn(fetching, fetching.progress === undefined ? 0 : this.#nextRefreshMs())
    })
  }

  /** The file is gone, or nothing is wanted: the next fetch begins at the beginning. */
  cancel(): void {
    clearTimeout(this.#fetching?.timer)
    this.#fetching?.cancelled.abort()
    this.#fetching = undefined
  }

  /** A server with this model answers. Once for each server. */
  markUsed(life: number | undefined): void {
    const { request, draft, outcome } = this.#fetching ?? {}
    if (this.#usedBy === life || !request || outcome?.kind !== 'done') return
    this.#usedBy = life
    const { models } = this.#options
    const { brought } = outcome
    void models.markUsed(request, brought.model)
    if (draft && brought.draft) void models.markUsed(draft, brought.draft)
  }

  async #bring(fetching: Fetching): Promise<Brought> {
    const { models } = this.#options
    const { request, draft } = fetching
    const model = await this.#follow(fetching, request, (how) => models.ensure(request, how))
    return { model, draft: draft && (await this.#follow(fetching, draft, (how) => models.ensure(draft, how))) }
  }

  /** Undefined where the sources hold what is here. */
  async #bringNewer(fetching: Fetching, current: Brought): Promise<Brought | undefined> {
    const { models } = this.#options
    const { request, draft } = fetching
    const refresh = async (of: FetchRequest, here: LocalModel): Promise<LocalModel | undefined> => {
      if (!of.isFollowed) return undefined
      return this.#follow(
        fetching,
        of,
        (how) => models.refresh(of, here, how),
        () => {
          const what = of === draft ? titleOf(of) : 'model'
          fetching.notice = `A newer version of the ${what} is being fetched; it takes over when it has arrived.`
        },
      )
    }
    const model = await refresh(request, current.model)
    const drafted = draft && current.draft && (await refresh(draft, current.draft))
    if (!model && !drafted) return undefined
    return { model: model ?? current.model, draft: drafted ?? current.draft }
  }

  /** Tells what people should know of the download while the work lasts. */
  async #follow<T extends LocalModel | undefined>(
    fetching: Fetching,
    request: FetchRequest,
    work: (how: How) => Promise<T>,
    onFirst: () => void = () => undefined,
  ): Promise<T> {
    const { tell, now } = this.#options
    const { signal } = fetching.cancelled
    const isDraft = request === fetching.draft
    const story = new DownloadStory({ now, ...(isDraft && { what: titleOf(request) }) })
    const say = (note: DownloadNote | undefined): void => {
      if (note && !signal.aborted) tell(note)
    }
    if (isDraft) fetching.progress = undefined
    fetching.at = request
    const model = await work({
      signal,
      onProgress: (progress) => {
        fetching.progress = progress
        onFirst()
        say(story.progress(progress))
        this.#progressed(fetching)
      },
    })
    if (model) say(story.done(model.sizeBytes))
    return model
  }

  async #outcomeOf(fetching: Fetching, work: () => Promise<Brought | undefined>): Promise<FetchOutcome | undefined> {
    try {
      const brought = await work()
      return brought && { kind: 'done', brought, files: await serverFiles(brought, fetching.draftFile) }
    } catch (error) {
      return failure(error, fetching.at === fetching.draft ? `The ${titleOf(fetching.at)} is not here. ` : '')
    }
  }

  #progressed(fetching: Fetching): void {
    const view = this.#fetching === fetching ? this.view() : undefined
    const running = view?.kind === 'running' ? view.message : undefined
    const refreshing = fetching.notice === undefined ? undefined : fetching.progress?.message
    const message = fetching.outcome ? refreshing : running
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
      this.#lookAgainAt = now() + Math.max(delay, outcome.terminal ? this.#refreshEveryMs : 0)
      const next = outcome.terminal ? '' : ` Next attempt in ${Math.ceil(delay / 1_000)} s.`
      if (this.#failures === 1) onFailure(`${outcome.message}${next}`)
    } else {
      this.#failures = 0
    }
    this.#options.onNews()
  }

  #refreshIn(fetching: Fetching, ms: number): void {
    clearTimeout(fetching.timer)
    fetching.timer = setTimeout(() => void this.#refresh(fetching), Math.max(0, ms)).unref()
  }

  async #refresh(fetching: Fetching): Promise<void> {
    const { outcome: current, cancelled } = fetching
    if (current?.kind !== 'done') return
    const outcome = await this.#outcomeOf(fetching, () => this.#bringNewer(fetching, current.brought))
    if (cancelled.signal.aborted) return
    const nextMs = this.#nextRefreshMs()
    if (outcome?.kind === 'done') {
      fetching.isNewer = true
      this.#end(fetching, outcome)
    } else {
      fetching.notice =
        outcome &&
        `The agent cannot tell whether the model changed at its source: ${outcome.message} The agent asks the source again later.`
      this.#progressed(fetching)
    }
    this.#refreshIn(fetching, nextMs)
  }

  /** Many agents that started together do not ask together. */
  #nextRefreshMs(): number {
    return this.#refreshEveryMs * (0.8 + 0.4 * this.#options.random())
  }

  get #refreshEveryMs(): number {
    return this.#options.refreshEveryMs ?? refreshTimes.everyMs
  }
}

const followsSource = ({ request, draft }: Fetching): boolean => request.isFollowed || draft?.isFollowed === true

const titleOf = ({ name }: FetchRequest): string => `draft model ${name}`

const specOf = (draft: Draft | undefined): ModelSpec | undefined => (draft && 'model' in draft ? draft.spec : undefined)

/** Tells contents apart; of a model without a draft Model its own. */
const revisionOf = ({ model, draft }: Brought): string =>
  draft ? createHash('sha256').update(`${model.revision}\n${draft.revision}`).digest('hex') : model.revision

const refusals: Readonly<Partial<Record<ModelErrorReason, FetchRefusal>>> = {
  ModelSourceNotAllowed: 'ModelSourceNotAllowed',
  ChecksumMismatch: 'ModelDigestMismatch',
}

export function failure(error: unknown, lead: string): FetchOutcome {
  if (error instanceof ModelError) {
    const { kind, reason, message, retryAfterMs } = error
    return {
      kind: 'failed',
      message: `${lead}${message}`,
      refusal: refusals[reason],
      terminal: kind === 'terminal',
      retryAfterMs: retryAfterMs ?? 0,
    }
  }
  const message = `${lead}The model cannot be fetched: ${messageOf(error)}.`
  return { kind: 'failed', message, terminal: false, retryAfterMs: 0 }
}
