import type { ServiceName } from './faults.ts'

/** To which services something is being done, or was lately. */
export class Touches {
  readonly #aftermathMs: number
  readonly #open = new Map<ServiceName, number>()
  readonly #ended = new Map<ServiceName, number>()

  /** How long the effect of a fault shows. */
  constructor({ aftermathMs }: { readonly aftermathMs: number }) {
    this.#aftermathMs = aftermathMs
  }

  begin(names: readonly ServiceName[]): void {
    for (const name of names) this.#open.set(name, (this.#open.get(name) ?? 0) + 1)
  }

  end(names: readonly ServiceName[], at: number): void {
    for (const name of names) {
      this.#open.set(name, (this.#open.get(name) ?? 0) - 1)
      this.#ended.set(name, at)
    }
  }

  isTouched(name: ServiceName, at: number): boolean {
    return (this.#open.get(name) ?? 0) > 0 || at - this.#endedAt(name) < this.#aftermathMs
  }

  isTouchedSince(name: ServiceName, since: number): boolean {
    return (this.#open.get(name) ?? 0) > 0 || this.#endedAt(name) >= since
  }

  /** Everything is healthy again: earlier faults show no more. */
  settle(): void {
    this.#ended.clear()
  }

  #endedAt(name: ServiceName): number {
    return this.#ended.get(name) ?? -Infinity
  }
}
