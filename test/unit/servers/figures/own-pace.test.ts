import { expect, test } from 'vitest'
import { OwnPace, type Observation } from '../../../../src/agent-core/servers/figures/own-pace.ts'

const everyMs = 20_000

/** Requests of one server, 20 s apart, each with its tokens per second. */
const paced = (rates: readonly number[], changes: Partial<Observation> = {}): Observation[] =>
  rates.map((perSecond, index) => ({
    at: index * everyMs,
    digest: 'served',
    contextTokens: 500,
    generatedTokens: 100,
    seconds: 100 / perSecond,
    ...changes,
  }))

const steady = Array.from({ length: 12 }, () => 50)
const fiveAt = (rate: number): number[] => Array.from({ length: 5 }, () => rate)
const after = (observations: readonly Observation[], at = observations.at(-1)?.at ?? 0) => {
  const pace = new OwnPace()
  for (const observation of observations) pace.add(observation)
  return pace.slowness('served', at)
}

test.each<[string, Observation[], { perSecond: number; usual: number } | undefined]>([
  ['at its own pace', paced(steady), undefined],
  ['30 % below it, five times', paced([...steady, ...fiveAt(35)]), { perSecond: 35, usual: 50 }],
  ['29 % below it', paced([...steady, ...fiveAt(35.5)]), undefined],
  ['slow twice in five times', paced([...steady, 50, 20, 50, 20, 50]), undefined],
  ['slow three times in five', paced([...steady, 50, 20, 50, 20, 20]), { perSecond: 20, usual: 50 }],
  ['slow from its first request on', paced([...fiveAt(20), ...fiveAt(20), ...fiveAt(20)]), undefined],
  ['with too little before to compare', paced([50, 50, 50, 50, ...fiveAt(20)]), undefined],
  [
    'slow, but for other lengths of context',
    [...paced(steady, { contextTokens: 1_024 }), ...paced(fiveAt(20), { contextTokens: 1_025, at: 1e6 })],
    undefined,
  ],
  ['slow, but with other flags', [...paced(steady, { digest: 'other' }), ...paced(fiveAt(20))], undefined],
  ['slow in answers that are too short', paced([...steady, ...fiveAt(20)], { generatedTokens: 63 }), undefined],
  [
    'slow for less than a minute',
    [...paced(steady), ...paced(fiveAt(20)).map((one, index) => ({ ...one, at: 12 * everyMs + index * 2_000 }))],
    undefined,
  ],
  ['slow, and then as before', paced([...steady, ...fiveAt(20), ...fiveAt(50)]), undefined],
])('a server %s', (_, observations, slowness) => {
  expect(after(observations)).toEqual(slowness)
})

test('what is slow for hours stays slow: its own slowness does not become what is usual', () => {
  expect(after(paced([...steady, ...Array.from({ length: 500 }, () => 20)]))).toEqual({ perSecond: 20, usual: 50 })
})

test('many requests a second are judged by the last minute', () => {
  const requests = Array.from({ length: 400 }, (_, index) => paced([index < 300 ? 50 : 20], { at: 0 }))
  const timed = requests.flat().map((one, index) => ({ ...one, at: index * 500 }))
  expect([after(timed.slice(0, 355)), after(timed)]).toEqual([undefined, { perSecond: 20, usual: 50 }])
})

test('ten minutes after the last request nothing is said about now', () => {
  const slow = paced([...steady, ...fiveAt(20)])
  const last = slow.at(-1)?.at ?? 0
  expect([after(slow, last + 600_000)?.perSecond, after(slow, last + 600_001)]).toEqual([20, undefined])
})
