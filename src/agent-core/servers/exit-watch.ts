import type { Logger } from '../observability/logger.ts'
import type { Platform, ProcessFacts } from '../platform/platform.ts'
import type { Exit } from './server-state.ts'

/** Half a second is soon enough to withdraw an endpoint, and seldom enough to cost nothing. */
const lookEveryMs = 500

export interface ExitWatchOptions {
  readonly platform: Pick<Platform, 'isRunning'>
  readonly log: Logger
}

type Watched = Pick<ProcessFacts, 'pid' | 'startTime'>

/** Tells the end of processes that are not our children, which no event does: one timer looks at all of them. */
export class ExitWatch implements Disposable {
  readonly #options: ExitWatchOptions
  readonly #watched = new Map<Watched, (exit: Exit) => void>()
  #timer: NodeJS.Timeout | undefined
  #looking = false

  constructor(options: ExitWatchOptions) {
    this.#options = options
  }

  /** Code and signal of a process go to its parent alone: both are null. */
  exitOf(process: Watched): Promise<Exit> {
    this.#timer ??= setInterval(() => void this.#look(), lookEveryMs).unref()
    return new Promise((resolve) => this.#watched.set(process, resolve))
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#watched.clear()
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    await Promise.all([...this.#watched.keys()].map((process) => this.#lookAt(process)))
    this.#looking = false
    if (this.#watched.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #lookAt(process: Watched): Promise<void> {
    const { platform, log } = this.#options
    try {
      if (await platform.isRunning(process)) return
      this.#watched.get(process)?.({ code: null, signal: null })
      this.#watched.delete(process)
    } catch (error) {
      log.warn('could not tell whether a server still runs', { pid: process.pid, error })
    }
  }
}
