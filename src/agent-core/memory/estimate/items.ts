/** What a model server will hold, in bytes. */
export interface MemoryItems {
  readonly weights: number
  /** Keys and values of the attention layers, and the states of recurrent ones. */
  readonly kv: number
  readonly compute: number
  /** Host copies of prompts, and checkpoints of them. */
  readonly promptCache: number
  readonly mmproj: number
  /** Weights, cache, buffers and tables of a draft model; absent where there is none. */
  readonly draft?: number | undefined
  /** Adapters and control vectors; absent where there are none. */
  readonly adapters?: number | undefined
  readonly overhead: number
}

export interface Estimate {
  readonly items: MemoryItems
  readonly total: number
  /** Set where the header is missing or something had to be assumed: one sentence. */
  readonly guess?: string
  /** What a person should know about the numbers, one sentence each. */
  readonly notes: readonly string[]
  /** The part of the total that counts against the GPU's working set; absent where nothing is offloaded or that is unknown. */
  readonly gpuBytes?: number
  /** Tokens that all slots together can hold; absent where it is unknown. */
  readonly contextTokens?: number
  readonly slots?: number
  /** Set where the prompt cache may outgrow what is counted: with this `--cache-ram`, in MiB, it cannot. */
  readonly cacheRamThatHolds?: number
  /** Weights that are mapped from their files, so that some systems do not count them as the server's; absent = none. */
  readonly mappedBytes?: number
}

export const mebibyte = 1024 ** 2

/** The items with their sum. Throws RangeError where a header's numbers give none that a computer could hold. */
export function estimateOf(items: MemoryItems, rest: Omit<Estimate, 'items' | 'total'>): Estimate {
  const whole = {
    weights: Math.ceil(items.weights),
    kv: Math.ceil(items.kv),
    compute: Math.ceil(items.compute),
    promptCache: Math.ceil(items.promptCache),
    mmproj: Math.ceil(items.mmproj),
    ...(items.draft !== undefined && { draft: Math.ceil(items.draft) }),
    ...(items.adapters !== undefined && { adapters: Math.ceil(items.adapters) }),
    overhead: Math.ceil(items.overhead),
  }
  const total = Object.values(whole).reduce((sum, bytes) => sum + bytes, 0)
  if (!Number.isSafeInteger(total) || Object.values(whole).some((bytes) => bytes < 0)) {
    throw new RangeError('The header of the model is wrong: its numbers ask for more memory than any machine has.')
  }
  return { items: whole, total, ...rest }
}

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
