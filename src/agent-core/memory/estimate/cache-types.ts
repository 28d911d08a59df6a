/** Bytes of one element: the block's bytes over its 32 elements, as ggml.c's type_traits have them. */
const bytesPerElement: Readonly<Record<string, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  q8_0: 34 / 32,
  q5_1: 24 / 32,
  q5_0: 22 / 32,
  q4_1: 20 / 32,
  q4_0: 18 / 32,
  iq4_nl: 18 / 32,
}

/** As LLMKube's Go agent counts the types of forks; its table has no others. */
const bytesPerCustomElement: Readonly<Record<string, number>> = { turbo4: 0.53125, turbo3: 0.40625 }

export interface CacheType {
  readonly name: string
  readonly bytes: number
  /** Neither llama.cpp nor LLMKube says how large it is: counted as f16, which no such type exceeds. */
  readonly isUnknown: boolean
}

export function cacheType(name = 'f16'): CacheType {
  const bytes = bytesPerElement[name] ?? bytesPerCustomElement[name]
  return { name, bytes: bytes ?? 2, isUnknown: bytes === undefined }
}
