import { refKey } from '../util/object-key.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { judgeClaim, type ClaimJudgement, type ForeignClaim, type LastWritten } from './claim.ts'
import { ForeignEdits } from './foreign-edits.ts'
import type { PublishTarget } from './objects.ts'
import { heartbeatOf, type Told } from './slice-object.ts'

/** An agent that lost a slice by accident posts it again at once; other agents wait for this long. */
export const holderGraceMs = 10_000

/** What was judged: `isAs` says whether the slice tells this, and all that goes with it. */
export interface JudgedSlice {
  readonly slice: EndpointSlice
  readonly silentMs: number
  readonly isAs: (told: Told) => boolean
}

/** Judges the slice of one InferenceService by its earlier versions and by our own writes. */
export class ClaimMemory {
  readonly #self: string
  readonly #now: () => number
  readonly #edits: ForeignEdits<Told>
  /** Whether the slice that no agent holds is ready. */
  readonly #unheld: ForeignEdits<boolean>
  #last: LastWritten | undefined
  #overwrites = { count: 0, heartbeat: '' }
  /** A living holder whose slice we have seen, and since when that is gone. */
  #rival: { readonly uid: string; readonly holder: string; readonly goneAt: number | undefined } | undefined

  /** Of the slice of that namespace and name; `self` is our node id, `fieldManager` the name our writes have in the cluster. */
  constructor(options: {
    readonly namespace: string
    readonly name: string
    readonly self: string
    readonly fieldManager: string
    readonly monotonicNow: () => number
  }) {
    this.#self = options.self
    this.#now = options.monotonicNow
    this.#edits = new ForeignEdits({ ...options, kind: 'EndpointSlice' })
    this.#unheld = new ForeignEdits({ ...options, kind: 'EndpointSlice' })
  }

  judge({ slice, silentMs, isAs }: JudgedSlice, target: PublishTarget): ClaimJudgement {
    const heartbeat = heartbeatOf(slice)
    const overwrites = this.#overwrites.count + (this.#overwrites.heartbeat === heartbeat ? 0 : 1)
    const claim = judgeClaim(slice, { self: this.#self, target, last: this.#last, silentMs, overwrites })
    if (claim.kind === 'overwritten') this.#overwrites = { count: overwrites, heartbeat }
    this.#rival = claim.kind === 'foreign' ? { uid: target.uid, holder: claim.holder, goneAt: undefined } : undefined
    if (isLost(claim)) this.#last = undefined
    if (claim.kind !== 'ours' && claim.kind !== 'dead') return claim
    const edits =
      claim.kind === 'ours' ? this.#edits.look(slice, isAs) : this.#unheld.look(slice, (ready) => ready === claim.ready)
    return edits ? { ...claim, edits } : claim
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
  writing(told: Told): void {
    this.#edits.writing(told)
  }

  /** This and nothing else is what our writes have left. */
  wrote(told: Told, last: LastWritten): void {
    this.#edits.wrote(told)
    this.#last = last
  }

  /** The slice of a dead holder, or of none, is no longer ready. */
  withdrewUnheld(): void {
    this.#unheld.wrote(false)
  }

  /** Only the heartbeat was written: the rest of the slice is still `found`, as it was before. */
  renewed(found: Told, last: LastWritten): void {
    this.#edits.found(found)
    this.#last = last
  }

  forgetWrites(): void {
    this.#edits.forgetWrites()
    this.#last = undefined
  }
}

/** Another agent has it or may take it: an earlier write of ours is no proof that it is ours. */
const isLost = ({ kind }: ClaimJudgement): boolean =>
  kind === 'foreign' || kind === 'unclaimed' || kind === 'overwritten' || kind === 'dead' || kind === 'released'
