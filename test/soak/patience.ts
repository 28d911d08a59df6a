import type { AgentName } from './faults.ts'
import type { Finding } from './judge.ts'

/** What an agent that can do something may leave as it is. */
export const patienceMs = 2_000
/** A look that comes later than this tells of a machine that starves, as the agent does then. */
export const lateMs = 150

export interface Moment {
  /** Monotonic. */
  readonly at: number
  /** Whether this agent runs, and could write what puts this right by now; every answer but a yes begins its time anew. */
  readonly canAct: (agent: AgentName, rule: Finding['rule']) => boolean
}

/** Tells from look to look which findings have lasted too long; each is told once. */
export class Patience {
  readonly #lasting = new Map<string, { badMs: number; isTold: boolean }>()
  #last: number | undefined

  /** @returns what is broken as of this look. */
  see(findings: readonly Finding[], { at, canAct }: Moment): Finding[] {
    const sinceMs = at - (this.#last ?? at)
    this.#last = at
    const current = new Map(findings.map((finding) => [keyOf(finding), finding]))
    for (const key of this.#lasting.keys()) if (!current.has(key)) this.#lasting.delete(key)
    return [...current].flatMap(([key, finding]) => {
      const known = this.#lasting.get(key)
      const { badMs = 0, isTold = false } = known ?? {}
      const counted = known === undefined || sinceMs > lateMs ? badMs : badMs + sinceMs
      const isFree = finding.duty === undefined || canAct(finding.duty, finding.rule)
      const isBroken = finding.duty === undefined || (isFree && counted > (finding.patienceMs ?? patienceMs))
      this.#lasting.set(key, { badMs: isFree ? counted : 0, isTold: isTold || isBroken })
      return isBroken && !isTold ? [finding] : []
    })
  }
}

const keyOf = ({ rule, service, duty }: Finding): string => [rule, service, duty ?? ''].join(' ')
