import type { SizedLook } from './sized-look.ts'

/** A person moves the context of one model, and compares a few. */
const maxKept = 8
/** A repository changes seldom; what is applied in the end is looked at anew by the fetch. */
const keptMs = 600_000

interface Kept {
  readonly look: Promise<SizedLook>
  isUnderWay: boolean
}

/** What servers said of models lately, so that the same question with another context costs no request. */
export class Looks {
  readonly #kept = new Map<string, Kept>()

  /** Undefined where too many are under way. Rejects as `look` does, and forgets that. */
  of(key: string, look: () => Promise<SizedLook>): Promise<SizedLook> | undefined {
    const known = this.#kept.get(key)
    if (known) return known.look
    if (!this.#makeRoom()) return undefined
    const kept: Kept = { look: look(), isUnderWay: true }
    this.#kept.set(key, kept)
    const forget = () => {
      if (this.#kept.get(key) === kept) this.#kept.delete(key)
    }
    kept.look.then(() => {
      kept.isUnderWay = false
      setTimeout(forget, keptMs).unref()
    }, forget)
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
