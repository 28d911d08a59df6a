import { isMatch, type RequestMatch, type SeenRequest } from './faults.ts'

/** Every request that arrived, answered or not. */
export class RequestLog {
  #seen: SeenRequest[] = []

  record(request: SeenRequest): void {
    this.#seen.push(request)
  }

  count(on: RequestMatch = {}): number {
    return this.matching(on).length
  }

  matching(on: RequestMatch = {}): readonly SeenRequest[] {
    return this.#seen.filter((request) => isMatch(on, request))
  }

  /** How often which verb on which resource: `{'list models': 1}`. */
  summary(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { verb, resource } of this.#seen)
      counts[`${verb} ${resource}`] = (counts[`${verb} ${resource}`] ?? 0) + 1
    return counts
  }

  clear(): void {
    this.#seen = []
  }
}
