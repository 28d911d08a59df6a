import { expect, test } from 'vitest'
import { renderFit } from '../../../src/cli/fit.ts'
import type { FittedModelView } from '../../../src/contract/fit.ts'

const view: Omit<FittedModelView, 'kind' | 'source' | 'files'> = {
  items: { weights: 40e9, kv: 8e9, compute: 1e9, promptCache: 2e9, mmproj: 0, overhead: 0.2e9 },
  totalBytes: 51.2e9,
  sizeBytes: 40e9,
  isStored: true,
  contextSize: 32_768,
  slots: 4,
  verdict: 'fits',
  message: 'It fits: it needs 51.2 GB.',
  notes: ['A note.'],
  unload: [],
  ways: [],
  contexts: [],
  room: { budgetBytes: 60e9, committedBytes: 0, availableBytes: 55e9 },
}
const fromMessage = 'Sized somehow.'

test('what fits is stacked below the budget', () => {
  expect(renderFit({ view, fromMessage }, true)).toBe(`32,768 tokens of context, 4 slots
Weights             40.0 GB  ████████████████████··········
KV cache             8.0 GB  ····················████······
Compute buffers      1.0 GB  ························█·····
Prompt cache         2.0 GB  ·························█····
Projector               0 B  ······························
Overhead             200 MB  ··························█···
Total               51.2 GB  ██████████████████████████····
Budget              60.0 GB
Available now       55.0 GB

It fits: it needs 51.2 GB.
A note.
Sized somehow.
`)
})

test('what does not fit fills the width, says what would help, in ASCII where the terminal knows no more', () => {
  const misfit: typeof view = {
    ...view,
    ...{ slots: 1, notes: [], verdict: 'afterUnloading', message: 'It fits when default/a leaves memory.' },
    guess: 'The header could not be read.',
    ways: [
      { kind: 'change', sentence: 'Use a context of 8192 tokens: needs 45.0 GB' },
      { kind: 'quit', sentence: 'Quit Xcode' },
    ],
    room: { budgetBytes: 48e9, committedBytes: 12e9, availableBytes: 50e9 },
  }
  expect(renderFit({ view: misfit, fromMessage }, false)).toBe(`32,768 tokens of context, 1 slot
Weights             40.0 GB  #######################.......
KV cache             8.0 GB  .......................#####..
Compute buffers      1.0 GB  ............................#.
Prompt cache         2.0 GB  .............................#
Projector               0 B  ..............................
Overhead             200 MB  .............................#
Total               51.2 GB  ##############################
Budget              48.0 GB
Held by servers     12.0 GB
Available now       50.0 GB

It fits when default/a leaves memory.
  - Use a context of 8192 tokens: needs 45.0 GB.
  - Quit Xcode.
This estimate is a guess. The header could not be read.
Sized somehow.
`)
})

test('the name of an application neither writes a line of its own nor steers the terminal', () => {
  const sentence = 'quit \u001b[H\u001b[2J\u001b[3JEvil\n\u202eIt fits.'
  const evil: typeof view = { ...view, verdict: 'doesNotFit', ways: [{ kind: 'quit', sentence }] }
  expect(renderFit({ view: evil, fromMessage }, true).split('\n')).toContain('  • quit  [H [2J [3JEvil It fits..')
})
