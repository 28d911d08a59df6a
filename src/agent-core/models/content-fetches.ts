import { createHash } from 'node:crypto'
import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Progress } from '../../contract/service.ts'
import { firstBytes } from './content-kind.ts'
import type { DownloadedFile, FileRequest } from './download/download.ts'
import type { DiskSpace } from './download/limits.ts'
import type { Remote } from './remote.ts'
import { SharedWork, type Waiters } from './shared-work.ts'
import { shownSource } from './source.ts'
import { sameBytes } from './store/files.ts'
import { type Inventory, noteSuffix, readNote, removeDownload, writeNote } from './store/inventory.ts'

/** Complete and verified bytes, kept as long as a caller holds them. */
export interface Content extends DownloadedFile {
  /** Puts the bytes at `path`, replacing what is there. */
  readonly moveTo: (path: string) => Promise<void>
  /** Ends this caller's hold on the bytes; `isStored`: the store has them by now, so that they need not be kept. */
  readonly release: (how: { readonly isStored: boolean }) => Promise<void>
}

export interface ContentFetchesOptions {
  readonly inventory: Pick<Inventory, 'partialsFolder'>
  readonly remote: { readonly download: Remote['download']; readonly space: Pick<DiskSpace, 'withRoom'> }
}

export interface OwnedRequest extends FileRequest {
  /** The owner that the bytes will have: see `owners`. Requests of other owners do not share the download. */
  readonly owner: string
  /** The Hub states `sha256`, so that the same content under another address, as that of a later commit, is the same download. */
  readonly isVouchedFor: boolean
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
  /** The store has the bytes. */
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
  async get(request: OwnedRequest, { model, signal, onProgress, refusal }: GetOptions): Promise<Content> {
    const refused = new AbortController()
    const { result, takeAlone, release } = await this.#downloads.join(keyOf(request), {
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
      release: ({ isStored }) => {
        result.isElsewhere ||= isStored
        return release()
      },
      // The last holder takes the bytes away; others leave them where they are.
      moveTo: async (path) => {
        if (takeAlone()) await rename(result.path, path)
        else await sameBytes(result.path, path, this.#options.remote.space.withRoom)
        result.isElsewhere = true
      },
    }
  }

  async #download(request: OwnedRequest, model: string, { signal, tell }: Waiters<News>): Promise<Landed> {
    const { inventory, remote } = this.#options
    const path = join(await inventory.partialsFolder(), keyOf(request))
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
      const file = await remote.download(request, { partialPath: path, signal, onStart, onProgress })
      if (!news.start) onStart(await firstBytes(path))
      await writeNote(path, { ...note, complete: file })
      return { path, isElsewhere: false, file }
    } catch (error) {
      if ((await sizeOf(path)) === 0) await rm(`${path}${noteSuffix}`, { force: true })
      throw error
    }
  }
}

/** The name of a download. A checksum that a Model states shares no download with another address, whose server may send something else. */
function keyOf({ url, sha256 = '', owner, isVouchedFor }: OwnedRequest): string {
  const [kind, ...named] = isVouchedFor ? ['sha', sha256] : ['url', url, sha256]
  return `${kind}-${createHash('sha256')
    .update([owner, ...named].join('\n'))
    .digest('hex')}`
}

const isStill = ({ etag }: DownloadedFile, request: FileRequest): boolean =>
  request.sha256 !== undefined || (etag !== undefined && etag === request.etag)

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )
