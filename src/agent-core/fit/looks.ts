import type { ModelLook } from '../models/look.ts'

/** A person moves the context of one model, and compares a few. */
const maxKept = 8
/** A repository changes seldom; what is applied in the end is looked at anew by the fetch. */
const keptMs = 600_000

interface Kept {
  readonly look: Promise<ModelLook>
  readonly at: number
  isUnderWay: boolean
}

/** What servers said of models lately, so that the same question with another context costs no request. */
export class Looks {
  readonly #now: () => number
  readonly #kept = new Map<string, Kept>()

  /** Milliseconds that never go back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Undefined where too many are under way. Rejects as `look` does, and forgets that. */
  of(key: string, look: () => Promise<ModelLook>): Promise<ModelLook> | undefined {
    const known = this.#kept.get(key)
    if (known && (known.isUnderWay || this.#now() - known.at < keptMs)) return known.look
    this.#kept.delete(key)
    if (!this.#makeRoom()) return undefined
    const kept: Kept = { look: look(), at: this.#now(), isUnderWay: true }
    this.#kept.set(key, kept)
    kept.look.then(
      () => (kept.isUnderWay = false),
      () => {
        if (this.#kept.get(key) === kept) this.#kept.delete(key)
      },
    )
    return kept.look
  }

  /** The oldest goes first. */
  #makeRoom(): boolean {
    if (this.#kept.size < maxKept) return true
    for (const [key, { isUnderWay }] of this.#kept) {
      if (isUnderWay) continue
      this.#kept.delete(key)
      return true
    }
    return false
  }
}
