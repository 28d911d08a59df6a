import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { hasCode } from '../util/files.ts'
import { createLog, type Log } from './log.ts'
import type { LogLevel } from '../settings/settings.ts'
import { messageOf } from '../util/message-of.ts'
import { steadyNow } from '../util/steady-clock.ts'

export interface LogFileOptions {
  /** An absolute path. */
  readonly file: string
  /** Size at which a file is rotated. */
  readonly maxBytes: number
  /** How many files there are at most, the one that is written among them. */
  readonly count: number
  /** One sentence: lines are lost from now on, or a part of what was kept is gone. */
  readonly onTrouble: (message: string) => void
  /** The file can be written again; so many lines were lost before. */
  readonly onRecovered: (lostLines: number) => void
  /** A line that comes after the close: another agent may have the file by then. */
  readonly onLate: (line: string) => void
  /** The steady clock, unless stated. */
  readonly now?: () => number
}

interface LogToFileOptions extends Pick<LogFileOptions, 'file' | 'onTrouble' | 'onLate'> {
  readonly level: LogLevel
}

/** Days of a busy agent's log at the usual detail, and 50 MB at the most. */
const bounds = { maxBytes: 10 * 1024 ** 2, count: 5 }

/** A log of the agent, or of the app with an agent in it. Its first line opens the file. */
export function logToFile({ level, ...rest }: LogToFileOptions): { readonly file: LogFile; readonly log: Log } {
  const onRecovered = (lostLines: number) => log.warn('lines of the log were lost', { lostLines })
  const file = new LogFile({ ...rest, ...bounds, onRecovered })
  const log = createLog({ level, stream: file })
  return { file, log }
}

/** A disk that is full takes a short line now and then: it is neither tried nor reported for each. */
const retryMs = 1_000

interface OpenFile {
  readonly descriptor: number
  readonly device: bigint
  readonly inode: bigint
}

/** A pipe that nobody reads does not hold the agent up, and a link leads the log nowhere else. */
const openFlags =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK

/**
 * A log in files of bounded size: `agent.log` is written, `agent.log.1` is the one before, and so on. Each line is in the file when `write`
 * returns, so that nothing is held in memory and a crash loses none. What cannot be written is lost and counted; `write` never throws.
 */
export class LogFile {
  readonly #options: LogFileOptions
  #open: OpenFile | undefined
  #lost = 0
  #retryAt = 0
  #isClosed = false

  constructor(options: LogFileOptions) {
    this.#options = options
  }

  /** Throws where the file cannot be used. */
  open(): void {
    this.#sizeOfOpen()
  }

  /** One whole line. */
  write(line: string): void {
    const { file, onTrouble, onRecovered, onLate, now = steadyNow } = this.#options
    if (this.#isClosed) {
      onLate(line)
      return
    }
    if (this.#lost > 0 && now() < this.#retryAt) {
      this.#lost += 1
      return
    }
    try {
      this.#append(Buffer.from(line))
    } catch (error) {
      if (this.#lost === 0) {
        onTrouble(`The log ${file} cannot be written: ${messageOf(error)}. Log lines are lost until it can be.`)
      }
      this.#lost += 1
      this.#retryAt = now() + retryMs
      return
    }
    const lost = this.#lost
    this.#lost = 0
    if (lost > 0) onRecovered(lost)
  }

  /** Closes the file; later lines are dropped. */
  close(): void {
    this.#isClosed = true
    this.#letGo()
  }

  #letGo(): void {
    if (this.#open) closeSync(this.#open.descriptor)
    this.#open = undefined
  }

  #append(bytes: Buffer): void {
    let { descriptor, size } = this.#sizeOfOpen()
    if (size > 0 && size + bytes.length > this.#options.maxBytes) {
      this.#rotate(descriptor)
      ;({ descriptor, size } = this.#sizeOfOpen())
    }
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(descriptor, bytes, at)
    } catch (error) {
      // A part of a line would run into the next one.
      ftruncateSync(descriptor, size)
      throw error
    }
  }

  /** Looks at the file before each line: one that others renamed or removed is created again, and one that they truncated is measured again. */
  #sizeOfOpen(): { descriptor: number; size: number } {
    const { file } = this.#options
    const found = lstatSync(file, { bigint: true, throwIfNoEntry: false })
    if (this.#open && found?.ino === this.#open.inode && found.dev === this.#open.device) {
      return { descriptor: this.#open.descriptor, size: Number(found.size) }
    }
    this.#letGo()
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const descriptor = openSync(file, openFlags, 0o600)
    const stats = fstatSync(descriptor, { bigint: true })
    this.#open = { descriptor, device: stats.dev, inode: stats.ino }
    if (stats.isFile()) return { descriptor, size: Number(stats.size) }
    this.#letGo()
    throw new Error('it exists and is not a file')
  }

  /** Where the older files cannot be moved, history is worth less than a disk that is not full. */
  #rotate(descriptor: number): void {
    const { file, count, onTrouble } = this.#options
    try {
      for (let number = count - 1; number > 0; number--) {
        renameIfThere(number === 1 ? file : `${file}.${number - 1}`, `${file}.${number}`)
      }
      if (count === 1) rmSync(file, { force: true })
    } catch (error) {
      ftruncateSync(descriptor)
      onTrouble(`The log ${file} cannot be renamed: ${messageOf(error)}. It was truncated instead.`)
    }
  }
}

function renameIfThere(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
}
