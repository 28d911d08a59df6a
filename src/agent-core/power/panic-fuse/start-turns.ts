import type { AskedStart } from './start-order.ts'

export interface WaitingModel extends AskedStart {
  /** Digest of the server that is to start: another may be smaller. */
  readonly of: string
}

/** Which models wait to be started one by one, and which of them loads now. */
export class StartTurns implements Disposable {
  readonly #waiting = new Map<string, WaitingModel>()
  readonly #gatherMs: number
  readonly #onTurn: () => void
  /** The key whose model may load now. */
  #current: string | undefined
  #gather: NodeJS.Timeout | undefined

  /** `onTurn`: those that wait may ask again. */
  constructor(gatherMs: number, onTurn: () => void) {
    this.#gatherMs = gatherMs
    this.#onTurn = onTurn
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#gather)
  }

  get waiting(): ReadonlyMap<string, WaitingModel> {
    return this.#waiting
  }

  get current(): string | undefined {
    return this.#current
  }

  /** Others may ask in a moment, and be smaller. */
  get isGathering(): boolean {
    return this.#gather !== undefined
  }

  /** Of those that wait and the one that loads. */
  keys(): Set<string> {
    return new Set([...this.#waiting.keys(), ...(this.#current === undefined ? [] : [this.#current])])
  }

  wait(start: WaitingModel): void {
    if (!this.#waiting.has(start.key)) this.#gatherMore()
    this.#waiting.set(start.key, start)
  }

  /** It loads now, until it has {@link loaded} or is forgotten. */
  take(key: string): void {
    this.#waiting.delete(key)
    this.#current = key
  }

  /** Or its load has ended. */
  loaded(key: string): void {
    if (this.#current === key) this.#current = undefined
    if (this.#waiting.size > 0) this.#onTurn()
  }

  forget(key: string): void {
    const isCurrent = this.#current === key
    if (isCurrent) this.#current = undefined
    if (this.#waiting.delete(key) || isCurrent) this.#onTurn()
  }

  #gatherMore(): void {
    clearTimeout(this.#gather)
    this.#gather = setTimeout(() => {
      this.#gather = undefined
      this.#onTurn()
    }, this.#gatherMs).unref()
  }
}
