import { HeldClaim, type HeldClaimOptions } from './held-claim.ts'
import type { PublishTarget } from './objects.ts'
import type { WriteResult } from './write-result.ts'

export interface HoldingOptions extends Omit<HeldClaimOptions, 'renew' | 'isDoubtful' | 'onLost'> {
  readonly signal: AbortSignal
  /** As {@link HeldClaimOptions.renew}, of this claim. */
  readonly renew: (held: HeldClaim) => Promise<WriteResult | undefined>
}

/** Which claim on one slice is ours at present, if any, and whether that is sure. */
export class Holding {
  readonly #options: HoldingOptions
  #claim: HeldClaim | undefined
  /** Events may have been missed since our last write. */
  #hadGap = false
  #isOver = false

  constructor(options: HoldingOptions) {
    this.#options = options
  }

  get claim(): HeldClaim | undefined {
    return this.#claim
  }

  /** What the cache says must be confirmed before it is acted on. */
  get isDoubtful(): boolean {
    return this.#hadGap || this.#claim?.isOverdue === true
  }

  is(held: HeldClaim): boolean {
    return this.#claim === held
  }

  /** A write of ours, or the cache, has just shown that it is ours. False where nothing is to be held any more. */
  hold(target: PublishTarget, epoch: number): boolean {
    if (this.#isOver || this.#options.signal.aborted) return false
    const held = this.#claim?.target.uid === target.uid ? this.#claim : this.#newClaim(target, epoch)
    if (held !== this.#claim) this.letGo()
    this.#claim = held
    held.renewed(target, epoch)
    this.#hadGap = false
    return true
  }

  letGo(): void {
    this.#claim?.[Symbol.dispose]()
    this.#claim = undefined
  }

  watchGap(): void {
    this.#hadGap = true
    this.#claim?.renewSoon()
  }

  /** Nothing is held from now on. */
  end(): void {
    this.#isOver = true
    this.letGo()
  }

  #newClaim(target: PublishTarget, epoch: number): HeldClaim {
    const held: HeldClaim = new HeldClaim(target, epoch, {
      ...this.#options,
      renew: () => this.#options.renew(held),
      isDoubtful: () => this.isDoubtful,
      onLost: () => {
        if (this.is(held)) this.letGo()
      },
    })
    return held
  }
}
