import { describe, expect, test } from 'vitest'
import { decideFit } from '../../../src/agent-core/api/fit.ts'
import { refKey } from '../../../src/agent-core/util/object-key.ts'
import { renderFit, type FitDetails } from '../../../src/cli/fit.ts'
import type { HolderView } from '../../../src/contract/memory.ts'

const items = { weights: 40e9, kv: 8e9, compute: 1e9, promptCache: 2e9, mmproj: 0, overhead: 0.2e9 }
const total = 51.2e9
const estimate = { items, total, notes: ['A note.'], contextTokens: 32_768, slots: 4, gpuBytes: 48e9 }
const machine: FitDetails['machine'] = {
  budgetHow: '60.0 GB (55.9 GiB): the setting',
  fromMessage: 'Sized somehow.',
  pressure: 'normal',
  waiting: [],
}

interface Circumstances {
  readonly budget: number
  readonly available: number
  readonly holders?: readonly HolderView[]
  readonly waysToFit?: readonly { readonly sentence: string }[]
}

function rendered(
  { budget, available, holders = [], waysToFit = [] }: Circumstances,
  details: Partial<FitDetails> = {},
): string {
  const decision = decideFit(total, { budgetBytes: budget, availableBytes: available, holders: [...holders] })
  const held = holders.map((holder) => ({ service: refKey(holder), bytes: holder.committedBytes }))
  const promised = holders.reduce((sum, { promisedBytes }) => sum + promisedBytes, 0)
  const fits = decision.kind === 'fits'
  const answer = { items, total, budget, available, from: 'agent' as const, held, promised, fits, waysToFit }
  return renderFit(answer, { estimate, decision, machine, unicode: true, ...details })
}

const verdictOf = (text: string): string => text.split('\n\n')[1]?.split('\n')[0] ?? ''

const holding = (name: string, gigabytes: number, changed: Partial<HolderView> = {}): HolderView => ({
  namespace: 'default',
  name,
  priority: 'normal',
  committedBytes: gigabytes * 1e9,
  residentBytes: gigabytes * 1e9,
  promisedBytes: 0,
  ...changed,
})

test('what fits is stacked below the budget', () => {
  expect(rendered({ budget: 60e9, available: 55e9 })).toBe(`32,768 tokens of context, 4 slots
Weights             40.0 GB  ████████████████████··········
KV cache             8.0 GB  ····················████······
Compute buffers      1.0 GB  ························█·····
Prompt cache         2.0 GB  ·························█····
Projector               0 B  ······························
Overhead             200 MB  ··························█···
Total               51.2 GB  ██████████████████████████····
Budget              60.0 GB  60.0 GB (55.9 GiB): the setting
Available now       55.0 GB
  of it on the GPU  48.0 GB

It fits.
A note.
Sized somehow.
`)
})

test('what does not fit fills the width, says by how much, and what would help, in ASCII where the terminal knows no more', () => {
  const waysToFit = [{ sentence: 'Use a context of 8192 tokens: needs 45.0 GB' }, { sentence: 'Quit Xcode' }]
  const { gpuBytes: _, ...withoutGpu } = estimate
  const guessed = { ...withoutGpu, slots: 1, guess: 'The header could not be read.', notes: [] }
  expect(rendered({ budget: 48e9, available: 50e9, waysToFit }, { estimate: guessed, unicode: false }))
    .toBe(`32,768 tokens of context, 1 slot
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
This estimate is a guess. The header could not be read.
Sized somehow.
`)
})

describe('beside what runs', () => {
  const small = holding('small', 4)
  const large = holding('large', 12)

  test('what others hold and will take is told with their names', () => {
    const starting = holding('new', 6, { residentBytes: 1e9, promisedBytes: 5e9 })
    expect(
      rendered({ budget: 80e9, available: 70e9, holders: [large, starting] })
        .split('\n')
        .slice(8, 14),
    ).toEqual([
      'Budget              80.0 GB  60.0 GB (55.9 GiB): the setting',
      'Held by servers     18.0 GB  default/large 12.0 GB, default/new 6.0 GB',
      'Available now       70.0 GB',
      '  of it promised     5.0 GB  to servers that start',
      '  of it on the GPU  48.0 GB',
      '',
    ])
  })

  const waysToFit = [{ sentence: 'Quit Xcode' }]
  test.each<[string, Circumstances, string]>([
    [
      'there is room for it too',
      { budget: 67.2e9, available: 51.2e9, holders: [large, small] },
      'It fits beside what runs.',
    ],
    [
      'the fewest are named, of those the smallest that frees enough',
      { budget: 64e9, available: 60e9, holders: [large, small] },
      'It does not fit beside what runs: it needs 3.2 GB more than the budget has left. It fits when default/small is stopped, which frees 4.0 GB.',
    ],
    [
      'a lower priority is named before a smaller server',
      { budget: 64e9, available: 60e9, holders: [{ ...large, priority: 'low' }, small] },
      'It does not fit beside what runs: it needs 3.2 GB more than the budget has left. It fits when default/large is stopped, which frees 12.0 GB.',
    ],
    [
      'where all of them have to go it fits alone',
      { budget: 52e9, available: 40e9, holders: [large, small], waysToFit },
      'It does not fit beside what runs: it needs 15.2 GB more than the budget has left and 11.2 GB more than is available now. It fits alone, when default/large and default/small are stopped, which frees 16.0 GB. What else would help:',
    ],
    [
      'what was promised to a server that starts is not available',
      { budget: 90e9, available: 54e9, holders: [holding('new', 4, { residentBytes: 0, promisedBytes: 4e9 })] },
      'It does not fit beside what runs: it needs 1.2 GB more than is available now. It fits alone, when default/new is stopped, which frees 4.0 GB.',
    ],
    [
      'a server that nobody measured gives nothing back for certain',
      { budget: 90e9, available: 50e9, holders: [{ ...small, residentBytes: 0 }] },
      'It does not fit, even with every model stopped: it would still need 1.2 GB more than would be available. Nothing on this machine would make it fit.',
    ],
    [
      'more than the whole budget fits beside nothing and not alone',
      { budget: 50e9, available: 90e9, holders: [large], waysToFit },
      'It does not fit, even with every model stopped: it would still need 1.2 GB more than the budget. What would help:',
    ],
  ])('%s', (_, circumstances, verdict) => {
    expect(verdictOf(rendered(circumstances))).toBe(verdict)
  })

  test('what keeps it waiting although it fits is said as well', () => {
    const held: FitDetails['machine'] = { ...machine, pressure: 'critical', waiting: ['default/a', 'default/b'] }
    const text = rendered({ budget: 90e9, available: 90e9, holders: [large] }, { machine: held })
    expect(text.split('\n\n')[1]?.split('\n')).toEqual([
      'It fits beside what runs.',
      'Memory pressure is critical: nothing new is started until it has passed.',
      'default/a and default/b are already waiting for memory: it goes by priority, then by age.',
      'A note.',
      'Sized somehow.',
      '',
    ])
  })
})

test('where nothing helps, it says so', () => {
  expect(rendered({ budget: 48e9, available: 60e9 })).toContain(
    'It does not fit: it needs 3.2 GB more than the budget. Nothing on this machine would make it fit.\n',
  )
})

test('the name of an application neither writes a line of its own nor steers the terminal', () => {
  const sentence = 'quit \u001b[H\u001b[2J\u001b[3JEvil\n\u202eIt fits.'
  const lines = rendered({ budget: 48e9, available: 55e9, waysToFit: [{ sentence }] }).split('\n')
  expect(lines).toContain('  • quit  [H [2J [3JEvil It fits..')
})

test('services that share one memory are stopped together, and what that frees is told once', () => {
  const shared = { name: 'tag', keys: ['default/a', 'default/b'] }
  const holders = [holding('a', 20, { shared }), holding('b', 20, { shared }), holding('c', 5)]
  const told = verdictOf(rendered({ budget: 60e9, available: 40e9, holders }))
  expect(told).toMatch(/It fits when default\/a and default\/b are stopped, which frees 20\.0 GB\./)
})
