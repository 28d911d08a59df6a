import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Progress } from '../../../contract/service.ts'
import type { Logger } from '../../observability/logger.ts'
import { jitteredMs } from '../../util/back-off.ts'
import { asError } from '../../util/message-of.ts'
import { firstBytes, magicLength } from '../content-kind.ts'
import { hasReason, ModelError } from '../errors.ts'
import { shownSource } from '../source.ts'
import { storeError } from '../store/files.ts'
import { contentLength, contentProblem, emptyAnswer, meaningOf, truncated, validator, type Meaning } from './answer.ts'
import type { Bandwidth, DiskSpace } from './limits.ts'
import { PartialFile, type ByteRange, type Identity } from './partial-file.ts'
import { ProgressReport } from './progress.ts'
import { Body, discard, downloadStallMs, PaceGuard, send, type Answer, type Credentials } from './request.ts'
import type { Transport } from './transport.ts'

export interface FileRequest {
  /** May hold a login: messages and logs show it without. */
  readonly url: string
  /** The name the file will have: decides what its content must look like. */
  readonly fileName: string
  /** Where known beforehand; another size is refused. */
  readonly sizeBytes?: number | undefined
  /** Hex; another content is deleted. */
  readonly sha256?: string | undefined
  readonly credentials?: Credentials | undefined
  /** What a listing said of the content: where it differs from the last time, a partial file is not continued. */
  readonly etag?: string | undefined
}

export interface DownloadedFile {
  readonly sizeBytes: number
  readonly sha256: string
  /** What the server calls this content: its ETag, else when it last changed. */
  readonly etag?: string | undefined
}

export interface DownloadOptions {
  readonly partialPath: string
  /** The Model that wants it, for those who list partial downloads. */
  readonly model?: string | undefined
  readonly signal: AbortSignal
  readonly log: Logger
  /** The file's first bytes (`magicLength`, or as many as it has), as soon as they are there and before more is stored. May abort the signal. */
  readonly onStart?: ((start: Uint8Array) => void) | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
  readonly transport: Transport
  /** Shared by all downloads, as the space is. */
  readonly bandwidth: Bandwidth
  readonly space: DiskSpace
  /** At most, for one file; without it 4. A file of up to 64 MiB is fetched by one. */
  readonly connections?: number | undefined
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

/** A file that changes more often during one download is not to be had whole. */
const maxChanges = 3

/** Between two failures in a row. */
const backOff = { firstMs: 1000, maxMs: 30_000 }
/** A server that asks for more patience gets it from the caller's back-off, where a person can see it. */
const maxWaitMs = 60_000

/** How often the free space is looked at. */
const spaceBytes = 32 * 1024 * 1024
/** Written at once by a connection. */
const batchBytes = 256 * 1024
const batchMs = 1000

/** Fetching tens of gigabytes again helps only where a person has repaired something. */
const wrongMs = 60 * 60_000

/** One download, over all its attempts. */
interface Job {
  readonly request: FileRequest
  readonly options: DownloadOptions
  /** The address as people may see it. */
  readonly shown: string
  readonly partial: PartialFile
  readonly progress: ProgressReport
  /** What is known of the server by now. */
  readonly learned: {
    /** Over how many connections it may be asked. */
    connections: number
    /** False once it was seen to send whole files only. */
    ranges: boolean
    changes: number
    /** How many answers the bytes that are here came from. */
    answers: number
  }
}

/**
 * Fetches a file to `partialPath` and verifies it there. On success it is complete, synced and stays for the caller to
 * rename; `forgetPartial` then removes the record beside it. After a failure, an abort or a kill it stays too where it
 * can be continued, and the next call with the same path does so, unless the server then has another file. What is found to be wrong is
 * deleted. Throws ModelError, or the signal's reason when that is aborted.
 */
export async function download(request: FileRequest, options: DownloadOptions): Promise<DownloadedFile> {
  const { partialPath, signal, log, now = Date.now, onProgress, connections = defaultConnections } = options
  signal.throwIfAborted()
  try {
    using progress = new ProgressReport(now, onProgress)
    const partial = await PartialFile.open(partialPath, identityOf(request, options), log)
    const learned = { connections, ranges: true, changes: 0, answers: 0 }
    const job: Job = { request, options, shown: shownSource(request.url), partial, progress, learned }
    try {
      const file = await completed(job)
      await partial.close({ keep: true })
      return file
    } catch (error) {
      await partial.close({ keep: canContinue(job) }).catch((closing: unknown) => {
        log.warn('partial download cannot be recorded', { path: partialPath, error: closing })
      })
      throw error
    }
  } catch (error) {
    signal.throwIfAborted()
    throw await storeError(error, dirname(partialPath), request.sizeBytes)
  }
}

async function completed(job: Job): Promise<DownloadedFile> {
  const { partial, options, learned, shown } = job
  const { signal, log, onStart, partialPath } = options
  if (partial.writtenBytes > 0) {
    // How many there were is not recorded, and the disk may have lost some of it since.
    learned.answers = 2
    log.info('continuing a partial download', { source: shown, doneBytes: partial.writtenBytes })
    if (partial.beginsWith(magicLength)) onStart?.(await firstBytes(partialPath))
    signal.throwIfAborted()
  }
  for (;;) {
    const sizeBytes = await fetchAll(job)
    const sha256 = await verified(job, sizeBytes)
    const { etag, lastModified } = partial.remote
    if (sha256 !== undefined) return { sizeBytes, sha256, etag: etag ?? lastModified }
  }
}

/** Brings all bytes of the file, however many attempts that takes. Returns its size. */
async function fetchAll(job: Job): Promise<number> {
  const { partial, progress, shown } = job
  const { signal, log, attempts = defaultAttempts, random = Math.random, space } = job.options
  let failures = 0
  let best = partial.writtenBytes
  for (;;) {
    if (partial.isWhole) return partial.writtenBytes
    await dropUnusable(job)
    try {
      const outcome = await new Attempt(job).run()
      if (typeof outcome === 'number') return outcome
      await startOver(job, outcome)
    } catch (error) {
      signal.throwIfAborted()
      const failure = await storeError(error, space.name ?? dirname(partial.path), partial.remote.sizeBytes)
      failures = partial.writtenBytes > best ? 1 : failures + 1
      best = Math.max(best, partial.writtenBytes)
      const asked = failure.retryAfterMs ?? 0
      if (!isPassing(failure) || failures >= attempts || asked > maxWaitMs) throw failure
      const waitMs = asked + jitteredMs(backOff, failures, random)
      const text = `${failure.message} Next attempt in ${Math.ceil(waitMs / 1000)} s.`
      log.warn('download interrupted, trying again', {
        ...{ text, source: shown, reason: failure.reason },
        ...{ doneBytes: partial.writtenBytes, failures, waitMs },
      })
      progress.waiting(text)
      await delay(waitMs, undefined, { signal })
      progress.say(undefined)
    }
  }
}

/** Without a validator and without a checksum, a server's next answer may be another file's rest. */
const canContinue = ({ request, partial, learned }: Job): boolean =>
  learned.ranges &&
  partial.remote.sizeBytes !== undefined &&
  (request.sha256 !== undefined || validator(partial.remote) !== undefined)

async function dropUnusable(job: Job): Promise<void> {
  const { partial, learned, shown, options } = job
  if (partial.writtenBytes === 0) {
    // An earlier answer does not fix the file's length and version: the next answer may be the first with a body.
    partial.remote = {}
    return
  }
  if (canContinue(job)) return
  const why = learned.ranges
    ? 'the server gives no way to tell whether the file is still the same'
    : 'the server sends whole files only'
  options.log.info('download begins at the beginning again', { source: shown, why })
  await partial.startOver()
}

/** Why the next attempt begins with an empty file: the server has another file than the one that was begun, or sends whole files only. */
type Again = 'changed' | 'no-ranges'

/** Throws ModelError where the file changes too often. */
async function startOver({ partial, progress, learned, shown, options }: Job, why: Again): Promise<void> {
  if (why === 'no-ranges') {
    learned.ranges = false
    options.log.info('the server sends whole files only', { source: shown })
  } else {
    learned.changes += 1
    if (learned.changes > maxChanges) {
      throw ModelError.untilRepairedThere(
        'RemoteChanged',
        `${shown} keeps changing on the server during the download: the agent tries again later.`,
      )
    }
    const text = `${shown} changed on the server: the download starts over.`
    const fields = { text, source: shown, discardedBytes: partial.writtenBytes }
    options.log.warn('the file changed on the server, download starts over', fields)
    progress.say(text)
  }
  learned.answers = 0
  await partial.startOver()
}

/** Returns the SHA-256; undefined where it is worth fetching once more, in one piece. What is wrong is deleted. Throws ModelError. */
async function verified(job: Job, sizeBytes: number): Promise<string | undefined> {
  const { request, options, partial, progress, learned, shown } = job
  const { sizeBytes: announced, sha256: wanted } = request
  if (sizeBytes === 0) throw emptyAnswer(shown)
  if (announced !== undefined && sizeBytes !== announced)
    throw await refused(job, 'WrongLength', wrongLength(shown, announced, sizeBytes).message)
  progress.downloading(sizeBytes)
  progress.report()
  const onProgress = (bytes: number): void => progress.verifying(bytes, sizeBytes)
  const sha256 = await partial.complete(sizeBytes, { signal: options.signal, onProgress })
  if (!(await partial.isInPlace())) throw replaced(partial.path)
  if (wanted === undefined || sha256 === wanted.toLowerCase()) return sha256
  if (learned.answers > 1) {
    // Mixing several answers may be what made it wrong.
    const text = `The parts of ${shown} do not make the file that was announced: the download starts over.`
    const fields = { text, source: shown, sha256, wanted }
    options.log.warn('the checksum of a download in parts is wrong, it starts over', fields)
    progress.say(text)
    Object.assign(learned, { answers: 0, connections: 1, ranges: false } satisfies Partial<Job['learned']>)
    await partial.startOver()
    return undefined
  }
  const sentence = `${shown} is not the file that was announced: its SHA-256 is ${sha256} and should be ${wanted.toLowerCase()}; correct spec.sha256 or the file there.`
  throw await refused(job, 'ChecksumMismatch', sentence)
}

/** Deletes what has arrived, and says why. */
async function refused(
  { partial, shown, options }: Job,
  reason: 'ChecksumMismatch' | 'WrongLength',
  sentence: string,
): Promise<ModelError> {
  await partial.startOver()
  options.log.error('a downloaded file is not what was announced', { source: shown, reason })
  return ModelError.passing(reason, sentence, { retryAfterMs: wrongMs })
}

/** Fetches what the partial file lacks over one or several connections, until all is there or the first fault that ends it. */
class Attempt {
  readonly #job: Job
  readonly #partial: PartialFile
  readonly #shown: string
  readonly #ending = new AbortController()
  readonly #signal: AbortSignal
  readonly #connections = new Set<Promise<void>>()
  /** How many connections may be open. */
  #limit: number
  /** The segments that are being fetched. */
  readonly #claimed = new Set<number>()
  /** Received and not yet written, by all connections. */
  #buffered = 0
  #again: Again | undefined
  #failure: Error | undefined
  /** The latest error of a connection, where other connections took over its work. */
  #fault: ModelError | undefined
  /** How many bytes were written when the free space was last looked at. */
  #spaceSeenAt = 0

  constructor(job: Job) {
    this.#job = job
    this.#partial = job.partial
    this.#shown = job.shown
    this.#signal = AbortSignal.any([job.options.signal, this.#ending.signal])
    this.#limit = job.learned.ranges ? job.learned.connections : 1
    job.progress.follow(() => this.#doneBytes)
  }

  /** Received by now, written or not. */
  get #doneBytes(): number {
    return this.#partial.writtenBytes + this.#buffered
  }

  /** The file's size. Throws ModelError, what the file system says, or the signal's reason. */
  async run(): Promise<number | Again> {
    this.#connect()
    while (this.#connections.size > 0) await Promise.all(this.#connections)
    this.#job.options.space.release(this)
    this.#job.options.signal.throwIfAborted()
    if (this.#again !== undefined) return this.#again
    if (this.#failure !== undefined) throw this.#failure
    const { sizeBytes } = this.#partial.remote
    if (sizeBytes === 0 || this.#partial.isWhole) return this.#partial.writtenBytes
    throw this.#fault ?? truncated(this.#shown, this.#doneBytes, sizeBytes)
  }

  #connect(): void {
    const connection: Promise<void> = this.#connection().finally(() => this.#connections.delete(connection))
    this.#connections.add(connection)
  }

  /** Fetches one segment after the other. Never rejects. */
  async #connection(): Promise<void> {
    try {
      while (!this.#signal.aborted && this.#connections.size <= this.#limit) {
        const next = this.#partial.missing(this.#claimed)
        if (next === undefined) return
        this.#claimed.add(next.segment)
        try {
          await this.#fetch(next.range)
        } finally {
          this.#claimed.delete(next.segment)
        }
      }
    } catch (error) {
      this.#failed(error)
    }
  }

  /** A fault that passes ends the attempt only where no other connection is left. */
  #failed(error: unknown): void {
    const isLimited = hasReason(error, ['RateLimited'])
    if (isLimited) this.#job.learned.connections = 1
    if (this.#connections.size > 1 && error instanceof ModelError && isPassing(error) && !this.#signal.aborted) {
      this.#limit = isLimited ? 1 : this.#connections.size - 1
      this.#fault = error
      const { reason } = error
      this.#job.options.log.info('one of several connections of a download ended', { source: this.#shown, reason })
      return
    }
    this.#failure ??= asError(error)
    this.#ending.abort(error)
  }

  async #fetch(range: ByteRange): Promise<void> {
    const { transport, stallMs = downloadStallMs, now = Date.now } = this.#job.options
    const { url, credentials, sha256 } = this.#job.request
    const known = this.#partial.remote
    using guard = new PaceGuard(stallMs, this.#shown)
    const begun = known.sizeBytes !== undefined
    const asked = {
      ...{ url, credentials },
      range: this.#job.learned.ranges ? range : undefined,
      // A checksum tells at the end whether it was the same file.
      ifRange: sha256 === undefined ? validator(known) : undefined,
    }
    const answer = await send(asked, { transport, signal: this.#signal, guard })
    try {
      const question = { range: asked.range, known, begun, isVouchedFor: sha256 !== undefined }
      const meaning = meaningOf(answer, { ...question, shown: this.#shown, now: now() })
      await this.#receive(answer, meaning, new Body(answer, guard, this.#signal, this.#shown))
    } finally {
      discard(answer.body)
    }
  }

  async #receive({ status, headers }: Answer, meaning: Meaning, body: Body): Promise<void> {
    const { sizeBytes: wanted } = this.#job.request
    const type = headers.get('content-type')
    if (meaning.kind === 'changed' || meaning.kind === 'no-ranges') {
      // A login page or a captive portal in place of the file is no reason to throw away the partial file.
      if (status === 200) this.#checkStart(await body.start(contentLength(headers)), type)
      this.#again = meaning.kind
      this.#ending.abort()
      return
    }
    const { remote } = meaning
    const total = remote.sizeBytes
    if (wanted !== undefined && total !== undefined && total !== wanted) throw wrongLength(this.#shown, wanted, total)
    this.#partial.remote = { ...this.#partial.remote, ...remote }
    const [start, end] = meaning.kind === 'part' ? [meaning.start, meaning.end] : [0, total ?? Infinity]
    if (start === 0) {
      const first = await body.start(total)
      this.#job.options.onStart?.(first)
      this.#checkStart(first, type)
      this.#signal.throwIfAborted()
    }
    await this.#claimSpace()
    this.#job.learned.answers += 1
    this.#job.progress.downloading(total ?? wanted)
    if (meaning.kind === 'part' && canContinue(this.#job)) {
      while (this.#connections.size < this.#limit && this.#partial.missing(this.#claimed)) this.#connect()
    }
    const received = await this.#store(body, start, end)
    if (end !== Infinity && received < end) throw truncated(this.#shown, this.#doneBytes, total)
    if (total === undefined) this.#partial.remote = { ...this.#partial.remote, sizeBytes: received }
  }

  /** Writes a body from `start` on, in batches. `end`: Infinity = unknown. Returns where the bytes ended. */
  async #store(body: Body, start: number, end: number): Promise<number> {
    const { bandwidth } = this.#job.options
    // One byte more than was announced tells that it is another file. What never ends reaches the disk's reserve.
    const limit = Math.min(end, (this.#job.request.sizeBytes ?? Infinity) + 1)
    // Copied at once, so that the memory of each chunk can be given back before the next is read.
    let batch = Buffer.allocUnsafeSlow(batchBytes)
    let spare = Buffer.allocUnsafeSlow(batchBytes)
    let position = start
    let filled = 0
    let filledSince = performance.now()
    let writing: Promise<void> = Promise.resolve()
    const flush = async (): Promise<void> => {
      await writing
      const [bytes, at] = [batch.subarray(0, filled), position - filled]
      ;[batch, spare, filled, filledSince] = [spare, batch, 0, performance.now()]
      writing = this.#partial.write(bytes, at).finally(() => (this.#buffered -= bytes.length))
      writing.catch(() => undefined) // the next await of it rejects
      if (this.#partial.writtenBytes - this.#spaceSeenAt >= spaceBytes) await this.#claimSpace()
    }
    try {
      while (position < limit) {
        const chunk = await body.next(this.#doneBytes, this.#partial.remote.sizeBytes)
        if (chunk === undefined) break
        await bandwidth.take(chunk.length, this.#signal)
        for (let rest = chunk.subarray(0, limit - position); rest.length > 0;) {
          const piece = rest.subarray(0, batch.length - filled)
          batch.set(piece, filled)
          filled += piece.length
          position += piece.length
          this.#buffered += piece.length
          rest = rest.subarray(piece.length)
          if (filled === batch.length) await flush()
        }
        release(chunk)
        if (performance.now() - filledSince >= batchMs) await flush()
      }
    } finally {
      // The bytes received stay, whatever ended the request.
      await flush()
      await writing
      release(batch)
      release(spare)
    }
    return position
  }

  #checkStart(start: Buffer, contentType: string | null): void {
    if (start.length === 0) return
    const problem = contentProblem(this.#job.request.fileName, start, contentType, this.#shown)
    if (problem) throw problem
  }

  async #claimSpace(): Promise<void> {
    const { partialPath, space } = this.#job.options
    const { writtenBytes, remote } = this.#partial
    this.#spaceSeenAt = writtenBytes
    // Where the length is unknown, as much as may come before the next look.
    const total = remote.sizeBytes ?? this.#job.request.sizeBytes ?? writtenBytes + 2 * spaceBytes
    await space.claim(this, dirname(partialPath), Math.max(0, total - writtenBytes))
  }
}

/** Whether a fault passes by itself. */
const isPassing = (error: ModelError): boolean =>
  hasReason(error, ['Truncated', 'Stalled', 'ServerError', 'RateLimited', 'Unreachable'])

const identityOf = (
  { url, sizeBytes, sha256, etag }: FileRequest,
  { model = '' }: Pick<DownloadOptions, 'model'>,
): Identity => ({
  ...{ source: shownSource(url), model },
  urlSha256: createHash('sha256').update(url.replace(/#.*$/s, '')).digest('hex'),
  wanted: { sizeBytes, sha256: sha256?.toLowerCase(), etag },
})

/**
 * Gives the memory of a buffer back at once, where no other shares it: left to the garbage collector it would be tens of MiB, which that
 * hardly sees, as they lie outside its heap. The buffer must not be used afterwards.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}

const wrongLength = (shown: string, wanted: number, found: number): ModelError =>
  ModelError.untilRepairedThere(
    'WrongLength',
    `${shown} has ${found} bytes where ${wanted} were announced: check spec.source, or whether the file is being replaced there.`,
  )

const replaced = (path: string): ModelError =>
  ModelError.passing(
    'StoreUnusable',
    `${path} was replaced during the download: let only one agent use this model store.`,
  )
