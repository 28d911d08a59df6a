import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { formatBytes } from '../../../contract/format.ts'
import type { Progress } from '../../../contract/service.ts'
import type { Logger } from '../../observability/logger.ts'
import { jitteredMs } from '../../util/back-off.ts'
import { asError } from '../../util/message-of.ts'
import { firstBytes, magicLength } from '../content-kind.ts'
import { hasReason, ModelError, remoteRepairMs } from '../errors.ts'
import { shownSource } from '../source.ts'
import { storeError } from '../store/files.ts'
import { contentLength, contentProblem, emptyAnswer, meaningOf, truncated, validator, type Meaning } from './answer.ts'
import { requireFreeSpace, type Bandwidth, type SpaceClaims } from './limits.ts'
import {
  firstGap,
  isWhole,
  PartialFile,
  prefixLength,
  withoutRange,
  withRange,
  type ByteRange,
  type Identity,
} from './partial-file.ts'
import { ProgressReport } from './progress.ts'
import { Body, discard, downloadStallMs, PaceGuard, send, type Answer, type Credentials } from './request.ts'
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
  /** The file's first bytes (`magicLength`, or as many as it has), as soon as they are there and before more is stored. May abort the signal. */
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

/** Servers and networks often limit a single connection: four bring several times as much there, and as much as one elsewhere. */
const defaultConnections = 4
/** What each holds in memory is lost by a kill. */
const maxConnections = 8
/** Asked for at a time where there are several connections. */
const segmentBytes = 64 * 1024 * 1024

/** A file that changes more often during one download is not to be had whole. */
const maxChanges = 3

/** Between two failures in a row. */
const backOff = { firstMs: 1000, maxMs: 30_000 }
/** A server that asks for more patience gets it from the caller's back-off, where a person can see it. */
const maxWaitMs = 60_000

/** How often the free space is looked at. */
const spaceBytes = 32 * 1024 * 1024
const spaceMs = 5000

/** Written at once by all connections together; as much may be collected meanwhile. */
const batchBytes = 1024 * 1024
const batchMs = 1000
/** The most that is taken of an answer that does not say its length, and need never end. */
const defaultUnknownLengthBytes = 256 * 1024 ** 3

/** Fetching tens of gigabytes again helps only where a person has repaired something. */
const quarantineMs = 60 * 60_000

/**
 * Fetches a file to `partialPath` and verifies it there. On success it is complete, synced and stays for the caller to
 * rename; `forgetPartial` then removes the records beside it. After a failure, an abort or a kill it stays too where it
 * can be continued, and the next call with the same path does so, unless the server then has another file. What is found to be wrong is
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

/** What is known of the server by now. */
interface Learned {
  /** Over how many connections it may be asked. */
  connections: number
  /** False once it was seen to send whole files only. */
  ranges: boolean
  changes: number
  /** How many answers the bytes that are here came from. */
  answers: number
}

/** The server has another file than the one that was begun, or sends whole files only: the next attempt begins with an empty file. */
class StartOver extends Error {
  readonly why: 'changed' | 'no-ranges'

  constructor(why: 'changed' | 'no-ranges') {
    super(why)
    this.name = 'StartOver'
    this.why = why
  }
}

/** One download: attempts until all bytes are here, then the comparison with what was announced. */
class Download {
  readonly #request: FileRequest
  readonly #options: DownloadOptions
  readonly #shown: string
  readonly #learned: Learned
  #attempt: Attempt | undefined

  constructor(request: FileRequest, options: DownloadOptions) {
    this.#request = request
    this.#options = options
    this.#shown = shownSource(request.url)
    const { connections = defaultConnections } = options
    this.#learned = {
      connections: Math.min(maxConnections, Math.max(1, connections)),
      ranges: true,
      changes: 0,
      answers: 0,
    }
  }

  async run(): Promise<DownloadedFile> {
    const { partialPath, log, signal, onStart, onProgress, now = Date.now } = this.#options
    using progress = new ProgressReport(() => this.#attempt?.doneBytes ?? 0, now, onProgress)
    const onVerify = (bytes: number, of: number): void => progress.verifying(bytes, of)
    const partial = await PartialFile.open(partialPath, identityOf(this.#request), { log, now, signal, onVerify })
    try {
      if (partial.writtenBytes > 0) {
        this.#learned.answers = 1
        log.info('continuing a partial download', { source: this.#shown, doneBytes: partial.writtenBytes })
        if (prefixLength(partial.ranges) >= magicLength) onStart?.(await firstBytes(partialPath))
        signal.throwIfAborted()
      }
      for (;;) {
        const sizeBytes = await this.#fetch(partial, progress)
        const sha256 = await this.#verify(partial, sizeBytes, progress)
        if (sha256 === undefined) continue
        const { etag, lastModified } = partial.remote
        await partial.close({ keep: true })
        return {
          ...{ sizeBytes, sha256 },
          ...(etag !== undefined && { etag }),
          ...(lastModified !== undefined && { lastModified }),
        }
      }
    } catch (error) {
      await partial.close({ keep: this.#canContinue(partial) }).catch((closing: unknown) => {
        log.warn('partial download cannot be recorded', { path: partialPath, error: closing })
      })
      throw error
    }
  }

  /** All bytes of the file, however many attempts that takes. Returns its size. */
  async #fetch(partial: PartialFile, progress: ProgressReport): Promise<number> {
    const { signal, log, attempts = defaultAttempts, random = Math.random, storeFolder } = this.#options
    let failures = 0
    let best = partial.writtenBytes
    for (;;) {
      if (isWhole(partial.ranges, partial.remote.sizeBytes)) return partial.remote.sizeBytes
      await this.#dropUnusable(partial)
      try {
        this.#attempt = new Attempt(partial, this.#request, this.#options, this.#learned, progress)
        return await this.#attempt.run()
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof StartOver) {
          await this.#startOver(partial, error.why, progress)
          continue
        }
        const failure = await storeError(error, storeFolder ?? dirname(partial.path), partial.remote.sizeBytes)
        failures = partial.writtenBytes > best ? 1 : failures + 1
        best = Math.max(best, partial.writtenBytes)
        const asked = failure.retryAfterMs ?? 0
        if (!isPassing(failure) || failures >= attempts || asked > maxWaitMs) throw failure
        const waitMs = asked + jitteredMs(backOff, failures, random)
        const text = `${failure.message} Next attempt in ${Math.ceil(waitMs / 1000)} s.`
        log.warn('download interrupted, trying again', {
          ...{ text, source: this.#shown, reason: failure.reason },
          ...{ doneBytes: partial.writtenBytes, failures, waitMs },
        })
        progress.waiting(text)
        await delay(waitMs, undefined, { signal })
        progress.say(undefined)
      }
    }
  }

  /** Without a validator and without a checksum, a server's next answer may be another file's rest. */
  #canContinue({ remote }: PartialFile): boolean {
    return this.#learned.ranges && (this.#request.sha256 !== undefined || validator(remote) !== undefined)
  }

  async #dropUnusable(partial: PartialFile): Promise<void> {
    if (partial.writtenBytes === 0) {
      // An earlier answer does not fix the file's length and version: the next answer may be the first with a body.
      partial.remote = {}
      return
    }
    if (this.#canContinue(partial)) return
    this.#options.log.info('download begins at the beginning again', {
      source: this.#shown,
      why: this.#learned.ranges
        ? 'the server gives no way to tell whether the file is still the same'
        : 'the server sends whole files only',
    })
    await partial.startOver()
  }

  /** Throws ModelError where the file changes too often. */
  async #startOver(partial: PartialFile, why: StartOver['why'], progress: ProgressReport): Promise<void> {
    const { log } = this.#options
    const source = this.#shown
    if (why === 'no-ranges') {
      this.#learned.ranges = false
      log.info('the server sends whole files only', { source })
    } else {
      this.#learned.changes += 1
      if (this.#learned.changes > maxChanges) {
        throw new ModelError(
          'transient',
          'RemoteChanged',
          `${source} changes on the server while it is downloaded: the agent tries again when that may be over.`,
          { retryAfterMs: remoteRepairMs },
        )
      }
      const text = `${source} changed on the server: the download starts over.`
      const discardedBytes = partial.writtenBytes
      log.warn('the file changed on the server, download starts over', { text, source, discardedBytes })
      progress.say(text)
    }
    this.#learned.answers = 0
    await partial.startOver()
  }

  /** Returns the SHA-256; undefined where it is worth fetching once more, in one piece. What is wrong is moved aside. Throws ModelError. */
  async #verify(partial: PartialFile, sizeBytes: number, progress: ProgressReport): Promise<string | undefined> {
    const { signal, log } = this.#options
    const { sizeBytes: announced, sha256: wanted } = this.#request
    const source = this.#shown
    if (sizeBytes === 0) throw emptyAnswer(source)
    if (announced !== undefined && sizeBytes !== announced) {
      throw await this.#quarantined(partial, 'WrongLength', wrongLength(source, announced, sizeBytes).message)
    }
    progress.downloading(sizeBytes)
    progress.report()
    const sha256 = await partial.complete(sizeBytes, (bytes) => progress.verifying(bytes, sizeBytes))
    signal.throwIfAborted()
    if (!(await partial.isInPlace())) throw replaced(partial.path)
    if (wanted === undefined || sha256 === wanted.toLowerCase()) return sha256
    if (this.#learned.answers > 1) {
      // Mixing several answers may be what made it wrong.
      const text = `The parts of ${source} do not make the file that was announced: the download starts over.`
      log.warn('the checksum of a download in parts is wrong, it starts over', { text, source, sha256, wanted })
      progress.say(text)
      Object.assign(this.#learned, { answers: 0, connections: 1, ranges: false } satisfies Partial<Learned>)
      await partial.startOver()
      return undefined
    }
    const sentence = `${source} is not the file that was announced: its SHA-256 is ${sha256} and should be ${wanted.toLowerCase()}; correct spec.sha256 or the file there.`
    throw await this.#quarantined(partial, 'ChecksumMismatch', sentence)
  }

  async #quarantined(
    partial: PartialFile,
    reason: 'ChecksumMismatch' | 'WrongLength',
    sentence: string,
  ): Promise<ModelError> {
    const aside = await partial.quarantine()
    this.#options.log.error('a downloaded file is not what was announced', { source: this.#shown, reason, path: aside })
    return new ModelError('transient', reason, `${sentence} What came is kept as ${aside} and never served.`, {
      retryAfterMs: quarantineMs,
    })
  }
}

/** Fetches what the partial file lacks over one or several connections, until all is there or the first fault that ends it. */
class Attempt {
  readonly #partial: PartialFile
  readonly #request: FileRequest
  readonly #options: DownloadOptions
  readonly #learned: Learned
  readonly #progress: ProgressReport
  readonly #ending = new AbortController()
  readonly #signal: AbortSignal
  readonly #shown: string
  readonly #open = new Set<Promise<void>>()
  /** How many connections are open, and may be. */
  #active = 0
  #limit: number
  #claimed: readonly ByteRange[] = []
  /** Received and not yet written, by all connections. */
  #buffered = 0
  #failure: Error | undefined
  /** The latest error of a connection, where other connections took over its work. */
  #fault: ModelError | undefined
  #spaceSeen = { bytes: 0, at: -Infinity }
  /** Set by a body that is the whole file: its end is the file's end. */
  #wholeBytes: number | undefined

  constructor(
    partial: PartialFile,
    request: FileRequest,
    options: DownloadOptions,
    learned: Learned,
    progress: ProgressReport,
  ) {
    this.#partial = partial
    this.#request = request
    this.#options = options
    this.#learned = learned
    this.#progress = progress
    this.#signal = AbortSignal.any([options.signal, this.#ending.signal])
    this.#shown = shownSource(request.url)
    this.#limit = learned.ranges ? learned.connections : 1
  }

  /** Received by now, written or not. */
  get doneBytes(): number {
    return this.#partial.writtenBytes + this.#buffered
  }

  /** The file's size. Throws ModelError, StartOver, what the file system says, or the signal's reason. */
  async run(): Promise<number> {
    this.#spawn()
    while (this.#open.size > 0) await Promise.all(this.#open)
    this.#options.claims?.claim(this, 0)
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
          this.#claimed = withoutRange(this.#claimed, range)
        }
        this.#grow()
      }
    } catch (error) {
      this.#connectionFailed(error)
    } finally {
      this.#active -= 1
    }
  }

  /** A fault that passes ends the attempt only where no other connection is left. */
  #connectionFailed(error: unknown): void {
    const isLimited = hasReason(error, ['RateLimited'])
    if (isLimited) this.#learned.connections = 1
    if (this.#active > 1 && error instanceof ModelError && isPassing(error) && !this.#signal.aborted) {
      this.#limit = isLimited ? 1 : this.#active - 1
      this.#fault = error
      const { reason } = error
      this.#options.log.info('one of several connections of a download ended', { source: this.#shown, reason })
      return
    }
    this.#failure ??= asError(error)
    this.#ending.abort(error)
  }

  /** The first part that is neither there nor being fetched. */
  #nextRange(): ByteRange | undefined {
    const { sizeBytes } = this.#partial.remote
    if (this.#wholeBytes !== undefined || (sizeBytes === undefined && this.#claimed.length > 0)) return undefined
    const taken = this.#claimed.reduce<readonly ByteRange[]>(withRange, this.#partial.ranges)
    const gap = firstGap(taken, sizeBytes ?? Infinity)
    if (gap === undefined || this.#learned.connections === 1) return gap
    return [gap[0], Math.min(gap[1], gap[0] + segmentBytes)]
  }

  async #fetch(range: ByteRange): Promise<void> {
    const { transport, stallMs = downloadStallMs, now = Date.now } = this.#options
    const { url, credentials } = this.#request
    const known = this.#partial.remote
    using guard = new PaceGuard(stallMs, this.#shown)
    const begun = this.#partial.writtenBytes > 0 || this.#claimed.length > 1 || known.sizeBytes !== undefined
    const asked = {
      ...{ url, credentials },
      range: this.#learned.ranges ? range : undefined,
      ifRange: begun ? validator(known) : undefined,
    }
    const answer = await send(asked, { transport, signal: this.#signal, guard })
    try {
      const meaning = meaningOf(answer, { range: asked.range, known, begun, shown: this.#shown, now: now() })
      if (meaning.kind === 'refused') throw meaning.error
      const encoding = meaning.kind === 'whole' ? meaning.encoding : undefined
      await this.#receive(answer, meaning, new Body(answer, encoding, guard, this.#signal, this.#shown), range)
    } finally {
      discard(answer.body)
    }
  }

  async #receive(
    { status, headers }: Answer,
    meaning: Exclude<Meaning, { kind: 'refused' }>,
    body: Body,
    range: ByteRange,
  ): Promise<void> {
    const { sizeBytes: wanted, sha256 } = this.#request
    const type = headers.get('content-type')
    if (meaning.kind === 'changed' || meaning.kind === 'no-ranges') {
      // A login page or a captive portal in place of the file is no reason to throw away the partial file.
      if (status === 200) this.#checkStart(await body.start(contentLength(headers)), type)
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
    await this.#checkSpace({ now: true })
    this.#learned.answers += 1
    this.#progress.downloading(total ?? wanted)
    const isSame = sha256 !== undefined || validator(remote) !== undefined
    if (meaning.kind === 'part' && isSame && (total ?? 0) > segmentBytes) this.#grow()
    const received = await this.#store(body, start, end)
    if (meaning.kind === 'whole') {
      if (total !== undefined && received < total) throw truncated(this.#shown, received, total)
      this.#wholeBytes = received
    } else if (received < end) throw truncated(this.#shown, this.doneBytes, total)
    else if (total === undefined && end < range[1]) this.#wholeBytes = end
  }

  /** Writes a body from `start` on, in batches. `end`: Infinity = unknown. Returns where the bytes ended. */
  async #store(body: Body, start: number, end: number): Promise<number> {
    const { bandwidth, unknownLengthBytes = defaultUnknownLengthBytes } = this.#options
    const { sizeBytes: wanted = Infinity } = this.#request
    const isEndless = end === Infinity && wanted === Infinity
    // One byte more than was announced tells that it is another file.
    const limit = isEndless ? unknownLengthBytes : Math.min(end, wanted + 1)
    const enough = Math.ceil(batchBytes / this.#learned.connections)
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
      writing = this.#partial.write(batch, at).finally(() => (this.#buffered -= batch.length))
      writing.catch(() => undefined) // the next await of it rejects
      await this.#checkSpace({ now: false })
    }
    try {
      while (position < limit) {
        const chunk = await body.next(this.doneBytes, this.#partial.remote.sizeBytes)
        if (chunk === undefined) break
        const pause = bandwidth.take(chunk.length, this.#signal)
        if (pause !== undefined) await pause
        for (let rest = chunk.subarray(0, limit - position); rest.length > 0;) {
          const piece = rest.subarray(0, filling.length - filled)
          filling.set(piece, filled)
          filled += piece.length
          position += piece.length
          this.#buffered += piece.length
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
    if (isEndless && position >= limit) throw endless(this.#shown, limit)
    return position
  }

  #checkStart(start: Buffer, contentType: string | null): void {
    if (start.length === 0) return
    const problem = contentProblem(this.#request.fileName, start, contentType, this.#shown)
    if (problem) throw problem
  }

  async #checkSpace({ now }: { readonly now: boolean }): Promise<void> {
    const { partialPath, storeFolder: name, reserveBytes, deletableBytes, claims } = this.#options
    const { writtenBytes, remote } = this.#partial
    const at = performance.now()
    if (!now && writtenBytes - this.#spaceSeen.bytes < spaceBytes && at - this.#spaceSeen.at < spaceMs) return
    this.#spaceSeen = { bytes: writtenBytes, at }
    // Where the length is unknown, as much as may come before the next look.
    const total = remote.sizeBytes ?? this.#request.sizeBytes ?? writtenBytes + 2 * spaceBytes
    const room = { folder: dirname(partialPath), name, reserveBytes, deletableBytes, claims }
    await requireFreeSpace(room, Math.max(0, total - writtenBytes), this)
  }
}

/** Whether a fault passes by itself. */
const isPassing = (error: ModelError): boolean =>
  hasReason(error, ['Truncated', 'Stalled', 'ServerError', 'RateLimited', 'Unreachable'])

function identityOf({ url, sizeBytes, sha256, etag }: FileRequest): Identity {
  return {
    urlSha256: createHash('sha256').update(url.replace(/#.*$/s, '')).digest('hex'),
    wanted: {
      ...(sizeBytes !== undefined && { sizeBytes }),
      ...(sha256 !== undefined && { sha256: sha256.toLowerCase() }),
      ...(etag !== undefined && { etag }),
    },
  }
}

/**
 * Gives the memory of a buffer back at once, where no other shares it: left to the garbage collector it would be tens of MiB, which that
 * hardly sees, as they lie outside its heap. The buffer must not be used afterwards.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}

function wrongLength(shown: string, wanted: number, found: number): ModelError {
  return new ModelError(
    'transient',
    'WrongLength',
    `${shown} has ${found} bytes where ${wanted} were announced: check spec.source, or whether the file is being replaced there.`,
    { retryAfterMs: remoteRepairMs },
  )
}

function endless(shown: string, bytes: number): ModelError {
  return new ModelError(
    'transient',
    'WrongLength',
    `${shown} does not say its length and goes on after ${formatBytes(bytes)}: give an address that says how long the file is.`,
    { retryAfterMs: remoteRepairMs },
  )
}

function replaced(path: string): ModelError {
  return new ModelError(
    'transient',
    'StoreUnusable',
    `${path} was replaced during the download: let only one agent use this model store.`,
  )
}
