import type { FittedModelView, FitVerdict } from '../contract/fit.ts'

/** What a model needs with some context. */
export interface FitAtContext {
  /** Absent where it is not known to change anything. */
  readonly contextSize: number | undefined
  readonly totalBytes: number
  readonly weightsBytes: number
  readonly kvBytes: number
  readonly restBytes: number
  readonly verdict: FitVerdict
  /** The agent was asked about this very context, so that its sentences and ways are about it too. */
  readonly isExact: boolean
}

/** `wanted` as the slider says it; the answer about it may still be on its way. */
export function contextAt(model: FittedModelView, wanted: number | undefined): FitAtContext {
  const { items, totalBytes, verdict, contextSize } = model
  const near = wanted === undefined || wanted === contextSize ? undefined : stopAt(model, wanted)
  const now = near ?? { contextSize, totalBytes, kvBytes: items.kv, verdict }
  return {
    ...now,
    weightsBytes: items.weights,
    restBytes: Math.max(0, now.totalBytes - items.weights - now.kvBytes),
    isExact: near === undefined,
  }
}

const stopAt = ({ contexts }: FittedModelView, wanted: number) =>
  contexts.find(({ contextSize }) => contextSize === wanted)
