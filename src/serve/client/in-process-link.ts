import { randomUUID } from 'node:crypto'
import type { AgentLink } from '../../contract/client.ts'
import { commandRequest } from '../../contract/commands.ts'
import { answers, query as querySchema, type Answer, type QueryName } from '../../contract/queries.ts'
import { streamRequest } from '../../contract/log.ts'
import type { AgentDoor } from '../agent-door.ts'
import { paced } from '../paced.ts'

/** At most four snapshots a second, as on every carrier. */
const followIntervalMs = 250

/** A link to an agent of this process: nothing but the contract crosses it, so that the agent could move out tomorrow. */
export function inProcessLink(door: AgentDoor): AgentLink {
  return {
    follow({ next }, looker) {
      const pace = paced(followIntervalMs, () => next(door.get(looker)))
      const unsubscribe = door.subscribe(() => pace.due(), looker)
      pace.due()
      return () => {
        unsubscribe()
        pace.stop()
      }
    },
    snapshot: () => door.look(),
    command: async (command, requestId = randomUUID()) => door.command(commandRequest.parse({ requestId, command })),
    query: async (query, signal) => answerTo(query.name, await door.query(querySchema.parse(query), signal)),
    stream: (request, listener) => door.stream(streamRequest.parse(request), listener),
  }
}

/** By name, so that the compiler sees which answer belongs to which query. */
const parsers: { readonly [N in QueryName]: { parse(answer: unknown): Answer<N> } } = answers

const answerTo = <N extends QueryName>(name: N, answer: Answer): Answer<N> => parsers[name].parse(answer)
