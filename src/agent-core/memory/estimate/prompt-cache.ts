import { formatBytes } from '../../../contract/format.ts'
import { mebibyte } from './items.ts'
import type { CacheSize } from './kv-cache.ts'
import type { ServerArguments } from './server-arguments.ts'

/** llama-server's own limit where none is given: `--cache-ram` of common.h. */
const defaultLimit = 8192 * mebibyte
/** Enough for some short conversations, whatever the size of the context. */
const leastCounted = 512 * mebibyte

export interface PromptCacheSize {
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
      `The prompt cache is counted with ${formatBytes(counted)}, but llama-server lets it grow to ${formatBytes(defaultLimit)} in time: --cache-ram ${cacheRamThatHolds} holds it there, and the agent passes it where llama-server knows it.`,
    ],
  }
}

/** At most as many as allowed, and no more than a prompt as long as the context has room for, with those near its end. */
function checkpointsOf({ checkpoints, checkpointStep, slots }: ServerArguments, cache: CacheSize): number {
  const nearTheEnd = 3
  const spaced = checkpointStep > 0 ? Math.ceil(cache.slotTokens / checkpointStep) + nearTheEnd : checkpoints
  return slots * Math.min(checkpoints, spaced) * cache.checkpointBytes
}
