import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { float32, writeGguf, writeLlamaGguf } from '../support/gguf-writer.ts'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metalbar-gguf-'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

test('a header is written byte for byte as GGUF version 3 lays it out', async () => {
  const file = join(folder, 'header.gguf')
  await writeGguf(file, { metadata: { n: 1, s: 'ab', f: float32(2), l: [true] }, tensors: [] })
  expect((await readFile(file)).toString('hex')).toBe(
    [
      ...['47475546', '03000000', '0000000000000000', '0400000000000000'],
      ...['0100000000000000', '6e', '04000000', '01000000'],
      ...['0100000000000000', '73', '08000000', '0200000000000000', '6162'],
      ...['0100000000000000', '66', '06000000', '00000040'],
      ...['0100000000000000', '6c', '09000000', '07000000', '0100000000000000', '01'],
      '00'.repeat(21),
    ].join(''),
  )
})

test('the same seed writes the same weights and another seed writes others', async () => {
  const [first, again, other] = await Promise.all(
    [1, 1, 2].map(async (seed, index) => {
      const file = join(folder, `seed-${index}.gguf`)
      await writeLlamaGguf(file, { seed })
      return readFile(file, 'base64')
    }),
  )
  expect([first === again, first === other]).toEqual([true, false])
})

test('a model of tens of gigabytes can be written as a hole of that length', async () => {
  const file = join(folder, 'large.gguf')
  const large = { blocks: 32, embedding: 4096, heads: 32, kvHeads: 8, feedForward: 14_336, vocabulary: 128_256 }
  await writeLlamaGguf(file, { ...large, weights: 'hole' })
  const { size, blocks } = await stat(file)
  const weights = 2 * 128_256 * 4096 + 4096 + 32 * (2 * 4096 + 2 * 4096 ** 2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)
  const header = size - weights * 4
  expect({ headerFits: header > 0 && header < 8e6, onDisk: blocks * 512 < 2 * header }).toEqual({
    headerFits: true,
    onDisk: true,
  })
})
