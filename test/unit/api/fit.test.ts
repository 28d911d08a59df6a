import { expect, test } from 'vitest'
import { estimator, sizedLook } from '../../../src/agent-core/api/fit.ts'
import { readGgufHeader } from '../../../src/agent-core/models/gguf/file-header.ts'
import type { GgufHeader } from '../../../src/agent-core/models/gguf/gguf.ts'
import { lookHere } from '../../../src/agent-core/models/look.ts'
import { writeLlamaGguf, writeLlamaShards } from '../../support/gguf-writer.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const host = { metal: true, dialect: undefined }

test.each([
  [
    'one file',
    (folder: string) => writeLlamaGguf(`${folder}/tiny.gguf`, { blocks: 12 }).then(() => `${folder}/tiny.gguf`),
  ],
  ['three files', async (folder: string) => (await writeLlamaShards(`${folder}/split`, 3, { blocks: 12 }))[0] ?? ''],
])('the estimate of %s is the same without its single tensors', async (_, write) => {
  await using folder = await temporaryFolder()
  const look = await lookHere(await write(folder.dir), readGgufHeader)
  const sized = sizedLook(look)
  for (const contextTokens of [512, 4_096]) {
    const of = (model: typeof look | typeof sized) => estimator({ kind: 'gguf', ...model }, { contextTokens }, host)({})
    expect(of(sized)).toEqual(of(look))
  }
  // The input, its norm with the output's, the output and each block.
  expect([sized.header, ...sized.shards].flatMap(({ tensors }) => tensors.map(({ name }) => name)).length).toBeLessThan(
    20,
  )
  expect(sized.parameters).toBeGreaterThan(0)
})

test('however many tensors there are, each is looked at once for all estimates', async () => {
  await using folder = await temporaryFolder()
  await writeLlamaGguf(`${folder.dir}/tiny.gguf`)
  const look = await lookHere(`${folder.dir}/tiny.gguf`, readGgufHeader)
  let reads = 0
  const counted = (index: number): GgufHeader['tensors'][number] => ({
    dimensions: [32],
    type: 'F32',
    bytes: 128,
    get name() {
      reads += 1
      return `blk.${index}.attn_q.weight`
    },
  })
  const shards = Array.from({ length: 100 }, (_, shard) => ({
    ...look.header,
    tensors: Array.from({ length: 100 }, (_, index) => counted(100 * shard + index)),
  }))
  const estimateWith = estimator({ kind: 'gguf', ...sizedLook({ ...look, shards }) }, {}, host)
  for (let contextTokens = 512; contextTokens <= 24_576; contextTokens += 512) estimateWith({ contextTokens })
  expect(reads).toBe(10_000)
})
