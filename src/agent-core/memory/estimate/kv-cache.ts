import { mebibyte } from './items.ts'
import type { ModelShape } from './model-shape.ts'
import type { ServerArguments } from './server-arguments.ts'
import { formatBytes } from '../../../contract/format.ts'

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

interface CacheType {
  readonly bytes: number
  /** Neither llama.cpp nor LLMKube says how large it is: counted as f16, which no such type exceeds. */
  readonly isUnknown: boolean
}

export function cacheType(name = 'f16'): CacheType {
  const bytes = bytesPerElement[name] ?? bytesPerCustomElement[name]
  return { bytes: bytes ?? 2, isUnknown: bytes === undefined }
}

export interface CacheSize {
  /** Keys and values. */
  readonly attentionBytes: number
  /** States of recurrent layers. */
  readonly stateBytes: number
  /** What one slot's checkpoint holds: windowed layers and states, the parts that cannot be rolled back. */
  readonly checkpointBytes: number
  /** Tokens that all slots together can hold. */
  readonly contextTokens: number
  /** Tokens that one slot can hold. */
  readonly slotTokens: number
  /** Cells of a layer that attends to everything, and of a windowed one: in each stream. */
  readonly cells: { readonly full: number; readonly windowed: number }
}

/** Recurrent state is kept in f32 (llama_memory_recurrent). */
const stateElementBytes = 4

/**
 * The caches as llama.cpp 11434 makes them: the context rounded up to 256 tokens and parted among the slots unless it is
 * unified (`llama_context::llama_context`), a layer's keys and values for each cell (`llama_kv_cache`), windowed layers with
 * window and micro-batch only (`llama_kv_cache_iswa`), a state for each slot (`llama_memory_recurrent`).
 */
export function cacheSize(shape: ModelShape, server: ServerArguments): CacheSize {
  const { slots, isUnified } = server
  const streams = isUnified ? 1 : slots
  const asked = roundedUp(server.contextTokens === 0 ? shape.trainedContext : server.contextTokens)
  const full = isUnified ? asked : roundedUp(Math.floor(asked / slots))
  const needed = shape.window * (isUnified ? slots : 1) + microBatchOf(server, asked)
  const windowed = server.fullSlidingWindow ? full : roundedUp(Math.min(full, needed))
  const sizes = { contextTokens: full * streams, slotTokens: full, cells: { full, windowed } }
  if (!shape.hasCache) return { ...sizes, attentionBytes: 0, stateBytes: 0, checkpointBytes: 0 }

  const keyBytes = cacheType(server.cacheTypeK).bytes
  const valueBytes = cacheType(server.cacheTypeV).bytes
  // Without flash attention values lie transposed, and all layers take the room of the widest.
  const widest = Math.max(...shape.layers.map(({ valueElements }) => valueElements))
  let attentionBytes = 0
  let windowedBytes = 0
  let stateBytes = 0
  for (const layer of shape.layers) {
    const values =
      server.flashAttention || layer.keyElements === 0 || layer.valueElements === 0 ? layer.valueElements : widest
    const tokenBytes = (layer.keyElements + layer.indexerElements) * keyBytes + values * valueBytes
    const cells = streams * (layer.isWindowed ? windowed : full)
    attentionBytes += tokenBytes * cells
    if (layer.isWindowed) windowedBytes += tokenBytes * Math.min(full, shape.window)
    stateBytes += layer.stateElements * stateElementBytes * slots
  }
  const isWindowless = server.fullSlidingWindow || windowedBytes === 0
  return {
    ...sizes,
    attentionBytes,
    stateBytes,
    checkpointBytes: (isWindowless ? 0 : windowedBytes) + stateBytes / slots,
  }
}

/** A batch is no longer than the context, a micro-batch no longer than a batch. */
export function microBatchOf(server: ServerArguments, contextTokens: number): number {
  return Math.min(server.microBatch, server.batch, contextTokens)
}

const roundedUp = (tokens: number): number => Math.ceil(tokens / 256) * 256

/** llama-server's own limit where none is given: `--cache-ram` of common.h. */
const defaultLimit = 8192 * mebibyte
/** Enough for some short conversations, whatever the size of the context. */
const leastCounted = 512 * mebibyte

interface PromptCacheSize {
  readonly bytes: number
  readonly notes: readonly string[]
  /** Set where it may outgrow what is counted. */
  readonly cacheRamThatHolds?: number
}

/**
 * The host memory for prompts. llama-server keeps states of past conversations up to `--cache-ram`, however small the context is
 * (`server_prompt_cache::update` raises its limit of tokens while they fit), so a limit that a person chose is counted whole. The default
 * of 8 GiB was not chosen: there one copy of the whole cache is counted, at least 512 MiB. Checkpoints, which windowed and recurrent models
 * need to go back in a prompt, lie with each slot and come on top (`create_checkpoint`).
 */
export function promptCacheSize(server: ServerArguments, cache: CacheSize): PromptCacheSize {
  const checkpoints = checkpointsOf(server, cache)
  const copy = cache.attentionBytes + cache.stateBytes
  const { cacheRam } = server
  if (cacheRam === 0) return { bytes: checkpoints, notes: [] }
  // Without a limit of bytes it holds as many tokens as the context.
  if (cacheRam !== undefined && cacheRam < 0) return { bytes: copy + checkpoints, notes: [] }
  if (cacheRam !== undefined) return { bytes: cacheRam * mebibyte + checkpoints, notes: [] }
  const counted = Math.min(defaultLimit, Math.max(copy, leastCounted))
  if (counted === defaultLimit) return { bytes: counted + checkpoints, notes: [] }
  const cacheRamThatHolds = Math.ceil(counted / mebibyte)
  return {
    bytes: counted + checkpoints,
    cacheRamThatHolds,
    notes: [
      `The prompt cache is counted as ${formatBytes(counted)}, but llama-server lets it grow to ${formatBytes(defaultLimit)} in time: --cache-ram ${cacheRamThatHolds} limits it, and the agent passes that flag if llama-server knows it.`,
    ],
  }
}

/** At most as many as allowed, and no more than a prompt as long as the context has room for, with those near its end. */
function checkpointsOf({ checkpoints, checkpointStep, slots }: ServerArguments, cache: CacheSize): number {
  const nearTheEnd = 3
  const spaced = checkpointStep > 0 ? Math.ceil(cache.slotTokens / checkpointStep) + nearTheEnd : checkpoints
  return slots * Math.min(checkpoints, spaced) * cache.checkpointBytes
}
