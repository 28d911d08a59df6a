import { expect, test } from 'vitest'
import { computeBytes } from '../../../../src/agent-core/memory/estimate/llama-server.ts'
import { cacheSize } from '../../../../src/agent-core/memory/estimate/kv-cache.ts'
import { shapeOf } from '../../../../src/agent-core/memory/estimate/model-shape.ts'
import { serverArguments } from '../../../../src/agent-core/memory/estimate/server-arguments.ts'
import { headerWith } from '../../../support/memory/header.ts'

const embedding = 1024
const heads = 8
const keys = { block_count: 2, embedding_length: embedding, context_length: 131_072, 'attention.head_count': heads }
/** Of a micro-batch, and the bytes that one number takes for each of them. */
const tokens = 512
const token = tokens * 4

function compute(argv: readonly string[], more: Parameters<typeof headerWith>[1] = {}, architecture = 'llama'): number {
  const shape = shapeOf(headerWith(architecture, { ...keys, ...more }))
  if (shape === undefined) throw new Error('The header is incomplete.')
  const server = serverArguments(['-np', '1', ...argv])
  return computeBytes(shape, server, cacheSize(shape, server))
}

test('a cell costs every token two bytes of mask with flash attention, four without it, and then a score of each head', () => {
  const perCell = (...argv: string[]) =>
    (compute(['-c', '65536', ...argv]) - compute(['-c', '32768', ...argv])) / 32_768
  expect([perCell('-fa', 'on'), perCell('-fa', 'off')]).toEqual([tokens * 2, tokens * (4 + 4 * heads)])
})

test('layers with a window have a mask of their own', () => {
  const withWindow = (window: number) =>
    compute(['-c', '8192'], { block_count: 7, 'attention.sliding_window': window }, 'gemma3')
  expect(withWindow(1024) - withWindow(0)).toBe(tokens * (1024 + tokens) * 2)
})

test('an encoder, which keeps nothing, masks the batch alone', () => {
  const perToken = (argv: readonly string[]) => compute(['-c', '8192', ...argv], {}, 'bert') / tokens
  expect(perToken(['-c', '65536'])).toBe(perToken([]))
})

/** In numbers for each token, besides what every model has. */
function feedForward(more: Parameters<typeof headerWith>[1]): number {
  const cells = 8192
  return (compute(['-c', String(cells)], more) - tokens * cells * 2 - 1000 * 4) / token - 5 * embedding
}

const mixture = (width: number) => ({ expert_used_count: 8, expert_feed_forward_length: width })
const answers = 8 * embedding

test.each([
  ['gate, up and their product', { feed_forward_length: 4096 }, 3 * 4096],
  ['of narrow experts their answers alone', mixture(128), answers],
  ['of wider ones the answers besides', mixture(256), 3 * 8 * 256 + answers],
  ['of still wider ones answers that take the place of gate and up', mixture(512), 3 * 8 * 512],
])('a layer that feeds forward takes %s', (_, more, numbers) => {
  expect(feedForward(more)).toBe(numbers)
})
