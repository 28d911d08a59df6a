import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Progress } from '../../../contract/service.ts'
import type { Logger } from '../../observability/logger.ts'
import { magicLength } from '../content.ts'
import type { Credentials } from '../credentials.ts'
import { storeError } from '../disk.ts'
import { firstBytes } from '../local-file.ts'
import { shownSource } from '../source.ts'
import { Attempt, StartOver } from './attempt.ts'
import type { Bandwidth } from './bandwidth.ts'
import { prefixLength } from './byte-ranges.ts'
import { Continuation } from './continuation.ts'
import type { SpaceClaims } from './free-space.ts'
import { downloadStallMs } from './pace-guard.ts'
import { isWhole, PartialFile } from './partial-file.ts'
import type { Identity } from './partial-record.ts'
import { ProgressReport } from './progress-report.ts'
import { retryWaitMs } from './retry.ts'
import type { Transport } from './transport.ts'
import { verified } from './verified.ts'

export interface FileRequest {
  /** May hold a login: messages and logs show it without. */
  readonly url: string
  /** The name the file will have: decides what its content must look like. */
  readonly fileName: string
  /** Where known beforehand; another size is refused. */
  readonly sizeBytes?: number
  /** Hex; another content is quarantined. */
  readonly sha256?: string
  readonly credentials?: Credentials
  /** What a listing said of the content: where it differs from the last time, a partial file is not continued. */
  readonly etag?: string
}

export interface DownloadedFile {
  readonly sizeBytes: number
  readonly sha256: string
  readonly etag?: string
  readonly lastModified?: string
}

export interface DownloadOptions {
  readonly partialPath: string
  /** The folder that messages about the disk name; without it that of the partial file. */
  readonly storeFolder?: string | undefined
  readonly signal: AbortSignal
  readonly log: Logger
  /** The file's first bytes (`magicLength`, or as many as it has), as soon as they are there and before more is stored. */
  readonly onStart?: ((start: Uint8Array) => void) | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
  readonly transport: Transport
  /** Shared by all downloads. */
  readonly bandwidth: Bandwidth
  /** At most, for one file: 1 to 8; without it 4. A file of up to 64 MiB is fetched by one. */
  readonly connections?: number | undefined
  /** What stays free on the volume in bytes; without it the smaller of 2 GiB and 1 % of the volume. */
  readonly reserveBytes?: number | undefined
  /** For the message about a full disk: the bytes that deleting unused models would free. */
  readonly deletableBytes?: (() => Promise<number>) | undefined
  /** See `SpaceClaims`; shared by all downloads to the volume. */
  readonly claims?: SpaceClaims | undefined
  /** For tests: the bound of an answer that does not say its length. */
  readonly unknownLengthBytes?: number | undefined
  /** Longest silence of the server in ms; without it 60 s. */
  readonly stallMs?: number | undefined
  /** Failures in a row without progress after which it is given up; without it 6. */
  readonly attempts?: number | undefined
  readonly now?: (() => number) | undefined
  /** Gives [0, 1). */
  readonly random?: (() => number) | undefined
}

const defaultAttempts = 6

/**
 * Fetches a file to `partialPath` and verifies it there. On success it is complete, synced and stays for the caller to
 * rename; `forgetPartial` then removes the records beside it. After a failure, an abort or a kill it stays too where it
 * can be continued, and the next call with the same path does so, unless the server has another file by then. What is found to be wrong is
 * moved to `<partialPath>.quarantined`. Throws ModelError, or the signal's reason when that is aborted.
 */
export async function download(request: FileRequest, options: DownloadOptions): Promise<DownloadedFile> {
  const { partialPath, signal } = options
  signal.throwIfAborted()
  try {
    return await new Download(request, options).run()
  } catch (error) {
    signal.throwIfAborted()
    throw await storeError(error, dirname(partialPath), request.sizeBytes)
  }
}

class Download {
  readonly #request: FileRequest
  readonly #options: DownloadOptions
  readonly #shown: string
  readonly #now: () => number
  readonly #continuation: Continuation
  #attempt: Attempt | undefined

  constructor(request: FileRequest, options: DownloadOptions) {
    this.#request = request
    this.#options = options
    this.#shown = shownSource(request.url)
    this.#now = options.now ?? Date.now
    this.#continuation = new Continuation({
      source: this.#shown,
      log: options.log,
      connections: options.connections,
      isVerified: request.sha256 !== undefined,
    })
  }

  async run(): Promise<DownloadedFile> {
    const { partialPath, log, signal, onStart, onProgress } = this.#options
    using progress = new ProgressReport(() => this.#attempt?.doneBytes ?? 0, this.#now, onProgress)
    const partial = await PartialFile.open(partialPath, this.#identity(), {
      log,
      now: this.#now,
      signal,
      onVerify: (bytes, of) => progress.verifying(bytes, of),
    })
    try {
      if (partial.writtenBytes > 0) {
        this.#continuation.answered()
        log.info('continuing a partial download', { source: this.#shown, doneBytes: partial.writtenBytes })
        if (prefixLength(partial.ranges) >= magicLength) onStart?.(await firstBytes(partialPath))
        signal.throwIfAborted()
      }
      for (;;) {
        const sizeBytes = await this.#fetch(partial, progress)
        const file = await this.#verify(partial, sizeBytes, progress)
        if (file === undefined) continue
        await partial.close({ keep: true })
        return file
      }
    } catch (error) {
      await partial.close({ keep: this.#continuation.isPossible(partial) }).catch((closing: unknown) => {
        log.warn('partial download cannot be recorded', { path: partialPath, error: closing })
      })
      throw error
    }
  }

  #identity(): Identity {
    const { url, sizeBytes, sha256, etag } = this.#request
    return {
      urlSha256: createHash('sha256').update(url.replace(/#.*$/s, '')).digest('hex'),
      wanted: {
        ...(sizeBytes === undefined ? {} : { sizeBytes }),
        ...(sha256 === undefined ? {} : { sha256: sha256.toLowerCase() }),
        ...(etag === undefined ? {} : { etag }),
      },
    }
  }

  /** All bytes of the file, however many attempts that takes. Returns its size. */
  async #fetch(partial: PartialFile, progress: ProgressReport): Promise<number> {
    const { signal, log, attempts = defaultAttempts, random = Math.random, storeFolder } = this.#options
    let failures = 0
    let best = partial.writtenBytes
    for (;;) {
      if (isWhole(partial.ranges, partial.remote.sizeBytes)) return partial.remote.sizeBytes
      await this.#continuation.dropUnusable(partial)
      try {
        return await this.#try(partial, progress)
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof StartOver) {
          const text = await this.#continuation.startOver(partial, error.why)
          if (text !== undefined) progress.say(text)
          continue
        }
        const failure = await storeError(error, storeFolder ?? dirname(partial.path), partial.remote.sizeBytes)
        failures = partial.writtenBytes > best ? 1 : failures + 1
        best = Math.max(best, partial.writtenBytes)
        const waitMs = retryWaitMs(failure, failures, attempts, random)
        if (waitMs === undefined) throw failure
        const text = `${failure.message} Next attempt in ${Math.ceil(waitMs / 1000)} s.`
        log.warn('download interrupted, trying again', {
          text,
          source: this.#shown,
          reason: failure.reason,
          doneBytes: partial.writtenBytes,
          failures,
          waitMs,
        })
        progress.waiting(text)
        await delay(waitMs, undefined, { signal })
        progress.say(undefined)
      }
    }
  }

  async #try(partial: PartialFile, progress: ProgressReport): Promise<number> {
    const { partialPath, storeFolder, reserveBytes, deletableBytes, stallMs = downloadStallMs } = this.#options
    const { url, fileName, credentials, sizeBytes, sha256 } = this.#request
    const { transport, bandwidth, log, signal, onStart, claims, unknownLengthBytes } = this.#options
    this.#attempt = new Attempt(partial, {
      url,
      fileName,
      credentials,
      sizeBytes,
      verified: sha256 !== undefined,
      transport,
      bandwidth,
      room: { folder: dirname(partialPath), name: storeFolder, reserveBytes, deletableBytes, claims },
      unknownLengthBytes,
      connections: this.#continuation.connections,
      ranges: this.#continuation.ranges,
      stallMs,
      now: this.#now,
      log,
      signal,
      onStart,
      onAnswer: (totalBytes) => {
        this.#continuation.answered()
        progress.downloading(totalBytes)
      },
      onOneConnection: () => this.#continuation.useOneConnection(),
    })
    return this.#attempt.run()
  }

  /** Undefined where it is worth fetching once more. */
  async #verify(
    partial: PartialFile,
    sizeBytes: number,
    progress: ProgressReport,
  ): Promise<DownloadedFile | undefined> {
    const { signal, log } = this.#options
    const { sizeBytes: announcedBytes, sha256: announcedSha256 } = this.#request
    const sha256 = await verified(partial, sizeBytes, {
      ...{ shown: this.#shown, announcedBytes, announcedSha256, hasManyAnswers: this.#continuation.hasManyAnswers },
      ...{ progress, signal, log },
    })
    if (sha256 === 'mixed') {
      await this.#continuation.startOverInOne(partial)
      return undefined
    }
    const { etag, lastModified } = partial.remote
    return {
      sizeBytes,
      sha256,
      ...(etag === undefined ? {} : { etag }),
      ...(lastModified === undefined ? {} : { lastModified }),
    }
  }
}
