import { expect, test } from 'vitest'
import { renderFit } from '../../../src/cli/fit/fit-table.ts'

const items = { weights: 40e9, kv: 8e9, compute: 1e9, promptCache: 2e9, mmproj: 0, overhead: 0.2e9 }
const total = 51.2e9
const estimate = { items, total, notes: ['A note.'], contextTokens: 32_768, slots: 4, gpuBytes: 48e9 }
const budgetFrom = '60.0 GB (55.9 GiB): the setting'

test('what fits is stacked below the budget', () => {
  const answer = { items, total, budget: 60e9, available: 55e9, fits: true, waysToFit: [] }
  expect(renderFit(answer, { estimate, budgetFrom, unicode: true })).toBe(`32,768 tokens of context, 4 slots
Weights             40.0 GB  ████████████████████··········
KV cache             8.0 GB  ····················████······
Compute buffers      1.0 GB  ························█·····
Prompt cache         2.0 GB  ·························█····
Projector               0 B  ······························
Overhead             200 MB  ··························█···
Total               51.2 GB  ██████████████████████████····
Budget              60.0 GB  60.0 GB (55.9 GiB): the setting
Available now       55.0 GB
Of it on the GPU    48.0 GB

It fits.
A note.
`)
})

test('what does not fit fills the width, says by how much, and what would help, in ASCII where the terminal knows no more', () => {
  const waysToFit = [{ sentence: 'Use a context of 8192 tokens: needs 45.0 GB' }, { sentence: 'Quit Xcode' }]
  const answer = { items, total, budget: 48e9, available: 50e9, fits: false, waysToFit }
  const { gpuBytes: _, ...withoutGpu } = estimate
  const guessed = { ...withoutGpu, slots: 1, guess: 'The header could not be read.', notes: [] }
  expect(renderFit(answer, { estimate: guessed, budgetFrom, unicode: false })).toBe(`32,768 tokens of context, 1 slot
Weights             40.0 GB  #######################.......
KV cache             8.0 GB  .......................#####..
Compute buffers      1.0 GB  ............................#.
Prompt cache         2.0 GB  .............................#
Projector               0 B  ..............................
Overhead             200 MB  .............................#
Total               51.2 GB  ##############################
Budget              48.0 GB  60.0 GB (55.9 GiB): the setting
Available now       50.0 GB

It does not fit: it needs 3.2 GB more than the budget and 1.2 GB more than is available now. What would help:
  - Use a context of 8192 tokens: needs 45.0 GB.
  - Quit Xcode.
This is a guess. The header could not be read.
`)
})

test('where nothing helps, it says so', () => {
  const answer = { items, total, budget: 48e9, available: 60e9, fits: false, waysToFit: [] }
  expect(renderFit(answer, { estimate, budgetFrom, unicode: true })).toContain(
    'It does not fit: it needs 3.2 GB more than the budget. Nothing on this machine would make it fit.\n',
  )
})
