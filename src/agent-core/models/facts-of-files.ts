import { stateOfFile } from '../util/files.ts'

interface Fact<T> {
  readonly state: string
  readonly value: Promise<T>
  /** 0 until it is known. */
  weight: number
}

/** Something that is costly to find out about files of this machine: found out once for each as long as the file stays the same. */
export class FactsOfFiles<T> {
  readonly #find: (path: string) => Promise<T>
  readonly #weigh: (value: T) => number
  readonly #maxWeight: number
  readonly #known = new Map<string, Fact<T>>()

  /** The oldest facts are forgotten where all together weigh more than `maxWeight`. */
  constructor(find: (path: string) => Promise<T>, weigh: (value: T) => number, maxWeight: number) {
    this.#find = find
    this.#weigh = weigh
    this.#maxWeight = maxWeight
  }

  /** Throws what finding out throws, and what the disk answers, with its `code`. */
  async of(path: string): Promise<T> {
    const state = await stateOfFile(path)
    const known = this.#known.get(path)
    if (known?.state === state) return known.value
    const fact: Fact<T> = { state, value: this.#find(path), weight: 0 }
    this.#known.set(path, fact)
    try {
      const value = await fact.value
      fact.weight = this.#weigh(value)
      this.#trim()
      return value
    } catch (error) {
      if (this.#known.get(path) === fact) this.#known.delete(path)
      throw error
    }
  }

  #trim(): void {
    let total = [...this.#known.values()].reduce((sum, { weight }) => sum + weight, 0)
    for (const [path, { weight }] of this.#known) {
      if (total <= this.#maxWeight) return
      this.#known.delete(path)
      total -= weight
    }
  }
}
