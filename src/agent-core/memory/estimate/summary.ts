import { formatBytes, formatTokens } from '../../../contract/format.ts'
import type { Estimate, MemoryItems } from './items.ts'

/** How each item is called, in the order in which they are shown. */
export const itemNames: Readonly<Record<keyof MemoryItems, string>> = {
  weights: 'weights',
  kv: 'KV cache',
  compute: 'compute buffers',
  promptCache: 'prompt cache',
  mmproj: 'projector',
  draft: 'draft model',
  adapters: 'adapters',
  overhead: 'overhead',
}

/** `needs 44.1 GB: weights 40.1 GB, KV cache 2.5 GB at 32,768 tokens, …`; what is empty is left out. */
export function summarise({ items, total, contextTokens, guess }: Estimate): string {
  const parts = (Object.keys(itemNames) as (keyof MemoryItems)[]).flatMap((item) => {
    const { [item]: bytes = 0 } = items
    if (bytes === 0) return []
    const tokens = item === 'kv' && contextTokens !== undefined ? ` at ${formatTokens(contextTokens)}` : ''
    return [`${itemNames[item]} ${formatBytes(bytes)}${tokens}`]
  })
  return `needs ${formatBytes(total)}${guess === undefined ? '' : ' (a guess)'}: ${parts.join(', ')}`
}
