import type { Logger } from '../../observability/logger.ts'
import { asError } from '../../util/message-of.ts'
import type { Credentials } from '../credentials.ts'
import { ModelError, remoteRepairMs } from '../errors.ts'
import { contentProblem, truncated } from '../http-answer.ts'
import { shownSource } from '../source.ts'
import { contentLength, meaningOf, validator, type Meaning } from './answer-meaning.ts'
import type { Bandwidth } from './bandwidth.ts'
import { Body } from './body.ts'
import { firstGap, withRange, type ByteRange } from './byte-ranges.ts'
import { requireFreeSpace, type Room } from './free-space.ts'
import { PaceGuard } from './pace-guard.ts'
import { isWhole, type PartialFile } from './partial-file.ts'
import { discard, send, type Answer } from './request.ts'
import { isRetryable } from './retry.ts'
import { storeBody } from './store-body.ts'
import type { Transport } from './transport.ts'

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
