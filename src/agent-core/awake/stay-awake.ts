import type { SleepPolicy } from '../../contract/settings-table/power-rows.ts'
import type { Logger } from '../observability/logger.ts'
import type { PowerSupply } from '../platform/power-supply.ts'
import type { Servers } from '../process/servers.ts'
import type { AwakeHold, HoldAwake } from './awake-hold.ts'
import { mayKeepAwake } from './awake-rule.ts'
import { isWorkUnderWay, type WorkSources } from './work-under-way.ts'

export interface StayAwakeOptions extends Pick<WorkSources, 'ask' | 'connections'> {
  readonly policy: () => SleepPolicy
  readonly source: () => PowerSupply['source'] | undefined
  readonly servers: Pick<Servers, 'state' | 'counted' | 'onChange'>
  /** Undefined where nothing can hold this system awake. */
  readonly hold: HoldAwake | undefined
  readonly log: Logger
  readonly onChange: () => void
}

/** No system sleeps within a minute of being used, so that a request is seen in time. */
const lookEveryMs = 20_000
/** While it is held: it is released within five seconds of the last request. */
const heldLookEveryMs = 2_000
/** Where what holds it awake ends by itself, it would end again. */
const afterFailureMs = 60_000

/** Keeps the system from going to sleep while models load or requests run, where a person wants that. */
export class StayAwake implements AsyncDisposable {
  readonly #options: StayAwakeOptions
  readonly #leave: () => void
  #hold: AwakeHold | undefined
  #next: NodeJS.Timeout | undefined
  #look: Promise<void> | undefined
  #isAskedAgain = false
  #isEnded = false

  constructor(options: StayAwakeOptions) {
    this.#options = options
    this.#leave = options.servers.onChange((_key, { kind }) => {
      if (kind === 'starting' || kind === 'loading') this.review()
    })
    this.review()
  }

  get isKeptAwake(): boolean {
    return this.#hold?.isHeld === true
  }

  /** The policy, the supply or what runs has changed. */
  review(): void {
    if (this.#isEnded) return
    this.#isAskedAgain = true
    this.#look ??= this.#lookOn().finally(() => (this.#look = undefined))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true
    this.#leave()
    clearTimeout(this.#next)
    await this.#look
    this.#release()
  }

  async #lookOn(): Promise<void> {
    clearTimeout(this.#next)
    let waitMs = lookEveryMs
    while (this.#isAskedAgain && !this.#isEnded) {
      this.#isAskedAgain = false
      waitMs = await this.#lookOnce()
    }
    if (!this.#isEnded) this.#next = setTimeout(() => this.review(), waitMs).unref()
  }

  async #lookOnce(): Promise<number> {
    const { log } = this.#options
    const isNeeded = await this.#isNeeded().catch((error: unknown) => {
      log.warn('could not tell whether models work', { error })
      return false
    })
    if (!isNeeded || this.#isEnded) {
      this.#release()
      return lookEveryMs
    }
    if (this.#hold?.isHeld === true) return heldLookEveryMs
    const hasFailed = this.#hold !== undefined
    this.#release()
    if (hasFailed) return afterFailureMs
    this.#hold = this.#options.hold?.()
    log.info('kept awake while models work')
    this.#options.onChange()
    return heldLookEveryMs
  }

  async #isNeeded(): Promise<boolean> {
    const { policy, source, servers, ask, connections, hold } = this.#options
    if (!hold || !mayKeepAwake(policy(), source())) return false
    return isWorkUnderWay({
      states: () => servers.state().values(),
      counted: () => servers.counted(),
      ask,
      connections,
    })
  }

  #release(): void {
    if (!this.#hold) return
    this.#hold.release()
    this.#hold = undefined
    this.#options.onChange()
  }
}
