import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'

const askEveryMs = 100
const answerMs = 10_000
/** The agent knows by then that a server is ready, and the gateway too. */
const knownMs = 3_000
/** A gateway that ended or hung answers again when its agent could work for so long. */
const backMs = 40_000

export interface LocalClientOptions {
  readonly port: number
  /** Whether the service that nothing is done to serves at this moment. */
  readonly isServing: () => boolean
  /** See `Oracle.workedMs`. */
  readonly workedMs: () => number
  readonly onBroken: (sentence: string) => void
}

/** A program of this machine that asks the first service through the client proxy all the time: while it serves, every request is answered. */
export class LocalClient implements AsyncDisposable {
  readonly counts = { answered: 0, excused: 0 }
  readonly #options: LocalClientOptions
  readonly #leaving = new AbortController()
  readonly #running: Promise<void>
  /** Faults that the gateway itself does not survive, and when the last of them was over. */
  #disturbances = 0
  #disturbedAt: number | undefined
  #servesSince: number | undefined

  constructor(options: LocalClientOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  /** Something that ends or halts the gateway: until it is over and for as long as it takes to start another, requests may fail. */
  async disturb(what: () => Promise<void>): Promise<void> {
    this.#disturbances += 1
    this.#disturbedAt = Infinity
    try {
      await what()
    } finally {
      this.#disturbances -= 1
      if (this.#disturbances === 0) this.#disturbedAt = this.#options.workedMs()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#leaving
    while (!signal.aborted) {
      await delay(askEveryMs)
      const wasServing = this.#isServing()
      const problem = await this.#ask()
      if (problem === undefined) {
        this.counts.answered += 1
        if (this.#disturbances === 0) this.#disturbedAt = undefined
      } else if (this.#isExcused() || !wasServing || !this.#isServing()) this.counts.excused += 1
      else this.#options.onBroken(`A request to a service that serves was not answered: ${problem}`)
    }
  }

  #isServing(): boolean {
    if (this.#options.isServing()) this.#servesSince ??= performance.now()
    else this.#servesSince = undefined
    return this.#servesSince !== undefined && performance.now() - this.#servesSince > knownMs
  }

  #isExcused(): boolean {
    return this.#disturbedAt !== undefined && this.#options.workedMs() - this.#disturbedAt < backMs
  }

  /** Undefined where it was answered. */
  async #ask(): Promise<string | undefined> {
    const { port } = this.#options
    const sent = request({ host: '127.0.0.1', port, method: 'POST', path: '/v1/chat/completions', agent: false })
    const limit = setTimeout(() => sent.destroy(new Error('no answer in time')), answerMs)
    try {
      sent.end(JSON.stringify({ model: 'steady', messages: [{ role: 'user', content: 'hello' }], max_tokens: 1 }))
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      const said = await text(answer)
      return answer.statusCode === 200 ? undefined : `${answer.statusCode} ${said}`
    } catch (error) {
      return String(error)
    } finally {
      clearTimeout(limit)
    }
  }
}
