import { type CacheSize, microBatchOf } from './kv-cache.ts'
import type { ModelShape } from './model-shape.ts'
import type { ServerArguments } from './server-arguments.ts'

const float = 4
const half = 2

/**
 * What llama.cpp reserves for the largest graph, and for its outputs. Its allocator reuses what is free again, so the largest
 * stage decides: a stage's tensors of one micro-batch, besides the attention masks. How many of which width live at once was
 * measured with llama-server 11434 (`compute buffer size` in its log; test/agent/estimate.test.ts holds it against that).
 */
export function computeBytes(shape: ModelShape, server: ServerArguments, cache: CacheSize): number {
  const tokens = microBatchOf(server, cache.contextTokens)
  const outputs = server.embeds ? tokens : server.boundsOutputs ? Math.min(tokens, server.slots) : tokens
  const logits = outputs * shape.vocabulary * float
  const token = tokens * float
  const stages = [
    5 * token * shape.embedding + Math.max(feedForwardBytes(shape, token), logits),
    attentionBytes(shape, server, cache, tokens),
    recurrentBytes(shape, token),
  ]
  return maskBytes(shape, server, cache, tokens) + Math.max(...stages) + server.slots * shape.vocabulary * float
}

/**
 * Gate, up and their product. Experts answer one by one: the answers of all take the place of gate and up where those are wide
 * enough, else they need room of their own, unless even all three find room among what else is free.
 */
function feedForwardBytes({ feedForward, experts, embedding }: ModelShape, token: number): number {
  const dense = 3 * token * feedForward
  if (experts === undefined) return dense
  const width = experts.used * experts.feedForward
  const answers = experts.used * embedding
  if (width <= embedding) return token * answers
  return token * (3 * width + (2 * width < answers ? answers : 0))
}

/** Queries thrice (made, rotated, answered), keys and values; without flash attention also every head's scores of every cell. */
function attentionBytes(shape: ModelShape, server: ServerArguments, cache: CacheSize, tokens: number): number {
  const token = tokens * float
  const kv = Math.max(...shape.layers.map(({ keyElements }) => keyElements))
  if (server.flashAttention) return token * (3 * shape.queryElements + 2.5 * kv + 2 * shape.embedding)
  const cells = shape.layers.every(({ isWindowed }) => isWindowed) ? cache.cells.windowed : cache.cells.full
  return token * (3 * shape.queryElements + 2 * kv + 3 * shape.embedding) + token * shape.heads * cells
}

/** One for the layers that attend to everything and one for those with a window: a number for each token and cell. */
function maskBytes(
  { layers, hasCache }: ModelShape,
  server: ServerArguments,
  { cells }: CacheSize,
  tokens: number,
): number {
  const element = server.flashAttention ? half : float
  const attending = layers.filter(({ keyElements }) => keyElements > 0)
  if (!hasCache) return tokens * tokens * element
  const full = attending.some(({ isWindowed }) => !isWindowed) ? cells.full : 0
  const windowed = attending.some(({ isWindowed }) => isWindowed) ? cells.windowed : 0
  return tokens * (full + windowed) * element
}

/** Input, convolution and scan of a recurrent layer: an upper bound, not measured yet. */
const recurrentBytes = ({ recurrentElements, embedding }: ModelShape, token: number): number =>
  recurrentElements === 0 ? 0 : token * (8 * recurrentElements + 3 * embedding)
