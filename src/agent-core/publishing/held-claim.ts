import { isDecision } from '../kube/api-error.ts'
import { jitteredMs } from '../util/back-off.ts'
import type { PublishTarget } from './objects.ts'
import type { Publishing } from './publishing.ts'
import type { WriteResult } from './writes.ts'

/** Without a renewal for this long another agent may take the claim within seconds (180 s): it is no longer relied on. */
export const uncertainAfterMs = 150_000

const retry = { firstMs: 1_000, maxMs: 15_000 }
/** After a start or a gap the holder must be heard soon, but not in one burst for all its services. */
const soonMs = 2_000

interface HeldClaimOptions {
  readonly key: string
  readonly publishing: Publishing
  /** In its turn; undefined = the claim was let go until then. Calls {@link HeldClaim.renewed} when it went well. */
  readonly renew: () => Promise<WriteResult | undefined>
  /** Whether the claim must be confirmed before it is relied on. */
  readonly isDoubtful: () => boolean
}

/** A claim that is ours, renewed on the beat of all claims until it is let go, and sooner where a renewal fails. */
export class HeldClaim implements Disposable {
  readonly #options: HeldClaimOptions
  readonly #renewal = (): Promise<void> => this.#renew()
  #target: PublishTarget
  #epoch: number
  #renewedAt: number
  #failures = 0
  #timer: NodeJS.Timeout | undefined
  #saidUncertain = false
  #saidRefused = false
  #isOver = false

  constructor(target: PublishTarget, epoch: number, options: HeldClaimOptions) {
    this.#options = options
    this.#target = target
    this.#epoch = epoch
    this.#renewedAt = options.publishing.monotonicNow()
  }

  get target(): PublishTarget {
    return this.#target
  }

  get epoch(): number {
    return this.#epoch
  }

  get ageMs(): number {
    return this.#options.publishing.monotonicNow() - this.#renewedAt
  }

  get isOverdue(): boolean {
    return this.ageMs >= uncertainAfterMs
  }

  /** A write of ours has just renewed it. */
  renewed(target: PublishTarget, epoch: number): void {
    this.#target = target
    this.#epoch = epoch
    this.#renewedAt = this.#options.publishing.monotonicNow()
    this.#saidUncertain = false
    this.#saidRefused = false
    this.#failures = 0
    this.#rest()
    if (!this.#isOver) this.#options.publishing.pulse.join(this.#renewal)
  }

  /** What is renewed from now on is as wanted now, also where that needed no write. */
  aimAt(target: PublishTarget): void {
    if (target.uid === this.#target.uid) this.#target = target
  }

  renewSoon(): void {
    const { pulse, random } = this.#options.publishing
    this.#renewIn(Math.min(soonMs, pulse.everyMs) * random())
  }

  [Symbol.dispose](): void {
    this.#isOver = true
    this.#rest()
  }

  #renewIn(delayMs: number): void {
    this.#rest()
    if (!this.#isOver) this.#timer = setTimeout(() => void this.#renew(), delayMs)
  }

  #rest(): void {
    clearTimeout(this.#timer)
    this.#options.publishing.pulse.leave(this.#renewal)
  }

  async #renew(): Promise<void> {
    const { key, renew, publishing } = this.#options
    const { log, onChange, pulse, random } = publishing
    if (this.#isOver) return
    const wasUncertain = this.#saidUncertain
    try {
      const result = await renew()
      if (result?.kind === 'done') {
        if (wasUncertain) onChange(key)
        return
      }
      if (result?.kind !== 'dropped') {
        this[Symbol.dispose]()
        if (!result) return
        log.warn('claim lost', { key, reason: result.message })
        onChange(key)
        return
      }
    } catch (error) {
      // oxlint-disable-next-line typescript/no-unnecessary-condition -- it may have been let go meanwhile
      if (this.#isOver) return
      this.#tell(error)
    }
    this.#failures += 1
    const maxMs = Math.min(retry.maxMs, pulse.everyMs)
    this.#renewIn(jitteredMs({ ...retry, maxMs }, this.#failures, random))
  }

  /** The outage itself is reported once for the whole cluster; a claim in danger is reported again, and a refusal once. */
  #tell(error: unknown): void {
    const { key, isDoubtful, publishing } = this.#options
    const isNews = isDoubtful() || (!this.#saidRefused && isDecision(error))
    this.#saidRefused ||= isNews
    publishing.log[isNews ? 'warn' : 'debug']('heartbeat failed', { key, error })
    if (!isDoubtful() || this.#saidUncertain) return
    this.#saidUncertain = true
    publishing.onChange(key)
  }
}
