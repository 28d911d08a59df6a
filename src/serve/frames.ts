import { z } from 'zod'
import { agentSnapshot } from '../contract/snapshot.ts'

/** One JSON object per line, in both directions. A request this large is no request. */
export const maxRequestBytes = 64 * 1_024

/** A snapshot of thousands of services fits ten times; a client reads no more than this into memory. */
export const maxAnswerBytes = 64 * 1_024 * 1_024

export const requestFrame = z.object({
  /** The client's own; repeated in what answers it. */
  id: z.string().min(1).max(100),
  verb: z.string().max(100),
})

export const snapshotRequest = requestFrame.extend({
  verb: z.literal('snapshot'),
  /** Answers at once, then again whenever something has changed, until the connection ends. */
  follow: z.boolean().default(false),
})
export type SnapshotRequest = z.input<typeof snapshotRequest>

export const errorCodes = ['bad-frame', 'frame-too-large', 'unknown-verb', 'bad-request', 'busy', 'failed'] as const

/** What a client must know before it reads anything else, in every version of the protocol. */
export const helloFrame = z.object({
  type: z.literal('hello'),
  protocol: z.int(),
  /** Of the agent, for people. */
  version: z.string(),
})

export const serverFrame = z.discriminatedUnion('type', [
  helloFrame,
  z.object({ type: z.literal('snapshot'), id: z.string(), snapshot: agentSnapshot }),
  z.object({
    type: z.literal('error'),
    /** Absent where the request had none that could be read. */
    id: z.string().optional(),
    code: z.enum(errorCodes),
    message: z.string(),
  }),
])
export type ServerFrame = z.infer<typeof serverFrame>
