import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** By where it was written first, as `Map in src/…`. */
type Kept = ReadonlyMap<string, number>

interface Collection {
  readonly held: WeakRef<Map<unknown, unknown> | Set<unknown>>
  readonly where: string
}

/** Every Map and Set that src/ gives a key of those that are looked for, from its making on. */
export class KeysKept implements Disposable {
  readonly #isMeant: (key: string) => boolean
  readonly #seen = new WeakSet<object>()
  readonly #collections: Collection[] = []
  // oxlint-disable-next-line typescript/unbound-method -- they are called on what they are called on
  readonly #mapSet = Map.prototype.set
  // oxlint-disable-next-line typescript/unbound-method -- as above
  readonly #setAdd = Set.prototype.add

  constructor(isMeant: (key: string) => boolean) {
    this.#isMeant = isMeant
    const [mapSet, setAdd] = [this.#mapSet, this.#setAdd]
    const note = (collection: Map<unknown, unknown> | Set<unknown>, key: unknown): void => this.#note(collection, key)
    Map.prototype.set = function (this: Map<unknown, unknown>, key: unknown, value: unknown) {
      note(this, key)
      return mapSet.call(this, key, value)
    }
    Set.prototype.add = function (this: Set<unknown>, key: unknown) {
      note(this, key)
      return setAdd.call(this, key)
    }
  }

  /** How many such keys are in those that are still in use. */
  now(): Kept {
    setFlagsFromString('--expose-gc')
    runInNewContext('gc()')
    const kept = new Map<string, number>()
    for (const { held, where } of this.#collections) {
      const keys = [...(held.deref()?.keys() ?? [])].filter((key) => this.#isKey(key))
      if (keys.length > 0) this.#mapSet.call(kept, where, (kept.get(where) ?? 0) + keys.length)
    }
    return kept
  }

  [Symbol.dispose](): void {
    Map.prototype.set = this.#mapSet
    Set.prototype.add = this.#setAdd
  }

  #isKey(key: unknown): boolean {
    return typeof key === 'string' && this.#isMeant(key)
  }

  #note(collection: Map<unknown, unknown> | Set<unknown>, key: unknown): void {
    if (!this.#isKey(key) || this.#seen.has(collection)) return
    this.#seen.add(collection)
    const caller = /\/src\/[^\s)]+/.exec(new Error('where').stack?.split('\n')[4] ?? '')?.[0]
    if (caller === undefined) return
    this.#collections.push({ held: new WeakRef(collection), where: `${collection.constructor.name} in ${caller}` })
  }
}
