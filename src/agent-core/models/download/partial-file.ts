import { constants } from 'node:fs'
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { z } from 'zod'
import type { Logger } from '../../observability/logger.ts'
import { parseJson, readIfThere } from '../../util/files.ts'
import { hashOpenFile, type HashOptions } from './hash.ts'

/** From the first byte to the one after the last. */
export type ByteRange = readonly [start: number, end: number]

/** Asked for at a time. */
export const segmentBytes = 64 * 1024 ** 2

const digest = z.string().regex(/^[0-9a-f]{64}$/)
const count = z.int().nonnegative()

const recordSchema = z.object({
  version: z.literal(1),
  /** For people: the address without credentials, and the Model that wanted the file last. */
  source: z.string(),
  model: z.string(),
  /** SHA-256 of the address as asked for: the address itself may hold a login. */
  urlSha256: digest,
  /** What the request said of the file. */
  wanted: z.object({ sizeBytes: count.optional(), sha256: digest.optional(), etag: z.string().optional() }),
  /** What the server said of it. */
  remote: z.object({ sizeBytes: count.optional(), etag: z.string().optional(), lastModified: z.string().optional() }),
  /** How many bytes are there of each segment, from its start on. */
  segments: z.array(count.max(segmentBytes)).max(1_000_000),
})
type PartialRecord = z.infer<typeof recordSchema>

/** Which file the partial file is part of. */
export type Identity = Pick<PartialRecord, 'source' | 'model' | 'urlSha256' | 'wanted'>

/** What the server said of the file. */
export type Remote = PartialRecord['remote']

const recordPath = (path: string): string => `${path}.json`
/** Always the same name, so that kills in between leave one file behind and not one each. */
const draftPath = (path: string): string => `${recordPath(path)}.new`

/** Synced and recorded so often. While that is done as much may be written, so a kill or a power cut costs at most 64 MiB. */
const recordBytes = 24 * 1024 ** 2
/** After this time as well: over a slow network 24 MiB are minutes. */
const recordMs = 5_000

/** A file that arrives in segments, with a record beside it of what is there: only of bytes that the disk holds. */
export class PartialFile {
  readonly path: string
  readonly #handle: FileHandle
  readonly #identity: Identity
  /** What the server said of the file by now. */
  remote: Remote = {}
  #segments: number[] = []
  #writtenBytes = 0
  #unrecordedBytes = 0
  #recordedAt = performance.now()
  #recorded: Promise<void> = Promise.resolve()

  private constructor(path: string, handle: FileHandle, identity: Identity) {
    this.path = path
    this.#handle = handle
    this.#identity = identity
  }

  /** Opens it with the bytes of an earlier call, if they are of the same file. */
  static async open(path: string, identity: Identity, log: Logger): Promise<PartialFile> {
    const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o644)
    const file = new PartialFile(path, handle, identity)
    try {
      await file.#resume(log)
      return file
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  get writtenBytes(): number {
    return this.#writtenBytes
  }

  get isWhole(): boolean {
    return this.#writtenBytes > 0 && this.#writtenBytes === this.remote.sizeBytes
  }

  /** Whether the first so many bytes are there. */
  beginsWith(bytes: number): boolean {
    return (this.#segments[0] ?? 0) >= bytes
  }

  /** What is missing of the first segment that is not whole and not `taken`. A file of unknown length has one. */
  missing(taken: ReadonlySet<number>): { readonly segment: number; readonly range: ByteRange } | undefined {
    const { sizeBytes = segmentBytes } = this.remote
    for (let segment = 0; segment * segmentBytes < sizeBytes; segment += 1) {
      const start = segment * segmentBytes + (this.#segments[segment] ?? 0)
      const end = Math.min(sizeBytes, (segment + 1) * segmentBytes)
      if (start < end && !taken.has(segment)) return { segment, range: [start, end] }
    }
    return undefined
  }

  /** Writes what follows the bytes that are there of a segment, and of those behind it. Throws what the file system says. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      done += (await this.#handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten
    }
    for (let at = position; at < position + bytes.length;) {
      const segment = Math.floor(at / segmentBytes)
      const end = Math.min(position + bytes.length, (segment + 1) * segmentBytes)
      while (this.#segments.length < segment) this.#segments.push(0)
      this.#segments[segment] = end - segment * segmentBytes
      at = end
    }
    this.#writtenBytes += bytes.length
    this.#unrecordedBytes += bytes.length
    const isDue = this.#unrecordedBytes >= recordBytes || performance.now() - this.#recordedAt >= recordMs
    if (isDue) await this.#record()
  }

  /** Forgets every byte. Nothing may be writing. */
  async startOver(): Promise<void> {
    this.#forget()
    await removeRecord(this.path)
    await this.#handle.truncate(0)
  }

  /** The SHA-256 (hex) of the whole file, and everything made durable. Throws what the file system says, or the signal's reason. */
  async complete(sizeBytes: number, options: HashOptions): Promise<string> {
    await this.#handle.truncate(sizeBytes)
    await this.#record()
    return hashOpenFile(this.#handle.fd, options)
  }

  /** False where another process put another file in its place. */
  async isInPlace(): Promise<boolean> {
    const [there, ours] = await Promise.all([stat(this.path).catch(() => undefined), this.#handle.stat()])
    return there?.ino === ours.ino && there.dev === ours.dev
  }

  /** Records what is there, or removes it where it cannot be continued, and closes. Throws what the file system says. */
  async close({ keep }: { keep: boolean }): Promise<void> {
    try {
      if (!(await this.isInPlace())) await removeRecord(this.path)
      else if (!keep || this.#writtenBytes === 0) await forgetPartial(this.path)
      else if (this.#unrecordedBytes > 0) await this.#record()
    } finally {
      await this.#handle.close()
    }
  }

  async #resume(log: Logger): Promise<void> {
    const { size } = await this.#handle.stat()
    const record = await readPartial(this.path)
    const why = record === undefined ? 'it has no readable record' : otherFile(record, this.#identity)
    if (record === undefined || why !== undefined) {
      if (size > 0) log.info('partial download cannot be continued', { path: this.path, why })
      return this.startOver()
    }
    const { sizeBytes } = record.remote
    // Without a checksum only the server can tell whether it is still the same file: so there is something to ask it for.
    const end = this.#identity.wanted.sha256 === undefined && sizeBytes !== undefined ? sizeBytes - 1 : size
    this.#segments = record.segments.map((bytes, at) =>
      Math.max(0, Math.min(bytes, Math.min(size, end) - at * segmentBytes)),
    )
    this.#writtenBytes = this.#segments.reduce((sum, bytes) => sum + bytes, 0)
    // Another server has other validators for the same content.
    this.remote = record.urlSha256 === this.#identity.urlSha256 ? record.remote : { sizeBytes }
  }

  #forget(): void {
    this.#segments = []
    this.#writtenBytes = 0
    this.#unrecordedBytes = 0
    this.remote = {}
  }

  /** One after the other: who has written as much again meanwhile waits. */
  #record(): Promise<void> {
    this.#unrecordedBytes = 0
    this.#recordedAt = performance.now()
    this.#recorded = this.#recorded.then(async () => {
      const { remote, path } = this
      const record: PartialRecord = { version: 1, ...this.#identity, remote, segments: [...this.#segments] }
      await this.#handle.datasync()
      await writeRecord(path, record)
    })
    return this.#recorded
  }
}

/** The record of a partial file; undefined where there is none that can be read. */
export async function readPartial(partialPath: string): Promise<PartialRecord | undefined> {
  return recordSchema.safeParse(parseJson((await readIfThere(recordPath(partialPath))) ?? '')).data
}

/** Removes a partial file with its record, or the record alone where the file was renamed. */
export async function forgetPartial(partialPath: string): Promise<void> {
  await rm(partialPath, { force: true })
  await removeRecord(partialPath)
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

async function writeRecord(partialPath: string, record: PartialRecord): Promise<void> {
  const handle = await open(draftPath(partialPath), 'w', 0o644)
  try {
    await handle.writeFile(`${JSON.stringify(record)}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(draftPath(partialPath), recordPath(partialPath))
}

async function removeRecord(partialPath: string): Promise<void> {
  await rm(recordPath(partialPath), { force: true })
  await rm(draftPath(partialPath), { force: true })
}
