import { comparable } from './store-paths.ts'

/** Who may use which path of the store, and for what: what is being written, and what could not be recorded. */
export class StoreClaims {
  readonly #holders = new Map<string, string>()

  /** False where it is another's. */
  take(path: string, claim: string): boolean {
    const key = comparable(path)
    const holder = this.#holders.get(key)
    if (holder !== undefined && holder !== claim) return false
    this.#holders.set(key, claim)
    return true
  }

  release(path: string, claim: string): void {
    const key = comparable(path)
    if (this.#holders.get(key) === claim) this.#holders.delete(key)
  }
}
