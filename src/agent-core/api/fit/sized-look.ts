import type { ModelHeader } from '../../memory/estimate/model-shape.ts'
import { mergedTensors } from '../../memory/estimate/llama-server.ts'
import type { GgufFields, GgufHeader } from '../../models/gguf/gguf.ts'
import type { ModelLook } from '../../models/look.ts'

/** A look without its single tensors: what an estimate and a person ask for, however often. */
export interface SizedLook extends Omit<ModelLook, 'header' | 'shards' | 'mmproj'> {
  readonly header: GgufFields & ModelHeader
  readonly shards: readonly ModelHeader[]
  readonly mmproj?: { readonly fileBytes: number; readonly header: ModelHeader }
  /** All numbers in all tensors; those of a damaged header may be beyond any model. */
  readonly parameters: number
}

export const sizedLook = ({ header, shards, mmproj, ...rest }: ModelLook): SizedLook => ({
  ...rest,
  header: merged(header),
  shards: shards.map(({ tensors }) => ({
    metadata: new Map(),
    arrayLengths: new Map(),
    tensors: mergedTensors(tensors),
  })),
  ...(mmproj && { mmproj: { ...mmproj, header: merged(mmproj.header) } }),
  parameters: [header, ...shards].reduce((sum, { tensors }) => sum + parametersOf(tensors), 0),
})

const merged = (header: GgufHeader): GgufFields & ModelHeader => ({ ...header, tensors: mergedTensors(header.tensors) })

const parametersOf = (tensors: GgufHeader['tensors']): number =>
  tensors.reduce((sum, { dimensions }) => sum + dimensions.reduce((product, length) => product * length, 1), 0)
