import { float32, type GgufFile, type GgufTensor, type GgufValue } from '../gguf-writer.ts'

/** What a model of any of these architectures is made of. */
export interface ModelShape {
  readonly blocks: number
  readonly embedding: number
  readonly heads: number
  readonly kvHeads: number
  readonly headLength: number
  readonly feedForward: number
  readonly vocabulary: number
  readonly context?: number
  readonly experts?: { readonly count: number; readonly used: number; readonly feedForward: number }
  readonly slidingWindow?: number
  /** Added to the header, or replacing what is there; keys without the architecture get it in front. */
  readonly metadata?: Readonly<Record<string, GgufValue>>
}

export type SampleArchitecture = 'llama' | 'qwen2' | 'gemma3' | 'qwen3moe'

const tensor = (name: string, ...dimensions: number[]): GgufTensor => ({ name: `${name}.weight`, dimensions })

/** A model that llama-server loads, with weights that are holes in the file. */
export function modelOf(architecture: SampleArchitecture, shape: ModelShape): GgufFile {
  const { blocks, embedding, heads, kvHeads, headLength, feedForward, vocabulary, context = 1 << 20 } = shape
  const { experts, slidingWindow } = shape
  const own = {
    block_count: blocks,
    context_length: context,
    embedding_length: embedding,
    feed_forward_length: feedForward,
    'attention.head_count': heads,
    'attention.head_count_kv': kvHeads,
    'attention.key_length': headLength,
    'attention.value_length': headLength,
    'attention.layer_norm_rms_epsilon': 1e-5,
    'rope.dimension_count': headLength,
    vocab_size: vocabulary,
    ...(experts && {
      expert_count: experts.count,
      expert_used_count: experts.used,
      expert_feed_forward_length: experts.feedForward,
    }),
    ...(slidingWindow !== undefined && { 'attention.sliding_window': slidingWindow }),
    ...shape.metadata,
  }
  return {
    weights: 'hole',
    metadata: {
      'general.architecture': architecture,
      'general.name': `${architecture} of holes`,
      ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value])),
      ...tokenizer(vocabulary),
    },
    tensors: [
      tensor('token_embd', embedding, vocabulary),
      tensor('output_norm', embedding),
      tensor('output', embedding, vocabulary),
      ...Array.from({ length: blocks }, (_, index) => blockOf(architecture, index, shape)).flat(),
    ],
  }
}

function blockOf(architecture: SampleArchitecture, index: number, shape: ModelShape): GgufTensor[] {
  const { embedding, heads, kvHeads, headLength, feedForward, experts } = shape
  const named = (name: string, ...dimensions: number[]) => tensor(`blk.${index}.${name}`, ...dimensions)
  const normed = architecture === 'gemma3' || architecture === 'qwen3moe'
  return [
    named('attn_norm', embedding),
    named('attn_q', embedding, headLength * heads),
    named('attn_k', embedding, headLength * kvHeads),
    named('attn_v', embedding, headLength * kvHeads),
    named('attn_output', headLength * heads, embedding),
    named('ffn_norm', embedding),
    ...(normed ? [named('attn_q_norm', headLength), named('attn_k_norm', headLength)] : []),
    ...(architecture === 'gemma3' ? [named('post_attention_norm', embedding), named('post_ffw_norm', embedding)] : []),
    ...(experts
      ? [
          named('ffn_gate_inp', embedding, experts.count),
          named('ffn_gate_exps', embedding, experts.feedForward, experts.count),
          named('ffn_up_exps', embedding, experts.feedForward, experts.count),
          named('ffn_down_exps', experts.feedForward, embedding, experts.count),
        ]
      : [
          named('ffn_gate', embedding, feedForward),
          named('ffn_up', embedding, feedForward),
          named('ffn_down', feedForward, embedding),
        ]),
  ]
}

/** A SentencePiece vocabulary of the special tokens, the bytes, a line feed and fillers. */
function tokenizer(size: number): Record<string, GgufValue> {
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  const known = ['<unk>', '<s>', '</s>', ...bytes]
  const tokens = [...known, ...Array.from({ length: size - known.length }, (_, index) => `<unused${index}>`)]
  const types = [2, 3, 3, ...bytes.map(() => 6)]
  return {
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': tokens.map((_, index) => float32(-index)),
    'tokenizer.ggml.token_type': tokens.map((_, index) => ({ type: 'int32', value: types[index] ?? 5 })),
    'tokenizer.ggml.unknown_token_id': 0,
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
  }
}
