import { parseShard } from '../selection.ts'

export type GgufValue = number | string | boolean | readonly (number | boolean)[]

export interface GgufTensor {
  readonly name: string
  /** Innermost first; as many as the file gives, at most 4. */
  readonly dimensions: readonly number[]
  /** As ggml names it: `F16`, `Q4_K`. */
  readonly type: string
  /** Without padding. */
  readonly bytes: number
}

/** What a header says that people and the memory estimate ask for; undefined where it does not say. */
export interface GgufFields {
  /** Empty in the further shards of a split file, which leave it to the first. */
  readonly architecture: string
  readonly quantization?: string
  readonly contextLength?: number
}

export interface GgufHeader extends GgufFields {
  /** Without the tokenizer's lists, lists of texts or of more than 512 items, and texts of more than 1 KiB. */
  readonly metadata: ReadonlyMap<string, GgufValue>
  /** How many tokens its tokenizer knows; undefined where it has none. */
  readonly vocabulary: number | undefined
  readonly tensors: readonly GgufTensor[]
  /** Where the tensors' data begins. */
  readonly dataOffset: number
}

/**
 * Why a runtime cannot be given the file as its model, as the end of a sentence that begins with its name; undefined where it can. llama.cpp
 * finds the parts of a model by the name of the first.
 */
export function whyNoModel({ architecture, metadata, tensors }: GgufHeader, name: string): string | undefined {
  const kind = architecture === 'clip' ? 'mmproj' : String(metadata.get('general.type') ?? architecture)
  const parts = Number(metadata.get('split.count') ?? 1)
  const what = besides.get(kind)
  if (what !== undefined) return `is ${what}: name the model itself in spec.source.`
  if (parts > 1 && parseShard(name)?.count !== parts)
    return `is one of ${parts} parts of a model, or some of them in one file: keep them together as llama-gguf-split names them, the first ending in -00001-of-${String(parts).padStart(5, '0')}.gguf.`
  return parts > 1 || tensors.length > 0
    ? undefined
    : 'is a GGUF file without tensors, such as a vocabulary: name a model.'
}

/** By `general.type` or, of what has none, `general.architecture`. */
const besides = new Map([
  ['mmproj', 'a projector, which goes beside a model as spec.mmproj'],
  ['adapter', 'an adapter (LoRA), which goes beside a model with --lora'],
  ['imatrix', 'an importance matrix, which is for quantizing a model'],
  ['controlvector', 'a control vector, which goes beside a model with --control-vector'],
])

/** Why a header cannot be had; `message` is one sentence for people that names the file. */
export class GgufError extends Error {
  override readonly name = 'GgufError'
}
