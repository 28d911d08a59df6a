import type { DownloadView } from '../../contract/models.ts'
import type { Progress } from '../../contract/service.ts'
import { messageOf } from '../util/message-of.ts'
import { asAskedOnce, ModelError } from './errors.ts'
import { parseModelSource, shownSource } from './source.ts'

export interface PullsOptions {
  readonly fetch: (
    request: {
      readonly model: string
      readonly source: string
      readonly quantization?: string
      readonly format?: string
    },
    options: { signal: AbortSignal; onProgress: (progress: Progress) => void },
  ) => Promise<{ readonly path: string }>
  readonly onChange: () => void
  readonly now: () => number
}

export interface PullRequest {
  readonly model: string
  readonly source: string
  readonly quantization?: string | undefined
  readonly format?: string | undefined
}

/** How long the end of a download is shown, so that a person who looks only now and then learns of it. */
const toldForMs = { done: 60_000, cancelled: 60_000, failed: 600_000 } as const

/** Downloads that a person asked for, without a service. */
export class Pulls {
  readonly #options: PullsOptions
  readonly #pulls = new Map<string, Pull>()

  constructor(options: PullsOptions) {
    this.#options = options
  }

  /** Sorted by name. */
  views(): DownloadView[] {
    const now = this.#options.now()
    for (const [model, { view, endedAt }] of this.#pulls) {
      const { state } = view
      if (endedAt !== undefined && state in toldForMs && now - endedAt > toldForMs[state as keyof typeof toldForMs])
        this.#pulls.delete(model)
    }
    return [...this.#pulls.values()].map(({ view }) => view).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** A sentence where it cannot begin. */
  start(request: PullRequest): { started: boolean; message: string } {
    const { model, source } = request
    const parsed = parseModelSource(source)
    if (parsed.kind === 'local')
      return { started: false, message: `${shownSource(source)} is on this machine already and used in place.` }
    if (parsed.kind === 'unsupported') return { started: false, message: parsed.message }
    if (this.#isRunning(model)) return { started: false, message: `${model} is being pulled already.` }
    this.#begin(request)
    return { started: true, message: `Pulling ${shownSource(source)} as ${model}.` }
  }

  /** False where nothing of this name is under way. */
  cancel(model: string): boolean {
    if (!this.#isRunning(model)) return false
    this.#pulls.get(model)?.ending.abort(ModelError.passing('ShuttingDown', 'The download was cancelled.'))
    return true
  }

  #isRunning(model: string): boolean {
    const pull = this.#pulls.get(model)
    return pull !== undefined && pull.endedAt === undefined
  }

  #begin({ model, source, quantization, format }: PullRequest): void {
    const ending = new AbortController()
    const since = new Date(this.#options.now()).toISOString()
    const view: DownloadView = {
      name: model,
      source: shownSource(source),
      state: 'waiting',
      message: 'Asking for the model.',
      since,
    }
    const pull: Pull = { view, ending, endedAt: undefined }
    this.#pulls.set(model, pull)
    const change = (news: Partial<DownloadView>): void => {
      pull.view = { ...pull.view, ...news }
      this.#options.onChange()
    }
    const end = (state: 'done' | 'failed' | 'cancelled', message: string): void => {
      pull.endedAt = this.#options.now()
      change({ state, message })
    }
    const request = { model, source, ...(quantization && { quantization }), ...(format && { format }) }
    const onProgress = (progress: Progress): void => {
      const { phase, message = `Downloading ${pull.view.source}.` } = progress
      change({ state: phase === 'waiting' ? 'waiting' : 'downloading', message, progress })
    }
    this.#options.fetch(request, { signal: ending.signal, onProgress }).then(
      ({ path }) => end('done', `${model} is at ${path}.`),
      (error: unknown) => {
        if (ending.signal.aborted) end('cancelled', 'It was cancelled; what has arrived is kept for a while.')
        else end('failed', asAskedOnce(messageOf(error)))
      },
    )
    this.#options.onChange()
  }
}

interface Pull {
  view: DownloadView
  readonly ending: AbortController
  endedAt: number | undefined
}

/** What a person reads while a download waits for its turn. */
export const waitingSentence = (ahead: number): string =>
  `Waiting for ${ahead} other download${ahead === 1 ? '' : 's'}.`

/** A Model's name made of a source, where none is given. Empty where nothing of the source can be a name. */
export function modelNameOf(source: string): string {
  const base =
    shownSource(source)
      .replace(/(?<!\/)\/+$/, '')
      .split('/')
      .at(-1) ?? ''
  const [beforeRevision = ''] = base.split('@', 1)
  return beforeRevision
    .replace(/\.gguf$/i, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/^[^a-z0-9]+|(?<![^a-z0-9])[^a-z0-9]+$/g, '')
    .slice(0, 200)
    .replace(/(?<![^a-z0-9])[^a-z0-9]+$/, '')
}
