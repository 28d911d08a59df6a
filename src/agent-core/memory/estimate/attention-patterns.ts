/**
 * Which layers of an architecture attend to a window only, as `load_arch_hparams` of each model of llama.cpp 11434 sets it
 * (src/models/*.cpp, load_swa_pattern). `period` n: of n layers following one another one attends to everything, the last of
 * them or, `denseFirst`, the first. The header's own pattern, a period or a flag for each layer, replaces it.
 */
export interface WindowPattern {
  readonly period: number
  readonly denseFirst?: true
  /** Where the header names none. */
  readonly window?: number
  /** Whatever the header names. */
  readonly fixedWindow?: number
  /** Windows only in models of so many layers. */
  readonly onlyWithLayers?: number
}

/** Set in the header layer by layer, or not at all. */
const byHeader: WindowPattern = { period: 1 }

export const windowPatterns: Readonly<Record<string, WindowPattern>> = {
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
export const recurrentArchitectures: ReadonlySet<string> = new Set([
  'mamba',
  'mamba2',
  'rwkv6',
  'rwkv6qwen2',
  'rwkv7',
  'arwkv7',
])

/** Without a list in the header, all layers but each n-th are recurrent. */
export const fullAttentionIntervals: Readonly<Record<string, number>> = {
  qwen3next: 4,
  qwen35: 4,
  qwen35moe: 4,
  qwen4exp: 4,
  'minimax-01': 8,
}

/** A layer with no KV heads is recurrent (jamba.cpp, granite-hybrid.cpp, plamo2.cpp, lfm2.cpp, kimi-linear.cpp, …). */
export const recurrentWithoutKvHeads: ReadonlySet<string> = new Set([
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
export const architecturesWithoutCache: ReadonlySet<string> = new Set([
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
export const indexedArchitectures: ReadonlySet<string> = new Set([
  'deepseek32',
  'glm-dsa',
  'hy_v4',
  'dots3note',
  'glm5-next',
  'qwen4exp',
  'minimax-m3',
])

/** Caches of a kind of their own that are not modelled here: counted as if all attention were plain. */
export const unmodelledCaches: ReadonlySet<string> = new Set(['deepseek4', 'dflash', 'graniteswitch'])
