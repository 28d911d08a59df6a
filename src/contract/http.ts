import { z } from 'zod'
import { linkFailure, lookers } from './client.ts'
import { commandRequest, commandResult } from './commands.ts'
import { query } from './queries.ts'
import { agentSnapshot } from './snapshot.ts'
import { streamItem, streamRequest } from './log.ts'

/**
 * The contract over HTTP. `session` takes the token of the page's URL and answers with the bearer that every other path wants as
 * `Authorization: Bearer …`. Bodies are JSON and sent with POST; `snapshot` and `follow` have none and are asked with GET, `follow` with
 * the parameter `looker`, absent = `window`. Whatever
 * is not answered with 200 is a `linkFailure`; with status 401 the page needs a new URL, since its session has ended.
 */
export const httpPaths = {
  session: '/api/session',
  snapshot: '/api/snapshot',
  follow: '/api/follow',
  command: '/api/command',
  query: '/api/query',
  stream: '/api/stream',
} as const

/** `http://127.0.0.1:1234/#token=…`: a fragment reaches neither a server's log nor a Referer. */
export const tokenParameter = 'token'

/** Query parameter of the URL that follows snapshots: who looks. */
export const lookerParameter = 'looker'
export const followLooker = z.enum(lookers).default('window')

export const maxBodyBytes = 64 * 1_024

/** A stream that has nothing to say sends a line this often; a page that hears nothing for twice as long has lost the agent. */
export const heartbeatMs = 15_000

export const sessionRequest = z.object({ token: z.string().min(1).max(200) })
/** Keep it in `sessionStorage`: a cookie would be sent to every port of this machine. */
export const sessionAnswer = z.object({ bearer: z.string() })

export const httpBodies = { session: sessionRequest, command: commandRequest, query, stream: streamRequest } as const

/** The answer to a query is the one of its name in `answers`. */
export const httpAnswers = { session: sessionAnswer, snapshot: agentSnapshot, command: commandResult } as const

const heartbeat = z.object({ type: z.literal('heartbeat') })
/** Nothing follows. A stream that stops without it broke, which means that the agent is gone. */
const end = linkFailure.extend({ type: z.literal('end') })

/** One JSON object per line. */
export const followLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('next'), item: agentSnapshot }),
  heartbeat,
  end,
])
export type FollowLine = z.infer<typeof followLine>

export const streamLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('next'), item: streamItem }),
  heartbeat,
  end,
])
export type StreamLine = z.infer<typeof streamLine>
