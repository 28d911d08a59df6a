import { z } from 'zod'
import { logChunk, logStream } from './log.ts'

/** What goes on until the asker leaves. */
export const streamRequest = z.discriminatedUnion('name', [logStream])
export type StreamRequest = z.output<typeof streamRequest>
export type StreamInput = z.input<typeof streamRequest>

export const streamItem = logChunk
export type StreamItem = z.infer<typeof streamItem>
