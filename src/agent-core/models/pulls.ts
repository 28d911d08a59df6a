import type { DownloadView } from '../../contract/models.ts'
import type { Progress } from '../../contract/service.ts'
import { messageOf } from '../util/message-of.ts'
import { asAskedOnce, ModelError } from './errors.ts'
import type { EnsureOptions, LocalModel, ModelRequest } from './model-request.ts'
import { parseModelSource, shownSource } from './source.ts'

export interface PullsOptions {
  readonly ensure: (request: ModelRequest, options: EnsureOptions) => Promise<LocalModel>
  readonly onChange: () => void
  readonly now: () => number
}

export interface PullRequest {
  readonly model: string
  readonly source: string
  readonly quantization?: string | undefined
  readonly format?: string | undefined
}

interface Pull {
  view: DownloadView
  readonly ending: AbortController
  /** Until when its end is shown; undefined while it runs. */
  shownUntil: number | undefined
}

/** How long the end of a download is shown, so that a person who looks only now and then learns of it. */
const shownForMs = { done: 60_000, cancelled: 60_000, failed: 600_000 } as const

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
    for (const [model, { shownUntil }] of this.#pulls)
      if (shownUntil !== undefined && now > shownUntil) this.#pulls.delete(model)
    return [...this.#pulls.values()].map(({ view }) => view).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** A sentence where it cannot begin. */
  start(request: PullRequest): { started: boolean; message: string } {
    const { model, source } = request
    const refused = (message: string) => ({ started: false, message })
    const parsed = parseModelSource(source)
    if (parsed.kind === 'local')
      return refused(`${shownSource(source)} is already on this machine and is used in place.`)
    if (parsed.kind === 'unsupported') return refused(parsed.message)
    if (this.#running(model)) return refused(`${model} is already being pulled.`)
    this.#begin(request)
    return { started: true, message: `Pulling ${shownSource(source)} as ${model}.` }
  }

  /** False where nothing of this name is under way. */
  cancel(model: string): boolean {
    const pull = this.#running(model)
    pull?.ending.abort(ModelError.passing('ShuttingDown', 'The download was cancelled.'))
    return pull !== undefined
  }

  #running(model: string): Pull | undefined {
    const pull = this.#pulls.get(model)
    return pull?.shownUntil === undefined ? pull : undefined
  }

  #begin({ model, ...selection }: PullRequest): void {
    const { ensure, onChange, now } = this.#options
    const source = shownSource(selection.source)
    const since = new Date(now()).toISOString()
    const pull: Pull = {
      view: { name: model, source, state: 'waiting', message: 'Looking up the model.', since },
      ending: new AbortController(),
      shownUntil: undefined,
    }
    this.#pulls.set(model, pull)
    const change = (news: Partial<DownloadView>): void => {
      pull.view = { ...pull.view, ...news }
      onChange()
    }
    const end = (state: keyof typeof shownForMs, message: string): void => {
      pull.shownUntil = now() + shownForMs[state]
      change({ state, message })
    }
    const onProgress = (progress: Progress): void => {
      const { phase, message = `Downloading ${source}.` } = progress
      change({ state: phase === 'waiting' ? 'waiting' : 'downloading', message, progress })
    }
    const { signal } = pull.ending
    const request = { namespace: '', name: model, ...selection, format: selection.format || undefined }
    ensure(request, { signal, onProgress }).then(
      ({ path }) => end('done', `${model} is at ${path}.`),
      (error: unknown) => {
        if (signal.aborted) end('cancelled', 'It was cancelled; what has arrived is kept for a while.')
        else end('failed', asAskedOnce(messageOf(error)))
      },
    )
    onChange()
  }
}

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
