/**
 * Which layers of an architecture attend to a window only, as `load_arch_hparams` of each model of llama.cpp 11434 sets it
 * (src/models/*.cpp, load_swa_pattern). `period` n: of n layers following one another one attends to everything, the last of
 * them or, `denseFirst`, the first. The header's own pattern, a period or a flag for each layer, replaces it.
 */
interface WindowPattern {
  readonly period: number
  readonly denseFirst?: true
  /** Where the header names none. */
  readonly window?: number
  /** The window, whatever the header says. */
  readonly fixedWindow?: number
  /** Windows only in models of so many layers. */
  readonly onlyWithLayers?: number
}

/** Set in the header layer by layer, or not at all. */
const byHeader: WindowPattern = { period: 1 }

const windowPatterns: Readonly<Record<string, WindowPattern>> = {
  gemma2: { period: 2, window: 4096 },
  gemma3: { period: 6 },
  gemma3n: { period: 5 },
  gemma4: byHeader,
  'gpt-oss': { period: 2 },
  cohere2: { period: 4 },
  cohere2moe: { period: 4, denseFirst: true },
  llama4: { period: 4, fixedWindow: 8192 },
  exaone4: { period: 4, window: 4096, onlyWithLayers: 64 },
  'exaone-moe': { period: 4, window: 128 },
  olmo2: { period: 4 },
  plamo3: { period: 8 },
  'muse-glimmer': { period: 4 },
  afmoe: { period: 4 },
  laguna: { period: 4, denseFirst: true },
  mellum: { period: 4 },
  smallthinker: { period: 4, denseFirst: true, fixedWindow: 4096 },
  granite_swa: byHeader,
  maple: byHeader,
  mimo2: byHeader,
  spark2_5: byHeader,
  step35: byHeader,
  dots3note: byHeader,
  // lfm2.cpp: every layer that is not recurrent.
  lfm2: { period: 0 },
}

/** llm_arch_is_recurrent of llama-arch.cpp: nothing but recurrent layers. */
const recurrentArchitectures: ReadonlySet<string> = new Set([
  'mamba',
  'mamba2',
  'rwkv6',
  'rwkv6qwen2',
  'rwkv7',
  'arwkv7',
])

/** Without a list in the header, all layers but each n-th are recurrent. */
const fullAttentionIntervals: Readonly<Record<string, number>> = {
  qwen3next: 4,
  qwen35: 4,
  qwen35moe: 4,
  qwen4exp: 4,
  'minimax-01': 8,
}

/** A layer with no KV heads is recurrent (jamba.cpp, granite-hybrid.cpp, plamo2.cpp, lfm2.cpp, kimi-linear.cpp, …). */
const recurrentWithoutKvHeads: ReadonlySet<string> = new Set([
  'jamba',
  'granitehybrid',
  'plamo2',
  'lfm2',
  'lfm2moe',
  'nemotron_h',
  'nemotron_h_moe',
  'kimi-linear',
  'kimi-k3',
  'bailingmoe3',
  'glm5-next',
])

/** llama_model::create_memory: encoders and diffusion models keep nothing between batches. */
const architecturesWithoutCache: ReadonlySet<string> = new Set([
  'bert',
  'jina-bert-v2',
  'jina-bert-v3',
  'nomic-bert',
  'nomic-bert-moe',
  'neo-bert',
  'eurobert',
  'modern-bert',
  'wavtokenizer-dec',
  'gemma-embedding',
  'dream',
  'llada',
  'llada-moe',
  'rnd1',
  'clef',
])

/** A cache of indexer keys besides (llama_kv_cache_dsa, llama_kv_cache_msa, llama_memory_hybrid_idx). */
const indexedArchitectures: ReadonlySet<string> = new Set([
  'deepseek32',
  'glm-dsa',
  'hy_v4',
  'dots3note',
  'glm5-next',
  'qwen4exp',
  'minimax-m3',
])

/** Caches of a kind of their own that are not modelled here: counted as if all attention were plain. */
const unmodelledCaches: ReadonlySet<string> = new Set(['deepseek4', 'dflash', 'graniteswitch'])

type Scalar = number | string | boolean

/** What a reader of a GGUF file's header gives. */
export interface ModelHeader {
  readonly metadata: ReadonlyMap<string, Scalar | readonly Scalar[]>
  /** How many tokens its tokenizer knows. */
  readonly vocabulary?: number | undefined
  readonly tensors: readonly HeaderTensor[]
}

export interface HeaderTensor {
  readonly name: string
  readonly dimensions: readonly number[]
  readonly bytes: number
}

/** What one layer keeps of each token, or of each sequence. */
interface LayerShape {
  /** Elements of a token's keys and values; 0 for a layer without a cache of its own. */
  readonly keyElements: number
  readonly valueElements: number
  readonly isWindowed: boolean
  /** Elements of a token's indexer keys, which sparse attention keeps besides. */
  readonly indexerElements: number
  /** Elements of a sequence's state, kept as f32; 0 for a layer that is not recurrent. */
  readonly stateElements: number
}

/** What a model's memory depends on. */
export interface ModelShape {
  /** Those of the trunk: blocks that only predict further tokens are left out, as llama-server leaves them. */
  readonly layers: readonly LayerShape[]
  /** Blocks of the file, also those that only predict further tokens. */
  readonly blocks: number
  readonly trainedContext: number
  readonly window: number
  readonly embedding: number
  /** Elements of a token's queries: heads × their length. */
  readonly queryElements: number
  readonly heads: number
  readonly feedForward: number
  readonly experts?: { readonly used: number; readonly feedForward: number }
  /** Elements of a token inside a recurrent layer; 0 where there is none. */
  readonly recurrentElements: number
  readonly vocabulary: number
  /** Nothing is kept between batches, as with encoders. */
  readonly hasCache: boolean
  /** What had to be assumed, one sentence each. */
  readonly assumptions: readonly string[]
}

/**
 * Reads the shape as llama.cpp 11434 does (`llama_model_base::load_hparams`, `load_arch_hparams`, `llama_hparams`). Undefined
 * where the header lacks what every model has.
 */
export function shapeOf(header: ModelHeader): ModelShape | undefined {
  const read = new Keys(header)
  const { architecture } = read
  const blocks = read.number('block_count')
  const embedding = read.number('embedding_length')
  if (architecture === undefined || blocks === undefined || embedding === undefined) return undefined
  if (!(blocks >= 1 && blocks <= maxBlocks)) return undefined

  const predicting = Math.min(blocks, read.number('nextn_predict_layers') ?? 0)
  const trunk = blocks - predicting > 0 ? blocks - predicting : blocks
  const heads = (layer: number) => read.perLayer('attention.head_count', layer) ?? 0
  const headLength = heads(0) > 0 ? Math.floor(embedding / heads(0)) : 0
  const keyLength = read.number('attention.key_length') ?? headLength
  const valueLength = read.number('attention.value_length') ?? headLength
  const attention: Attention = {
    heads,
    kvHeads: (layer) => read.perLayer('attention.head_count_kv', layer) ?? heads(layer),
    keyLength: [keyLength, read.number('attention.key_length_swa') ?? keyLength],
    valueLength: [valueLength, read.number('attention.value_length_swa') ?? valueLength],
    // llama_hparams::is_mla: the keys hold everything, compressed.
    isLatent:
      (read.number('attention.key_length_mla') ?? 0) > 0 && (read.number('attention.value_length_mla') ?? 0) > 0,
  }
  const { window, isWindowed, assumptions } = windowsOf(read, architecture, trunk)
  const stateElements = stateOf(read, architecture, { embedding, heads: heads(0), keyLength })
  const isRecurrent = recurrentLayers(read, architecture, attention.kvHeads, stateElements > 0)
  const ownsCache = cacheOwners(read, architecture, blocks)
  const indexer = indexedArchitectures.has(architecture) ? (read.number('attention.indexer.key_length') ?? 0) : 0

  const layers = Array.from({ length: trunk }, (_, layer): LayerShape => {
    const recurs = isRecurrent(layer)
    const windowed = isWindowed(layer) && !recurs
    const attends = architecture === 'falcon-h1' || (!recurs && !feedsForwardOnly(read, architecture, layer))
    const isCached = attends && ownsCache(layer)
    const kvHeads = isCached ? attention.kvHeads(layer) : 0
    return {
      keyElements: kvHeads * attention.keyLength[windowed ? 1 : 0],
      valueElements: attention.isLatent ? 0 : kvHeads * attention.valueLength[windowed ? 1 : 0],
      isWindowed: windowed,
      indexerElements: isCached && !windowed ? indexer : 0,
      stateElements: recurs ? stateElements : 0,
    }
  })
  const expertsUsed = read.largest('expert_used_count') ?? 0
  return {
    layers,
    blocks,
    trainedContext: read.number('context_length') ?? 0,
    window,
    embedding,
    queryElements: Math.max(...Array.from({ length: trunk }, (_, layer) => heads(layer) * attention.keyLength[0])),
    heads: Math.max(...Array.from({ length: trunk }, (_, layer) => heads(layer))),
    feedForward: read.largest('feed_forward_length') ?? 0,
    ...(expertsUsed > 0 && {
      experts: {
        used: expertsUsed,
        feedForward: read.largest('expert_feed_forward_length') ?? read.largest('feed_forward_length') ?? 0,
      },
    }),
    recurrentElements: layers.some((layer) => layer.stateElements > 0)
      ? Math.max(embedding, read.number('ssm.inner_size') ?? 0)
      : 0,
    vocabulary: read.vocabulary(),
    hasCache: !architecturesWithoutCache.has(architecture),
    assumptions: [
      ...assumptions,
      ...(unmodelledCaches.has(architecture)
        ? [`${architecture} uses its own kind of cache: it is counted as plain attention.`]
        : []),
    ],
  }
}

/** LLAMA_MAX_LAYERS. */
const maxBlocks = 512

interface Attention {
  readonly heads: (layer: number) => number
  readonly kvHeads: (layer: number) => number
  /** Length in layers with full attention, and in windowed ones. */
  readonly keyLength: readonly [full: number, windowed: number]
  readonly valueLength: readonly [full: number, windowed: number]
  readonly isLatent: boolean
}

function windowsOf(read: Keys, architecture: string, layers: number) {
  const none = { window: 0, isWindowed: () => false }
  const pattern = windowPatterns[architecture]
  const named = read.number('attention.sliding_window')
  if (pattern === undefined) {
    const isNamed = named !== undefined && named > 0 && named < (read.number('context_length') ?? Infinity)
    const sentence = `The sliding window of ${architecture} is not known: every layer counts as plain attention.`
    return { ...none, assumptions: isNamed ? [sentence] : [] }
  }
  // llama4.cpp and others: a window of 0 in the header switches it off.
  const window = named === 0 ? 0 : (pattern.fixedWindow ?? named ?? pattern.window ?? 0)
  const applies = pattern.onlyWithLayers === undefined || pattern.onlyWithLayers === layers
  if (
    window === 0 ||
    !applies ||
    (pattern.fixedWindow !== undefined && architecture !== 'llama4' && named === undefined)
  ) {
    return { ...none, assumptions: [] }
  }
  const flags = read.list('attention.sliding_window_pattern')
  if (flags !== undefined) return { window, isWindowed: (layer: number) => Boolean(flags[layer]), assumptions: [] }
  const period = read.number('attention.sliding_window_pattern') ?? pattern.period
  return { window, isWindowed: (layer: number) => isWindowedIn(layer, period, pattern.denseFirst), assumptions: [] }
}

/** llama_hparams::set_swa_pattern. */
function isWindowedIn(layer: number, period: number, denseFirst = false): boolean {
  if (period === 0) return true
  return denseFirst ? layer % period !== 0 : layer % period < period - 1
}

/** llama_hparams::n_embd_r and n_embd_s. */
function stateOf(
  read: Keys,
  architecture: string,
  { embedding, heads, keyLength }: { embedding: number; heads: number; keyLength: number },
): number {
  const wkv = read.number('wkv.head_size') ?? 0
  if (wkv > 0) return (read.number('token_shift_count') ?? 2) * embedding + embedding * wkv
  const shortConvolution = read.number('shortconv.l_cache') ?? 0
  if (shortConvolution > 0) return embedding * (shortConvolution - 1)
  const kernel = read.number('ssm.conv_kernel') ?? 0
  const delta = read.number('kda.head_dim') ?? 0
  if (delta > 0) return 3 * (kernel > 0 ? kernel - 1 : 3) * heads * delta + delta * delta * heads
  if (architecture === 'minimax-01') return keyLength * keyLength * heads
  const inner = read.number('ssm.inner_size') ?? 0
  const state = read.number('ssm.state_size') ?? 0
  const groups = read.number('ssm.group_count') ?? 0
  return Math.max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner
}

function recurrentLayers(
  read: Keys,
  architecture: string,
  kvHeads: (layer: number) => number,
  hasState: boolean,
): (layer: number) => boolean {
  if (recurrentArchitectures.has(architecture) || architecture === 'falcon-h1') return () => true
  const flags = read.list('attention.recurrent_layers')
  if (flags !== undefined) return (layer) => Boolean(flags[layer])
  const interval = fullAttentionIntervals[architecture]
  if (interval !== undefined) {
    const period = read.number('full_attention_interval') ?? interval
    return (layer) => (layer + 1) % period !== 0
  }
  // For an unknown architecture, a state in the header together with layers without KV heads means recurrent layers.
  if (recurrentWithoutKvHeads.has(architecture) || hasState) {
    return (layer) => kvHeads(layer) === 0 && !feedsForwardOnly(read, architecture, layer)
  }
  return () => false
}

/** nemotron-h.cpp: its layers are either recurrent, or attention, or feed-forward. */
function feedsForwardOnly(read: Keys, architecture: string, layer: number): boolean {
  return architecture.startsWith('nemotron_h') && (read.perLayer('feed_forward_length', layer) ?? 0) > 0
}

/** llama_hparams::has_kv: the last layers of some models use the cache of others. */
function cacheOwners(read: Keys, architecture: string, blocks: number): (layer: number) => boolean {
  if (architecture === 'gemma3n') return (layer) => layer < 20
  const shared = architecture === 'gemma4' ? (read.number('attention.shared_kv_layers') ?? 0) : 0
  return (layer) => layer < blocks - shared
}

/** The keys of a header; those without their architecture's name get it in front. */
class Keys {
  readonly architecture: string | undefined
  readonly #header: ModelHeader

  constructor(header: ModelHeader) {
    this.#header = header
    const name = header.metadata.get('general.architecture')
    this.architecture = typeof name === 'string' && name !== '' ? name : undefined
  }

  #get(key: string) {
    return this.#header.metadata.get(`${this.architecture ?? ''}.${key}`)
  }

  /** The number, or the first of a list. */
  number(key: string): number | undefined {
    const value = this.#get(key)
    return whole(typeof value === 'object' ? value[0] : value)
  }

  list(key: string): readonly Scalar[] | undefined {
    const value = this.#get(key)
    return typeof value === 'object' ? value : undefined
  }

  perLayer(key: string, layer: number): number | undefined {
    const value = this.#get(key)
    return whole(typeof value === 'object' ? value[layer] : value)
  }

  largest(key: string): number | undefined {
    const value = this.#get(key)
    const numbers = (typeof value === 'object' ? value : [value]).map(whole).filter((one) => one !== undefined)
    return numbers.length === 0 ? undefined : Math.max(...numbers)
  }

  vocabulary(): number {
    const embedded = this.#header.tensors.find(({ name }) => name === 'token_embd.weight')?.dimensions[1]
    return this.#header.vocabulary ?? embedded ?? this.number('vocab_size') ?? 0
  }
}

/** Anything else than a number that can count something is as if it were not there. */
const whole = (value: Scalar | undefined): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
