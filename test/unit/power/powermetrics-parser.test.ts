import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { powermetricsReader } from '../../../src/agent-core/power/powermetrics.ts'
import { plausibleWatts, type PowerSample } from '../../../src/agent-core/power/power-source.ts'
import { preamble, printedSample, recorded, type Milliwatts } from '../../support/power/samples.ts'

const parsed = (...pieces: string[]): PowerSample[] => {
  const read = powermetricsReader()
  return pieces.flatMap((piece) => read(piece))
}

/** A sample is known to be whole when the next one begins. */
const next = printedSample({})
const oneOf = (sample: Milliwatts): PowerSample[] => parsed(preamble, printedSample(sample), next)

test('a sample counts when the next one begins, with the first figure of each label', () => {
  const first = printedSample(recorded)
  expect(parsed(preamble + first)).toEqual([])
  expect(parsed(preamble + first, next)).toEqual([{ cpu: 164, gpu: 7, ane: 0, combined: 171 }])
})

test('it makes no difference how the output is cut into pieces', () => {
  const text = [1, 2, 3].map((n) => printedSample({ cpu: n, gpu: n, ane: n, combined: 3 * n })).join('') + next
  const whole = parsed(text)
  expect(whole).toHaveLength(3)
  const cuts = fc.array(fc.nat({ max: text.length }), { maxLength: 30 })
  fc.assert(
    fc.property(cuts, (at) => {
      const ends = [0, ...at.toSorted((a, b) => a - b), text.length]
      expect(parsed(...ends.slice(1).map((end, index) => text.slice(ends[index], end)))).toEqual(whole)
    }),
  )
})

test('whatever is printed, nothing is thrown and each figure is a whole number', () => {
  const words = fc.constantFrom(
    '*** Sampled system activity',
    'CPU Power',
    'Combined Power',
    ': ',
    '7',
    ' mW',
    'nan',
    '\n',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(words, fc.string())), (pieces) => {
      for (const sample of parsed(...pieces)) expect(Object.values(sample).every(Number.isInteger)).toBe(true)
    }),
  )
})

test.each([
  ['macOS 13, without spaces in the sum', 'Combined Power (CPU+GPU+ANE)'],
  ['macOS 14 to 26', 'Combined Power (CPU + GPU + ANE)'],
  ['one that adds the parts of two dies', 'Combined Power (CPU + GPU + ANE, all dies)'],
])('the sum of %s is read', (_, label) => {
  const text = printedSample(recorded).replace('Combined Power (CPU + GPU + ANE)', label)
  expect(parsed(text + next)).toEqual([{ cpu: 164, gpu: 7, ane: 0, combined: 171 }])
})

test('a sample that was cut off in the middle takes no figure of the next one', () => {
  const cutOff = printedSample({ cpu: 9_000, gpu: 9_000, combined: 18_000 }).split('GPU Power')[0] ?? ''
  expect(parsed(cutOff, printedSample(recorded), next)).toEqual([{ cpu: 164, gpu: 7, ane: 0, combined: 171 }])
})

test('a line that is too long takes no other with it', () => {
  const text = printedSample(recorded).replace('\nCPU Power', `\n${'x'.repeat(200_000)}\nCPU Power`)
  expect(parsed(text + next)).toEqual([{ cpu: 164, gpu: 7, ane: 0, combined: 171 }])
})

describe('of a sample, what cannot be true is not reported', () => {
  test.each<[what: string, sample: Milliwatts, reported: ReturnType<typeof plausibleWatts>]>([
    ['an idle Mac', recorded, { combinedWatts: 0.171, cpuWatts: 0.164, gpuWatts: 0.007, aneWatts: 0 }],
    ['no CPU figure', { gpu: 8_000, combined: 9_000 }, { combinedWatts: 9, gpuWatts: 8 }],
    ['a CPU that is not a number', { cpu: 'nan', gpu: 8_000, combined: 9_000 }, { combinedWatts: 9, gpuWatts: 8 }],
    [
      'a CPU at 0 W, and a sum without it',
      { cpu: 0, gpu: 8_000, ane: 0, combined: 8_000 },
      { gpuWatts: 8, aneWatts: 0 },
    ],
    [
      'a CPU at 0 W beside a sum that has it',
      { cpu: 0, gpu: 8_000, combined: 12_000 },
      { combinedWatts: 12, gpuWatts: 8 },
    ],
    ['a GPU above the whole', { cpu: 900, gpu: 80_000, combined: 1_000 }, { combinedWatts: 1, cpuWatts: 0.9 }],
    [
      'parts that round above the whole',
      { cpu: 171, gpu: 1, combined: 170 },
      { combinedWatts: 0.17, cpuWatts: 0.171, gpuWatts: 0.001 },
    ],
    ['more than a socket gives', { cpu: 2_000_000, gpu: 5, combined: 2_000_005 }, { gpuWatts: 0.005 }],
    ['nothing at all', { cpu: 0, gpu: 0, ane: 0, combined: 0 }, { gpuWatts: 0, aneWatts: 0 }],
    [
      'parts that are above the whole by more than rounding',
      { cpu: 221, gpu: 220, combined: 170 },
      { combinedWatts: 0.17, gpuWatts: 0.22 },
    ],
  ])('%s', (_, sample, reported) => {
    expect(oneOf(sample).map(plausibleWatts)).toEqual([reported])
  })

  test('figures that round above what the system draws, and figures beyond that', () => {
    const drawn = (milliwatts: number) => plausibleWatts({ combined: milliwatts, cpu: milliwatts, system: 1_000 })
    expect([drawn(1_050), drawn(1_051)]).toEqual([{ combinedWatts: 1.05, cpuWatts: 1.05 }, {}])
  })
})
