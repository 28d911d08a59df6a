import { cacheType } from './cache-types.ts'
import type { ModelShape } from './model-shape.ts'
import type { ServerArguments } from './server-arguments.ts'

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
  /** Cells of a layer that attends to everything, and of a windowed one: in each of the streams. */
  readonly cells: { readonly full: number; readonly windowed: number }
  readonly streams: number
}

/** Of elements in f32, as llama_memory_recurrent keeps them. */
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
  const sizes = { contextTokens: full * streams, slotTokens: full, cells: { full, windowed }, streams }
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
