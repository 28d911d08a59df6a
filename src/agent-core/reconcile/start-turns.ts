import { isOver } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'

export interface StartTurnsOptions {
  readonly servers: Pick<Servers, 'onChange'>
  /** Its service may ask again. */
  readonly enqueue: (key: string) => void
  readonly onChange: () => void
  readonly gatherMs?: number | undefined
  readonly servedMs?: number | undefined
}

/** All models that are to start ask within this time; then it is known which is the smallest. */
const usualGatherMs = 10_000
/** A model that has served for so long has had its first requests, with the memory that they take. */
const usualServedMs = 60_000

interface WaitingStart {
  /** The digest of the server that is to start. A changed specification may make it smaller, so it asks again. */
  readonly digest: string
  /** An unknown need counts as the largest. */
  readonly needBytes: number
}

/** Why a model is not started now. */
export interface TurnObstacle {
  readonly reason: 'StartsInTurn'
  readonly message: string
}

/**
 * The order of starts after this machine went down without a clean shutdown while models ran: one at a time, the smallest first, since the
 * largest is the likeliest to take it down again. It ends when the last that waited has served.
 */
export class StartTurns implements Disposable {
  readonly #options: StartTurnsOptions
  readonly #leave: () => void
  readonly #waiting = new Map<string, WaitingStart>()
  #isOn = false
  /** The key whose model loads, or has not served for long enough. */
  #current: string | undefined
  /** While it runs, others may ask and be smaller. */
  #gather: NodeJS.Timeout | undefined
  /** Runs from when the current model is ready. */
  #served: NodeJS.Timeout | undefined

  constructor(options: StartTurnsOptions) {
    this.#options = options
    this.#leave = options.servers.onChange((key, state) => {
      if (key !== this.#current) return
      if (isOver(state)) this.#pass()
      else if (state.kind === 'ready')
        this.#served ??= setTimeout(() => this.#pass(), options.servedMs ?? usualServedMs).unref()
    })
  }

  /** To be called before anything is started. */
  begin(): void {
    this.#isOn = true
    this.#options.onChange()
  }

  /** One sentence for people, while models start in turn. */
  get notice(): string | undefined {
    return this.#isOn ? `${sentence}.` : undefined
  }

  /** Whether the model may start now. If it may, it has the turn until it has served, ended, or {@link forget} is called. */
  ask(key: string, digest: string, needBytes = Infinity): TurnObstacle | undefined {
    if (!this.#isOn || key === this.#current) return undefined
    if (!this.#waiting.has(key)) this.#gatherMore()
    this.#waiting.set(key, { digest, needBytes })
    const obstacle = this.#obstacle(key)
    if (obstacle === undefined) {
      this.#waiting.delete(key)
      this.#current = key
    }
    return obstacle
  }

  /** What stands in the way of a start that was asked for. Undefined = it may ask. */
  obstacleOf(key: string, digest: string | undefined): TurnObstacle | undefined {
    const start = this.#waiting.get(key)
    return start && start.digest === digest ? this.#obstacle(key) : undefined
  }

  /** This service is not to start, or cannot: others no longer wait for it. */
  forget(key: string): void {
    const wasWaiting = this.#waiting.delete(key)
    if (key === this.#current && this.#served === undefined) this.#pass()
    else if (wasWaiting) this.#wake()
  }

  forgetWhere(isLeft: (key: string) => boolean): void {
    const keys = [...this.#waiting.keys(), ...(this.#current === undefined ? [] : [this.#current])]
    for (const key of keys.filter(isLeft)) this.forget(key)
  }

  [Symbol.dispose](): void {
    this.#leave()
    this.#isOn = false
    clearTimeout(this.#gather)
    clearTimeout(this.#served)
  }

  #obstacle(key: string): TurnObstacle | undefined {
    const first = this.#current ?? (this.#gather ? undefined : this.#smallest())
    if (first === key) return undefined
    const next = first === undefined ? 'The agent is finding out which is the smallest' : `${first} goes first`
    return { reason: 'StartsInTurn', message: `${sentence}. ${next}.` }
  }

  #smallest(): string | undefined {
    const [first] = [...this.#waiting].toSorted(
      ([key, one], [otherKey, other]) => one.needBytes - other.needBytes || (key < otherKey ? -1 : 1),
    )
    return first?.[0]
  }

  #gatherMore(): void {
    clearTimeout(this.#gather)
    this.#gather = setTimeout(() => {
      this.#gather = undefined
      this.#wake()
    }, this.#options.gatherMs ?? usualGatherMs).unref()
  }

  #pass(): void {
    clearTimeout(this.#served)
    this.#served = undefined
    this.#current = undefined
    this.#isOn = this.#waiting.size > 0
    this.#wake()
  }

  #wake(): void {
    for (const key of this.#waiting.keys()) this.#options.enqueue(key)
    this.#options.onChange()
  }
}

const sentence =
  'This machine went down without a clean shutdown while models were running, so models start one at a time, the smallest first, each after the one before has served for a minute'
