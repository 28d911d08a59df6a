import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

/** Shape of a model; each left out is that of the smallest one that serves tokens: 190 kB, loaded in a second. */
export interface MlxShape {
  readonly layers?: number
  readonly hidden?: number
  readonly feedForward?: number
  readonly heads?: number
  readonly kvHeads?: number
  readonly headSize?: number
  /** Three of four layers look back at so many tokens alone. */
  readonly window?: number
  readonly contextTokens?: number
}

const specialTokens = ['<s>', '</s>']

/** As GPT-2's byte-level tokenizers write each byte: printable ones as themselves, others from U+0100 on. */
function byteAlphabet(): string[] {
  const isPrintable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff)
  let hidden = 0
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : 256 + hidden++))
}

const tokens = [...specialTokens, ...byteAlphabet()]

const tokenizer = {
  version: '1.0',
  added_tokens: specialTokens.map((content, id) => ({
    ...{ id, content, special: true },
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
  })),
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
  decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: { type: 'BPE', vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges: [] },
}

const tokenizerConfig = {
  ...{ tokenizer_class: 'PreTrainedTokenizerFast', bos_token: '<s>', eos_token: '</s>' },
  chat_template: "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
}

const layerType = (_: unknown, layer: number): string => (layer % 4 === 3 ? 'full_attention' : 'sliding_attention')

/** Writes a model of random weights that mlx-lm loads and serves: Llama's architecture, float16, one token for each byte. */
export async function writeMlxModel(folder: string, shape: MlxShape = {}): Promise<void> {
  const { layers = 2, hidden = 64, feedForward = 128, heads = 4, kvHeads = 2, contextTokens = 512 } = shape
  const { headSize = hidden / heads, window } = shape
  const block = (layer: number): [string, number[]][] => {
    const name = (rest: string): string => `model.layers.${layer}.${rest}.weight`
    return [
      [name('input_layernorm'), [hidden]],
      [name('self_attn.q_proj'), [heads * headSize, hidden]],
      [name('self_attn.k_proj'), [kvHeads * headSize, hidden]],
      [name('self_attn.v_proj'), [kvHeads * headSize, hidden]],
      [name('self_attn.o_proj'), [hidden, heads * headSize]],
      [name('post_attention_layernorm'), [hidden]],
      [name('mlp.gate_proj'), [feedForward, hidden]],
      [name('mlp.up_proj'), [feedForward, hidden]],
      [name('mlp.down_proj'), [hidden, feedForward]],
    ]
  }
  const shapes: [string, number[]][] = [
    ['model.embed_tokens.weight', [tokens.length, hidden]],
    ...Array.from({ length: layers }, (_, layer) => block(layer)).flat(),
    ['model.norm.weight', [hidden]],
  ]
  const config = {
    ...{ model_type: 'llama', architectures: ['LlamaForCausalLM'], tie_word_embeddings: true },
    ...{ hidden_size: hidden, num_hidden_layers: layers, intermediate_size: feedForward },
    ...{ num_attention_heads: heads, num_key_value_heads: kvHeads, head_dim: headSize, vocab_size: tokens.length },
    ...{ max_position_embeddings: contextTokens, rms_norm_eps: 1e-5, rope_theta: 10_000 },
    ...{ bos_token_id: 0, eos_token_id: 1 },
    ...(window !== undefined && { sliding_window: window, layer_types: Array.from({ length: layers }, layerType) }),
  }
  await mkdir(folder, { recursive: true })
  const write = (name: string, content: string | Buffer) => writeFile(path.join(folder, name), content)
  await Promise.all([
    write('config.json', JSON.stringify(config)),
    write('tokenizer.json', JSON.stringify(tokenizer)),
    write('tokenizer_config.json', JSON.stringify(tokenizerConfig)),
    write('model.safetensors', safetensors(shapes)),
  ])
}

/** The length of the header in eight bytes, the header, and the tensors in its order. */
export function safetensors(shapes: readonly (readonly [string, readonly number[]])[]): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'mlx' } }
  let end = 0
  for (const [name, shape] of shapes) {
    const start = end
    end += 2 * shape.reduce((product, length) => product * length, 1)
    header[name] = { dtype: 'F16', shape, data_offsets: [start, end] }
  }
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  return Buffer.concat([length, text, smallFloats(end / 2)])
}

/** Between -0.25 and 0.25, the same at each call, from a linear congruential generator (Numerical Recipes). */
function smallFloats(count: number): Buffer {
  const values = new Float16Array(count)
  let state = 1
  for (let at = 0; at < count; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    values[at] = state / 2 ** 33 - 0.25
  }
  return Buffer.from(values.buffer)
}
