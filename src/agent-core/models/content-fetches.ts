import { createHash } from 'node:crypto'
import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Progress } from '../../contract/service.ts'
import { parseJson, readIfThere } from '../util/files.ts'
import { forgetPartial, wrongSuffix } from './download/partial-file.ts'
import type { DownloadedFile, FileRequest } from './download/download.ts'
import { firstBytes } from './content-kind.ts'
import { SharedWork, type Share, type Waiters } from './shared-work.ts'
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
    options: {
      partialPath: string
      signal: AbortSignal
      onStart: (start: Uint8Array) => void
      onProgress: (progress: Progress) => void
    },
  ) => Promise<DownloadedFile>
  readonly withRoom: WithRoom
  /** Takes over a file that was found to be wrong. Throws ModelError. */
  readonly quarantine: (path: string, why: { readonly name: string; readonly error: unknown }) => Promise<unknown>
}

/** A file beside every partial download, for those who list the partial downloads. */
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
  readonly #downloads = new SharedWork<Landed, News, undefined>({
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
    const share = await this.#downloads.join(keyOf(request), {
      about: undefined,
      work: (waiters) => this.#download(request, model, waiters),
      signal: AbortSignal.any([signal, refused.signal]),
      onNews: ({ start, progress }) => {
        const problem = start && refusal?.(start)
        if (problem) refused.abort(problem)
        else if (progress) onProgress(progress)
      },
    })
    return { ...share.result.file, release: share.release, moveTo: (path) => move(share, path, this.#options.withRoom) }
  }

  async #download(request: ScopedRequest, model: string, { signal, tell }: Waiters<News>): Promise<Landed> {
    const path = join(await this.#options.folder(), keyOf(request))
    let news: News = {}
    const onStart = (start: Uint8Array): void => tell((news = { ...news, start }))
    const onProgress = (progress: Progress): void => tell((news = { ...news, progress }))
    const noted = await readNote(path)
    const before = noted?.complete
    if (before && isStill(before, request) && (await sizeOf(path)) === before.sizeBytes) {
      const { etag, ...file } = before
      onStart(await firstBytes(path))
      return { path, isElsewhere: false, file: { ...file, ...(etag !== undefined && { etag }) } }
    }
    const { sizeBytes } = request
    const note: PartialNote = { source: shownSource(request.url), model, ...(sizeBytes !== undefined && { sizeBytes }) }
    await writeNote(path, note)
    const file = await this.#options
      .download(request, { partialPath: path, signal, onStart, onProgress })
      .catch(async (error: unknown) => {
        const wrong = `${path}${wrongSuffix}`
        if ((await sizeOf(wrong)) > 0) await this.#options.quarantine(wrong, { name: request.fileName, error })
        if ((await sizeOf(path)) === 0) await rm(`${path}${noteSuffix}`, { force: true })
        throw error
      })
    if (!news.start) onStart(await firstBytes(path))
    const { sha256, etag } = file
    const complete = { sizeBytes: file.sizeBytes, sha256, ...(etag !== undefined && { etag }) }
    await writeNote(path, { ...note, complete })
    return { path, isElsewhere: false, file }
  }
}

interface GetOptions {
  /** Name of the Model that wants it, for the note. */
  readonly model: string
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
  /** Why a file that begins like this is not the wanted one: thrown as soon as that is known. */
  readonly refusal?: ((start: Uint8Array) => Error | undefined) | undefined
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

/** The last holder takes the bytes away; others leave them where they are. */
async function move({ result, isAlone, close }: Share<Landed>, path: string, withRoom: WithRoom): Promise<void> {
  if (isAlone()) {
    close()
    await rename(result.path, path)
  } else await sameBytes(result.path, path, withRoom)
  result.isElsewhere = true
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

export interface ScopedRequest extends FileRequest {
  /** Only requests of the same scope share one download. Absent = all requests for the same content share it. */
  readonly scope?: string
}

/** By content where that is known, so that two addresses of it are one download. */
function keyOf({ url, sha256, scope }: ScopedRequest): string {
  const hashed = (text: string): string => createHash('sha256').update(text).digest('hex')
  const [kind, name] = sha256 === undefined ? ['url', url] : ['sha', sha256]
  if (scope !== undefined) return `${kind}-${hashed(`${scope}\n${name}`)}`
  return `${kind}-${sha256 ?? hashed(url)}`
}

const isStill = ({ etag }: { etag?: string | undefined }, request: FileRequest): boolean =>
  request.sha256 !== undefined || (etag !== undefined && etag === request.etag)

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )
