import type { Logger } from '../../observability/logger.ts'
import { ModelError, remoteRepairMs } from '../errors.ts'
import { validator } from './answer-meaning.ts'
import type { StartOver } from './attempt.ts'
import type { PartialFile } from './partial-file.ts'

const defaultConnections = 4
/** What each holds in memory is lost by a kill. */
const maxConnections = 8
/** A file that changes more often during one download is not to be had whole. */
const maxChanges = 3

interface ContinuationOptions {
  /** In a view without login. */
  readonly source: string
  readonly log: Logger
  /** See `DownloadOptions.connections`. */
  readonly connections: number | undefined
  /** The content is known beforehand, so that no server's word is needed for it. */
  readonly isVerified: boolean
}

/** What a download has learned of its server: over how many connections it may ask, and whether what is here can be gone on with. */
export class Continuation {
  readonly #options: ContinuationOptions
  #connections: number
  /** False once the server was seen to send whole files only. */
  #ranges = true
  #changes = 0
  #answers = 0

  constructor(options: ContinuationOptions) {
    this.#options = options
    this.#connections = Math.min(maxConnections, Math.max(1, options.connections ?? defaultConnections))
  }

  get connections(): number {
    return this.#connections
  }

  /** Whether parts of the file may be asked for. */
  get ranges(): boolean {
    return this.#ranges
  }

  /** The bytes came from several answers. Where the file is wrong in the end, mixing them may be the cause. */
  get hasManyAnswers(): boolean {
    return this.#answers > 1
  }

  answered(): void {
    this.#answers += 1
  }

  useOneConnection(): void {
    this.#connections = 1
  }

  isPossible(partial: PartialFile): boolean {
    return this.#ranges && (this.#options.isVerified || validator(partial.remote) !== undefined)
  }

  /** A server that sends whole files only begins at the beginning; one without validators may send another file's rest. */
  async dropUnusable(partial: PartialFile): Promise<void> {
    if (partial.writtenBytes === 0) {
      // An earlier answer does not fix the file's length and version: the next answer may be the first with a body.
      partial.remote = {}
      return
    }
    if (this.isPossible(partial)) return
    const { log, source } = this.#options
    log.info('download begins at the beginning again', {
      source,
      why: this.#ranges
        ? 'the server gives no way to tell whether the file is still the same'
        : 'the server sends whole files only',
    })
    await partial.startOver()
  }

  /** Returns what to say of it, where that is worth saying. Throws ModelError where the file changes too often. */
  async startOver(partial: PartialFile, why: StartOver['why']): Promise<string | undefined> {
    let text: string | undefined
    if (why === 'no-ranges') this.#noRanges()
    else text = this.#changed(partial.writtenBytes)
    this.#answers = 0
    await partial.startOver()
    return text
  }

  /** Answers that do not fit together: the whole file is asked for, in one. */
  async startOverInOne(partial: PartialFile): Promise<void> {
    this.#answers = 0
    this.#connections = 1
    this.#ranges = false
    await partial.startOver()
  }

  #noRanges(): void {
    const { log, source } = this.#options
    this.#ranges = false
    log.info('the server sends whole files only', { source })
  }

  #changed(discardedBytes: number): string {
    const { log, source } = this.#options
    this.#changes += 1
    if (this.#changes > maxChanges) {
      throw new ModelError(
        'transient',
        'RemoteChanged',
        `${source} changes on the server while it is downloaded: the agent tries again when that may be over.`,
        { retryAfterMs: remoteRepairMs },
      )
    }
    const text = `${source} changed on the server: the download starts over.`
    log.warn('the file changed on the server, download starts over', { text, source, discardedBytes })
    return text
  }
}
