import { basename } from 'node:path'
import type { Progress } from '../../contract/service.ts'
import type { Logger } from '../observability/logger.ts'
import { Bandwidth } from './download/bandwidth.ts'
import { download } from './download/download.ts'
import { forgetPartial } from './download/partial-file.ts'
import { createTransport, type Transport } from './download/transport.ts'
import { ModelError } from './errors.ts'
import { checkLocalFile } from './local-file.ts'
import { parseModelSource, shownSource, sourceDigest } from './source.ts'
import { Store } from './store.ts'

export interface ModelRequest {
  namespace: string
  /** The Model's name. */
  name: string
  /** The Model's `spec.source`. */
  source: string
}

export interface LocalModel {
  path: string
  sizeBytes: number
}

export interface EnsureOptions {
  signal: AbortSignal
  onProgress?: (progress: Progress) => void
}

export interface ModelsState {
  directory: string
  /** What is being looked for or fetched, sorted by model, then source. */
  fetches: readonly FetchState[]
}

interface FetchState {
  model: string
  /** Without credentials and query. */
  source: string
  callers: number
  /** Absent until the server answered. */
  progress?: Progress
}

export interface ModelsOptions {
  /** The model store. Created when first needed. */
  directory: string
  log: Logger
  now?: () => number
  /** For tests: the longest silence of a server in ms, else 60 s. */
  stallMs?: number
  /** For tests: failures in a row after which a download is given up for now. */
  attempts?: number
}

/** Brings models to this machine: one fetch per Model name and source, however many callers want it. */
export class Models {
  readonly #store: Store
  readonly #log: Logger
  readonly #now: () => number
  readonly #stallMs: number | undefined
  readonly #attempts: number | undefined
  readonly #bandwidth = new Bandwidth()
  #transport: Promise<Transport> | undefined
  readonly #fetches = new Map<string, Fetch>()
  #stopped = false

  constructor({ directory, log, now = Date.now, stallMs, attempts }: ModelsOptions) {
    this.#store = new Store({ directory, log, now })
    this.#log = log
    this.#now = now
    this.#stallMs = stallMs
    this.#attempts = attempts
  }

  /**
   * The model's file on this machine: a local path as it is, anything else from the store or fetched into it.
   * Throws ModelError, or the signal's reason at once when that is aborted; a download ends when its last caller left.
   */
  async ensure(request: ModelRequest, { signal, onProgress }: EnsureOptions): Promise<LocalModel> {
    signal.throwIfAborted()
    const key = `${request.name}\n${sourceDigest(request.source)}`
    let fetch = this.#fetches.get(key)
    while (fetch?.ending.signal.aborted === true) {
      await untilAborted(fetch.settled, signal)
      fetch = this.#fetches.get(key)
    }
    if (this.#stopped) throw shuttingDown()
    return this.#join(fetch ?? this.#begin(key, request), signal, onProgress)
  }

  state(): ModelsState {
    const fetches = [...this.#fetches.values()]
      .map(({ model, source, callers, progress }) => ({
        model,
        source: shownSource(source),
        callers: callers.size,
        ...(progress === undefined ? {} : { progress }),
      }))
      .sort((a, b) => a.model.localeCompare(b.model) || a.source.localeCompare(b.source))
    return { directory: this.#store.directory, fetches }
  }

  /** Ends every fetch; returns when nothing is written any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    const running = [...this.#fetches.values()]
    for (const fetch of running) {
      for (const caller of fetch.callers) caller.reject(shuttingDown())
      fetch.ending.abort(shuttingDown())
    }
    await Promise.all(running.map(async ({ settled }) => settled))
    await (await this.#transport)?.[Symbol.asyncDispose]()
  }

  #begin(key: string, { name, source }: ModelRequest): Fetch {
    const ending = new AbortController()
    const callers = new Set<Caller>()
    const fetch: Fetch = { model: name, source, ending, callers, progress: undefined, settled: Promise.resolve() }
    fetch.settled = this.#run(fetch).then(
      (model) => {
        this.#fetches.delete(key)
        for (const caller of callers) caller.resolve(model)
      },
      (error: unknown) => {
        this.#fetches.delete(key)
        for (const caller of callers) caller.reject(error)
      },
    )
    this.#fetches.set(key, fetch)
    return fetch
  }

  async #run(fetch: Fetch): Promise<LocalModel> {
    const { model, source } = fetch
    const parsed = parseModelSource(source)
    if (parsed.kind === 'local') return { path: parsed.path, sizeBytes: await checkLocalFile(parsed.path) }
    const found = await this.#store.find(model, source)
    if (found !== undefined) return found
    if (parsed.kind === 'unsupported') throw new ModelError('terminal', 'UnsupportedSource', parsed.message)
    fetch.ending.signal.throwIfAborted()
    return this.#fetch(fetch, parsed.url)
  }

  async #fetch(fetch: Fetch, url: string): Promise<LocalModel> {
    const { model, source, ending } = fetch
    const destination = await this.#store.reserve(model, source)
    try {
      const fields = { model, source: shownSource(source), path: destination.path }
      this.#log.info('downloading model', fields)
      const startedAt = this.#now()
      const transport = await (this.#transport ??= createTransport({ env: process.env }))
      const { partialPath } = destination
      const { sizeBytes } = await download(
        { url, fileName: basename(destination.path) },
        {
          partialPath,
          signal: ending.signal,
          log: this.#log,
          onProgress: (progress) => this.#report(fetch, progress),
          transport,
          bandwidth: this.#bandwidth,
          stallMs: this.#stallMs,
          attempts: this.#attempts,
          now: this.#now,
        },
      )
      const stored = await destination.commit(sizeBytes)
      await forgetPartial(partialPath)
      this.#log.info('downloaded model', { ...fields, sizeBytes, durationMs: this.#now() - startedAt })
      return stored
    } finally {
      destination.release()
    }
  }

  #report(fetch: Fetch, progress: Progress): void {
    fetch.progress = progress
    for (const { onProgress } of fetch.callers) onProgress?.(progress)
  }

  #join(fetch: Fetch, signal: AbortSignal, onProgress: EnsureOptions['onProgress']): Promise<LocalModel> {
    const { promise, resolve, reject } = Promise.withResolvers<LocalModel>()
    const leave = (): void => {
      fetch.callers.delete(caller)
      if (fetch.callers.size === 0) fetch.ending.abort(signal.reason)
      reject(signal.reason)
    }
    const caller: Caller = { resolve, reject, onProgress }
    fetch.callers.add(caller)
    signal.addEventListener('abort', leave, { once: true })
    if (fetch.progress !== undefined) onProgress?.(fetch.progress)
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }
}

interface Fetch {
  model: string
  source: string
  /** Aborted when nobody wants it any more. */
  ending: AbortController
  callers: Set<Caller>
  progress: Progress | undefined
  /** Never rejects. */
  settled: Promise<void>
}

interface Caller {
  resolve: (model: LocalModel) => void
  reject: (error: unknown) => void
  onProgress: EnsureOptions['onProgress']
}

/** Waits for `settled`, or throws the signal's reason. */
async function untilAborted(settled: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([settled, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function shuttingDown(): ModelError {
  return new ModelError(
    'transient',
    'ShuttingDown',
    'The agent is shutting down: the model is fetched at its next start.',
  )
}
