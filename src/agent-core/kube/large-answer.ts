import { setImmediate as nextTurn } from 'node:timers/promises'
import { z } from 'zod'
import { KeptWorkers, startWorker } from '../util/worker.ts'

/** Half a millisecond of reading an ordinary answer; one that was made to be slow takes a hundred times as long. */
const largeTextLength = 64 * 1024

/**
 * JSON is read in one go, and an object that was made to be slow, as a hundred thousand objects of different keys, takes a tenth of a
 * second for each MiB: more than so much is read in a thread of its own.
 */
const ownTurnLength = 512 * 1024

/** Several times what the slowest text of 8 MiB leaves behind. */
const heapMiB = 1_024

const answerKind = {
  form: z.enum(['object', 'list', 'event']),
  /** Kind of the object, of each item of the list, or of the watch event's object. */
  kind: z.string(),
}
export const largeAnswer = z.object({ text: z.string(), ...answerKind })
export type AnswerKind = Omit<z.infer<typeof largeAnswer>, 'text'>

const readers = new KeptWorkers(() => startWorker(new URL('./answer-worker.ts', import.meta.url), { heapMiB }))

/**
 * The JSON of an API server; of a very large one only what the parser of its kind reads. After a large text the caller resumes in
 * another turn of the event loop, so that others are served in between.
 */
export async function readAnswer(text: string, answer: AnswerKind, signal: AbortSignal): Promise<unknown> {
  if (text.length > ownTurnLength) {
    const short = await readers.ask({ text, ...answer }, { signal })
    return JSON.parse(z.string().parse(short))
  }
  const value: unknown = JSON.parse(text)
  if (text.length > largeTextLength) await nextTurn()
  return value
}
