import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { formatBytes } from '../../../contract/format.ts'
import type { Progress } from '../../../contract/service.ts'
import type { Logger } from '../../observability/logger.ts'
import { type BackOff, jitteredMs } from '../../util/back-off.ts'
import { asError } from '../../util/message-of.ts'
import { firstBytes, magicLength } from '../content-kind.ts'
import { storeError } from '../store/files.ts'
import { ModelError, type ModelErrorReason, remoteRepairMs } from '../errors.ts'
import { shownSource } from '../source.ts'
import { contentLength, contentProblem, emptyAnswer, type Meaning, meaningOf, truncated, validator } from './answer.ts'
import { type Answer, Body, type Credentials, discard, downloadStallMs, PaceGuard, send } from './request.ts'
import { type Bandwidth, requireFreeSpace, type Room, type SpaceClaims } from './limits.ts'
import {
  type ByteRange,
  firstGap,
  type Identity,
  isWhole,
  PartialFile,
  prefixLength,
  withRange,
} from './partial-file.ts'
import type { Transport } from './transport.ts'

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

/** Asked for at a time where there are several connections. A file that is not longer is fetched by one. */
export const segmentBytes = 64 * 1024 * 1024
/** How often the free space is looked at. */
const spaceBytes = 32 * 1024 * 1024
const spaceMs = 5000
/** The partial file is of no use: the attempt ends, and the next begins with an empty file. */
export class StartOver extends Error {
  readonly why: 'changed' | 'no-ranges'

  constructor(why: 'changed' | 'no-ranges') {
    super(why)
    this.name = 'StartOver'
    this.why = why
  }
}

export interface AttemptOptions {
  readonly url: string
  readonly fileName: string
  /** The content is checked in the end, so that a server without validators can be trusted with parts. */
  readonly verified: boolean
  readonly credentials?: Credentials | undefined
  readonly sizeBytes?: number | undefined
  readonly transport: Transport
  readonly bandwidth: Bandwidth
  readonly room: Room
  /** 1 or more. */
  readonly connections: number
  /** False: the server was seen to send whole files only. */
  readonly ranges: boolean
  /** For tests: the bound of an answer that does not say its length. */
  readonly unknownLengthBytes?: number | undefined
  readonly stallMs: number
  readonly now: () => number
  readonly log: Logger
  readonly signal: AbortSignal
  /** May abort the signal. */
  readonly onStart: ((start: Uint8Array) => void) | undefined
  readonly onAnswer: (totalBytes: number | undefined) => void
  /** The server wants fewer connections. */
  readonly onOneConnection: () => void
}

/** Fetches what the partial file lacks over one or several connections, until all is there or the first fault that ends it. */
export class Attempt {
  readonly #partial: PartialFile
  readonly #options: AttemptOptions
  readonly #ending = new AbortController()
  readonly #signal: AbortSignal
  readonly #shown: string
  readonly #open = new Set<Promise<void>>()
  /** How many connections go on. */
  #active = 0
  #limit: number
  #claimed: readonly ByteRange[] = []
  #buffered = 0
  #failure: Error | undefined
  /** The latest error of a connection, where other connections took over its work. */
  #fault: ModelError | undefined
  #spaceSeen = { bytes: 0, at: -Infinity }
  /** Set by a body that is the whole file: its end is the file's end. */
  #wholeBytes: number | undefined

  constructor(partial: PartialFile, options: AttemptOptions) {
    this.#partial = partial
    this.#options = options
    this.#signal = AbortSignal.any([options.signal, this.#ending.signal])
    this.#shown = shownSource(options.url)
    this.#limit = options.ranges ? options.connections : 1
  }

  /** Received by now, written or not. */
  get doneBytes(): number {
    return this.#partial.writtenBytes + this.#buffered
  }

  /** The file's size. Throws ModelError, StartOver, what the file system says, or the signal's reason. */
  async run(): Promise<number> {
    this.#spawn()
    while (this.#open.size > 0) await Promise.all(this.#open)
    this.#options.room.claims?.claim(this, 0)
    this.#options.signal.throwIfAborted()
    if (this.#failure !== undefined) throw this.#failure
    const sizeBytes = this.#wholeBytes ?? this.#partial.remote.sizeBytes
    if (sizeBytes === 0 || isWhole(this.#partial.ranges, sizeBytes)) return sizeBytes
    throw this.#fault ?? truncated(this.#shown, this.doneBytes, sizeBytes)
  }

  #spawn(): void {
    this.#active += 1
    const connection: Promise<void> = this.#connection().finally(() => this.#open.delete(connection))
    this.#open.add(connection)
  }

  /** One connection after the other is added as long as there is something left for it. */
  #grow(): void {
    if (this.#active < this.#limit && !this.#signal.aborted && this.#nextRange() !== undefined) this.#spawn()
  }

  /** Never rejects. */
  async #connection(): Promise<void> {
    try {
      while (!this.#signal.aborted && this.#active <= this.#limit) {
        const range = this.#nextRange()
        if (range === undefined) return
        this.#claimed = withRange(this.#claimed, range)
        try {
          await this.#fetch(range)
        } finally {
          this.#claimed = without(this.#claimed, range)
        }
        this.#grow()
      }
    } catch (error) {
      this.#connectionFailed(error)
    } finally {
      this.#active -= 1
    }
  }

  /** A transient failure ends the attempt only where no other connection goes on. */
  #connectionFailed(error: unknown): void {
    const limited = error instanceof ModelError && error.reason === 'RateLimited'
    if (limited) this.#options.onOneConnection()
    if (this.#active > 1 && error instanceof ModelError && isRetryable(error) && !this.#signal.aborted) {
      this.#limit = limited ? 1 : this.#active - 1
      this.#fault = error
      this.#options.log.info('one of several connections of a download ended', {
        source: this.#shown,
        reason: error.reason,
      })
      return
    }
    this.#failure ??= asError(error)
    this.#ending.abort(error)
  }

  /** The first part that is neither there nor being fetched. */
  #nextRange(): ByteRange | undefined {
    const { sizeBytes } = this.#partial.remote
    if (this.#wholeBytes !== undefined) return undefined
    if (sizeBytes === undefined && this.#claimed.length > 0) return undefined
    const taken = this.#claimed.reduce<readonly ByteRange[]>(withRange, this.#partial.ranges)
    const gap = firstGap(taken, sizeBytes ?? Infinity)
    if (gap === undefined) return undefined
    return this.#options.connections === 1 ? gap : [gap[0], Math.min(gap[1], gap[0] + segmentBytes)]
  }

  async #fetch(range: ByteRange): Promise<void> {
    const { url, credentials, transport, stallMs, ranges, now } = this.#options
    const known = this.#partial.remote
    using guard = new PaceGuard(stallMs, this.#shown)
    const begun = this.#partial.writtenBytes > 0 || this.#claimed.length > 1 || known.sizeBytes !== undefined
    const asked = { url, credentials, range: ranges ? range : undefined, ifRange: begun ? validator(known) : undefined }
    const answer = await send(asked, { transport, signal: this.#signal, guard })
    try {
      const meaning = meaningOf(answer, { range: asked.range, known, begun, shown: this.#shown, now: now() })
      await this.#receive(answer, meaning, range, guard)
    } finally {
      discard(answer.body)
    }
  }

  async #receive(answer: Answer, meaning: Meaning, range: ByteRange, guard: PaceGuard): Promise<void> {
    if (meaning.kind === 'refused') throw meaning.error
    const { sizeBytes: wanted } = this.#options
    const body = new Body(
      answer,
      meaning.kind === 'whole' ? meaning.encoding : undefined,
      guard,
      this.#signal,
      this.#shown,
    )
    const type = answer.headers.get('content-type')
    if (meaning.kind === 'changed' || meaning.kind === 'no-ranges') {
      // A login page or a captive portal in place of the file is no reason to throw away the partial file.
      if (answer.status === 200) this.#checkStart(await body.start(contentLength(answer.headers)), type)
      throw new StartOver(meaning.kind)
    }
    const { remote } = meaning
    const total = remote.sizeBytes
    if (wanted !== undefined && total !== undefined && total !== wanted) throw wrongLength(this.#shown, wanted, total)
    this.#partial.remote = { ...this.#partial.remote, ...remote }
    const [start, end] = meaning.kind === 'part' ? [meaning.start, meaning.end] : [0, total ?? Infinity]
    if (start === 0) {
      const first = await body.start(total)
      this.#options.onStart?.(first)
      this.#checkStart(first, type)
      this.#signal.throwIfAborted()
    }
    await this.#checkSpace(true)
    this.#options.onAnswer(total ?? wanted)
    const sure = this.#options.verified || validator(remote) !== undefined
    if (meaning.kind === 'part' && sure && (total ?? 0) > segmentBytes) this.#grow()
    const received = await storeBody(body, this.#partial, {
      ...this.#options,
      ...{ start, end, shown: this.#shown, signal: this.#signal },
      doneBytes: () => this.doneBytes,
      onBuffered: (bytes) => {
        this.#buffered += bytes
      },
      onWrite: () => this.#checkSpace(false),
    })
    if (meaning.kind === 'whole') {
      if (total !== undefined && received < total) throw truncated(this.#shown, received, total)
      this.#wholeBytes = received
    } else if (received < end) throw truncated(this.#shown, this.doneBytes, total)
    else if (total === undefined && end < range[1]) this.#wholeBytes = end
  }

  #checkStart(start: Buffer, contentType: string | null): void {
    const problem =
      start.length === 0 ? undefined : contentProblem(this.#options.fileName, start, contentType, this.#shown)
    if (problem !== undefined) throw problem
  }

  async #checkSpace(now: boolean): Promise<void> {
    const { writtenBytes, remote } = this.#partial
    const at = performance.now()
    if (!now && writtenBytes - this.#spaceSeen.bytes < spaceBytes && at - this.#spaceSeen.at < spaceMs) return
    this.#spaceSeen = { bytes: writtenBytes, at }
    // Of a file of unknown length: as much as may come before the next look.
    const total = remote.sizeBytes ?? this.#options.sizeBytes ?? writtenBytes + 2 * spaceBytes
    await requireFreeSpace(this.#options.room, Math.max(0, total - writtenBytes), this)
  }
}

export function wrongLength(shown: string, wanted: number, found: number): ModelError {
  return new ModelError(
    'transient',
    'WrongLength',
    `${shown} has ${found} bytes where ${wanted} were announced: check spec.source, or whether the file is being replaced there.`,
    { retryAfterMs: remoteRepairMs },
  )
}

/** `ranges` less one that was added to them. */
function without(ranges: readonly ByteRange[], [start, end]: ByteRange): ByteRange[] {
  return ranges.flatMap((range): ByteRange[] => {
    if (range[1] <= start || range[0] >= end) return [range]
    const rest: ByteRange[] = []
    if (range[0] < start) rest.push([range[0], start])
    if (range[1] > end) rest.push([end, range[1]])
    return rest
  })
}

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

/** Written at once by all connections together; as much may be collected meanwhile. */
const batchBytes = 1024 * 1024
const batchMs = 1000
/** Of an answer that does not say its length, and need never end. */
const defaultUnknownLengthBytes = 256 * 1024 ** 3

export interface StoreOptions {
  /** Where the body's first byte belongs. */
  readonly start: number
  /** Infinity = unknown. */
  readonly end: number
  /** Of the whole file, where known beforehand. */
  readonly sizeBytes?: number | undefined
  /** How many store at the same time at most. */
  readonly connections: number
  readonly bandwidth: Bandwidth
  readonly unknownLengthBytes?: number | undefined
  readonly shown: string
  readonly signal: AbortSignal
  /** Of the file, received by now. */
  readonly doneBytes: () => number
  /** So many bytes more, or fewer, are received and not written. */
  readonly onBuffered: (bytes: number) => void
  /** After a write has begun; throws where nothing more may be stored. */
  readonly onWrite: () => Promise<void>
}

/** Writes a body to its place, in batches. @returns where the bytes ended. */
export async function storeBody(body: Body, partial: PartialFile, options: StoreOptions): Promise<number> {
  const { start, end, sizeBytes: wanted, connections, bandwidth, shown, signal } = options
  const { unknownLengthBytes = defaultUnknownLengthBytes, doneBytes, onBuffered, onWrite } = options
  const enough = Math.ceil(batchBytes / connections)
  const isEndless = end === Infinity && wanted === undefined
  const limit = isEndless ? unknownLengthBytes : Math.min(end, wanted === undefined ? Infinity : wanted + 1)
  let position = start
  // Copied at once, so that the memory of each chunk can be given back before the next is read.
  let filling = Buffer.allocUnsafeSlow(enough)
  let spare = Buffer.allocUnsafeSlow(enough)
  let filled = 0
  let filledSince = performance.now()
  let writing: Promise<void> = Promise.resolve()
  const flush = async (): Promise<void> => {
    await writing
    const [batch, at] = [filling.subarray(0, filled), position - filled]
    ;[filling, spare, filled, filledSince] = [spare, filling, 0, performance.now()]
    if (batch.length === 0) return
    writing = partial.write(batch, at).finally(() => onBuffered(-batch.length))
    writing.catch(() => undefined) // the next await of it rejects
    await onWrite()
  }
  try {
    while (position < limit) {
      const chunk = await body.next(doneBytes(), partial.remote.sizeBytes)
      if (chunk === undefined) break
      const pause = bandwidth.take(chunk.length, signal)
      if (pause !== undefined) await pause
      for (let rest = chunk.subarray(0, limit - position); rest.length > 0;) {
        const piece = rest.subarray(0, filling.length - filled)
        filling.set(piece, filled)
        filled += piece.length
        position += piece.length
        onBuffered(piece.length)
        rest = rest.subarray(piece.length)
        if (filled === filling.length) await flush()
      }
      release(chunk)
      if (performance.now() - filledSince >= batchMs) await flush()
    }
  } finally {
    // The bytes received stay, whatever ended the request.
    await flush()
    await writing
    release(filling)
    release(spare)
  }
  if (isEndless && position >= limit) throw endless(shown, limit)
  return position
}

/**
 * Gives the memory of a buffer back at once, where no other shares it: left to the garbage collector it would be tens of MiB, which that
 * hardly sees, as they lie outside its heap. The buffer must not be used afterwards.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}

function endless(shown: string, bytes: number): ModelError {
  return new ModelError(
    'transient',
    'WrongLength',
    `${shown} does not say its length and goes on after ${formatBytes(bytes)}: give an address that says how long the file is.`,
    { retryAfterMs: remoteRepairMs },
  )
}

/** Faults that pass by themselves. */
const passing: ReadonlySet<ModelErrorReason> = new Set([
  'Truncated',
  'Stalled',
  'ServerError',
  'RateLimited',
  'Unreachable',
])

export function isRetryable({ reason }: ModelError): boolean {
  return passing.has(reason)
}

const backOff: BackOff = { firstMs: 1000, maxMs: 30_000 }

/** A server that asks for more patience gets it from the caller's back-off, where a person can see it. */
const maxWaitMs = 60_000

/**
 * How long to wait after so many failures in a row without a byte of progress in between; undefined = no more.
 * A server's own wish counts as the least.
 */
export function retryWaitMs(
  error: ModelError,
  failures: number,
  attempts: number,
  random: () => number,
): number | undefined {
  const asked = error.retryAfterMs ?? 0
  if (!isRetryable(error) || failures >= attempts || asked > maxWaitMs) return undefined
  return asked + jitteredMs(backOff, failures, random)
}

export interface VerifyOptions {
  readonly shown: string
  readonly announcedBytes?: number | undefined
  /** Hex. */
  readonly announcedSha256?: string | undefined
  /** Its bytes came in several answers: where the file is wrong, mixing them may be the cause. */
  readonly hasManyAnswers: boolean
  readonly progress: ProgressReport
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Fetching tens of gigabytes again helps only where a person has repaired something. */
const quarantineMs = 60 * 60_000

/**
 * Compares what arrived with what was announced. @returns its SHA-256, or `mixed` where it is worth fetching once more, in one piece.
 * What is wrong is moved aside. Throws ModelError.
 */
export async function verified(partial: PartialFile, sizeBytes: number, options: VerifyOptions): Promise<string> {
  const { shown, announcedBytes, announcedSha256, hasManyAnswers, progress, signal, log } = options
  if (sizeBytes === 0) throw emptyAnswer(shown)
  if (announcedBytes !== undefined && sizeBytes !== announcedBytes) {
    const error = wrongLength(shown, announcedBytes, sizeBytes)
    throw await quarantined(partial, 'WrongLength', error.message, options)
  }
  progress.downloading(sizeBytes)
  progress.report()
  const sha256 = await partial.complete(sizeBytes, (bytes) => progress.verifying(bytes, sizeBytes))
  signal.throwIfAborted()
  if (!(await partial.isInPlace())) throw replaced(partial.path)
  const wanted = announcedSha256?.toLowerCase()
  if (wanted === undefined || sha256 === wanted) return sha256
  if (hasManyAnswers) {
    const text = `The parts of ${shown} do not make the file that was announced: the download starts over.`
    log.warn('the checksum of a download in parts is wrong, it starts over', { text, source: shown, sha256, wanted })
    progress.say(text)
    return 'mixed'
  }
  throw await quarantined(
    partial,
    'ChecksumMismatch',
    `${shown} is not the file that was announced: its SHA-256 is ${sha256} and should be ${wanted}; correct spec.sha256 or the file there.`,
    options,
  )
}

async function quarantined(
  partial: PartialFile,
  reason: 'ChecksumMismatch' | 'WrongLength',
  sentence: string,
  { shown, log }: VerifyOptions,
): Promise<ModelError> {
  const aside = await partial.quarantine()
  log.error('a downloaded file is not what was announced', { source: shown, reason, path: aside })
  return new ModelError('transient', reason, `${sentence} What came is kept as ${aside} and never served.`, {
    retryAfterMs: quarantineMs,
  })
}

function replaced(path: string): ModelError {
  return new ModelError(
    'transient',
    'StoreUnusable',
    `${path} was replaced during the download: let only one agent use this model store.`,
  )
}

/** As often as a window or a terminal shows progress. */
const progressIntervalMs = 250

/** Reports at once and then at an interval, bytes or not, so that the rate of a stalled download falls. */
export class ProgressReport {
  readonly #now: () => number
  readonly #doneBytes: () => number
  readonly #onProgress: ((progress: Progress) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #last: { doneBytes: number; at: number; rate: number | undefined } | undefined
  #totalBytes: number | undefined
  #message: string | undefined
  #phase: Progress['phase']
  /** In the phase `verifying`, in place of what arrived. */
  #verified: { doneBytes: number; totalBytes: number } | undefined

  constructor(doneBytes: () => number, now: () => number, onProgress: ((progress: Progress) => void) | undefined) {
    this.#doneBytes = doneBytes
    this.#now = now
    this.#onProgress = onProgress
  }

  /** Bytes arrive from now on. */
  downloading(totalBytes: number | undefined): void {
    if (this.#phase !== undefined || this.#last === undefined || this.#totalBytes !== totalBytes) {
      this.#begin(undefined, totalBytes)
    }
  }

  verifying(doneBytes: number, totalBytes: number): void {
    this.#verified = { doneBytes, totalBytes }
    if (this.#phase !== 'verifying') this.#begin('verifying', totalBytes)
  }

  waiting(message: string): void {
    this.#message = message
    this.#begin('waiting', this.#totalBytes)
  }

  /** Said with every report from now on, until something else is said. */
  say(message: string | undefined): void {
    this.#message = message
  }

  report(): void {
    const verified = this.#phase === 'verifying' ? this.#verified : undefined
    const doneBytes = verified?.doneBytes ?? this.#doneBytes()
    const totalBytes = verified?.totalBytes ?? this.#totalBytes
    const at = this.#now()
    const last = this.#last ?? { doneBytes, at, rate: undefined }
    const rate = nextRate(last.rate, Math.max(0, doneBytes - last.doneBytes), at - last.at)
    this.#last = { doneBytes, at, rate: at > last.at ? rate : last.rate }
    this.#onProgress?.({
      doneBytes,
      bytesPerSecond: Math.round(rate),
      ...(totalBytes === undefined ? {} : { totalBytes }),
      ...(this.#phase === undefined ? {} : { phase: this.#phase }),
      ...(this.#message === undefined ? {} : { message: this.#message }),
    })
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #begin(phase: Progress['phase'], totalBytes: number | undefined): void {
    const continued = phase === this.#phase && this.#last !== undefined
    this.#phase = phase
    this.#totalBytes = totalBytes
    if (!continued) this.#last = undefined
    clearInterval(this.#timer)
    this.#timer = setInterval(() => this.report(), progressIntervalMs)
    this.report()
  }
}

/** Long enough to be readable, short enough to show that a download slowed down. */
const timeConstantMs = 3_000

/** The moving average after `bytes` more in `elapsedMs`: older samples fade with a time constant of 3 s. */
export function nextRate(previous: number | undefined, bytes: number, elapsedMs: number): number {
  if (elapsedMs <= 0) return previous ?? 0
  const current = (bytes * 1000) / elapsedMs
  if (previous === undefined) return current
  return previous + (1 - Math.exp(-elapsedMs / timeConstantMs)) * (current - previous)
}
