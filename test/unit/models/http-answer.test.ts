import { expect, test } from 'vitest'
import { truncated } from '../../../src/agent-core/models/http-answer.ts'

test.each<[what: string, done: number, total: number | undefined, extent: string]>([
  ['a large file', 5_000_000, 16_334_880, '5.0 MB of 16.3 MB'],
  ['a large file of which little is missing', 16_334_879, 16_334_880, '16334879 of 16334880 bytes'],
  ['a small file', 3_000, 5_000, '3000 of 5000 bytes'],
  ['a file of unknown length', 3_000, undefined, '3000 bytes'],
])('how much arrived of %s is said as far as it says something', (_, done, total, extent) => {
  expect(truncated('x.gguf', done, total).message).toBe(
    `The download of x.gguf ended after ${extent}: the agent tries again.`,
  )
})
