import { z } from 'zod'
import { type AnswerPiece, answerPiece, askStream } from './ask.ts'
import { serviceRef } from './commands.ts'

/** Which run of a service's server. */
export const logRun = z.enum(['current', 'previous'])
export type LogRun = z.infer<typeof logRun>

/** A place in a server's output that stays valid when the file is rotated or replaced. */
export const logCursor = z.object({
  /** Identifies the run's output file; another id means another run. */
  fileId: z.string().max(200),
  /** Bytes since the run began, also those that were rotated away. */
  offset: z.int().nonnegative(),
})
export type LogCursor = z.infer<typeof logCursor>

export const maxLogLines = 2_000

/** Ends at `before`, or at the newest line. */
export const logQuery = z.object({
  name: z.literal('log'),
  service: serviceRef,
  run: logRun.default('current'),
  lines: z.int().min(1).max(maxLogLines).default(200),
  before: logCursor.optional(),
})

/** From `from`, or from the newest line on; continues with the next run when one begins. */
export const logStream = z.object({ name: z.literal('log'), service: serviceRef, from: logCursor.optional() })

/** Whole lines, oldest first, made readable. */
export const logChunk = z.object({
  lines: z.array(z.string()),
  /** Where the first line begins. */
  start: logCursor,
  /** Where the last line ends. */
  end: logCursor,
  /** A sentence where something is missing before these lines, such as "Skipped 1,200 lines.". */
  gap: z.string().optional(),
})
export type LogChunk = z.infer<typeof logChunk>

export const logPage = logChunk.extend({
  /** That the run prints to, on the agent's machine; absent where there is none. */
  file: z.string().optional(),
})
export type LogPage = z.infer<typeof logPage>

/** Answers that continue until the client leaves. */
export const streamRequest = z.discriminatedUnion('name', [logStream, askStream])
export type StreamRequest = z.output<typeof streamRequest>
export type StreamInput = z.input<typeof streamRequest>

export type StreamName = StreamRequest['name']
export type StreamOf<N extends StreamName> = Extract<StreamInput, { name: N }>
export type StreamItem<N extends StreamName = StreamName> = { log: LogChunk; ask: AnswerPiece }[N]
export const streamItem = z.union([logChunk, answerPiece])
