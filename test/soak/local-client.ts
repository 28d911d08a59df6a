import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'

const askEveryMs = 100
/** Programs that ask at the same time, each one question after the other: some 50 a second cost a tenth of a core. */
const programs = [
  { streams: false, keepsAlive: false },
  { streams: false, keepsAlive: false },
  { streams: false, keepsAlive: true },
  { streams: false, keepsAlive: true },
  { streams: true, keepsAlive: false },
  { streams: true, keepsAlive: true },
] as const
const streamTokens = 5
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

/** Programs of this machine that ask the first service through the client proxy all the time: while it serves, every request is answered. */
export class LocalClient implements AsyncDisposable {
  readonly counts = { answered: 0, streamed: 0, excused: 0 }
  readonly #options: LocalClientOptions
  readonly #leaving = new AbortController()
  readonly #running: Promise<unknown>
  /** Faults that the gateway itself does not survive: those that last, all that have begun or ended, and when the last of them was over. */
  #disturbances = 0
  #turns = 0
  #disturbedAt: number | undefined
  #servesSince: number | undefined

  constructor(options: LocalClientOptions) {
    this.#options = options
    this.#running = Promise.all(programs.map((program) => this.#run(program)))
  }

  /** Something that ends or halts the gateway: until it is over and for as long as it takes to start another, requests may fail. */
  async disturb(what: () => Promise<void>): Promise<void> {
    this.#disturbances += 1
    this.#turns += 1
    this.#disturbedAt = Infinity
    try {
      await what()
    } finally {
      this.#disturbances -= 1
      this.#turns += 1
      if (this.#disturbances === 0) this.#disturbedAt = this.#options.workedMs()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    await this.#running
  }

  async #run({ streams, keepsAlive }: (typeof programs)[number]): Promise<void> {
    const { signal } = this.#leaving
    const connections = keepsAlive && new Agent({ keepAlive: true, maxSockets: 1 })
    while (!signal.aborted) {
      await delay(askEveryMs)
      const turn = this.#turns
      const was = { serving: this.#isServing(), excused: this.#isExcused() }
      let problem = await this.#ask(streams, connections)
      if (problem !== undefined) {
        // Where an update replaces the gateway nothing listens until the new one has heard from the agent: a program that meets this asks again.
        await delay(askEveryMs)
        problem = await this.#ask(streams, connections)
      }
      // Of a request that began before a fault it is not known which gateway answered, or left it.
      const isSameTurn = this.#turns === turn
      if (problem === undefined) {
        this.counts.answered += 1
        if (streams) this.counts.streamed += 1
        if (this.#disturbances === 0 && isSameTurn) this.#disturbedAt = undefined
        continue
      }
      const isExcused = was.excused || !isSameTurn || this.#isExcused()
      if (isExcused || !was.serving || !this.#isServing()) this.counts.excused += 1
      else this.#options.onBroken(`A request to a service that serves was not answered: ${problem}`)
    }
    if (connections) connections.destroy()
  }

  #isServing(): boolean {
    if (this.#options.isServing()) this.#servesSince ??= performance.now()
    else this.#servesSince = undefined
    return this.#servesSince !== undefined && performance.now() - this.#servesSince > knownMs
  }

  #isExcused(): boolean {
    return this.#disturbedAt !== undefined && this.#options.workedMs() - this.#disturbedAt < backMs
  }

  /** Undefined where it was answered as a whole. */
  async #ask(streams: boolean, connections: Agent | false): Promise<string | undefined> {
    const { port } = this.#options
    const sent = request({
      ...{ host: '127.0.0.1', port, method: 'POST', path: '/v1/chat/completions', agent: connections },
    })
    const limit = setTimeout(() => sent.destroy(new Error('no answer in time')), answerMs)
    const asked = streams ? { stream: true, max_tokens: streamTokens } : { max_tokens: 1 }
    try {
      sent.end(JSON.stringify({ model: 'steady', messages: [{ role: 'user', content: 'hello' }], ...asked }))
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      const said = await text(answer)
      const isWhole = answer.statusCode === 200 && (!streams || said.endsWith('data: [DONE]\n\n'))
      return isWhole ? undefined : `${answer.statusCode} ${said}`
    } catch (error) {
      return String(error)
    } finally {
      clearTimeout(limit)
    }
  }
}
