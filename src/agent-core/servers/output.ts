import { statSync } from 'node:fs'
import { appendFile, mkdir, open, readdir, rename, rm, stat, writeFile, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import PQueue from 'p-queue'
import type { Logger } from '../observability/logger.ts'
import { hasCode } from '../util/files.ts'
import { pathBelow } from '../util/is-below.ts'
import { messageOf } from '../util/message-of.ts'
import { untilNextMs } from '../util/pause.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import {
  newRunName,
  runFolder,
  runNumber,
  serviceFolderName,
  type RunFolder,
  type ServerFolders,
} from './run-folder.ts'

/** One sentence why the output has nowhere to go. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
}

/** A place in the output of a server that stays right when its file is cut or renamed. */
export interface OutputCursor {
  /** Another for each run. */
  readonly fileId: string
  /** Bytes since the run began, also those that are no longer kept. */
  readonly offset: number
}

/** Which bytes of a run are kept, gaps aside. */
export interface OutputExtent {
  readonly fileId: string
  /** File with the newest part of the output. */
  readonly file: string
  readonly from: number
  readonly to: number
}

export interface OutputBytes {
  readonly bytes: Buffer
  /** Where they begin: behind what was asked for where that is no longer kept. */
  readonly offset: number
  /** What the run has beyond them so far. */
  readonly remaining: number
  /** Nothing more will come: there is a newer run. */
  readonly over: boolean
}

/** What readers need. */
export interface ReadableOutput {
  readonly file: string
  /** Undefined where there is no such run. */
  extent(run?: 'current' | 'previous'): Promise<OutputExtent | undefined>
  /** From the cursor on, or from where something is kept again; undefined where nothing of that run is. */
  read(cursor: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined>
}

/**
 * The size of each file of output, of which a run has two at most; that which a server writes to may grow beyond it between two looks. With the
 * run before, 80 MB for each service: days of a busy server's output, and never the disk.
 */
export const usualOutputBytes = 20 * 1024 ** 2

export interface ServiceOutputOptions {
  readonly key: string
  readonly folders: ServerFolders
  /** See {@link usualOutputBytes}. */
  readonly limitBytes: number
  readonly log: Logger
  readonly now: () => number
  /** The run of the newest server; undefined where none is known. */
  readonly newest: () => RunFolder | undefined
}

/**
 * What the servers of a service wrote: the run of the present one, and the run before, whose last words explain a crash. Readers follow the
 * newest server; their cursors stay right, as each names its run. One object per service and agent.
 */
export class ServiceOutput implements ReadableOutput {
  readonly #options: ServiceOutputOptions
  readonly #folder: string
  readonly #turns = new PQueue({ concurrency: 1 })
  /** By the name of the run. */
  readonly #runs = new Map<string, RunOutput>()
  /** Oldest first. */
  #kept: readonly RunFolder[] | undefined

  constructor(options: ServiceOutputOptions) {
    this.#options = options
    this.#folder = pathBelow(options.folders.runs, serviceFolderName(options.key))
  }

  get file(): string {
    return this.#options.newest()?.logFile ?? this.#folder
  }

  /** A folder for another run. Of the runs before it the newest that wrote something is kept. Throws OutputError. */
  begin(): Promise<RunFolder> {
    return this.#turns.add(async () => {
      try {
        return await this.#begin()
      } catch (error) {
        throw notWritable(this.#folder, error)
      }
    })
  }

  /** The same object for the same run. */
  run({ name, logFile: file }: RunFolder): RunOutput {
    const { limitBytes, log } = this.#options
    const run = this.#runs.get(name) ?? new RunOutput({ file, limitBytes, log, turns: this.#turns })
    this.#runs.set(name, run)
    return run
  }

  /** Removes all runs; what the disk does not let go is logged. */
  clear(): Promise<void> {
    return this.#turns.add(async () => {
      try {
        for (const run of await this.#list()) await this.#remove(run)
        await rm(this.#folder, { recursive: true, force: true })
      } catch (error) {
        this.#complain(this.#folder, error)
      }
      this.#kept = undefined
    })
  }

  /** Since when nothing was written, by the clock of the files; Infinity where nothing ever was. */
  silentForMs(): Promise<number> {
    return this.#turns.add(async () => {
      const times = await Promise.all((await this.#files()).map(changedAt))
      return Date.now() - Math.max(...times)
    })
  }

  extent(run: 'current' | 'previous' = 'current'): Promise<OutputExtent | undefined> {
    return this.#turns.add(async () => extentOf((await this.#written())[run === 'current' ? 0 : 1]))
  }

  /** A run is over for readers as soon as there is a newer one, even where its server still writes. */
  read({ fileId, offset }: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined> {
    return this.#turns.add(async () => {
      const runs = await this.#written()
      const run = runs.find((one) => one.fileId === fileId)
      return run && readRun(run, { offset, maxBytes, over: run !== runs[0] })
    })
  }

  async #begin(): Promise<RunFolder> {
    const { key, folders, now } = this.#options
    const kept = await this.#list()
    const previous = await lastWritten(kept)
    if (previous) await this.run(previous).bound()
    const gone = await Promise.all(kept.map(async (run) => run !== previous && (await this.#remove(run))))
    const left = kept.filter((_, index) => gone[index] !== true)
    this.#kept = left
    const number = Math.max(0, ...kept.map((run) => runNumber(run.name) ?? 0)) + 1
    const folder = runFolder(folders, `${serviceFolderName(key)}/${newRunName(wallTimeOf(now()), number)}`)
    await mkdir(dirname(folder.logFile), { recursive: true, mode: 0o700 })
    this.#kept = [...left, folder]
    return folder
  }

  /** What there is to read: the current run first, then the newest. */
  async #written(): Promise<FoundRun[]> {
    const newest = this.#options.newest()
    const others = (await this.#files()).filter((file) => file !== newest?.logFile).toReversed()
    const found = await Promise.all([...(newest ? [newest.logFile] : []), ...others].map(findRun))
    return found.filter((run) => run !== undefined)
  }

  async #files(): Promise<string[]> {
    return (await this.#list()).map(({ logFile }) => logFile)
  }

  async #list(): Promise<readonly RunFolder[]> {
    if (this.#kept) return this.#kept
    const { key, folders } = this.#options
    const names = (await namesIn(this.#folder)).filter((name) => runNumber(name) !== undefined)
    const inOrder = names.toSorted((a, b) => (runNumber(a) ?? 0) - (runNumber(b) ?? 0))
    const runs = inOrder.map((name) => runFolder(folders, `${serviceFolderName(key)}/${name}`))
    return (this.#kept ??= runs)
  }

  /** False where it could not be removed, which the next run tries again. */
  async #remove(run: RunFolder): Promise<boolean> {
    try {
      await rm(dirname(run.logFile), { recursive: true, force: true })
      this.#runs.delete(run.name)
      return true
    } catch (error) {
      this.#complain(run.logFile, error)
      return false
    }
  }

  #complain(file: string, error: unknown): void {
    this.#options.log.warn('what is left of a server could not be removed', { file, error })
  }
}

async function lastWritten(runs: readonly RunFolder[]): Promise<RunFolder | undefined> {
  const times = await Promise.all(runs.map(({ logFile }) => changedAt(logFile)))
  return runs.findLast((_, index) => (times[index] ?? 0) > 0)
}

interface RunOutputOptions {
  readonly file: string
  readonly limitBytes: number
  readonly log: Logger
  /** One queue for all runs of a service: cutting and reading take turns. */
  readonly turns: PQueue
}

const firstLookMs = 500
const minLookMs = 500
/** On its beats all files are looked at at once, which costs less than one by one. */
const maxLookMs = 5_000

/** Cut from this size on, a file seldom grows beyond its limit before it is looked at again. */
const cutShare = 0.75

/** How long a file may be left alone at the rate at which it grew last. */
export function nextLookMs({ room, bytesPerMs }: { room: number; bytesPerMs: number }): number {
  const fullInMs = bytesPerMs > 0 ? room / bytesPerMs : maxLookMs
  return Math.min(maxLookMs, Math.max(minLookMs, fullInMs))
}

/** What one run of a server writes to `file`, bounded while the run lasts. It does not matter which agent started the server. */
export class RunOutput implements ReadableOutput {
  readonly file: string
  readonly #options: RunOutputOptions
  #hasComplained = false

  constructor(options: RunOutputOptions) {
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

  /** Adds a line, for a server without output of its own. Never rejects. */
  note(line: string): Promise<void> {
    return this.#options.turns.add(async () => {
      try {
        await appendFile(this.file, `${line}\n`, { mode: 0o600 })
      } catch (error) {
        this.#complain('the log of a service could not be written', error)
        return
      }
      await this.bound()
    })
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
      return nextLookMs({ room: this.#cutBytes - size, bytesPerMs })
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

  extent(): Promise<OutputExtent | undefined> {
    return this.#options.turns.add(async () => extentOf(await findRun(this.file)))
  }

  read({ fileId, offset }: OutputCursor, maxBytes: number): Promise<OutputBytes | undefined> {
    return this.#options.turns.add(async () => {
      const run = await findRun(this.file)
      return run?.fileId === fileId ? readRun(run, { offset, maxBytes, over: false }) : undefined
    })
  }

  /** Cuts the file where it is too long; answers its sizes before and after. To be called in its turn; never rejects. */
  async bound(): Promise<{ before: number; after: number }> {
    const { file } = this
    try {
      const before = await sizeOf(file)
      if (before < this.#cutBytes) return { before, after: before }
      await cutOutput(file, this.#options.limitBytes)
      this.#hasComplained = false
      return { before, after: await sizeOf(file) }
    } catch (error) {
      this.#complain('older output of a server is lost: it could not be copied', error)
      return { before: 0, after: 0 }
    }
  }

  /**
   * Nearly every look finds nothing to do, and needs no turn. What goes wrong here goes wrong in the turn as well, which tells it. The server
   * has the file open, so that no disk is asked, and the round trip through the thread pool would cost many times as much.
   */
  #foundShort(): { before: number; after: number } | undefined {
    try {
      const { size } = statSync(this.file)
      return size < this.#cutBytes ? { before: size, after: size } : undefined
    } catch {
      return undefined
    }
  }

  get #cutBytes(): number {
    return this.#options.limitBytes * cutShare
  }

  /** Reports a failure once, until an attempt succeeds again. */
  #complain(message: string, error: unknown): void {
    if (!this.#hasComplained) this.#options.log.warn(message, { file: this.file, error })
    this.#hasComplained = true
  }
}

const notWritable = (file: string, error: unknown): OutputError =>
  new OutputError(`The output of the server cannot be written to ${file}: ${messageOf(error)}.`, { cause: error })

/** A file with a part of what one run of a server wrote. */
interface Piece {
  readonly path: string
  /** The offset of its first byte, counted from the beginning of the run. */
  readonly from: number
  readonly size: number
}

/** What is kept of one run's output: pieces in their order, the last of which is the file that the server writes to. */
interface FoundRun {
  /** Other than that of any other run, also after the file was cut. */
  readonly fileId: string
  readonly file: string
  readonly pieces: readonly Piece[]
}

/** Digits enough for a petabyte, and a folder listed by name is in order. */
const offsetDigits = 15
const pieceOffset = new RegExp(`^\\d{${offsetDigits}}$`)

/** The offset is in the name, so that the file needs no book kept about it. */
const pieceName = (file: string, from: number): string => `${file}.${String(from).padStart(offsetDigits, '0')}`

const endOf = (piece: Piece | undefined): number => (piece === undefined ? 0 : piece.from + piece.size)

/** Undefined where there is no such file. */
async function findRun(file: string): Promise<FoundRun | undefined> {
  const found = await statIfThere(file)
  if (found === undefined) return undefined
  const older = await olderPieces(file)
  return {
    fileId: `${found.ino}-${found.birthtimeNs}`,
    file,
    pieces: [...older, { path: file, from: endOf(older.at(-1)), size: Number(found.size) }],
  }
}

const extentOf = (run: FoundRun | undefined): OutputExtent | undefined =>
  run && { fileId: run.fileId, file: run.file, from: run.pieces[0]?.from ?? 0, to: endOf(run.pieces.at(-1)) }

async function readRun(
  { pieces }: FoundRun,
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

/** What was copied off `file`, oldest first. */
async function olderPieces(file: string): Promise<Piece[]> {
  const [folder, prefix] = [dirname(file), `${basename(file)}.`]
  const found = (await namesIn(folder)).flatMap((name) => {
    const digits = name.startsWith(prefix) ? name.slice(prefix.length) : ''
    return pieceOffset.test(digits) ? [{ name, from: Number(digits) }] : []
  })
  const pieces = await Promise.all(
    found.map(async ({ name, from }) => {
      const path = join(folder, name)
      const size = (await statIfThere(path))?.size
      return size === undefined ? [] : [{ path, from, size: Number(size) }]
    }),
  )
  return pieces.flat().toSorted((a, b) => a.from - b.from)
}

/** Empty where there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isAbsent(error)) return []
    throw error
  }
}

/** When it was written to last, in milliseconds since 1970; 0 where it is not there. */
const changedAt = async (file: string): Promise<number> => Number((await statIfThere(file))?.mtimeMs ?? 0)

const sizeOf = async (file: string): Promise<number> => Number((await statIfThere(file))?.size ?? 0)

async function statIfThere(file: string) {
  try {
    return await stat(file, { bigint: true })
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

const isAbsent = (error: unknown): boolean => hasCode(error, 'ENOENT')

const copyBytes = 256 * 1024
/** A server that writes faster than we copy is not followed for ever. */
const maxPasses = 20

/**
 * Moves what `file` holds to a piece of its own (the newest part, where that is more than the limit) in place of the one before, and cuts the
 * file, to which the server appends meanwhile. What it writes between the last look and the cut, some tenths of a millisecond, is gone. It is
 * cut in any case: history is worth less than a disk that is not full. Rejects with why the rest is lost.
 */
async function cutOutput(file: string, limitBytes: number): Promise<void> {
  const older = await olderPieces(file)
  const from = endOf(older.at(-1))
  await using source = await open(file, 'r+')
  const { size } = await source.stat()
  const first = size - Math.min(size, limitBytes)
  const copy = `${file}.copying`
  let piece = pieceName(file, from + first)
  try {
    await using target = await open(copy, 'w', 0o600)
    let copied = first
    for (let pass = 0; pass < maxPasses; pass++) {
      const end = (await source.stat()).size
      if (end <= copied) break
      copied = await copyRange(source, target, { from: copied, to: end })
    }
    await source.truncate()
    await rename(copy, piece)
  } catch (error) {
    await rm(copy, { force: true })
    await source.truncate()
    // An empty one tells where the rest begins.
    piece = pieceName(file, from + size)
    await writeFile(piece, '', { mode: 0o600 })
    throw error
  } finally {
    for (const { path } of older) if (path !== piece) await rm(path, { force: true })
  }
}

/** The offset that was reached; before `to` where the file became shorter meanwhile. */
async function copyRange(
  source: FileHandle,
  target: FileHandle,
  { from, to }: { from: number; to: number },
): Promise<number> {
  const buffer = Buffer.allocUnsafe(Math.min(copyBytes, to - from))
  let at = from
  for (;;) {
    const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, to - at), at)
    if (bytesRead === 0) return at
    await target.writeFile(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
}
