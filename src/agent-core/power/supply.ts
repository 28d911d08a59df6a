import type { SupplyView } from '../../contract/power.ts'
import type { SleepPolicy } from '../../contract/settings-table.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { PowerSupply } from '../platform/power-supply.ts'
import type { Servers } from '../servers/servers.ts'
import { holdByProcess, LatelyWorking, StayAwake, type HoldAwake } from './stay-awake.ts'

export interface SupplySettings {
  readonly sleepPolicy: SleepPolicy
  readonly awakeOnBattery: boolean
}

export interface SupplyOptions {
  readonly platform: Pick<Platform, 'name' | 'powerSupply' | 'awakeProgram' | 'processGroup'>
  readonly servers: Pick<Servers, 'state' | 'counted' | 'onChange'>
  readonly settings: () => SupplySettings
  /** What keeps the system awake; absent = a program of the system. */
  readonly holdAwake?: HoldAwake | undefined
  /** Somebody looks at the figures. */
  readonly hasReaders: () => boolean
  readonly log: Logger
  readonly onChange: () => void
  /** For tests: how often the supply is looked at, needed or not. */
  readonly everyMs?: number | undefined
}

/** While it is needed: a pulled plug is noticed within this time. */
const neededEveryMs = 15_000
/** While nothing needs the figures each look would be two commands for nothing; the next request finds what is known no older than this. */
const batteryEveryMs = 150_000
/** A battery may be added, or Low Power Mode chosen. */
const otherwiseEveryMs = 300_000
/** After this many failed looks in a row, what was known before counts no longer. */
const mostFailures = 3

/** What this machine runs on, as of a moment ago, and what follows from it: being kept awake. */
export class Supply implements AsyncDisposable {
  readonly #options: SupplyOptions
  readonly #awake: StayAwake
  #current: PowerSupply | undefined
  #next: NodeJS.Timeout | undefined
  /** On the monotonic clock. */
  #lookedAt = -Infinity
  #look: Promise<void> | undefined
  #failures = 0
  #isEnded = false

  constructor(options: SupplyOptions) {
    this.#options = options
    const { platform, servers, settings, log, holdAwake } = options
    const program = platform.awakeProgram()
    this.#awake = new StayAwake({
      policy: () => settings().sleepPolicy,
      mayOnBattery: () => settings().awakeOnBattery,
      source: () => this.source,
      servers,
      working: new LatelyWorking((groupId) => platform.processGroup(groupId)),
      hold: holdAwake ?? (program && ((onEnded) => holdByProcess(program, onEnded))),
      log,
      onChange: () => {
        this.review()
        this.#options.onChange()
      },
    })
  }

  /** Undefined where it is not known. A Linux is taken to run on mains; every Mac says what it runs on. */
  get source(): PowerSupply['source'] | undefined {
    return this.#current?.source ?? (this.#options.platform.name === 'linux' ? 'mains' : undefined)
  }

  /** Undefined where nothing is known. */
  get view(): SupplyView | undefined {
    const { source } = this
    const { isKeptAwake } = this.#awake
    if (!this.#current && !isKeptAwake) return undefined
    const { charge, lowPowerMode = false } = this.#current ?? {}
    const state = { lowPowerMode, isKeptAwake }
    return { ...(source && { source }), ...state, ...(charge !== undefined && { charge }) }
  }

  /** Looks once, and regularly from then on. Never rejects. */
  look(): Promise<void> {
    return (this.#look ??= this.#lookOnce().finally(() => (this.#look = undefined)))
  }

  /** The system says that the supply changed: a look that is under way may have asked before that. Never rejects. */
  async changed(): Promise<void> {
    await this.#look
    await this.look()
  }

  settingsChanged(): void {
    this.review()
    this.#awake.review()
    this.#options.onChange()
  }

  /** Whether the figures are needed may have changed: looks at once where they are too old for that. */
  review(): void {
    if (this.#isEnded || this.#look) return
    const restMs = this.#lookedAt + this.#everyMs - performance.now()
    if (restMs <= 0) void this.look()
    else this.#plan(restMs)
  }

  /** For one reader: afterwards the figures are as young as while they are needed. */
  async fresh(): Promise<void> {
    if (performance.now() - this.#lookedAt >= neededEveryMs) await this.look()
    else await this.#look
  }

  async #lookOnce(): Promise<void> {
    const { platform, log } = this.#options
    clearTimeout(this.#next)
    this.#lookedAt = performance.now()
    try {
      const found = await platform.powerSupply()
      this.#failures = 0
      this.#take(found)
    } catch (error) {
      if (this.#failures === 0) log.warn('power supply not known', { error })
      this.#failures += 1
      if (this.#failures >= mostFailures) this.#take(undefined)
    }
    if (!this.#isEnded) this.#plan(this.#everyMs)
  }

  get #everyMs(): number {
    const { hasReaders, everyMs } = this.#options
    if (everyMs !== undefined) return everyMs
    if (this.#current?.charge === undefined) return otherwiseEveryMs
    const isNeeded = this.#awake.dependsOnSupply || hasReaders()
    return isNeeded ? neededEveryMs : batteryEveryMs
  }

  #plan(waitMs: number): void {
    clearTimeout(this.#next)
    this.#next = setTimeout(() => void this.look(), waitMs).unref()
  }

  #take(found: PowerSupply | undefined): void {
    const before = this.#current
    this.#current = found
    if (this.#isEnded || JSON.stringify(found) === JSON.stringify(before)) return
    this.#awake.review()
    this.#options.onChange()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#next)
    await this.#awake[Symbol.asyncDispose]()
  }
}
