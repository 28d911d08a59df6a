import { statSync } from 'node:fs'
import { open, stat, type FileHandle } from 'node:fs/promises'
import type PQueue from 'p-queue'
import type { Logger } from '../observability/logger.ts'
import { messageOf } from '../util/message-of.ts'
import { endOf, findRun, isAbsent, type OutputRun } from './output-pieces.ts'
import {
  clearUnfinishedCut,
  cutOutput,
  cutSize,
  dropOldest,
  maxLookMs,
  nextLookMs,
  type OutputLimits,
} from './output-rotation.ts'
import { untilNextMs } from './pause.ts'

/** One sentence why the output has nowhere to go. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
}

/** A place in the output of a server that stays right when its file is cut or renamed. */
export interface OutputCursor {
  /** Of one run. */
  readonly fileId: string
  /** Bytes since the run began, also those that are no longer kept. */
  readonly offset: number
}

/** Which bytes of a run are kept, gaps aside. */
export interface OutputExtent {
  readonly fileId: string
  /** The newest part of it. */
  readonly file: string
  readonly from: number
  readonly to: number
}

export interface OutputBytes {
  readonly bytes: Buffer
  /** Of the first of them: behind what was asked for where that is no longer kept. */
  readonly offset: number
  /** What the run has beyond them so far. */
  readonly remaining: number
  /** Nothing more will come: there is a newer run. */
  readonly over: boolean
}

const firstLookMs = 500

/** What readers need. */
export interface ReadableOutput {
  readonly file: string
  /** Undefined where there is no such run. */
  extent(run?: 'current' | 'previous'): Promise<OutputExtent | undefined>
  /** From the cursor on, or from where something is kept again; undefined where nothing of that run is. */
  read(cursor: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined>
}

export interface OutputLogOptions {
  readonly file: string
  readonly limits: OutputLimits
  readonly log: Logger
  /** Of its service: cutting and reading take turns. */
  readonly turns: PQueue
  /** Of all runs of its service, oldest first. */
  readonly files: () => Promise<readonly string[]>
}

/** What one run of a server writes to `file`, bounded while the run goes on. It does not matter which agent started the server. */
export class OutputLog {
  readonly file: string
  readonly #options: OutputLogOptions
  #isClear = false
  #hasComplained = false

  constructor(options: OutputLogOptions) {
    this.file = options.file
    this.#options = options
  }

  /** For appending, readable only for this user. Throws OutputError. */
  async open(): Promise<FileHandle> {
    try {
      return await open(this.file, 'a', 0o600)
    } catch (error) {
      throw notWritable(this.file, error)
    }
  }

  /** Keeps the file bounded until disposed of, and looks at it a last time then. */
  bounded(): AsyncDisposable {
    let size = 0
    let lookedAt = performance.now()
    let timer: NodeJS.Timeout | undefined
    const look = async () => {
      const found = this.#foundShort() ?? (await this.#options.turns.add(() => this.bound()))
      const now = performance.now()
      const bytesPerMs = (found.before - size) / (now - lookedAt)
      ;[size, lookedAt] = [found.after, now]
      return nextLookMs({ room: cutSize(this.#options.limits) - size, bytesPerMs })
    }
    const lookIn = (ms: number) => {
      const dueIn = Math.min(ms, untilNextMs(maxLookMs))
      timer = setTimeout(() => void look().then((next) => timer && lookIn(next)), dueIn).unref()
    }
    lookIn(firstLookMs)
    return {
      [Symbol.asyncDispose]: async () => {
        clearTimeout(timer)
        timer = undefined
        await look()
      },
    }
  }

  /** Undefined where there is no file yet. */
  extent(): Promise<OutputExtent | undefined> {
    return this.#options.turns.add(async () => extentOf(await findRun(this.file)))
  }

  /** Undefined where the cursor is of another run. */
  read({ fileId, offset }: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined> {
    return this.#options.turns.add(async () => {
      const run = await findRun(this.file)
      return run?.fileId === fileId ? readRun(run, { offset, maxBytes, over: false }) : undefined
    })
  }

  /** Cuts the file where it is too long; answers its sizes before and after. To be called in its turn; never rejects. */
  async bound(): Promise<{ before: number; after: number }> {
    const { file } = this
    const { limits, files } = this.#options
    try {
      if (!this.#isClear) await clearUnfinishedCut(file)
      this.#isClear = true
      const before = await sizeOf(file)
      if (before < cutSize(limits)) return { before, after: before }
      const lost = await cutOutput(file, limits)
      await dropOldest(await files(), limits)
      if (lost) this.#complain('older output of a server is lost: it could not be copied', lost.cause, lost.bytes)
      else this.#hasComplained = false
      return { before, after: await sizeOf(file) }
    } catch (error) {
      this.#complain('the output of a server could not be bounded', error)
      return { before: 0, after: 0 }
    }
  }

  /**
   * Nearly every look finds nothing to do, and needs no turn. What goes wrong here goes wrong in the turn as well, which tells it. The server
   * has the file open, so that no disk is asked, and the round trip through the thread pool would cost many times as much.
   */
  #foundShort(): { before: number; after: number } | undefined {
    if (!this.#isClear) return undefined
    try {
      const { size } = statSync(this.file)
      return size < cutSize(this.#options.limits) ? { before: size, after: size } : undefined
    } catch {
      return undefined
    }
  }

  /** Once until it went well again. */
  #complain(message: string, error: unknown, bytes?: number): void {
    if (!this.#hasComplained) this.#options.log.warn(message, { file: this.file, bytes, error })
    this.#hasComplained = true
  }
}

export const extentOf = (run: OutputRun | undefined): OutputExtent | undefined =>
  run && { fileId: run.fileId, file: run.file, from: run.pieces[0]?.from ?? 0, to: endOf(run.pieces.at(-1)) }

export async function readRun(
  { pieces }: OutputRun,
  asked: { offset: number; maxBytes: number; over: boolean },
): Promise<OutputBytes> {
  const { maxBytes, over } = asked
  const end = endOf(pieces.at(-1))
  // Beyond the end: another process has cut the file, so all that it holds is new.
  const wanted = asked.offset > end ? (pieces.at(-1)?.from ?? 0) : asked.offset
  const piece = pieces.find((one) => endOf(one) > wanted)
  if (piece === undefined) return { bytes: Buffer.alloc(0), offset: end, remaining: 0, over }
  const offset = Math.max(wanted, piece.from)
  await using handle = await open(piece.path)
  const length = Math.min(maxBytes, endOf(piece) - offset)
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, offset - piece.from)
  const bytes = buffer.subarray(0, bytesRead)
  return { bytes, offset, remaining: end - offset - bytesRead, over }
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if (isAbsent(error)) return 0
    throw error
  }
}

export const notWritable = (file: string, error: unknown): OutputError =>
  new OutputError(`The output of the server cannot be written to ${file}: ${messageOf(error)}.`, { cause: error })
