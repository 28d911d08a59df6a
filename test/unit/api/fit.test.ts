import { expect, test } from 'vitest'
import { estimator, fitted, sizedLook } from '../../../src/agent-core/api/fit.ts'
import { readGgufHeader } from '../../../src/agent-core/models/gguf/file-header.ts'
import type { GgufHeader } from '../../../src/agent-core/models/gguf/gguf.ts'
import { lookHere } from '../../../src/agent-core/models/look.ts'
import type { HolderView } from '../../../src/contract/memory.ts'
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

const holding = (name: string, committedBytes: number, changed: Partial<HolderView> = {}): HolderView => ({
  ...{ namespace: 'default', name, priority: 'normal' },
  ...{ committedBytes, residentBytes: committedBytes, promisedBytes: 0 },
  ...changed,
})
const small = holding('small', 4e9)
const large = holding('large', 12e9)
const shared = { name: 'tag', keys: ['default/a', 'default/b'] }

/** Figures in bytes beyond what the model needs. */
interface Circumstances {
  readonly budget: number
  readonly available: number
  readonly holders: HolderView[]
}

test.each<[string, Circumstances, string[] | string]>([
  ['there is room for it too', { budget: 16e9, available: 0, holders: [large, small] }, 'fits'],
  [
    'the fewest leave, of those the smallest that frees enough',
    { budget: 13e9, available: 9e9, holders: [large, small] },
    ['small'],
  ],
  [
    'a lower priority leaves before a smaller server',
    { budget: 13e9, available: 9e9, holders: [{ ...large, priority: 'low' }, small] },
    ['large'],
  ],
  [
    'where all of them have to go it fits alone',
    { budget: 1e9, available: -11e9, holders: [large, small] },
    ['large', 'small'],
  ],
  [
    'what was promised to a server that starts is not available',
    { budget: 39e9, available: 3e9, holders: [holding('new', 4e9, { residentBytes: 0, promisedBytes: 4e9 })] },
    ['new'],
  ],
  [
    'a server that nobody measured gives nothing back for certain',
    { budget: 39e9, available: -1e9, holders: [{ ...small, residentBytes: 0 }] },
    'doesNotFit',
  ],
  [
    'services that share one memory leave together',
    { budget: 9e9, available: -1e9, holders: [holding('a', 20e9, { shared }), holding('b', 20e9, { shared })] },
    ['a', 'b'],
  ],
])('beside what runs: %s', async (_, { budget, available, holders }, expected) => {
  await using folder = await temporaryFolder()
  await writeLlamaGguf(`${folder.dir}/tiny.gguf`)
  const look = sizedLook(await lookHere(`${folder.dir}/tiny.gguf`, readGgufHeader))
  const { total } = estimator({ kind: 'gguf', ...look }, {}, host)({})
  const machine = {
    ...{ platform: 'darwin' as const, totalBytes: 64e9, metal: true, pressure: 'normal' as const },
    ...{ budgetBytes: total + budget, availableBytes: total + available, holders, waiting: [], applications: [] },
  }
  const { verdict, unload } = fitted({ kind: 'gguf', ...look }, {}, { machine, dialect: undefined })
  expect(verdict === 'afterUnloading' ? unload.map(({ name }) => name) : verdict).toEqual(expected)
})
