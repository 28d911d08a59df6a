import { z } from 'zod'
import { KeptWorkers, startWorker } from '../../support/worker.ts'

/** For each pattern the names of the tensors that it matches; a pattern that is none is missing. */
export type TensorMatches = ReadonlyMap<string, ReadonlySet<string>>

export const patternQuestion = z.object({ patterns: z.array(z.string()), names: z.array(z.string()) })

const patternAnswer = z.array(z.array(z.string()).nullable())
export type PatternAnswer = z.infer<typeof patternAnswer>

/** Usual patterns take milliseconds for every tensor of a model; what takes longer is not worth a core. */
const defaultLimitMs = 10_000

/** Its memory is bounded too: a pattern may ask for that instead. */
const heapMiB = 64

const workers = new KeptWorkers(() => startWorker(new URL('./pattern-worker.ts', import.meta.url), { heapMiB }))

/**
 * A pattern of an InferenceService may be written so that matching it never ends: it is matched in a worker thread, which is ended at
 * the deadline. Throws RangeError with a sentence.
 */
export async function matchTensors(
  patterns: readonly string[],
  names: readonly string[],
  limitMs: number = defaultLimitMs,
): Promise<TensorMatches> {
  if (patterns.length === 0) return new Map()
  const unique = [...new Set(patterns)]
  const answer = await workers
    .ask({ patterns: unique, names }, { signal: AbortSignal.timeout(limitMs) })
    .catch((error: unknown) => {
      throw new RangeError(
        `Which tensors the patterns of spec.tensorOverrides match could not be worked out within ${limitMs / 1_000} s and ${heapMiB} MiB: use simpler patterns.`,
        { cause: error },
      )
    })
  const matches = patternAnswer.parse(answer)
  return new Map(
    unique.flatMap((pattern, at) => {
      const names = matches[at]
      return names == null ? [] : [[pattern, new Set(names)]]
    }),
  )
}
