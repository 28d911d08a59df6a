import type { EndpointSlice } from '../kube/resources.ts'
import type { Edits } from './claim.ts'

/** So often what others changed is put right at once, and after that no sooner than `mendEveryMs` after the change. */
const mendsAtOnce = 3
const mendEveryMs = 30_000
/** Without another change for so long they are forgotten. */
const forgottenAfterMs = 600_000

/** How often others changed a slice of ours, which would otherwise answer each repair with another change at full speed. */
export class SliceEdits {
  readonly #now: () => number
  readonly #fieldManager: string
  #count = 0
  #at = 0
  #isEdited = false
  #writer = ''

  /** `fieldManager` is ours. */
  constructor(options: { readonly fieldManager: string; readonly monotonicNow: () => number }) {
    this.#now = options.monotonicNow
    this.#fieldManager = options.fieldManager
  }

  /** `isEdited`: it does not say what we wrote. Undefined where nothing has to be said or waited for. */
  look(slice: EndpointSlice, isEdited: boolean): Edits | undefined {
    if (this.#now() - this.#at >= forgottenAfterMs) this.#count = 0
    if (isEdited && !this.#isEdited) this.#notice(slice)
    this.#isEdited = isEdited
    if (this.#count <= mendsAtOnce) return undefined
    const sinceMs = this.#now() - this.#at
    const { namespace, name } = slice.metadata
    return {
      message: `EndpointSlice ${namespace}/${name} is changed again and again, the last time by ${this.#writer}; it is put right every ${mendEveryMs / 1000} s until that ends.`,
      mendInMs: isEdited ? Math.max(0, mendEveryMs - sinceMs) : 0,
      forgottenInMs: Math.max(0, forgottenAfterMs - sinceMs),
    }
  }

  /** We wrote it anew: what is not so from now on was changed since, be it by a webhook in the answer to that very write. */
  putRight(): void {
    this.#isEdited = false
  }

  #notice({ metadata }: EndpointSlice): void {
    this.#count += 1
    this.#at = this.#now()
    const others = metadata.managedFields.filter(({ manager }) => manager !== this.#fieldManager)
    const [last] = others.toSorted((a, b) => (b.time ?? '').localeCompare(a.time ?? ''))
    this.#writer = last ? `"${last.manager}"` : 'somebody'
  }
}
