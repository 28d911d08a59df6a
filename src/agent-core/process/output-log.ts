import { mkdir, open, rename, stat, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import PQueue from 'p-queue'
import type { Logger } from '../observability/logger.ts'
import { laneOfLog, logFileOf, otherLane } from './lanes.ts'
import { endOf, findRun, isAbsent, olderPieces, pieceName, previousOf, type OutputRun } from './output-pieces.ts'
import {
  clearUnfinishedCut,
  cutSize,
  cutOutput,
  dropOldest,
  nextLookMs,
  removeAll,
  type OutputLimits,
} from './output-rotation.ts'

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

/** What readers need: `OutputLog` for one server, `ServiceOutput` for a service. */
export type ReadableOutput = Pick<OutputLog, 'file' | 'extent' | 'read'>

/**
 * The output of one server: what its runs write to `file`, bounded while a run goes on. Whoever started the server does not matter. One
 * object per file and agent, as cutting and reading take turns in it.
 */
export class OutputLog {
  readonly file: string
  readonly #limits: OutputLimits
  readonly #log: Logger
  readonly #turns = new PQueue({ concurrency: 1 })
  #isClear = false
  #hasComplained = false

  constructor({ file, limits, log }: { file: string; limits: OutputLimits; log: Logger }) {
    this.file = file
    this.#limits = limits
    this.#log = log
  }

  /**
   * Begins a run: what the one before wrote is kept as `.previous`, its last words are what explains a crash. Of two lanes the newer run
   * is the one before, and nothing else is kept. `beside` a server in the other lane, that one's output is. Throws OutputError.
   */
  begin(beside = false): Promise<void> {
    const { file } = this
    return this.#turns.add(async () => {
      try {
        await mkdir(dirname(file), { recursive: true, mode: 0o700 })
        await this.#bound()
        if (beside) await this.#clear(file)
        else await this.#keepPrevious()
      } catch (error) {
        if (!isAbsent(error)) throw notWritable(file, error)
      }
    })
  }

  async #keepPrevious(): Promise<void> {
    const { file } = this
    const [previous, other] = [previousOf(file), otherLaneOf(file)]
    const last = (await changedAt(other)) > (await changedAt(file)) ? other : file
    await removeAll(await olderPieces(previous))
    for (const { path, from } of await olderPieces(last)) await rename(path, pieceName(previous, from))
    if ((await changedAt(last)) > 0) await rename(last, previous)
    if (last === other) await removeAll(await piecesOf(file))
    await this.#clear(other)
    await dropOldest(file, this.#limits)
  }

  async #clear(file: string): Promise<void> {
    await removeAll([...(await piecesOf(file)), ...(await piecesOf(previousOf(file)))])
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
      const found = await this.#turns.add(() => this.#bound())
      const now = performance.now()
      const bytesPerMs = (found.before - size) / (now - lookedAt)
      ;[size, lookedAt] = [found.after, now]
      return nextLookMs({ room: cutSize(this.#limits) - size, bytesPerMs })
    }
    const lookIn = (ms: number) => {
      timer = setTimeout(() => void look().then((next) => timer && lookIn(next)), ms).unref()
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

  /** When the current run wrote last, in milliseconds since 1970; 0 where there is none. */
  changedAt(): Promise<number> {
    return changedAt(this.file)
  }

  /** Undefined where there is no such run. */
  extent(run: 'current' | 'previous' = 'current'): Promise<OutputExtent | undefined> {
    return this.#turns.add(async () => {
      const found = await findRun(run === 'current' ? this.file : previousOf(this.file))
      return found && { fileId: found.fileId, from: found.pieces[0]?.from ?? 0, to: endOf(found.pieces.at(-1)) }
    })
  }

  /** From the cursor on, or from where something is kept again; undefined where nothing of that run is. */
  read({ fileId, offset }: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined> {
    return this.#turns.add(async () => {
      const runs = await Promise.all([this.file, previousOf(this.file)].map(findRun))
      const run = runs.find((one) => one?.fileId === fileId)
      return run && readRun(run, { offset, maxBytes, over: run !== runs[0] })
    })
  }

  /** Sizes before and after. Never rejects. */
  async #bound(): Promise<{ before: number; after: number }> {
    const { file } = this
    try {
      if (!this.#isClear) await clearUnfinishedCut(file)
      this.#isClear = true
      const before = await sizeOf(file)
      if (before < cutSize(this.#limits)) return { before, after: before }
      const lost = await cutOutput(file, this.#limits)
      if (lost) this.#complain('older output of a server is lost: it could not be copied', lost.cause, lost.bytes)
      else this.#hasComplained = false
      return { before, after: await sizeOf(file) }
    } catch (error) {
      this.#complain('the output of a server could not be bounded', error)
      return { before: 0, after: 0 }
    }
  }

  /** Once until it went well again. */
  #complain(message: string, error: unknown, bytes?: number): void {
    if (!this.#hasComplained) this.#log.warn(message, { file: this.file, bytes, error })
    this.#hasComplained = true
  }
}

async function readRun(
  { pieces }: OutputRun,
  asked: { offset: number; maxBytes: number; over: boolean },
): Promise<OutputBytes> {
  const { maxBytes, over } = asked
  const end = endOf(pieces.at(-1))
  // Beyond the end: somebody else has cut the file, so all that it holds is new.
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

const piecesOf = async (file: string) => (await findRun(file))?.pieces ?? (await olderPieces(file))

const otherLaneOf = (file: string) => logFileOf(file, otherLane(laneOfLog(file)))

/** When it was written to last; 0 where it is not there. */
async function changedAt(file: string): Promise<number> {
  try {
    return (await stat(file)).mtimeMs
  } catch (error) {
    if (isAbsent(error)) return 0
    throw error
  }
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if (isAbsent(error)) return 0
    throw error
  }
}

const notWritable = (file: string, error: unknown) =>
  new OutputError(
    `The output of the server cannot be written to ${file}: ${error instanceof Error ? error.message : String(error)}.`,
    { cause: error },
  )
