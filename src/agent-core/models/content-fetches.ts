import { createHash } from 'node:crypto'
import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Progress } from '../../contract/service.ts'
import { parseJson, readIfThere } from '../util/files.ts'
import { firstBytes } from './content-kind.ts'
import type { DownloadedFile, DownloadOptions, FileRequest } from './download/download.ts'
import { forgetPartial, wrongSuffix } from './download/partial-file.ts'
import { SharedWork, type Waiters } from './shared-work.ts'
import { shownSource } from './source.ts'
import { sameBytes, type WithRoom } from './store/files.ts'

/** Complete and verified bytes, kept as long as a caller holds them. */
export interface Content extends DownloadedFile {
  /** In place of what stands at `path`. */
  readonly moveTo: (path: string) => Promise<void>
  /** After it this holder gives these bytes to no other caller. */
  readonly release: () => Promise<void>
}

export interface ContentFetchesOptions {
  /** The folder of partial downloads. Throws ModelError. */
  readonly folder: () => Promise<string>
  /** Leaves the complete, synced and verified file at `partialPath`. Throws ModelError or the signal's reason. */
  readonly download: (
    request: FileRequest,
    options: Pick<DownloadOptions, 'partialPath' | 'signal' | 'onStart' | 'onProgress'>,
  ) => Promise<DownloadedFile>
  readonly withRoom: WithRoom
  /** Takes over a file that was found to be wrong. Throws ModelError. */
  readonly quarantine: (path: string, why: { readonly name: string; readonly error: unknown }) => Promise<unknown>
}

export interface ScopedRequest extends FileRequest {
  /** Only requests of the same scope share one download. Absent = all requests for the same content share it. */
  readonly scope?: string | undefined
}

export interface GetOptions {
  /** Name of the Model that wants it, for the note. */
  readonly model: string
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
  /** Why a file that begins like this is not the wanted one: thrown as soon as that is known. */
  readonly refusal?: (start: Uint8Array) => Error | undefined
}

interface News {
  /** The file's first bytes. */
  readonly start?: Uint8Array
  readonly progress?: Progress
}

interface Landed {
  readonly file: DownloadedFile
  readonly path: string
  /** The bytes have been moved, or are somewhere else too. */
  isElsewhere: boolean
}

/** Downloads of single files: one for each content, however many models want it. */
export class ContentFetches {
  readonly #options: ContentFetchesOptions
  readonly #downloads = new SharedWork<Landed, News>({
    // A download that was not moved into the store stays for the next request of the same content.
    onLetGo: async ({ path, isElsewhere }) => {
      if (isElsewhere) await removeDownload(path)
    },
  })

  constructor(options: ContentFetchesOptions) {
    this.#options = options
  }

  /** Keys of what is being fetched or held. */
  get active(): ReadonlySet<string> {
    return this.#downloads.keys
  }

  /** Throws ModelError, or the signal's reason; the download continues for the other callers, and ends with the last of them. */
  async get(request: ScopedRequest, { model, signal, onProgress, refusal }: GetOptions): Promise<Content> {
    const refused = new AbortController()
    const { result, isAlone, close, release } = await this.#downloads.join(keyOf(request), {
      work: (waiters) => this.#download(request, model, waiters),
      signal: AbortSignal.any([signal, refused.signal]),
      onNews: ({ start, progress }) => {
        const problem = start && refusal?.(start)
        if (problem) refused.abort(problem)
        else if (progress) onProgress(progress)
      },
    })
    return {
      ...result.file,
      release,
      // The last holder takes the bytes away; others leave them where they are.
      moveTo: async (path) => {
        if (isAlone()) {
          close()
          await rename(result.path, path)
        } else await sameBytes(result.path, path, this.#options.withRoom)
        result.isElsewhere = true
      },
    }
  }

  async #download(request: ScopedRequest, model: string, { signal, tell }: Waiters<News>): Promise<Landed> {
    const path = join(await this.#options.folder(), keyOf(request))
    let news: News = {}
    const onStart = (start: Uint8Array): void => tell((news = { ...news, start }))
    const onProgress = (progress: Progress): void => tell((news = { ...news, progress }))
    const before = (await readNote(path))?.complete
    if (before && isStill(before, request) && (await sizeOf(path)) === before.sizeBytes) {
      onStart(await firstBytes(path))
      return { path, isElsewhere: false, file: before }
    }
    const note = { source: shownSource(request.url), model, sizeBytes: request.sizeBytes }
    await writeNote(path, note)
    try {
      const file = await this.#options.download(request, { partialPath: path, signal, onStart, onProgress })
      if (!news.start) onStart(await firstBytes(path))
      await writeNote(path, { ...note, complete: file })
      return { path, isElsewhere: false, file }
    } catch (error) {
      const wrong = `${path}${wrongSuffix}`
      if ((await sizeOf(wrong)) > 0) await this.#options.quarantine(wrong, { name: request.fileName, error })
      if ((await sizeOf(path)) === 0) await rm(`${path}${noteSuffix}`, { force: true })
      throw error
    }
  }
}

/** A file beside every partial download, for those who list the partial downloads. */
const partialNote = z.object({
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
const noteSuffix = '.metalbar.note.json'
const maxNoteBytes = 64 * 1024

export async function readNote(path: string): Promise<PartialNote | undefined> {
  const text = await readIfThere(`${path}${noteSuffix}`, maxNoteBytes)
  return partialNote.safeParse(parseJson(text ?? '')).data
}

const writeNote = (path: string, note: PartialNote): Promise<void> =>
  writeFileAtomic(`${path}${noteSuffix}`, `${JSON.stringify(note)}\n`)

/** The bytes and all records beside them. */
export async function removeDownload(path: string): Promise<void> {
  await forgetPartial(path)
  await rm(`${path}${noteSuffix}`, { force: true })
}

/** By content where that is known, so that two addresses of it are one download. */
function keyOf({ url, sha256, scope }: ScopedRequest): string {
  const hashed = (text: string): string => createHash('sha256').update(text).digest('hex')
  const [kind, name] = sha256 === undefined ? ['url', url] : ['sha', sha256]
  if (scope !== undefined) return `${kind}-${hashed(`${scope}\n${name}`)}`
  return `${kind}-${sha256 ?? hashed(url)}`
}

const isStill = ({ etag }: DownloadedFile, request: FileRequest): boolean =>
  request.sha256 !== undefined || (etag !== undefined && etag === request.etag)

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )
