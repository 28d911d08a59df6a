import { formatBytes, formatTokens } from '../../../contract/format.ts'
import type { Estimate, MemoryItems } from './items.ts'

/** How each item is called, in the order in which they are shown. */
export const itemNames: Readonly<Record<keyof MemoryItems, string>> = {
  weights: 'weights',
  kv: 'KV cache',
  compute: 'compute buffers',
  promptCache: 'prompt cache',
  mmproj: 'projector',
  overhead: 'overhead',
}

/** `needs 44.1 GB: weights 40.1 GB, KV cache 2.5 GB at 32,768 tokens, …`; what is empty is left out. */
export function summarise({ items, total, contextTokens, guess }: Estimate): string {
  const parts = (Object.keys(itemNames) as (keyof MemoryItems)[])
    .filter((item) => items[item] > 0)
    .map((item) => {
      const tokens = item === 'kv' && contextTokens !== undefined ? ` at ${formatTokens(contextTokens)}` : ''
      return `${itemNames[item]} ${formatBytes(items[item])}${tokens}`
    })
  return `needs ${formatBytes(total)}${guess === undefined ? '' : ' (a guess)'}: ${parts.join(', ')}`
}
