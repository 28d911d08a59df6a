import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** Longest time a part gets to end by itself before it is killed. */
const stopLimitMs = 6_000

const readyPollMs = 25

/**
 * A part of the cluster as a process of its own. It ends when its standard input ends, which the operating system sees
 * to even when the test run is killed.
 */
export class Child implements AsyncDisposable {
  readonly #process: ChildProcess
  readonly #logFile: string
  readonly #ended: Promise<unknown>
  #waker: ChildProcess | undefined

  constructor(command: string, args: readonly string[], logFile: string) {
    this.#logFile = logFile
    const log = openSync(logFile, 'a')
    // Of Go: garbage is collected a quarter as often as usual, which takes a third of the API server's processor time away.
    const env = { ...process.env, GOGC: '400' }
    this.#process = spawn(command, args, { env, stdio: ['pipe', log, log], detached: true })
    this.#ended = once(this.#process, 'exit')
    closeSync(log)
  }

  /** Waits until `probe` is true; fails with the end of the log when the process ends or the time is up. */
  async ready(probe: () => Promise<boolean>, what: string, limitMs: number): Promise<void> {
    const deadline = performance.now() + limitMs
    while (!(await probe())) {
      if (!this.#runs()) throw new Error(`${what} ended at its start:\n${this.#logTail()}`)
      if (performance.now() > deadline) throw new Error(`${what} was not ready in ${limitMs} ms:\n${this.#logTail()}`)
      await delay(readyPollMs)
    }
  }

  /** Lets it finish what it does; killed when that takes too long. */
  async stop(): Promise<void> {
    this.#process.stdin?.end()
    const limit = setTimeout(() => {
      this.#signal('SIGKILL')
    }, stopLimitMs)
    if (this.#runs()) await this.#ended
    clearTimeout(limit)
  }

  /**
   * Halts it with its connections open, until `resume`. A halted process would not notice our own end: a shell does so
   * for it.
   */
  pause(): void {
    this.#signal('SIGSTOP')
    const group = `-${this.#process.pid ?? 0}`
    this.#waker = spawn('/bin/sh', ['-c', 'cat >/dev/null; kill -CONT -- "$0"', group], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    })
  }

  resume(): void {
    this.#signal('SIGCONT')
    this.#waker?.stdin?.end()
    this.#waker = undefined
  }

  /** Gone at once, as in a power cut. */
  async kill(): Promise<void> {
    this.#signal('SIGKILL')
    if (this.#runs()) await this.#ended
    this.#waker?.stdin?.end()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** To its whole group; nothing happens when it has ended. */
  #signal(signal: NodeJS.Signals): void {
    if (this.#process.pid !== undefined && this.#runs()) process.kill(-this.#process.pid, signal)
  }

  #runs(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  #logTail(): string {
    return readFileSync(this.#logFile, 'utf8').trimEnd().split('\n').slice(-20).join('\n')
  }
}
