import { refKey } from '../support/object-key.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { judgeClaim, type ClaimJudgement, type ForeignClaim, type Written } from './claim.ts'
import { heartbeatOf, type PublishTarget } from './objects.ts'

/** Whoever loses a slice by accident posts it again at once; others leave it that long. */
export const holderGraceMs = 10_000

/** Judges the slice of one InferenceService by what was seen and written of it before. */
export class ClaimMemory {
  readonly #self: string
  readonly #now: () => number
  /** What our last writes may have left in the slice. */
  #wrote: readonly Written[] = []
  #overwrites = { count: 0, heartbeat: '' }
  /** A living holder whose slice we have seen, and since when that is gone. */
  #rival: { readonly uid: string; readonly holder: string; readonly goneAt: number | undefined } | undefined

  /** `self` is our node id. */
  constructor({ self, monotonicNow }: { readonly self: string; readonly monotonicNow: () => number }) {
    this.#self = self
    this.#now = monotonicNow
  }

  judge(slice: EndpointSlice, target: PublishTarget, silentMs: number): ClaimJudgement {
    const heartbeat = heartbeatOf(slice)
    const overwrites = this.#overwrites.count + (this.#overwrites.heartbeat === heartbeat ? 0 : 1)
    const claim = judgeClaim(slice, { self: this.#self, target, wrote: this.#wrote, silentMs, overwrites })
    if (claim.kind === 'overwritten') this.#overwrites = { count: overwrites, heartbeat }
    this.#rival = claim.kind === 'foreign' ? { uid: target.uid, holder: claim.holder, goneAt: undefined } : undefined
    return claim
  }

  /** A slice that vanished under its living holder is the holder's to post again; others wait a moment. */
  judgeAbsence(target: PublishTarget): { readonly kind: 'absent' } | ForeignClaim {
    const rival = this.#rival
    if (rival?.uid !== target.uid) return { kind: 'absent' }
    const goneAt = rival.goneAt ?? this.#now()
    this.#rival = { ...rival, goneAt }
    const silentMs = this.#now() - goneAt
    if (silentMs >= holderGraceMs) return { kind: 'absent' }
    const message = `The EndpointSlice of InferenceService ${refKey(target)} is gone; ${rival.holder}, which held it, has the first try for ${holderGraceMs / 1000} s.`
    return { kind: 'foreign', holder: rival.holder, silentMs, deadInMs: holderGraceMs - silentMs, message }
  }

  /** To be called before the request, whose answer may get lost. */
  writing(written: Written): void {
    const isKnown = this.#wrote.some((one) => one?.address === written?.address && one?.port === written?.port)
    if (!isKnown) this.#wrote = [...this.#wrote, written]
  }

  /** This and nothing else is what our writes have left. */
  wrote(written: Written): void {
    this.#wrote = [written]
  }

  forgetWrites(): void {
    this.#wrote = []
  }
}
