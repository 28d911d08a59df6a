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

/** Why a header cannot be had; `message` is one sentence for people that names the file. */
export class GgufError extends Error {
  override readonly name = 'GgufError'
}
