import type { SizedLook } from './fit.ts'
import { untilAborted } from '../util/until-aborted.ts'

/** A person moves the context of one model, and compares a few. */
const maxKept = 8
/** A repository changes seldom; the fetch of an applied model looks at it again. */
const keptMs = 600_000

interface Kept {
  readonly look: Promise<SizedLook>
  readonly ending: AbortController
  isUnderWay: boolean
  /** How many queries wait for this look. */
  waiting: number
}

/** What servers said of models lately, so that the same question with another context costs no request. */
export class ModelLooks {
  readonly #kept = new Map<string, Kept>()

  /**
   * Undefined where too many are under way. Rejects as `look` does, and forgets that; with the signal's reason where it is aborted. A look
   * is aborted when its last caller has withdrawn.
   */
  of(
    key: string,
    look: (left: AbortSignal) => Promise<SizedLook>,
    signal: AbortSignal,
  ): Promise<SizedLook> | undefined {
    const kept = this.#kept.get(key) ?? this.#begin(key, look)
    return kept && this.#wait(key, kept, signal)
  }

  #begin(key: string, look: (left: AbortSignal) => Promise<SizedLook>): Kept | undefined {
    if (!this.#makeRoom()) return undefined
    const ending = new AbortController()
    const kept: Kept = { look: look(ending.signal), ending, isUnderWay: true, waiting: 0 }
    this.#kept.set(key, kept)
    kept.look.then(
      () => {
        kept.isUnderWay = false
        setTimeout(() => this.#forget(key, kept), keptMs).unref()
      },
      () => this.#forget(key, kept),
    )
    return kept
  }

  async #wait(key: string, kept: Kept, signal: AbortSignal): Promise<SizedLook> {
    kept.waiting += 1
    try {
      return await untilAborted(kept.look, signal)
    } finally {
      kept.waiting -= 1
      if (kept.waiting === 0 && kept.isUnderWay) {
        this.#forget(key, kept)
        kept.ending.abort(signal.reason)
      }
    }
  }

  #forget(key: string, kept: Kept): void {
    if (this.#kept.get(key) === kept) this.#kept.delete(key)
  }

  /** Drops the oldest finished look; false if all are still under way. */
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
