import type { Logger } from '../observability/logger.ts'
import type { HeartbeatPulse } from './heartbeat-pulse.ts'
import { HeartbeatTimer, type Beat } from './heartbeat-timer.ts'
import type { PublishTarget } from './objects.ts'
import { isAnswered } from './settled-write.ts'
import type { WriteResult } from './write-result.ts'

/** Without a renewal for this long another agent may take the claim within seconds (180 s): it is no longer relied on. */
export const uncertainAfterMs = 150_000

export interface HeldClaimOptions {
  readonly key: string
  readonly log: Logger
  readonly monotonicNow: () => number
  readonly random: () => number
  readonly pulse: HeartbeatPulse
  /** In its turn; undefined = the claim was let go until then. Calls {@link HeldClaim.renewed} when it went well. */
  readonly renew: () => Promise<WriteResult | undefined>
  /** Whether the claim must be confirmed before it is relied on. */
  readonly isDoubtful: () => boolean
  readonly onLost: () => void
  /** Something changed that no watch tells: the claim was lost, or could not be renewed. */
  readonly onChange: (key: string) => void
}

/** A claim that is ours, renewed until it is let go. */
export class HeldClaim {
  readonly #options: HeldClaimOptions
  readonly #timer: HeartbeatTimer
  #target: PublishTarget
  #epoch: number
  #renewedAt: number
  #saidUncertain = false
  #saidRefused = false
  #isOver = false

  constructor(target: PublishTarget, epoch: number, options: HeldClaimOptions) {
    this.#options = options
    this.#target = target
    this.#epoch = epoch
    this.#renewedAt = options.monotonicNow()
    const { random, pulse } = options
    this.#timer = new HeartbeatTimer({ beat: () => this.#beat(), random, pulse })
  }

  get target(): PublishTarget {
    return this.#target
  }

  get epoch(): number {
    return this.#epoch
  }

  get ageMs(): number {
    return this.#options.monotonicNow() - this.#renewedAt
  }

  get isOverdue(): boolean {
    return this.ageMs >= uncertainAfterMs
  }

  /** A write of ours has just renewed it. */
  renewed(target: PublishTarget, epoch: number): void {
    this.#target = target
    this.#epoch = epoch
    this.#renewedAt = this.#options.monotonicNow()
    this.#saidUncertain = false
    this.#saidRefused = false
    this.#timer.renewed()
  }

  /** What is renewed from now on is as wanted now, also where that needed no write. */
  aimAt(target: PublishTarget): void {
    if (target.uid === this.#target.uid) this.#target = target
  }

  renewSoon(): void {
    this.#timer.soon()
  }

  [Symbol.dispose](): void {
    this.#isOver = true
    this.#timer[Symbol.dispose]()
  }

  async #beat(): Promise<Beat> {
    const { key, log, renew, isDoubtful, onLost, onChange } = this.#options
    const wasUncertain = this.#saidUncertain
    try {
      const result = await renew()
      if (result === undefined) return 'ended'
      if (result.kind === 'dropped') return 'failed'
      if (result.kind !== 'done') {
        log.warn('claim lost', { key, reason: result.message })
        onLost()
        onChange(key)
        return 'ended'
      }
      if (wasUncertain) onChange(key)
      return 'renewed'
    } catch (error) {
      if (this.#isOver) return 'ended'
      // The outage itself is told once for the whole cluster; a claim in danger is told again, and a refusal once.
      const isNews = isDoubtful() || (!this.#saidRefused && isAnswered(error, 400, 403, 422))
      this.#saidRefused ||= isNews
      log[isNews ? 'warn' : 'debug']('heartbeat failed', { key, error })
      if (isDoubtful() && !this.#saidUncertain) {
        this.#saidUncertain = true
        onChange(key)
      }
      return 'failed'
    }
  }
}
