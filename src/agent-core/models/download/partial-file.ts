import { constants } from 'node:fs'
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import type { Logger } from '../../observability/logger.ts'
import { untilAborted } from '../../util/until-aborted.ts'
import { within } from '../../util/within.ts'
import { coveredBytes, firstGap, prefixLength, withRange, type ByteRange } from './byte-ranges.ts'
import { continued, whyUnusable, type Identity, type Remote } from './partial-record.ts'
import { readPartialState, removePartialState } from './partial-state.ts'
import { PartialUpkeep } from './partial-upkeep.ts'
import { PrefixHash } from './prefix-hash.ts'

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
