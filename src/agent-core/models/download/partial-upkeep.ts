import type { FileHandle } from 'node:fs/promises'
import { asError } from '../../util/message-of.ts'
import { prefixLength, type ByteRange } from './byte-ranges.ts'
import type { Identity, Remote } from './partial-record.ts'
import { bootedAt, writePartialState, type PartialState } from './partial-state.ts'

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
