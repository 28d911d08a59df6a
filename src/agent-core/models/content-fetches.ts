import { createHash } from 'node:crypto'
import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Progress } from '../../contract/service.ts'
import { parseJson, readIfThere } from '../support/files.ts'
import { untilAborted } from '../support/until-aborted.ts'
import { forgetPartial } from './download/partial-file.ts'
import type { DownloadedFile, FileRequest } from './download/download.ts'
import { shownSource } from './source.ts'
import { sameBytes } from './store-paths.ts'

/** Complete and verified bytes, as long as somebody holds them. */
export interface Content extends DownloadedFile {
  /** In place of what stands at `path`. */
  readonly moveTo: (path: string) => Promise<void>
  /** After it nobody may be given these bytes by this holder. */
  readonly release: () => Promise<void>
}

export interface ContentFetchesOptions {
  /** Of partial downloads; throws ModelError. */
  readonly folder: () => Promise<string>
  /** Leaves the complete, synced and verified file at `partialPath`. Throws ModelError or the signal's reason. */
  readonly download: (
    request: FileRequest,
    options: { partialPath: string; signal: AbortSignal; onProgress: (progress: Progress) => void },
  ) => Promise<DownloadedFile>
  /** Takes over a file that was found to be wrong. Throws ModelError. */
  readonly quarantine: (path: string, why: { readonly name: string; readonly error: unknown }) => Promise<unknown>
}

/** Beside every partial download, for who lists them. */
export const partialNote = z.object({
  /** Without credentials. */
  source: z.string(),
  model: z.string(),
  sizeBytes: z.number().optional(),
  /** Set when it is complete and verified, but not yet moved to its place. */
  complete: z.object({ sizeBytes: z.number(), sha256: z.string(), etag: z.string().optional() }).optional(),
})
type PartialNote = z.infer<typeof partialNote>

/** How a partial download and all that lies beside it begin. */
export const partialKey = /^(?:sha|url)-[0-9a-f]{64}/
export const noteSuffix = '.metalbar.note.json'

/** Downloads of single files: one for each content, however many models want it. */
export class ContentFetches {
  readonly #options: ContentFetchesOptions
  readonly #jobs = new Map<string, Job>()

  constructor(options: ContentFetchesOptions) {
    this.#options = options
  }

  /** Keys of what is being fetched or held. */
  get active(): ReadonlySet<string> {
    return new Set(this.#jobs.keys())
  }

  /** Throws ModelError, or the signal's reason; the download goes on for others, and ends with the last. */
  async get(
    request: FileRequest,
    { model, signal, onProgress }: { model: string; signal: AbortSignal; onProgress: (progress: Progress) => void },
  ): Promise<Content> {
    const key = keyOf(request)
    let job = this.#jobs.get(key)
    while (job && (job.ending.signal.aborted || job.isTaken)) {
      await untilAborted(job.settled, signal)
      job = this.#jobs.get(key)
    }
    signal.throwIfAborted()
    job ??= this.#begin(key, request, model)
    return this.#join(job, signal, onProgress)
  }

  #begin(key: string, request: FileRequest, model: string): Job {
    const ending = new AbortController()
    const job: Job = {
      key,
      ending,
      holders: new Set(),
      listeners: new Set(),
      progress: undefined,
      isTaken: false,
      isPlaced: false,
      path: '',
      done: Promise.resolve({ sizeBytes: 0, sha256: '' }),
      settled: Promise.resolve(),
    }
    job.done = this.#run(job, request, model)
    const isOver = Promise.withResolvers<undefined>()
    job.over = () => {
      if (this.#jobs.get(key) === job) this.#jobs.delete(key)
      isOver.resolve(undefined)
    }
    job.settled = isOver.promise
    job.done.catch(() => job.over?.())
    this.#jobs.set(key, job)
    return job
  }

  async #run(job: Job, request: FileRequest, model: string): Promise<DownloadedFile> {
    const { signal } = job.ending
    const folder = await this.#options.folder()
    job.path = join(folder, job.key)
    const noted = await readNote(job.path)
    const before = noted?.complete
    if (before && isStill(before, request) && (await sizeOf(job.path)) === before.sizeBytes) {
      const { etag, ...file } = before
      return { ...file, ...(etag !== undefined && { etag }) }
    }
    const { sizeBytes } = request
    const note: PartialNote = { source: shownSource(request.url), model, ...(sizeBytes !== undefined && { sizeBytes }) }
    await writeNote(job.path, note)
    const onProgress = (progress: Progress): void => {
      job.progress = progress
      for (const listener of job.listeners) listener(progress)
    }
    const done = await this.#options
      .download(request, { partialPath: job.path, signal, onProgress })
      .catch(async (error: unknown) => {
        const wrong = `${job.path}.quarantined`
        if ((await sizeOf(wrong)) > 0) await this.#options.quarantine(wrong, { name: request.fileName, error })
        if ((await sizeOf(job.path)) === 0) await rm(`${job.path}${noteSuffix}`, { force: true })
        throw error
      })
    const { sha256, etag } = done
    const complete = { sizeBytes: done.sizeBytes, sha256, ...(etag !== undefined && { etag }) }
    await writeNote(job.path, { ...note, complete })
    return done
  }

  async #join(job: Job, signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<Content> {
    const holder = {}
    job.holders.add(holder)
    job.listeners.add(onProgress)
    if (job.progress) onProgress(job.progress)
    const release = async (): Promise<void> => {
      job.holders.delete(holder)
      if (job.holders.size === 0) await endJob(job)
    }
    const left = Promise.withResolvers<never>()
    const leave = (): void => {
      job.holders.delete(holder)
      if (job.holders.size === 0) job.ending.abort(signal.reason)
      left.reject(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
    try {
      const done = await Promise.race([job.done, left.promise])
      signal.throwIfAborted()
      return { ...done, release, moveTo: (path) => this.#move(job, path) }
    } catch (error) {
      job.holders.delete(holder)
      // Who ended it says so when nothing is written any more.
      if (job.ending.signal.aborted) {
        await job.done.catch(() => undefined)
        if (job.holders.size === 0) await endJob(job)
      }
      throw error
    } finally {
      signal.removeEventListener('abort', leave)
      job.listeners.delete(onProgress)
    }
  }

  async #move(job: Job, path: string): Promise<void> {
    if (job.holders.size > 1) {
      await sameBytes(job.path, path)
      job.isPlaced = true
      return
    }
    job.isTaken = true
    await rename(job.path, path)
  }
}

interface Job {
  readonly key: string
  /** Aborted when nobody wants it any more. */
  readonly ending: AbortController
  readonly holders: Set<object>
  readonly listeners: Set<(progress: Progress) => void>
  progress: Progress | undefined
  /** The bytes have been moved away. */
  isTaken: boolean
  /** They are somewhere else too. */
  isPlaced: boolean
  path: string
  done: Promise<DownloadedFile>
  /** When the next job of this key may begin; never rejects. */
  settled: Promise<unknown>
  over?: () => void
}

/** When its last holder is gone: what was moved away leaves nothing, the rest waits for the next who wants it. */
async function endJob(job: Job): Promise<void> {
  job.isTaken ||= job.isPlaced
  try {
    if (job.isTaken) await removeDownload(job.path)
  } finally {
    job.over?.()
  }
}

/** The bytes and all records beside them. */
export async function removeDownload(path: string): Promise<void> {
  await forgetPartial(path)
  await rm(`${path}${noteSuffix}`, { force: true })
}

export async function readNote(path: string): Promise<PartialNote | undefined> {
  const text = await readIfThere(`${path}${noteSuffix}`)
  return text === undefined ? undefined : partialNote.safeParse(parseJson(text)).data
}

const writeNote = (path: string, note: PartialNote): Promise<void> =>
  writeFileAtomic(`${path}${noteSuffix}`, `${JSON.stringify(note)}\n`)

/** By content where that is known, so that two addresses of it are one download. */
const keyOf = ({ url, sha256 }: FileRequest): string =>
  sha256 === undefined ? `url-${createHash('sha256').update(url).digest('hex')}` : `sha-${sha256}`

const isStill = ({ etag }: { etag?: string | undefined }, request: FileRequest): boolean =>
  request.sha256 !== undefined || (etag !== undefined && etag === request.etag)

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )
