import { wallTimeOf } from '../util/steady-clock.ts'
import { mkdir, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import PQueue from 'p-queue'
import type { Logger } from '../observability/logger.ts'
import {
  extentOf,
  notWritable,
  OutputLog,
  readRun,
  type OutputBytes,
  type OutputCursor,
  type OutputExtent,
  type ReadableOutput,
} from './output-log.ts'
import { changedAt, findRun, namesIn, olderPieces, type OutputRun } from './output-pieces.ts'
import { dropOldest, type OutputLimits } from './output-rotation.ts'
import { pathBelow } from '../util/is-below.ts'
import {
  earlierRuns,
  newRunName,
  runFolder,
  runNumber,
  serviceFolderName,
  type KeptRun,
  type RunFolder,
  type ServerFolders,
} from './run-folder.ts'

export interface ServiceRunsOptions {
  readonly key: string
  readonly folders: ServerFolders
  readonly limits: OutputLimits
  readonly log: Logger
  readonly now: () => number
  /** The run of the newest server; undefined where none is known. */
  readonly newest: () => RunFolder | undefined
}

/**
 * The runs of a service's servers that are kept: the one that goes on, and the one before, whose last words explain a crash. Readers
 * follow the newest server; their cursors stay right, as each names its run. One object per service and agent.
 */
export class ServiceRuns implements ReadableOutput {
  readonly #options: ServiceRunsOptions
  readonly #folder: string
  readonly #turns = new PQueue({ concurrency: 1 })
  /** By the name of the run. */
  readonly #outputs = new Map<string, OutputLog>()
  /** Oldest first. */
  #kept: readonly KeptRun[] | undefined

  constructor(options: ServiceRunsOptions) {
    this.#options = options
    this.#folder = pathBelow(options.folders.runs, serviceFolderName(options.key))
  }

  get file(): string {
    return this.#options.newest()?.logFile ?? this.#folder
  }

  /**
   * A folder for another run. Of the runs before it one is kept: that of the server that it is started `beside`, or the run that wrote
   * last. Throws OutputError.
   */
  begin(beside?: RunFolder): Promise<RunFolder> {
    return this.#turns.add(async () => {
      try {
        return await this.#begin(beside)
      } catch (error) {
        throw notWritable(this.#folder, error)
      }
    })
  }

  async #begin(beside: RunFolder | undefined): Promise<RunFolder> {
    const { key, folders, limits, now } = this.#options
    const kept = await this.#list()
    const previous = beside ? kept.find(({ name }) => name === beside.name) : (await inOrderOfWriting(kept)).at(-1)
    if (previous) await this.output(previous).bound()
    const gone = await Promise.all(kept.map(async (run) => run !== previous && (await this.#remove(run))))
    const left = kept.filter((_, index) => gone[index] !== true)
    this.#kept = left
    await dropOldest(await this.#files(), limits)
    const number = Math.max(0, ...kept.map((run) => runNumber(run.name) ?? 0)) + 1
    const folder = runFolder(folders, `${serviceFolderName(key)}/${newRunName(wallTimeOf(now()), number)}`)
    await mkdir(dirname(folder.logFile), { recursive: true, mode: 0o700 })
    this.#kept = [...left, keptIn(folder)]
    return folder
  }

  /** Removes all of them; what the disk does not let go is logged. */
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

  /** Since when nothing was written; Infinity where nothing ever was. By the clock of the files. */
  silentForMs(): Promise<number> {
    return this.#turns.add(async () => {
      const times = await Promise.all((await this.#files()).map(changedAt))
      return Date.now() - Math.max(...times)
    })
  }

  /** The same object for the same run. */
  output({ name, logFile: file }: KeptRun): OutputLog {
    const { limits, log } = this.#options
    const known = this.#outputs.get(name)
    const output = known ?? new OutputLog({ file, limits, log, turns: this.#turns, files: () => this.#files() })
    this.#outputs.set(name, output)
    return output
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

  /** What there is to read: the current run first, then the newest. */
  async #written(): Promise<OutputRun[]> {
    const newest = this.#options.newest()
    const others = (await this.#files()).filter((file) => file !== newest?.logFile).toReversed()
    const found = await Promise.all([...(newest ? [newest.logFile] : []), ...others].map(findRun))
    return found.filter((run) => run !== undefined)
  }

  async #files(): Promise<string[]> {
    return (await this.#list()).map(({ logFile }) => logFile)
  }

  async #list(): Promise<readonly KeptRun[]> {
    if (this.#kept) return this.#kept
    const { key, folders } = this.#options
    const earlier = await inOrderOfWriting(earlierRuns(folders, key))
    const names = (await namesIn(this.#folder)).filter((name) => runNumber(name) !== undefined)
    const inOrder = names.toSorted((a, b) => (runNumber(a) ?? 0) - (runNumber(b) ?? 0))
    const runs = inOrder.map((name) => keptIn(runFolder(folders, `${serviceFolderName(key)}/${name}`)))
    return (this.#kept ??= [...earlier, ...runs])
  }

  /** False where it could not be removed, which the next run tries again. */
  async #remove(run: KeptRun): Promise<boolean> {
    try {
      const pieces = await olderPieces(run.logFile)
      for (const path of [...pieces.map((piece) => piece.path), run.logFile]) await rm(path, { force: true })
      if (run.folder !== undefined) await rm(run.folder, { recursive: true, force: true })
      this.#outputs.delete(run.name)
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

const keptIn = ({ name, logFile }: RunFolder): KeptRun => ({ name, logFile, folder: dirname(logFile) })

/** Those of which there is a file. A time that has not come yet is of a clock that was ahead, and older than any other. */
async function inOrderOfWriting(runs: readonly KeptRun[]): Promise<KeptRun[]> {
  const times = await Promise.all(runs.map(async (run) => ({ run, at: await changedAt(run.logFile) })))
  const there = times.filter(({ at }) => at > 0)
  const now = Date.now()
  const age = (at: number): number => (at > now ? 0 : at)
  return there.toSorted((a, b) => age(a.at) - age(b.at)).map(({ run }) => run)
}
