/** Integers beyond ±2^53 are their decimal digits. */
export type GgufScalar = number | string | boolean
export type GgufValue = GgufScalar | readonly GgufScalar[]

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
  /** 2 or 3. */
  readonly version: number
  /** Everything but the tokenizer's arrays, arrays of more than 4,096 items and texts of more than 1 MiB. */
  readonly metadata: ReadonlyMap<string, GgufValue>
  /** How many items (bytes of a text) those have that `metadata` leaves out. */
  readonly arrayLengths: ReadonlyMap<string, number>
  readonly tensors: readonly GgufTensor[]
  /** Where the tensors' data begins. */
  readonly dataOffset: number
  /** From the file or the network for this. */
  readonly bytesRead: number
}

export type GgufErrorReason = 'NotGguf' | 'Html' | 'Truncated' | 'Malformed' | 'TooLarge' | 'Unreadable'

/** Why a header cannot be had; `message` is one sentence for people that names the file. */
export class GgufError extends Error {
  readonly reason: GgufErrorReason

  constructor(reason: GgufErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'GgufError'
    this.reason = reason
  }
}
