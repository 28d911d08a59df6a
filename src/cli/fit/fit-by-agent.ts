import { decideFit } from '../../agent-core/api/fit/fit-decision.ts'
import { fitQuery } from '../../contract/fit.ts'
import type { AgentClient } from '../../serve/client/agent-client.ts'
import { VerbError } from '../agent-session.ts'
import { asAgentSizes, type Sized } from './fit-machine.ts'

/** As a person gives it. */
export interface SecretQuestion {
  readonly source: string
  readonly sourceSecret: string
  /** Of the Secret; absent = the one that the agent watches, else `default`. */
  readonly namespace?: string | undefined
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  readonly kv?: string | undefined
}

/** A source that a Secret of the cluster opens is looked at by the agent, which keeps the token to itself. Throws VerbError and LinkError. */
export async function fitByAgent(
  { context, slots, kv, ...rest }: SecretQuestion,
  agent: Pick<AgentClient, 'query'>,
): Promise<Sized> {
  const asked = { name: 'fit', ...rest, contextSize: context, parallelSlots: slots, cacheType: kv }
  const question = fitQuery.safeParse(asked)
  if (!question.success) {
    const [issue] = question.error.issues
    throw new VerbError(`The agent would not understand this: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}.`)
  }
  const view = await agent.query(question.data)
  if (view.kind === 'choose') throw new VerbError(view.message)
  const sizing = await agent.query({ name: 'sizing' })
  const { items, totalBytes: total, contextSize: contextTokens, guess, diskProblem, notes, ways } = view
  return {
    estimate: {
      ...{ items, total, slots: view.slots ?? 1 },
      ...(contextTokens !== undefined && { contextTokens }),
      ...(guess !== undefined && { guess }),
      notes: [...(diskProblem === undefined ? [] : [diskProblem]), ...notes],
    },
    decision: decideFit(total, sizing),
    ways,
    // What keeps it from starting at once is among the notes.
    machine: { ...asAgentSizes(sizing), pressure: 'unknown', waiting: [] },
  }
}
