import { isDeepStrictEqual } from 'node:util'

/** So often what others changed is put right at once, and after that no sooner than `mendEveryMs` after the change. */
const mendsAtOnce = 3
const mendEveryMs = 30_000
/** Without another change for so long they are forgotten. */
const forgottenAfterMs = 600_000

export interface Edits {
  /** Names the field manager that seems to do it, and what is done about it. */
  readonly message: string
  /** Until it is put right. */
  readonly mendInMs: number
  /** Until they are forgotten, should no more come. */
  readonly forgottenInMs: number
}

type ManagedFields = readonly { readonly manager: string; readonly time?: string | undefined }[]

export interface ForeignEditsOptions {
  readonly kind: 'EndpointSlice' | 'Service' | 'Endpoints'
  readonly namespace: string
  readonly name: string
  /** Ours. */
  readonly fieldManager: string
  readonly monotonicNow: () => number
}

/**
 * What we wrote into one object, and how often others changed that: a program that answers each repair with another change would
 * otherwise be answered at full speed. `Written` is as much of a write as tells it from another one of ours.
 */
export class ForeignEdits<Written> {
  readonly #options: ForeignEditsOptions
  /** By our last answered write; undefined until there is one. */
  #wrote: { readonly what: Written } | undefined
  /** By writes after it, of which no answer is known. */
  #mayHaveWritten: readonly Written[] = []
  #count = 0
  #at = 0
  #isEdited = false
  /** Who seems to have done it. */
  #writer = ''

  constructor(options: ForeignEditsOptions) {
    this.#options = options
  }

  /** To be called before the request, whose answer may get lost. */
  writing(written: Written): void {
    this.#mayHaveWritten = [...this.#mayHaveWritten.filter((one) => !isDeepStrictEqual(one, written)), written]
  }

  /** This and nothing else is what our writes have left: what is not so from now on was changed, be it by a webhook in the answer. */
  wrote(written: Written): void {
    this.#wrote = { what: written }
    this.#mayHaveWritten = []
    this.#isEdited = false
  }

  /** It was there before we have written anything. */
  found(written: Written): void {
    this.#wrote ??= { what: written }
  }

  /** What is there now is none of what we wrote. */
  forgetWrites(): void {
    this.#wrote = undefined
    this.#mayHaveWritten = []
  }

  /** Whether it is what our last write said. */
  hasWritten(wish: Written): boolean {
    return this.#mayHaveWritten.length === 0 && isDeepStrictEqual(this.#wrote?.what, wish)
  }

  /** `object` is undefined where it is gone. The answer is undefined where nothing has to be said or waited for. */
  look(
    object: { readonly metadata: { readonly managedFields: ManagedFields } } | undefined,
    isAs: (written: Written) => boolean,
  ): Edits | undefined {
    const { kind, namespace, name, monotonicNow } = this.#options
    if (monotonicNow() - this.#at >= forgottenAfterMs) this.#count = 0
    const isEdited = this.#wrote !== undefined && ![this.#wrote.what, ...this.#mayHaveWritten].some(isAs)
    if (isEdited && !this.#isEdited) this.#notice(object?.metadata.managedFields ?? [])
    this.#isEdited = isEdited
    if (this.#count <= mendsAtOnce) return undefined
    const sinceMs = monotonicNow() - this.#at
    return {
      message: `${kind} ${namespace}/${name} is changed again and again, the last time by ${this.#writer}; it is put right every ${mendEveryMs / 1000} s until that ends.`,
      mendInMs: isEdited ? Math.max(0, mendEveryMs - sinceMs) : 0,
      forgottenInMs: Math.max(0, forgottenAfterMs - sinceMs),
    }
  }

  #notice(managedFields: ManagedFields): void {
    this.#count += 1
    this.#at = this.#options.monotonicNow()
    const others = managedFields.filter(({ manager }) => manager !== this.#options.fieldManager)
    const [last] = others.toSorted((a, b) => (b.time ?? '').localeCompare(a.time ?? ''))
    this.#writer = last ? `"${last.manager}"` : 'somebody'
  }
}
