import { open, rm, stat, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Progress } from '../../contract/service.ts'
import type { Logger } from '../observability/logger.ts'
import { magicLength } from './content.ts'
import { requireSpace, storeError } from './disk.ts'
import { ModelError } from './errors.ts'
import { connectionError, contentProblem, emptyAnswer, refusal, truncated } from './http-answer.ts'
import { shownSource } from './source.ts'
import { StallGuard } from './stall-guard.ts'
import { nextRate } from './transfer-rate.ts'

export interface DownloadOptions {
  /** May hold credentials: messages and logs show it without. */
  url: string
  /** The name the file will have: decides what its content must look like. */
  fileName: string
  partialPath: string
  signal: AbortSignal
  log: Logger
  onProgress?: ((progress: Progress) => void) | undefined
  /** Longest silence of the server in ms. */
  stallMs?: number | undefined
  now?: (() => number) | undefined
}

/** A server that sends nothing for this long is taken for gone: slow disks and proxies answer well within it. */
const downloadStallMs = 60_000

/**
 * Streams a file to `partialPath` and makes it durable there; returns its size in bytes. If anything goes wrong the
 * partial file is gone afterwards. Throws ModelError, or the signal's reason when that is aborted.
 */
export async function download(options: DownloadOptions): Promise<number> {
  const { partialPath, signal, log } = options
  let partial: FileHandle | undefined
  let totalBytes: number | undefined
  try {
    await rm(partialPath, { force: true })
    using body = await requestBody(options)
    totalBytes = body.totalBytes
    if (totalBytes !== undefined) await requireSpace(dirname(partialPath), totalBytes)
    partial = await open(partialPath, 'wx', 0o644)
    const sizeBytes = await pump(body, partial, options)
    await partial.sync()
    signal.throwIfAborted()
    if (!(await isStillAt(partialPath, partial))) throw replaced(partialPath)
    await partial.close()
    return sizeBytes
  } catch (error) {
    const failure = signal.aborted ? undefined : await storeError(error, dirname(partialPath), totalBytes)
    if (partial !== undefined) {
      await discard(partialPath, partial).catch((cleanup: unknown) => {
        log.warn('partial download cannot be removed', { path: partialPath, error: cleanup })
      })
    }
    signal.throwIfAborted()
    throw failure ?? error
  }
}

interface Body extends Disposable {
  contentType: string | null
  /** Absent where the server does not say, or says the length of something compressed. */
  totalBytes: number | undefined
  /** Undefined at the end. Throws ModelError when the server goes quiet or away. */
  next(doneBytes: number): Promise<Uint8Array | undefined>
}

async function requestBody(options: DownloadOptions): Promise<Body> {
  const { signal, stallMs = downloadStallMs, now = Date.now } = options
  const shown = shownSource(options.url)
  const guard = new StallGuard(stallMs, () => stalled(shown, stallMs))
  try {
    const request = fetch(...requestArguments(options.url, AbortSignal.any([signal, guard.signal])))
    const response = await guard.watch(request).catch((error: unknown) => {
      throw error instanceof ModelError ? error : connectionError(error, shown)
    })
    const problem = refusal(response.status, response.headers, shown, now())
    if (problem !== undefined) throw problem
    const reader = response.body?.getReader()
    const totalBytes = declaredLength(response.headers)
    return {
      contentType: response.headers.get('content-type'),
      totalBytes,
      next: async (doneBytes) => {
        const chunk = await guard.watch(reader?.read() ?? Promise.resolve(undefined)).catch((error: unknown) => {
          throw error instanceof ModelError ? error : truncated(shown, doneBytes, totalBytes, error)
        })
        const value: unknown = chunk?.value
        return value instanceof Uint8Array ? value : undefined
      },
      [Symbol.dispose]: () => guard[Symbol.dispose](),
    }
  } catch (error) {
    guard[Symbol.dispose]()
    throw error
  }
}

/** Moves the body into the file, checking how it starts and how long it is. */
async function pump(body: Body, file: FileHandle, options: DownloadOptions): Promise<number> {
  const { fileName, url, onProgress, now = Date.now } = options
  const { contentType, totalBytes } = body
  const shown = shownSource(url)
  const progress = new ProgressReport(totalBytes, now, onProgress)
  let start: Buffer | undefined = Buffer.alloc(0)
  try {
    for (;;) {
      const chunk = await body.next(progress.doneBytes)
      if (start !== undefined) {
        start = Buffer.concat([start, chunk?.subarray(0, magicLength) ?? Buffer.alloc(0)])
        if (chunk === undefined || start.length >= magicLength) {
          const problem = start.length === 0 ? undefined : contentProblem(fileName, start, contentType, shown)
          if (problem !== undefined) throw problem
          start = undefined
        }
      }
      if (chunk === undefined) break
      await file.writeFile(chunk)
      progress.doneBytes += chunk.length
    }
    const { doneBytes } = progress
    if (doneBytes !== (totalBytes ?? doneBytes)) throw truncated(shown, doneBytes, totalBytes)
    if (doneBytes === 0) throw emptyAnswer(shown)
    progress.report()
    return doneBytes
  } finally {
    progress[Symbol.dispose]()
  }
}

/** As often as a window or a terminal shows progress. */
const progressIntervalMs = 250

/** Reports at once and then at an interval, bytes or not, so that the rate of a stalled download falls. */
class ProgressReport {
  doneBytes = 0
  readonly #totalBytes: number | undefined
  readonly #now: () => number
  readonly #onProgress: ((progress: Progress) => void) | undefined
  readonly #timer: NodeJS.Timeout
  #last: { doneBytes: number; at: number; rate: number | undefined }

  constructor(
    totalBytes: number | undefined,
    now: () => number,
    onProgress: ((progress: Progress) => void) | undefined,
  ) {
    this.#totalBytes = totalBytes
    this.#now = now
    this.#onProgress = onProgress
    this.#last = { doneBytes: 0, at: now(), rate: undefined }
    this.#timer = setInterval(() => this.report(), progressIntervalMs)
    this.report()
  }

  report(): void {
    const { doneBytes } = this
    const at = this.#now()
    const rate = nextRate(this.#last.rate, doneBytes - this.#last.doneBytes, at - this.#last.at)
    this.#last = { doneBytes, at, rate: at > this.#last.at ? rate : this.#last.rate }
    this.#onProgress?.({
      doneBytes,
      bytesPerSecond: Math.round(rate),
      ...(this.#totalBytes === undefined ? {} : { totalBytes: this.#totalBytes }),
    })
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}

/** Credentials travel in a header: fetch refuses them in the address, and drops the header when it is sent elsewhere. */
function requestArguments(source: string, signal: AbortSignal): [URL, RequestInit] {
  const url = new URL(source)
  const { username, password } = url
  url.username = ''
  url.password = ''
  const login = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
  const headers = {
    'user-agent': 'metalbar',
    'accept-encoding': 'identity',
    ...(username === '' && password === '' ? {} : { authorization: `Basic ${login}` }),
  }
  return [url, { headers, signal }]
}

function declaredLength(headers: Headers): number | undefined {
  const encoding = headers.get('content-encoding')
  const length = headers.get('content-length')
  if (length === null || (encoding !== null && encoding !== 'identity')) return undefined
  const bytes = Number(length)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

async function isStillAt(path: string, file: FileHandle): Promise<boolean> {
  const [there, ours] = await Promise.all([stat(path).catch(() => undefined), file.stat()])
  return there?.ino === ours.ino && there.dev === ours.dev
}

async function discard(path: string, file: FileHandle): Promise<void> {
  const ours = await isStillAt(path, file)
  await file.close()
  if (ours) await rm(path, { force: true })
}

function stalled(shown: string, stallMs: number): ModelError {
  return new ModelError(
    'transient',
    'Stalled',
    `${shown} sent nothing for ${Math.round(stallMs / 1000)} s: the agent tries again.`,
  )
}

function replaced(path: string): ModelError {
  return new ModelError(
    'transient',
    'StoreUnusable',
    `${path} was replaced during the download: let only one agent use this model store.`,
  )
}
