import { Judgement, type MachineMemory, type Situation } from './judgement.ts'
import type { Refusal } from './refusal.ts'
import { byRank, type WaitingRequest } from './start-request.ts'

/** Each start with its key. */
export interface ForeseenStarts {
  /** They would be admitted, at once or in the place of others. */
  readonly starts: readonly WaitingRequest[]
  readonly waits: readonly (Refusal & { readonly key: string })[]
  /** Servers that run now and would give way, each to the first that takes its place. */
  readonly evicted: readonly { readonly key: string; readonly winner: string }[]
}

/** What becomes of the waiting starts when each asks in its turn: what one was given, or has evicted, is gone for the next. */
export function foreseenStarts({ machine: now, holds: held, waiting }: Situation): ForeseenStarts {
  const starts: WaitingRequest[] = []
  const waits: (Refusal & { readonly key: string })[] = []
  const evicted: { readonly key: string; readonly winner: string }[] = []
  const queue = [...waiting].sort(byRank)
  let machine: MachineMemory = now
  let { holds } = held.without([])
  for (const entry of queue) {
    const judgement = new Judgement({ machine, holds, waiting: queue.filter((one) => !starts.includes(one)) })
    const unchecked = judgement.whyUnchecked(entry)
    const reason = judgement.reasonAgainst(entry, unchecked)
    const refusal = reason && judgement.refusal(entry, reason, unchecked)
    if (refusal && refusal.evictFirst.length === 0) {
      waits.push({ key: entry.key, ...refusal })
      continue
    }
    if (refusal) {
      const { evictFirst } = refusal
      evicted.push(...evictFirst.map((key) => ({ key, winner: entry.key })))
      const without = holds.without(evictFirst)
      holds = without.holds
      if (machine.availableBytes !== undefined) {
        machine = { ...machine, availableBytes: machine.availableBytes + without.freedBytes }
      }
    }
    // What is only foreseen gives way to nobody: its place is decided by its rank.
    holds.reserve({ ...entry, isProtected: true }, 'current')
    starts.push(entry)
  }
  return { starts, waits, evicted }
}
