import { setTimeout as delay } from 'node:timers/promises'
import { type AgentLink, LinkError } from '../../contract/client.ts'
import { mirrored } from '../../contract/snapshot.ts'
import type { AgentView, AgentViewStore } from '../agent/agent-view.ts'

/**
 * Asks side by side for all that the menu shows, and waits `limitMs` at most in all: a later answer is there for the next time. Whoever does
 * not answer is not asked again before that. Rejects where `ownStates`, which asks macOS and the disk, does.
 */
export function menuLists(
  link: Pick<AgentLink, 'query' | 'snapshot'>,
  view: AgentViewStore,
  ownStates: () => Promise<Partial<AgentView>>,
  limitMs = menuLimitMs,
): () => Promise<void> {
  let round: Promise<unknown> | undefined
  return async () => {
    round ??= Promise.all([
      askLists(link, view),
      askFigures(link, view),
      ownStates().then((states) => view.setState(states)),
    ]).finally(() => (round = undefined))
    await inTime(round, limitMs, undefined)
  }
}

async function askLists(link: Pick<AgentLink, 'query'>, view: AgentViewStore): Promise<void> {
  const ask = <T>(question: Promise<T>, keep: (answer: T | { readonly problem: string }) => void) =>
    question.then(keep, (error: unknown) => {
      // Where the agent is gone the menu says so, and the last answer may still be right when it is back.
      if (error instanceof LinkError && error.code === 'refused') keep({ problem: error.message })
    })
  await Promise.all([
    ask(link.query({ name: 'contexts' }), (contexts) => view.setState({ contexts })),
    ask(link.query({ name: 'hostAddresses' }), (hostAddresses) => view.setState({ hostAddresses })),
  ])
}

async function askFigures(link: Pick<AgentLink, 'snapshot'>, view: AgentViewStore): Promise<void> {
  const snapshot = await link.snapshot().catch(() => undefined)
  if (!snapshot) return
  view.setState((before) => {
    const isOlder = before.snapshot?.bootId === snapshot.bootId && before.snapshot.revision > snapshot.revision
    return isOlder ? {} : { snapshot: mirrored(before.snapshot, snapshot), problem: '' }
  })
}

/** A menu that opens later feels broken. */
export const menuLimitMs = 300

/** The answer where it comes within the limit, else `otherwise`; the query continues, and its answer is used the next time. */
export async function inTime<T, O>(answer: Promise<T>, limitMs: number, otherwise: O): Promise<T | O> {
  const limit = new AbortController()
  const late = delay(limitMs, otherwise, { signal: limit.signal }).catch(() => otherwise)
  try {
    return await Promise.race([answer, late])
  } finally {
    limit.abort()
  }
}
