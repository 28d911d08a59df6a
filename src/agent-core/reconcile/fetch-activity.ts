import type { Progress } from '../../contract/service.ts'
import { ModelError } from '../models/errors.ts'
import type { LocalModel, Models } from '../models/models.ts'

export type FetchOutcome =
  | { readonly kind: 'done'; readonly model: LocalModel }
  | { readonly kind: 'failed'; readonly message: string; readonly terminal: boolean; readonly retryAfterMs: number }

export interface FetchRequest {
  readonly namespace: string
  readonly modelName: string
  readonly source: string
}

/** Getting one model for one service: begins at construction, reports its end once, and not at all when cancelled. */
export class FetchActivity {
  readonly source: string
  readonly #cancelled = new AbortController()
  #progress: Progress | undefined
  #outcome: FetchOutcome | undefined

  constructor({
    models,
    request,
    onProgress,
    onEnd,
  }: {
    models: Models
    request: FetchRequest
    onProgress: () => void
    onEnd: (outcome: FetchOutcome) => void
  }) {
    this.source = request.source
    const { signal } = this.#cancelled
    const end = (outcome: FetchOutcome): void => {
      if (signal.aborted) return
      this.#outcome = outcome
      onEnd(outcome)
    }
    models
      .ensure(
        { namespace: request.namespace, name: request.modelName, source: request.source },
        {
          signal,
          onProgress: (progress) => {
            this.#progress = progress
            onProgress()
          },
        },
      )
      .then(
        (model) => end({ kind: 'done', model }),
        (error: unknown) => end(failure(error)),
      )
  }

  get progress(): Progress | undefined {
    return this.#outcome ? undefined : this.#progress
  }

  get outcome(): FetchOutcome | undefined {
    return this.#outcome
  }

  cancel(): void {
    this.#cancelled.abort()
  }
}

function failure(error: unknown): FetchOutcome {
  if (error instanceof ModelError) {
    const { kind, message, retryAfterMs } = error
    return { kind: 'failed', message, terminal: kind === 'terminal', retryAfterMs: retryAfterMs ?? 0 }
  }
  const words = error instanceof Error ? error.message : String(error)
  return { kind: 'failed', message: `The model cannot be fetched: ${words}.`, terminal: false, retryAfterMs: 0 }
}
