import type { SleepPolicy } from '../../../contract/settings-table.ts'
import type { Logger } from '../../observability/logger.ts'
import type { PowerSupply } from '../../platform/power-supply.ts'
import type { Servers } from '../../servers/servers.ts'
import type { AwakeHold, HoldAwake, HowItEnded } from './awake-hold.ts'
import { mayKeepAwake } from './awake-rule.ts'
import { isWorkUnderWay, type WorkSources } from './work-under-way.ts'

export interface StayAwakeOptions extends Pick<WorkSources, 'working'> {
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
/** Where what holds it awake cannot begin or ends by itself, it would do so again. */
const afterFailureMs = 60_000

/** Keeps the system from going to sleep while models load or requests run, where a person wants that. */
export class StayAwake implements AsyncDisposable {
  readonly #options: StayAwakeOptions
  readonly #leave: () => void
  #hold: AwakeHold | undefined
  /** On the monotonic clock. */
  #failedAt = -Infinity
  /** Told, and no hold has lasted since. */
  #isFailureTold = false
  /** Of the present hold. */
  #hasLasted = false
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

  /** It is let go when the plug is pulled. */
  get dependsOnSupply(): boolean {
    return this.isKeptAwake && this.#options.policy() === 'on-mains'
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
    if (this.#hold?.isHeld === false) this.#failed()
    if (!isNeeded || this.#isEnded) {
      this.#release()
      return lookEveryMs
    }
    if (this.#hold) {
      this.#lasted()
      return heldLookEveryMs
    }
    const restMs = this.#failedAt + afterFailureMs - performance.now()
    if (restMs > 0) return restMs
    return this.#begin() ? heldLookEveryMs : afterFailureMs
  }

  #begin(): boolean {
    const { hold, onChange } = this.#options
    try {
      this.#hold = hold?.((how) => {
        this.#failed(how)
        this.review()
      })
    } catch (error) {
      this.#failed({ error })
      return false
    }
    this.#hasLasted = false
    onChange()
    return true
  }

  /** What ends at once is no news. */
  #lasted(): void {
    if (!this.#hasLasted) this.#options.log.info('kept awake while models work')
    this.#hasLasted = true
    this.#isFailureTold = false
  }

  #failed(how: HowItEnded | { readonly error: unknown } | Record<string, never> = {}): void {
    this.#failedAt = performance.now()
    // Usual where nothing manages sleep, as on a Linux server.
    if (!this.#isFailureTold) this.#options.log.info('not kept awake', how)
    this.#isFailureTold = true
    this.#release()
  }

  async #isNeeded(): Promise<boolean> {
    const { policy, source, servers, working, hold } = this.#options
    if (!hold || !mayKeepAwake(policy(), source())) return false
    return isWorkUnderWay({
      states: () => servers.state().values(),
      counted: () => servers.counted(),
      working,
      freshMs: (this.#hold ? heldLookEveryMs : lookEveryMs) / 2,
    })
  }

  #release(): void {
    const hold = this.#hold
    if (!hold) return
    this.#hold = undefined
    try {
      hold.release()
    } catch (error) {
      this.#options.log.warn('could not let go of what keeps the system awake', { error })
    }
    this.#options.onChange()
  }
}
