import { isDeepStrictEqual } from 'node:util'
import {
  agreement,
  flagsAskedBy,
  type OmlxAgreement,
  type OmlxClaim,
  type OmlxProblem,
} from '../runtimes/omlx-settings.ts'

interface OmlxClaimsOptions {
  /** The flags of services that the one which runs was started with. */
  readonly running: () => ReadonlyMap<string, string> | undefined
  /** Why this machine does not give an oMLX what is asked for. */
  readonly problemOf: (claim: OmlxClaim) => Promise<OmlxProblem | undefined>
  /** Another service may agree with the others now, or no longer; or {@link OmlxClaims.problemOf} is another. */
  readonly enqueue: (key: string) => void
  /** Other flags may be asked for. */
  readonly onChange: () => void
}

/** Nobody tells that a disk has room again, so what was refused is looked at after this time. */
const judgeAgainMs = 60_000

/** What the services of one cluster ask of the oMLX that this agent starts: as each was seen last, so that a change of one heals the others. */
export class OmlxClaims {
  readonly #options: OmlxClaimsOptions
  readonly #claims = new Map<string, OmlxClaim>()
  readonly #problems = new Map<string, OmlxProblem>()
  #judgeAgain: NodeJS.Timeout | undefined

  constructor(options: OmlxClaimsOptions) {
    this.#options = options
  }

  /**
   * `asked`: undefined where the service is not to be served here by that oMLX. `isAdmitted`: undefined = as it was for this model, as while oMLX is
   * started again and has no model.
   */
  know(key: string, asked: Omit<OmlxClaim, 'isAdmitted'> | undefined, isAdmitted?: boolean): void {
    const before = this.#claims.get(key)
    const wasAdmitted = before?.isAdmitted === true && before.model === asked?.model
    this.#set(key, asked && { ...asked, isAdmitted: isAdmitted ?? wasAdmitted })
  }

  /** Whether it is about to be served, as far as this machine can tell. */
  admitted(key: string, isAdmitted: boolean): void {
    const claim = this.#claims.get(key)
    if (claim) this.#set(key, { ...claim, isAdmitted })
  }

  /** A sentence why it is not served. */
  conflictOf(key: string): string | undefined {
    return this.#claims.has(key) ? this.#agreement().conflicts.get(key) : undefined
  }

  /** A sentence why nothing that it asks for is asked of oMLX, although it may be served. */
  problemOf(key: string): string | undefined {
    return this.#problems.get(key)?.message
  }

  /** The flags that are asked for. */
  async flags(): Promise<ReadonlyMap<string, string>> {
    await Promise.all([...this.#claims].map(([key, claim]) => this.#judge(key, claim)))
    if (this.#problems.size > 0 && this.#judgeAgain === undefined)
      this.#judgeAgain = setTimeout(() => this.#judgeProblems(), judgeAgainMs).unref()
    return new Map(this.#agreement().flags)
  }

  #judgeProblems(): void {
    this.#judgeAgain = undefined
    if (this.#problems.size > 0) this.#options.onChange()
  }

  /** The oMLX that runs has what it was started with, so that only flags it does not have are looked at. */
  async #judge(key: string, claim: OmlxClaim): Promise<void> {
    const running = this.#options.running()
    const lacksFlag = flagsAskedBy(claim.spec).some(([flag, value]) => running?.get(flag) !== value)
    const problem = claim.isAdmitted && lacksFlag ? await this.#options.problemOf(claim) : undefined
    if (this.#claims.get(key) !== claim) return
    const before = this.#problems.get(key)
    if (problem === undefined) this.#problems.delete(key)
    else this.#problems.set(key, problem)
    if (before?.cause === problem?.cause) return
    this.#enqueueAll()
    this.#options.onChange()
  }

  #set(key: string, claim: OmlxClaim | undefined): void {
    if (isDeepStrictEqual(claim, this.#claims.get(key))) return
    this.#problems.delete(key)
    if (claim) this.#claims.set(key, claim)
    else this.#claims.delete(key)
    this.#enqueueAll(key)
    this.#options.onChange()
  }

  #enqueueAll(but?: string): void {
    for (const key of this.#claims.keys()) if (key !== but) this.#options.enqueue(key)
  }

  #agreement(): OmlxAgreement {
    const claims = [...this.#claims].map(
      ([key, claim]) => [key, this.#problems.has(key) ? { ...claim, isAdmitted: false } : claim] as const,
    )
    return agreement(new Map(claims), this.#options.running())
  }
}
