import { messageOf } from '../util/message-of.ts'
import type { Progress } from '../../contract/service.ts'
import { ModelError } from '../models/errors.ts'
import type { LocalModel, ModelRequest, Models } from '../models/models.ts'
import { DownloadStory, type DownloadNote } from './download-story.ts'
import { steadyNow } from '../util/steady-clock.ts'

export type FetchOutcome =
  | { readonly kind: 'done'; readonly model: LocalModel }
  | { readonly kind: 'failed'; readonly message: string; readonly terminal: boolean; readonly retryAfterMs: number }

export interface FetchRequest extends ModelRequest {
  /** Tells what is wanted apart: see `contentKey`. */
  readonly key: string
  /** Ask the source again from time to time whether it holds something else; undefined = never. */
  readonly refreshEveryMs: (() => number) | undefined
}

export interface FetchActivityOptions {
  readonly models: Models
  readonly request: FetchRequest
  readonly onProgress: () => void
  /** At the end of the fetch, and again whenever the source holds another content that has arrived. */
  readonly onEnd: (outcome: FetchOutcome) => void
  readonly tell: (note: DownloadNote) => void
  readonly now?: () => number
  readonly random?: () => number
}

/**
 * Getting one model for one service: begins at construction, reports its end once, and not at all when cancelled. With
 * `refreshEveryMs` it then keeps the model as new as its source, the old one serving until the new one is here.
 */
export class FetchActivity {
  readonly source: string
  readonly request: FetchRequest
  readonly #options: FetchActivityOptions
  readonly #cancelled = new AbortController()
  #progress: Progress | undefined
  #outcome: FetchOutcome | undefined
  #notice: string | undefined
  #isNewer = false
  #timer: NodeJS.Timeout | undefined
  /** Since when the source is not to be asked again; undefined while it is asked. */
  #waitsSince: number | undefined

  constructor(options: FetchActivityOptions) {
    this.#options = options
    this.request = options.request
    this.source = options.request.key
    const { signal } = this.#cancelled
    void this.#outcomeOf((how) => options.models.ensure(this.request, how)).then((outcome) => {
      if (signal.aborted || outcome === undefined) return
      this.#end(outcome)
      // Files downloaded a moment ago need not be compared with their source; files that the store had do.
      if (outcome.kind === 'done' && this.request.refreshEveryMs)
        this.#refreshIn(this.#progress === undefined ? 0 : this.#nextMs())
    })
  }

  /** Of the fetch, or of that of a newer content. */
  get progress(): Progress | undefined {
    return this.#outcome && this.#notice === undefined ? undefined : this.#progress
  }

  get outcome(): FetchOutcome | undefined {
    return this.#outcome
  }

  /** The outcome is another content than the store had at first. */
  get isNewer(): boolean {
    return this.#isNewer
  }

  /** What a person should know of a model that is here, such as that its source could not be asked. */
  get notice(): string | undefined {
    return this.#notice
  }

  /** After a change of `refreshEveryMs`: it counts from when the source was asked last. */
  intervalChanged(): void {
    if (this.#waitsSince === undefined) return
    const { now = steadyNow } = this.#options
    const since = this.#waitsSince
    this.#refreshIn(this.#nextMs() - (now() - since))
    this.#waitsSince = since
  }

  cancel(): void {
    clearTimeout(this.#timer)
    this.#waitsSince = undefined
    this.#cancelled.abort()
  }

  #end(outcome: FetchOutcome): void {
    this.#outcome = outcome
    this.#notice = undefined
    this.#options.onEnd(outcome)
  }

  async #outcomeOf(
    work: (how: { signal: AbortSignal; onProgress: (progress: Progress) => void }) => Promise<LocalModel | undefined>,
    onFirst: () => void = () => undefined,
  ): Promise<FetchOutcome | undefined> {
    const { onProgress, tell, now = steadyNow } = this.#options
    const { signal } = this.#cancelled
    const story = new DownloadStory({ now })
    const say = (note: DownloadNote | undefined): void => {
      if (note && !signal.aborted) tell(note)
    }
    try {
      const model = await work({
        signal,
        onProgress: (progress) => {
          this.#progress = progress
          onFirst()
          say(story.progress(progress))
          onProgress()
        },
      })
      if (!model) return undefined
      say(story.done(model.sizeBytes))
      return { kind: 'done', model }
    } catch (error) {
      return failure(error)
    }
  }

  #refreshIn(ms: number): void {
    const { now = steadyNow } = this.#options
    clearTimeout(this.#timer)
    this.#waitsSince = now()
    this.#timer = setTimeout(() => void this.#refresh(), Math.max(0, ms)).unref()
  }

  async #refresh(): Promise<void> {
    const { models } = this.#options
    const current = this.#outcome
    const { signal } = this.#cancelled
    this.#waitsSince = undefined
    if (current?.kind !== 'done') return
    const outcome = await this.#outcomeOf(
      (how) => models.refresh(this.request, current.model, how),
      () => (this.#notice = 'A newer content of the model is on its way; it takes over when it is here.'),
    )
    if (signal.aborted) return
    const nextMs = this.#nextMs()
    if (outcome?.kind === 'done') {
      this.#isNewer = true
      this.#end(outcome)
    } else {
      this.#notice =
        outcome && `Whether the model changed at its source is not known: ${outcome.message} It is asked again later.`
      this.#options.onProgress()
    }
    this.#refreshIn(nextMs)
  }

  /** Many agents that started together do not ask together. */
  #nextMs(): number {
    const { random = Math.random } = this.#options
    return (this.request.refreshEveryMs?.() ?? 0) * (0.8 + 0.4 * random())
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
