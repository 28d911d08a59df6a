import { z } from 'zod'
import { KeptWorkers, startWorker } from '../../util/worker.ts'

/** What the patterns of a command line say about the tensors of a model. */
export interface TensorMatches {
  /** By the name of a tensor the first pattern that matches it, which decides where it goes; the others are missing. */
  readonly deciding: ReadonlyMap<string, string>
  /** The patterns that are regular expressions. */
  readonly readable: ReadonlySet<string>
}

export const noMatches: TensorMatches = { deciding: new Map(), readable: new Set() }

export const patternQuestion = z.object({ patterns: z.array(z.string()), names: z.array(z.string()) })

const patternAnswer = z.object({
  readable: z.array(z.boolean()),
  /** For each name the index of the first pattern that matches it, -1 where none does. */
  first: z.array(z.int()),
})
export type PatternAnswer = z.infer<typeof patternAnswer>

/** Usual patterns take milliseconds for every tensor of a model; what takes longer is not worth a core. */
const defaultLimitMs = 10_000

/** Its memory is bounded too: a pattern may ask for that instead. */
const heapMiB = 64

const workers = new KeptWorkers(() => startWorker(new URL('./pattern-worker.ts', import.meta.url), { heapMiB }))

/**
 * A pattern of an InferenceService may be written so that matching it never ends, and each is compared with every tensor: that is done in
 * a worker thread, which is ended at the deadline. Throws RangeError with a sentence.
 */
export async function matchTensors(
  patterns: readonly string[],
  names: readonly string[],
  limitMs: number = defaultLimitMs,
): Promise<TensorMatches> {
  if (patterns.length === 0) return noMatches
  const answer = await workers
    .ask({ patterns, names }, { signal: AbortSignal.timeout(limitMs) })
    .catch((error: unknown) => {
      throw new RangeError(
        `Which tensors the patterns of spec.tensorOverrides match could not be worked out within ${limitMs / 1_000} s and ${heapMiB} MiB: use simpler patterns.`,
        { cause: error },
      )
    })
  const { readable, first } = patternAnswer.parse(answer)
  const deciding = names.flatMap((name, at) => {
    const pattern = patterns[first[at] ?? -1]
    return pattern === undefined ? [] : [[name, pattern] as const]
  })
  return { deciding: new Map(deciding), readable: new Set(patterns.filter((_, at) => readable[at])) }
}
