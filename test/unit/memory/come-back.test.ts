import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  chooseComeBack,
  comeBackTimes,
  comeBackWaitMs,
  evictedOnceMore,
  type ComeBackQuestion,
  type EvictedService,
  type EvictionRecord,
} from '../../../src/agent-core/memory/eviction.ts'

const minute = 60_000

const evicted = (key: string, more: Partial<EvictedService> = {}): EvictedService => ({
  key,
  priority: 'normal',
  record: { evictions: 1, evictedAt: 0 },
  ...more,
})

const question = (services: readonly EvictedService[], more: Partial<ComeBackQuestion> = {}): ComeBackQuestion => ({
  evicted: services,
  level: 'normal',
  levelForMs: 2 * minute,
  ...more,
})

test('the wait doubles with every eviction in a row, from two minutes to an hour', () => {
  expect([0, 1, 2, 3, 4, 5, 6, 7, 50].map((evictions) => comeBackWaitMs(evictions) / minute)).toEqual([
    2, 2, 4, 8, 16, 32, 60, 60, 60,
  ])
})

test('evictions in a row are counted, until a service stayed for an hour', () => {
  const first = evictedOnceMore(undefined, 1_000)
  const soon = evictedOnceMore({ ...first, broughtBackAt: 2_000 }, 2_000 + comeBackTimes.stableMs - 1)
  const late = evictedOnceMore({ ...soon, broughtBackAt: 2_000 }, 2_000 + comeBackTimes.stableMs)
  expect([first, soon.evictions, late.evictions]).toEqual([{ evictions: 1, evictedAt: 1_000 }, 2, 1])
})

describe('an evicted service', () => {
  test.each<[string, ComeBackQuestion, ReturnType<typeof chooseComeBack>]>([
    ['nobody is out', question([]), undefined],
    [
      'pressure was normal for long enough',
      question([evicted('a')]),
      { bringBack: 'a', sentence: 'Memory pressure has been normal for 2 min, so a comes back.' },
    ],
    [
      'pressure was normal for too short a time',
      question([evicted('a')], { levelForMs: minute }),
      { wait: 'a comes back in 1 min if memory pressure stays normal.', inMs: minute },
    ],
    [
      'memory is still short',
      question([evicted('a', { record: { evictions: 3, evictedAt: 0 } })], {
        level: 'warning',
        levelForMs: 100 * minute,
      }),
      { wait: 'a comes back once memory pressure has been normal for 8 min.' },
    ],
    [
      'memory cannot be read',
      question([evicted('a')], { level: 'unknown', levelForMs: 100 * minute }),
      { wait: 'a comes back once memory pressure has been normal for 2 min.' },
    ],
    [
      'another one is coming back',
      question([evicted('a')], { comingBack: 'b' }),
      { wait: 'a comes back after b, one at a time.' },
    ],
    [
      'another one has just come back',
      question([evicted('a')], { sinceComeBackMs: 10_000 }),
      { wait: 'a comes back in 20 s if memory pressure stays normal.', inMs: 20_000 },
    ],
  ])('where %s', (_, asked, answer) => {
    expect(chooseComeBack(asked)).toEqual(answer)
  })

  test('comes back before less important ones, and before those that left later', () => {
    const [late, early] = [
      evicted('late', { record: { evictions: 1, evictedAt: 5 } }),
      evicted('early', { record: { evictions: 1, evictedAt: 3 } }),
    ]
    const low = evicted('low', { priority: 'low' })
    expect([chooseComeBack(question([low, late, early])), chooseComeBack(question([low, late]))]).toEqual([
      { bringBack: 'early', sentence: expect.stringMatching(/early/) as string },
      { bringBack: 'late', sentence: expect.stringMatching(/late/) as string },
    ])
  })

  test('that has to wait longer lets the others pass', () => {
    const flapping = evicted('flapping', { priority: 'high', record: { evictions: 4, evictedAt: 0 } })
    expect(chooseComeBack(question([flapping, evicted('calm')]))).toMatchObject({ bringBack: 'calm' })
  })
})

test('a model that does not fit in the long run is tried ever more rarely, at most 29 times a day', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10 * minute }), (staysMs) => {
      let record: EvictionRecord | undefined
      let tries = 0
      for (let now = 0; now < 24 * 60 * minute; tries++) {
        record = evictedOnceMore(record, now)
        const broughtBackAt = now + comeBackWaitMs(record.evictions)
        record = { ...record, broughtBackAt }
        now = broughtBackAt + staysMs
      }
      return tries <= 29
    }),
  )
})
