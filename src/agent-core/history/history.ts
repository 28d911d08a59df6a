import { appendFile, readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import type { Logger } from '../observability/logger.ts'
import { setAside } from '../state/state-file.ts'
import { hasCode, parseJson } from '../util/files.ts'
import { type HistoryEntry, historyEntry, maxPage } from '../../contract/queries.ts'

/** How much is kept; a file that outgrows it is cut to three quarters, so that it is not rewritten with every entry. */
const limits = { entries: maxPage, bytes: 1_024 * 1_024 }
const keptShare = 0.75
/** One sentence, but it may quote a server's error line. */
const maxMessageLength = 2_000

interface HistoryOptions {
  readonly file: string
  readonly log: Logger
  readonly onAdded?: () => void
  readonly now?: () => number
}

interface HistoryQuestion {
  readonly service?: HistoryEntry['service']
  readonly limit: number
}

/** What happened here, bounded, and kept over restarts of the agent. What cannot be written is still shown until the agent ends. */
export class History {
  readonly notice: string | undefined
  readonly #options: HistoryOptions
  readonly #now: () => number
  #entries: HistoryEntry[]
  /** Size of the file; undefined = the whole file must be rewritten. */
  #bytes: number | undefined
  #unwritten: HistoryEntry[] = []
  #writing: Promise<void> | undefined
  #isFailing = false

  private constructor(options: HistoryOptions, found: Awaited<ReturnType<typeof readHistory>>) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#entries = [...found.entries]
    this.#bytes = found.bytes
    this.notice = found.notice
  }

  /** A broken file is set aside; throws what the disk answers. */
  static async open(options: HistoryOptions): Promise<History> {
    return new History(options, await readHistory(options.file, options.now ?? Date.now))
  }

  /** 0 = there is none. */
  get newestId(): number {
    return this.#entries.at(-1)?.id ?? 0
  }

  add(what: Omit<HistoryEntry, 'id' | 'at'>): void {
    const entry: HistoryEntry = {
      id: this.newestId + 1,
      at: new Date(this.#now()).toISOString(),
      ...what,
      message: what.message.slice(0, maxMessageLength),
    }
    this.#entries.push(entry)
    this.#unwritten.push(entry)
    this.#options.onAdded?.()
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
    })
  }

  /** Newest first. */
  page({ service, limit }: HistoryQuestion): { entries: HistoryEntry[]; hasMore: boolean } {
    const found = this.#entries.toReversed().filter((entry) => service === undefined || isAbout(entry, service))
    return { entries: found.slice(0, limit), hasMore: found.length > limit }
  }

  /** Resolves when what was added so far is written or given up. */
  async flush(): Promise<void> {
    await this.#writing
  }

  async #write(): Promise<void> {
    // Entries added in one turn of the event loop are written together.
    await Promise.resolve()
    while (this.#unwritten.length > 0) {
      const added = this.#unwritten
      this.#unwritten = []
      try {
        await this.#writeDown(added)
        this.#isFailing = false
      } catch (error) {
        this.#bytes = undefined
        if (!this.#isFailing) this.#options.log.warn('history not written', { file: this.#options.file, error })
        this.#isFailing = true
      }
    }
  }

  async #writeDown(added: readonly HistoryEntry[]): Promise<void> {
    const { file } = this.#options
    const grown = this.#bytes === undefined ? undefined : this.#bytes + bytesOf(added)
    if (grown !== undefined && grown <= limits.bytes && this.#entries.length <= limits.entries) {
      await appendHistory(file, added)
      this.#bytes = grown
      return
    }
    // Before the file is written: memory is bounded whatever the disk does.
    this.#entries = newest(this.#entries)
    const written = [...this.#entries]
    const last = written.at(-1)?.id ?? 0
    this.#unwritten = this.#unwritten.filter(({ id }) => id > last)
    await rewriteHistory(file, written)
    this.#bytes = bytesOf(written)
  }
}

/** All where they are within the limits, else the newest that are well within. */
function newest(entries: readonly HistoryEntry[]): HistoryEntry[] {
  if (entries.length <= limits.entries && bytesOf(entries) <= limits.bytes) return [...entries]
  const kept: HistoryEntry[] = []
  let bytes = 0
  for (const entry of entries.toReversed()) {
    bytes += bytesOf([entry])
    if (kept.length >= limits.entries * keptShare || bytes > limits.bytes * keptShare) break
    kept.push(entry)
  }
  return kept.toReversed()
}

const bytesOf = (entries: readonly HistoryEntry[]): number =>
  entries.reduce((sum, entry) => sum + Buffer.byteLength(lineOf(entry)), 0)

const isAbout = ({ service }: HistoryEntry, { namespace, name }: { namespace: string; name: string }): boolean =>
  service?.namespace === namespace && service.name === name

/** Ours is bounded far below: a larger file is not ours, or would cost the agent its memory. */
const maxReadableBytes = 8 * 1_024 * 1_024

interface HistoryFound {
  readonly entries: readonly HistoryEntry[]
  /** Size of the file; undefined = the whole file must be rewritten. */
  readonly bytes: number | undefined
  /** A sentence for the person, where the file was broken. */
  readonly notice: string | undefined
}

/** Reads the entries, oldest first; a file in which more than the last line is broken is set aside. Throws the error of the disk. */
async function readHistory(file: string, now: () => number): Promise<HistoryFound> {
  const size = await sizeOf(file)
  if (size === 0) return { entries: [], bytes: 0, notice: undefined }
  const lines = size > maxReadableBytes ? undefined : (await readFile(file, 'utf8')).split('\n')
  const rest = lines?.pop()
  const read = lines?.map((line) => historyEntry.safeParse(parseJson(line)).data) ?? []
  const entries = read.filter((entry) => entry !== undefined).filter(isAfterTheOnesBefore())
  if (lines && entries.length === lines.length) {
    return rest === ''
      ? { entries, bytes: size, notice: undefined }
      : {
          entries,
          bytes: undefined,
          notice: `The last entry of ${file} was cut off when the agent ended, and is left out.`,
        }
  }
  const aside = await setAside(file, now)
  const notice = `${file} could not be parsed and was set aside as ${basename(aside)}: ${entries.length} earlier entries could be recovered.`
  return { entries, bytes: undefined, notice }
}

const lineOf = (entry: HistoryEntry): string => `${JSON.stringify(entry)}\n`

/** Throws what the disk answers. */
async function appendHistory(file: string, entries: readonly HistoryEntry[]): Promise<void> {
  await appendFile(file, entries.map(lineOf).join(''), { mode: 0o600 })
}

/** As {@link appendHistory}, in place of all that was there. */
async function rewriteHistory(file: string, entries: readonly HistoryEntry[]): Promise<void> {
  await writeFileAtomic(file, entries.map(lineOf).join(''), { mode: 0o600 })
}

/** Pages rely on ids that rise. */
const isAfterTheOnesBefore = () => {
  let last = 0
  return ({ id }: HistoryEntry): boolean => {
    if (id <= last) return false
    last = id
    return true
  }
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return 0
    throw error
  }
}
