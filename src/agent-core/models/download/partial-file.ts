import { constants } from 'node:fs'
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { uptime } from 'node:os'
import { z } from 'zod'
import type { Logger } from '../../observability/logger.ts'
import { hasCode, parseJson } from '../../util/files.ts'
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

/** The first part of [0, end) that sorted and merged ranges leave out. */
export function firstGap(ranges: readonly ByteRange[], end: number): ByteRange | undefined {
  let start = 0
  for (const range of ranges) {
    if (range[0] > start) break
    start = Math.max(start, range[1])
  }
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

/** What the file is part of. */
export interface Identity {
  readonly urlSha256: string
  readonly wanted: PartialState['wanted']
}

/** What the server said of the file. */
export type Remote = PartialState['remote']

/** Why the record beside a partial file of that size cannot be gone on from, where it cannot. */
export function whyUnusable(state: PartialState, identity: Identity, size: number): string | undefined {
  return otherFile(state, identity) ?? (state.prefix.bytes > size ? 'it is shorter than its record says' : undefined)
}

/** What is there, by the record. */
export function continued(
  state: PartialState,
  { urlSha256, wanted }: Identity,
  size: number,
): { readonly ranges: readonly ByteRange[]; readonly remote: Remote } {
  const { sizeBytes } = state.remote
  // Without a checksum only the server can tell whether it is still the same file: so there is something to ask it for.
  const unasked = wanted.sha256 === undefined && sizeBytes !== undefined ? sizeBytes - 1 : size
  const fromElsewhere = sizeBytes === undefined ? {} : { sizeBytes }
  return {
    ranges: clipped(state.ranges, Math.min(size, unasked)),
    remote: state.urlSha256 === urlSha256 ? state.remote : fromElsewhere,
  }
}

/** Why a record is not of this file. The same content may come from another address. */
function otherFile(state: PartialState, { urlSha256, wanted }: Identity): string | undefined {
  const { sha256, sizeBytes, etag } = wanted
  const known = sha256 !== undefined && state.wanted.sha256 !== undefined
  if (known && sha256 !== state.wanted.sha256) return 'it is of a file with another checksum'
  if (!known && urlSha256 !== state.urlSha256) return 'it is of another address'
  if (!known && etag !== state.wanted.etag) return 'the file changed on the server'
  const size = state.remote.sizeBytes ?? state.wanted.sizeBytes
  if (sizeBytes !== undefined && size !== undefined && size !== sizeBytes) return 'it is of a file of another size'
  return undefined
}

const digest = z.string().regex(/^[0-9a-f]{64}$/)
const offset = z.int().nonnegative()

/** What is known of a partial file; another version of the agent may have written it. */
const partialStateSchema = z.object({
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
export type PartialState = z.infer<typeof partialStateSchema>

/**
 * Two records beside the partial file. `recent` is written every few MiB without waiting for the disk: it outlives the
 * process, and is believed only until the machine restarts. `durable` is written after the file's bytes were synced,
 * and is synced itself: it outlives a power cut.
 */
export async function readPartialState(partialPath: string, now: number): Promise<PartialState | undefined> {
  const recent = await readState(recentPath(partialPath))
  const durable = await readState(durablePath(partialPath))
  if (recent === undefined || Math.abs(recent.bootedAt - bootedAt(now)) >= sameBootMs) return durable
  return durable !== undefined && coveredBytes(durable.ranges) >= coveredBytes(recent.ranges) ? durable : recent
}

export async function writePartialState(
  partialPath: string,
  state: PartialState,
  kind: 'recent' | 'durable',
): Promise<void> {
  const path = kind === 'recent' ? recentPath(partialPath) : durablePath(partialPath)
  // Always the same name, so that kills in between leave one file behind and not one each.
  const draft = `${path}.new`
  try {
    await writeDraft(draft, `${JSON.stringify(state)}\n`, kind === 'durable')
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

export async function removePartialState(partialPath: string): Promise<void> {
  for (const path of [recentPath(partialPath), durablePath(partialPath)]) {
    await rm(path, { force: true })
    await rm(`${path}.new`, { force: true })
  }
}

export function bootedAt(now: number): number {
  return Math.round(now - uptime() * 1000)
}

/** Clocks are corrected by less while a machine runs; a wrong guess only costs the bytes since the last sync. */
const sameBootMs = 30_000

function recentPath(partialPath: string): string {
  return `${partialPath}.recent.json`
}

function durablePath(partialPath: string): string {
  return `${partialPath}.json`
}

async function writeDraft(draft: string, text: string, durable: boolean): Promise<void> {
  const handle = await open(draft, 'w', 0o644)
  try {
    await handle.writeFile(text)
    if (durable) await handle.sync()
  } finally {
    await handle.close()
  }
}

async function readState(path: string): Promise<PartialState | undefined> {
  try {
    return partialStateSchema.safeParse(parseJson(await readFile(path, 'utf8'))).data
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Recorded at least this often, so that a killed process loses little. */
const recordBytes = 2 * 1024 * 1024
/** Nothing more is written before the record has caught up. */
const maxUnrecordedBytes = 3 * 1024 * 1024
const recordMs = 1000
/** Synced at least this often: what a power cut can lose. Syncing flushes a whole disk, so seldom. */
const syncBytes = 64 * 1024 * 1024

/** What a record is made of, as it is when it is made. */
interface RecordedFile {
  readonly path: string
  readonly handle: Pick<FileHandle, 'datasync'>
  readonly identity: Identity
  readonly now: () => number
  readonly remote: () => Remote
  readonly ranges: () => readonly ByteRange[]
  readonly digest: () => Promise<PartialState['prefix']>
}

/** Writes beside a partial file which of its bytes are there, in time and never more of them than are. */
export class PartialUpkeep implements Disposable {
  readonly #file: RecordedFile
  readonly #timer: NodeJS.Timeout
  #unrecorded = 0
  #recordedPrefix = 0
  #unsynced = 0
  #recording: Promise<void> | undefined
  #syncing: Promise<void> | undefined
  #failure: Error | undefined

  constructor(file: RecordedFile) {
    this.#file = file
    this.#timer = setInterval(() => {
      if (this.#unrecorded > 0) void this.#recordSoon()
    }, recordMs)
  }

  /** False where the record tells all that is there. */
  get isBehind(): boolean {
    return this.#unrecorded > 0 || this.#recordedPrefix < prefixLength(this.#file.ranges())
  }

  /** Before more is written. Throws what the file system says about an earlier record. */
  async catchUp(): Promise<void> {
    while (this.#unrecorded >= maxUnrecordedBytes) {
      await this.#recordSoon()
      this.#throwFailure()
    }
    if (this.#unsynced >= 2 * syncBytes) await this.#syncing
    this.#throwFailure()
  }

  wrote(bytes: number): void {
    this.#unrecorded += bytes
    this.#unsynced += bytes
    if (this.#unrecorded >= recordBytes) void this.#recordSoon()
    if (this.#unsynced >= syncBytes) this.#syncSoon()
  }

  /** There is nothing to be recorded: the timer writes no record while the old ones are removed. */
  forget(): void {
    this.#unrecorded = 0
    this.#unsynced = 0
  }

  async record(kind: 'recent' | 'durable'): Promise<void> {
    const prefix = await this.#file.digest()
    const written = this.#file.ranges()
    const recorded = this.#unrecorded
    await writePartialState(this.#file.path, this.#state(written, prefix), kind)
    this.#unrecorded -= recorded
    this.#recordedPrefix = prefix.bytes
  }

  /** No record is being written, nor begun by the timer while another is waited for. Throws what the file system says about one. */
  async settled(): Promise<void> {
    while (this.#recording || this.#syncing) await this.ended()
    this.#throwFailure()
  }

  /** What is being written at this moment is over; never rejects. */
  async ended(): Promise<void> {
    await Promise.all([this.#recording, this.#syncing])
  }

  /** Nothing is recorded by the clock any more. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #recordSoon(): Promise<void> {
    this.#recording ??= this.record('recent')
      .catch((error: unknown) => {
        this.#failure ??= asError(error)
      })
      .finally(() => {
        this.#recording = undefined
      })
    return this.#recording
  }

  #syncSoon(): void {
    this.#syncing ??= this.#sync()
      .catch((error: unknown) => {
        this.#failure ??= asError(error)
      })
      .finally(() => {
        this.#syncing = undefined
      })
  }

  async #sync(): Promise<void> {
    const { path, handle, ranges, digest } = this.#file
    const prefix = await digest()
    const written = ranges()
    this.#unsynced = 0
    await handle.datasync()
    await writePartialState(path, this.#state(written, prefix), 'durable')
  }

  #state(ranges: readonly ByteRange[], prefix: PartialState['prefix']): PartialState {
    const { identity, remote, now } = this.#file
    return {
      version: 1,
      ...identity,
      remote: remote(),
      ranges: ranges.map(([start, end]) => [start, end]),
      prefix,
      bootedAt: bootedAt(now()),
    }
  }

  #throwFailure(): void {
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure
  }
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
  readonly #upkeep: PartialUpkeep
  #hash: PrefixHash
  #ranges: readonly ByteRange[] = []
  #remote: Remote = {}

  private constructor(path: string, handle: FileHandle, identity: Identity, now: () => number) {
    this.path = path
    this.#handle = handle
    this.#identity = identity
    this.#now = now
    this.#hash = new PrefixHash(handle.fd)
    this.#upkeep = new PartialUpkeep({
      ...{ path, handle, identity, now },
      remote: () => this.#remote,
      ranges: () => this.#ranges,
      digest: () => this.#hash.digest(),
    })
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

  get remote(): Remote {
    return this.#remote
  }

  set remote(remote: Remote) {
    this.#remote = remote
  }

  get writtenBytes(): number {
    return coveredBytes(this.#ranges)
  }

  get ranges(): readonly ByteRange[] {
    return this.#ranges
  }

  /** Writes at a position. Throws what the file system says, also about an earlier record. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    await this.#upkeep.catchUp()
    const end = await writeAll(this.#handle, bytes, position)
    this.#ranges = withRange(this.#ranges, [position, end])
    this.#hash.advance(prefixLength(this.#ranges))
    this.#upkeep.wrote(end - position)
  }

  /** Forgets every byte. Nothing may be writing. */
  async startOver(): Promise<void> {
    await this.#upkeep.settled()
    this.#forgetRanges()
    await removePartialState(this.path)
    await this.#hash[Symbol.asyncDispose]()
    await this.#handle.truncate(0)
    this.#remote = {}
    this.#hash = new PrefixHash(this.#handle.fd)
  }

  /** The digest (hex SHA-256) of the whole file of that size, and everything made durable. */
  async complete(sizeBytes: number, onVerify: (hashedBytes: number) => void): Promise<string> {
    await this.#upkeep.settled()
    const { sha256 } = await this.#watched(this.#hash.digestAt(sizeBytes), onVerify)
    await this.#handle.truncate(sizeBytes)
    await this.#handle.sync()
    await this.#upkeep.record('durable')
    return sha256
  }

  /** False where another process put another file in its place. */
  async isInPlace(): Promise<boolean> {
    const [there, ours] = await Promise.all([stat(this.path).catch(() => undefined), this.#handle.stat()])
    return there?.ino === ours.ino && there.dev === ours.dev
  }

  /** Moves it out of the way, for a person to look at. Returns where to. */
  async quarantine(): Promise<string> {
    await this.#upkeep.settled()
    this.#forgetRanges()
    const aside = `${this.path}${wrongSuffix}`
    await rename(this.path, aside)
    await removePartialState(this.path)
    return aside
  }

  /** Records what is there, or removes it where it cannot be continued, and closes. Throws what the file system says. */
  async close({ keep }: { keep: boolean }): Promise<void> {
    this.#upkeep[Symbol.dispose]()
    try {
      await this.#upkeep.settled()
      if (!(await this.isInPlace())) await removePartialState(this.path)
      else if (!keep || this.writtenBytes === 0) await forgetPartial(this.path)
      else if (this.#upkeep.isBehind) {
        await within(hashCatchUpMs, this.#hash.digestAt(prefixLength(this.#ranges)))
        await this.#upkeep.record('recent')
      }
    } finally {
      await this[Symbol.asyncDispose]()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#upkeep[Symbol.dispose]()
    await this.#upkeep.ended()
    await this.#hash[Symbol.asyncDispose]()
    await this.#handle.close()
  }

  /** Undefined = continued; else why not. */
  async #resume(signal: AbortSignal, onVerify: OpenOptions['onVerify']): Promise<string | undefined> {
    const { size } = await this.#handle.stat()
    if (size === 0) return this.#nothingThere()
    const state = await readPartialState(this.path, this.#now())
    if (state === undefined) return 'it has no readable record'
    const why = whyUnusable(state, this.#identity, size)
    if (why !== undefined) return why
    const { bytes, sha256: recorded } = state.prefix
    signal.throwIfAborted()
    this.#hash.advance(bytes)
    const hashing = this.#watched(this.#hash.digestAt(bytes), (hashed) => onVerify(hashed, bytes))
    const { sha256 } = await untilAborted(hashing, signal)
    if (sha256 !== recorded) return 'it does not hold what was written'
    const { ranges, remote } = continued(state, this.#identity, size)
    this.#ranges = ranges
    this.#remote = remote
    this.#hash.advance(prefixLength(ranges))
    return undefined
  }

  async #nothingThere(): Promise<undefined> {
    await removePartialState(this.path)
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
    this.#upkeep.forget()
  }
}

interface OpenOptions {
  readonly log: Logger
  readonly now: () => number
  readonly signal: AbortSignal
  /** While what was left there is read again. */
  readonly onVerify: (bytes: number, of: number) => void
}

/** Of a file whose content is not what was announced, until it is taken away. */
export const wrongSuffix = '.quarantined'

const verifyReportMs = 250

/** At the end of an attempt, so that the record can tell of as much as possible whether it still holds. */
const hashCatchUpMs = 2000

/** Removes a partial file with its records, or the records alone where the file was renamed. */
export async function forgetPartial(partialPath: string): Promise<void> {
  await rm(partialPath, { force: true })
  await removePartialState(partialPath)
}

/** Whether all of [0, size) is written. */
export function isWhole(ranges: readonly ByteRange[], sizeBytes: number | undefined): sizeBytes is number {
  return sizeBytes !== undefined && sizeBytes > 0 && firstGap(ranges, sizeBytes) === undefined
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<number> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done)
    done += bytesWritten
  }
  return position + bytes.length
}
