import type { FittedModelView, FitVerdict } from '../contract/fit.ts'

/** What a model needs with some context. */
export interface FitAtContext {
  readonly totalBytes: number
  readonly weightsBytes: number
  readonly kvBytes: number
  readonly restBytes: number
  readonly verdict: FitVerdict
  /** The agent was asked about this very context, so that its sentences and ways are about it too. */
  readonly isExact: boolean
}

interface Question {
  /** As the slider says it, or as one of the ways to fit has it; absent while it is left to its default. */
  readonly wanted: number | undefined
  /** The model is the answer to this very question. */
  readonly isCurrent: boolean
}

/** Undefined where nothing that is known is about this context: the answer is on its way. */
export function contextAt(model: FittedModelView, { wanted, isCurrent }: Question): FitAtContext | undefined {
  const { items, totalBytes, verdict, contextSize, contexts } = model
  const isExact = isCurrent || wanted === undefined || wanted === contextSize
  const now = isExact
    ? { totalBytes, kvBytes: items.kv, verdict }
    : contexts.find((stop) => stop.contextSize === wanted)
  return (
    now && {
      totalBytes: now.totalBytes,
      kvBytes: now.kvBytes,
      verdict: now.verdict,
      weightsBytes: items.weights,
      restBytes: Math.max(0, now.totalBytes - items.weights - now.kvBytes),
      isExact,
    }
  )
}
