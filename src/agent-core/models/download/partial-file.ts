import { constants } from 'node:fs'
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { uptime } from 'node:os'
import { z } from 'zod'
import type { Logger } from '../../observability/logger.ts'
import { parseJson, readIfThere } from '../../util/files.ts'
import { asError } from '../../util/message-of.ts'
import { untilAborted } from '../../util/until-aborted.ts'
import { within } from '../../util/within.ts'
import { PrefixHash } from './hash.ts'

/** From the first byte to the one after the last. */
export type ByteRange = readonly [start: number, end: number]

/** The ranges with another one, sorted and merged. */
export function withRange(ranges: readonly ByteRange[], added: ByteRange): ByteRange[] {
  if (added[0] >= added[1]) return [...ranges]
  let [start, end] = added
  const apart: ByteRange[] = []
  for (const range of ranges) {
    if (range[1] < start || range[0] > end) apart.push(range)
    else {
      start = Math.min(start, range[0])
      end = Math.max(end, range[1])
    }
  }
  return [...apart, [start, end] as const].sort((a, b) => a[0] - b[0])
}

/** Sorted ranges without the bytes of one. */
export const withoutRange = (ranges: readonly ByteRange[], [start, end]: ByteRange): ByteRange[] =>
  ranges.flatMap((range) => [
    ...clipped([range], start),
    ...(range[1] > end ? [[Math.max(range[0], end), range[1]] as const] : []),
  ])

/** The first part of [0, end) that sorted and merged ranges leave out. */
export function firstGap(ranges: readonly ByteRange[], end: number): ByteRange | undefined {
  const start = prefixLength(ranges)
  if (start >= end) return undefined
  const next = ranges.find((range) => range[0] > start)
  return [start, Math.min(end, next?.[0] ?? end)]
}

export function coveredBytes(ranges: readonly ByteRange[]): number {
  return ranges.reduce((sum, [start, end]) => sum + end - start, 0)
}

/** How far sorted and merged ranges reach from 0 on without a gap. */
export function prefixLength(ranges: readonly ByteRange[]): number {
  const [first] = ranges
  return first?.[0] === 0 ? first[1] : 0
}

/** What of the ranges lies in [0, end). */
export function clipped(ranges: readonly ByteRange[], end: number): ByteRange[] {
  return ranges.filter(([start]) => start < end).map(([start, last]) => [start, Math.min(last, end)] as const)
}

/** Whether all of [0, size) is written. */
export function isWhole(ranges: readonly ByteRange[], sizeBytes: number | undefined): sizeBytes is number {
  return sizeBytes !== undefined && sizeBytes > 0 && firstGap(ranges, sizeBytes) === undefined
}

const digest = z.string().regex(/^[0-9a-f]{64}$/)
const offset = z.int().nonnegative()

/** The record beside a partial file; another version of the agent may have written it. */
const recordSchema = z.object({
  version: z.literal(1),
  /** SHA-256 of the address as asked for: the address itself may hold a login. */
  urlSha256: digest,
  /** What the request said of the file. */
  wanted: z.object({ sizeBytes: offset.optional(), sha256: digest.optional(), etag: z.string().optional() }),
  /** What the server said of it. */
  remote: z.object({
    sizeBytes: offset.optional(),
    etag: z.string().optional(),
    lastModified: z.string().optional(),
  }),
  /** Bytes that are in the file: [first, one after the last]. */
  ranges: z.array(z.tuple([offset, offset])).max(10_000),
  /** Digest of the file's beginning: tells whether the file still holds what was written. */
  prefix: z.object({ bytes: offset, sha256: digest }),
  /** When this machine started, in ms since 1970. */
  bootedAt: z.number(),
})
type PartialRecord = z.infer<typeof recordSchema>

/** Which file the partial file is part of. */
export type Identity = Pick<PartialRecord, 'urlSha256' | 'wanted'>

/** What the server said of the file. */
export type Remote = PartialRecord['remote']

/**
 * There are two records beside a partial file. `recent` is written every few MiB without waiting for the disk: it outlives the
 * process, and is believed only until the machine restarts. `durable` is written after the file's bytes were synced,
 * and is synced itself: it outlives a power cut.
 */
const recordPaths = (path: string) => ({ recent: `${path}.recent.json`, durable: `${path}.json` })
type RecordKind = keyof ReturnType<typeof recordPaths>

/** A file whose content is not what was announced has it behind its name, until it is taken away. */
export const wrongSuffix = '.quarantined'

/** Recorded at least this often, so that a killed process loses little. */
const recordBytes = 2 * 1024 * 1024
/** Nothing more is written before the record has caught up. */
const maxUnrecordedBytes = 3 * 1024 * 1024
const recordMs = 1000
/** Synced at least this often: what a power cut can lose. Syncing flushes a whole disk, so seldom. */
const syncBytes = 64 * 1024 * 1024
const verifyReportMs = 250
/** How long the end of a download waits for the hash, so that the record can tell of as much as possible whether it still holds. */
const hashCatchUpMs = 2000

interface OpenOptions {
  readonly log: Logger
  readonly now: () => number
  readonly signal: AbortSignal
  /** While what was left there is read again. */
  readonly onVerify: (bytes: number, of: number) => void
}

/**
 * A file that arrives in pieces, with a record beside it of which bytes are there. The record never claims bytes that
 * are not written: a killed process loses at most what came since the last record (4 MiB), a power cut what came since
 * the last sync (64 MiB and what arrived while it ran).
 */
export class PartialFile implements AsyncDisposable {
  readonly path: string
  readonly #handle: FileHandle
  readonly #identity: Identity
  readonly #now: () => number
  readonly #timer: NodeJS.Timeout
  #hash: PrefixHash
  #ranges: readonly ByteRange[] = []
  /** What the server said of the file by now. */
  remote: Remote = {}
  /** Written since it was opened, and how much of that a record tells and the disk holds. */
  #arrivedBytes = 0
  #recordedBytes = 0
  #syncedBytes = 0
  /** How far the digest in the last record reaches. */
  #recordedPrefix = 0
  /** The record that is being written, of each kind. */
  readonly #writing: { recent?: Promise<void> | undefined; durable?: Promise<void> | undefined } = {}
  /** Why a record could not be written; thrown by the next call. */
  #failure: Error | undefined

  private constructor(path: string, handle: FileHandle, identity: Identity, now: () => number) {
    this.path = path
    this.#handle = handle
    this.#identity = identity
    this.#now = now
    this.#hash = new PrefixHash(handle.fd)
    this.#timer = setInterval(() => {
      if (this.#recordedBytes < this.#arrivedBytes) void this.#recordSoon('recent')
    }, recordMs)
  }

  /** Opens it with the bytes of an earlier call, if they are of the same file and unchanged on the disk. */
  static async open(
    path: string,
    identity: Identity,
    { log, now, signal, onVerify }: OpenOptions,
  ): Promise<PartialFile> {
    const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o644)
    const file = new PartialFile(path, handle, identity, now)
    try {
      const why = await file.#resume(signal, onVerify)
      if (why !== undefined) {
        log.info('partial download cannot be continued', { path, why })
        await file.startOver()
      }
      return file
    } catch (error) {
      await file[Symbol.asyncDispose]()
      throw error
    }
  }

  get writtenBytes(): number {
    return coveredBytes(this.#ranges)
  }

  get ranges(): readonly ByteRange[] {
    return this.#ranges
  }

  /** Writes at a position. Throws what the file system says, also about an earlier record. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    while (this.#arrivedBytes - this.#recordedBytes >= maxUnrecordedBytes) {
      await this.#recordSoon('recent')
      this.#throwFailure()
    }
    if (this.#arrivedBytes - this.#syncedBytes >= 2 * syncBytes) await this.#writing.durable
    this.#throwFailure()
    for (let done = 0; done < bytes.length;) {
      done += (await this.#handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten
    }
    this.#ranges = withRange(this.#ranges, [position, position + bytes.length])
    this.#hash.advance(prefixLength(this.#ranges))
    this.#arrivedBytes += bytes.length
    if (this.#arrivedBytes - this.#recordedBytes >= recordBytes) void this.#recordSoon('recent')
    if (this.#arrivedBytes - this.#syncedBytes >= syncBytes) void this.#recordSoon('durable')
  }

  /** Forgets every byte. Nothing may be writing. */
  async startOver(): Promise<void> {
    this.#forgetRanges()
    await this.#settled()
    await removeRecords(this.path)
    await this.#hash[Symbol.asyncDispose]()
    await this.#handle.truncate(0)
    this.remote = {}
    this.#hash = new PrefixHash(this.#handle.fd)
  }

  /** The digest (hex SHA-256) of the whole file of that size, and everything made durable. */
  async complete(sizeBytes: number, onVerify: (hashedBytes: number) => void): Promise<string> {
    await this.#settled()
    const { sha256 } = await this.#watched(this.#hash.digest(sizeBytes), onVerify)
    await this.#handle.truncate(sizeBytes)
    await this.#handle.sync()
    await this.#record('durable')
    return sha256
  }

  /** False where another process put another file in its place. */
  async isInPlace(): Promise<boolean> {
    const [there, ours] = await Promise.all([stat(this.path).catch(() => undefined), this.#handle.stat()])
    return there?.ino === ours.ino && there.dev === ours.dev
  }

  /** Moves it out of the way, for a person to look at. Returns where to. */
  async quarantine(): Promise<string> {
    this.#forgetRanges()
    await this.#settled()
    const aside = `${this.path}${wrongSuffix}`
    await rename(this.path, aside)
    await removeRecords(this.path)
    return aside
  }

  /** Records what is there, or removes it where it cannot be continued, and closes. Throws what the file system says. */
  async close({ keep }: { keep: boolean }): Promise<void> {
    clearInterval(this.#timer)
    try {
      await this.#settled()
      const prefix = prefixLength(this.#ranges)
      if (!(await this.isInPlace())) await removeRecords(this.path)
      else if (!keep || this.writtenBytes === 0) await forgetPartial(this.path)
      else if (this.#recordedBytes < this.#arrivedBytes || this.#recordedPrefix < prefix) {
        await within(hashCatchUpMs, this.#hash.digest(prefix))
        await this.#record('recent')
      }
    } finally {
      await this[Symbol.asyncDispose]()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    await this.#written()
    await this.#hash[Symbol.asyncDispose]()
    await this.#handle.close()
  }

  /** Undefined = continued; else why not. */
  async #resume(signal: AbortSignal, onVerify: OpenOptions['onVerify']): Promise<string | undefined> {
    const { size } = await this.#handle.stat()
    if (size === 0) {
      await removeRecords(this.path)
      return undefined
    }
    const record = await readRecord(this.path, this.#now())
    if (record === undefined) return 'it has no readable record'
    const why = otherFile(record, this.#identity)
    if (why !== undefined) return why
    const { bytes, sha256: recorded } = record.prefix
    if (bytes > size) return 'it is shorter than its record says'
    signal.throwIfAborted()
    this.#hash.advance(bytes)
    const hashing = this.#watched(this.#hash.digest(bytes), (hashed) => onVerify(hashed, bytes))
    const { sha256 } = await untilAborted(hashing, signal)
    if (sha256 !== recorded) return 'it does not hold what was written'
    const { sizeBytes } = record.remote
    // Without a checksum only the server can tell whether it is still the same file: so there is something to ask it for.
    const unasked = this.#identity.wanted.sha256 === undefined && sizeBytes !== undefined ? sizeBytes - 1 : size
    this.#ranges = clipped(record.ranges, Math.min(size, unasked))
    // Another server has other validators for the same content.
    this.remote = record.urlSha256 === this.#identity.urlSha256 ? record.remote : { sizeBytes }
    this.#hash.advance(prefixLength(this.#ranges))
    return undefined
  }

  async #watched<T>(work: Promise<T>, onVerify: (hashedBytes: number) => void): Promise<T> {
    const timer = setInterval(() => onVerify(this.#hash.hashedBytes), verifyReportMs)
    try {
      return await work
    } finally {
      clearInterval(timer)
    }
  }

  #forgetRanges(): void {
    this.#ranges = []
    this.#recordedPrefix = 0
    // The timer begins no record while those that were written are removed.
    this.#recordedBytes = this.#arrivedBytes
    this.#syncedBytes = this.#arrivedBytes
  }

  /** One of a kind at a time. Never rejects. */
  #recordSoon(kind: RecordKind): Promise<void> {
    this.#writing[kind] ??= this.#record(kind)
      .catch((error: unknown) => {
        this.#failure ??= asError(error)
      })
      .finally(() => {
        this.#writing[kind] = undefined
      })
    return this.#writing[kind]
  }

  async #record(kind: RecordKind): Promise<void> {
    const prefix = await this.#hash.digest()
    const [ranges, arrivedBytes] = [this.#ranges, this.#arrivedBytes]
    if (kind === 'durable') {
      this.#syncedBytes = arrivedBytes
      await this.#handle.datasync()
    }
    const record: PartialRecord = {
      version: 1,
      ...this.#identity,
      remote: this.remote,
      ranges: ranges.map(([start, end]) => [start, end]),
      prefix,
      bootedAt: bootedAt(this.#now()),
    }
    await writeRecord(recordPaths(this.path)[kind], record, kind)
    this.#recordedBytes = Math.max(this.#recordedBytes, arrivedBytes)
    this.#recordedPrefix = Math.max(this.#recordedPrefix, prefix.bytes)
  }

  /** No record is being written, nor begun by the timer while another is waited for. Throws what the file system says about one. */
  async #settled(): Promise<void> {
    while (this.#writing.recent || this.#writing.durable) await this.#written()
    this.#throwFailure()
  }

  /** What is being written at this moment is over; never rejects. */
  async #written(): Promise<void> {
    await Promise.all([this.#writing.recent, this.#writing.durable])
  }

  #throwFailure(): void {
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure
  }
}

/** Removes a partial file with its records, or the records alone where the file was renamed. */
export async function forgetPartial(partialPath: string): Promise<void> {
  await rm(partialPath, { force: true })
  await removeRecords(partialPath)
}

/** Why a record is not of this file. The same content may come from another address. */
function otherFile(record: PartialRecord, { urlSha256, wanted }: Identity): string | undefined {
  const { sha256, sizeBytes, etag } = wanted
  const known = sha256 !== undefined && record.wanted.sha256 !== undefined
  if (known && sha256 !== record.wanted.sha256) return 'it belongs to a file with another checksum'
  if (!known && urlSha256 !== record.urlSha256) return 'it came from another address'
  if (!known && etag !== record.wanted.etag) return 'the file changed on the server'
  const size = record.remote.sizeBytes ?? record.wanted.sizeBytes
  if (sizeBytes !== undefined && size !== undefined && size !== sizeBytes) return 'it belongs to a file of another size'
  return undefined
}

/** The record that is to be believed, of those there are. */
async function readRecord(partialPath: string, now: number): Promise<PartialRecord | undefined> {
  const paths = recordPaths(partialPath)
  const [recent, durable] = [await parsed(paths.recent), await parsed(paths.durable)]
  if (recent === undefined || Math.abs(recent.bootedAt - bootedAt(now)) >= sameBootMs) return durable
  return durable !== undefined && coveredBytes(durable.ranges) >= coveredBytes(recent.ranges) ? durable : recent
}

async function parsed(path: string): Promise<PartialRecord | undefined> {
  return recordSchema.safeParse(parseJson((await readIfThere(path)) ?? '')).data
}

/** Clocks are corrected by less while a machine runs; a wrong guess only costs the bytes since the last sync. */
const sameBootMs = 30_000

const bootedAt = (now: number): number => Math.round(now - uptime() * 1000)

async function writeRecord(path: string, record: PartialRecord, kind: RecordKind): Promise<void> {
  // Always the same name, so that kills in between leave one file behind and not one each.
  const draft = `${path}.new`
  try {
    const handle = await open(draft, 'w', 0o644)
    try {
      await handle.writeFile(`${JSON.stringify(record)}\n`)
      if (kind === 'durable') await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

async function removeRecords(partialPath: string): Promise<void> {
  for (const path of Object.values(recordPaths(partialPath))) {
    await rm(path, { force: true })
    await rm(`${path}.new`, { force: true })
  }
}
