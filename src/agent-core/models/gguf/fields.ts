import { quantizationOf } from './quantization.ts'
import type { GgufFields, GgufTensor, GgufValue } from './types.ts'

export function fieldsOf(
  metadata: ReadonlyMap<string, GgufValue>,
  arrayLengths: ReadonlyMap<string, number>,
  tensors: readonly GgufTensor[],
): GgufFields {
  const architecture = textOf(metadata.get('general.architecture')) ?? ''
  const own = (key: string) => metadata.get(`${architecture}.${key}`)
  return {
    architecture,
    hasChatTemplate: hasChatTemplate(metadata, arrayLengths),
    ...present({
      name: textOf(metadata.get('general.name')),
      quantization: quantizationOf(metadata.get('general.file_type'), tensors),
      contextLength: countOf(own('context_length')),
      embeddingLength: countOf(own('embedding_length')),
      blockCount: countOf(own('block_count')),
      headCount: countsOf(own('attention.head_count')),
      headCountKv: countsOf(own('attention.head_count_kv')),
      keyLength: countOf(own('attention.key_length')),
      valueLength: countOf(own('attention.value_length')),
      slidingWindow: countOf(own('attention.sliding_window')),
      expertCount: countOf(own('expert_count')),
      expertUsedCount: countOf(own('expert_used_count')),
      vocabularySize: countOf(own('vocab_size')) ?? arrayLengths.get('tokenizer.ggml.tokens'),
      splitCount: countOf(metadata.get('split.count')),
      splitIndex: countOf(metadata.get('split.no')),
    }),
  }
}

/** The default one, or one of several under names of their own. */
function hasChatTemplate(metadata: ReadonlyMap<string, GgufValue>, skipped: ReadonlyMap<string, number>): boolean {
  const keys = [...metadata].flatMap(([key, value]) => (typeof value === 'string' && value !== '' ? [key] : []))
  return [...keys, ...skipped.keys()].some((key) => /^tokenizer\.chat_template(?:$|\.)/.test(key))
}

const textOf = (value: GgufValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

const countOf = (value: GgufValue | undefined): number | undefined => (isCount(value) ? value : undefined)

const countsOf = (value: GgufValue | undefined): number | readonly number[] | undefined =>
  isCount(value) ? value : Array.isArray(value) && value.length > 0 && value.every(isCount) ? value : undefined

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Without the properties that are undefined. */
function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T> // only fewer
}
