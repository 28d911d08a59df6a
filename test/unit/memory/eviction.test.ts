import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  chooseEviction,
  comparePriorities,
  evictionRules,
  grownBytes,
  nextToGo,
  type EvictionQuestion,
  type LoadedModel,
} from '../../../src/agent-core/memory/eviction.ts'
import type { Priority } from '../../../src/agent-core/memory/room.ts'

const gb = 1_000_000_000
const minute = 60_000

const model = (key: string, more: Partial<LoadedModel> = {}): LoadedModel => ({
  key,
  priority: 'normal',
  isProtected: false,
  isReady: true,
  isStopping: false,
  canBeEvicted: true,
  idleForMs: 12 * minute,
  heldBytes: 20 * gb,
  ...more,
})

/** A server whose requests were not asked for. */
const unknown = (key: string, more: Partial<LoadedModel> = {}): LoadedModel => {
  const { idleForMs: _, ...rest } = model(key, more)
  return rest
}

const busy = (key: string, more: Partial<LoadedModel> = {}): LoadedModel => ({ ...unknown(key, more), isBusy: true })

const question = (models: readonly LoadedModel[], more: Partial<EvictionQuestion> = {}): EvictionQuestion => ({
  models,
  level: 'critical',
  levelForMs: minute,
  isEnabled: true,
  totalBytes: 64 * gb,
  sampleAgeMs: 0,
  ...more,
})

const [a, b] = [model('team/a'), model('team/b')]

describe('a model that has grown', () => {
  const grown = model('team/grown', {
    ...{ priority: 'critical', isBusy: true, heldBytes: 9 * gb, grownBytes: 5 * gb },
  })

  test('leaves memory before all that keep to what they were admitted with, whatever its priority', () => {
    const most = { ...grown, key: 'team/most', grownBytes: 6 * gb }
    const first = (...models: LoadedModel[]) => chooseEviction(question([a, b, ...models]))
    expect(first(grown)).toEqual({
      evict: ['team/grown'],
      sentence:
        'team/grown leaves memory first, because it has taken 5.0 GB more than it was admitted with, has critical priority, is busy, has 9.0 GB.',
    })
    expect(first(grown, most)).toMatchObject({ evict: ['team/most'] })
  })

  test('leaves memory although it is protected, but after all that are not', () => {
    const order = (...models: LoadedModel[]) => chooseEviction(question(models, { share: 0 }))
    const kept = { ...grown, isProtected: true }
    expect(order(kept, { ...a, priority: 'critical' })).toMatchObject({ evict: ['team/a'] })
    expect(order(kept, { ...a, isProtected: true })).toMatchObject({ evict: ['team/grown'] })
  })

  test('has taken more than an estimate may be wrong by', () => {
    const gib = 1024 ** 3
    const past = (needBytes: number, excessBytes: number) => grownBytes({ needBytes, excessBytes })
    expect([past(4 * gib, gib), past(4 * gib, gib + 1)]).toEqual([0, gib + 1])
    expect([past(20 * gib, 3 * gib), past(20 * gib, 3 * gib + 1)]).toEqual([0, 3 * gib + 1])
    expect(grownBytes({ excessBytes: 9 * gib })).toBe(0)
  })
})

describe('nothing is evicted', () => {
  test.each<[string, string, EvictionQuestion]>([
    ['not_critical', 'Memory is not critically short, so nothing is evicted.', question([a, b], { level: 'warning' })],
    ['not_critical', 'Memory cannot be read, so nothing is evicted.', question([a, b], { level: 'unknown' })],
    [
      'disabled',
      'Eviction is switched off: switch it on with --eviction-enabled, or evict a model yourself.',
      question([a, b], { isEnabled: false }),
    ],
    [
      'draining',
      'team/a is leaving memory; the next check decides whether that is enough.',
      question([model('team/a', { isStopping: true }), b, model('team/c')]),
    ],
    [
      'cooling_down',
      'Memory has only just become critically short; the next check decides.',
      question([a, b], { levelForMs: evictionRules.settleMs - 1 }),
    ],
    [
      'cooling_down',
      'A model left memory 5 s ago; memory is measured again first.',
      question([a, b], { sinceEvictionMs: 5_000 }),
    ],
    [
      'cooling_down',
      'A model left memory 1 min ago; memory is measured again first.',
      question([a, b], { sinceEvictionMs: minute, sampleAgeMs: minute }),
    ],
    ['empty', 'There is no model in memory that could be evicted.', question([])],
    [
      'below_guard',
      'The models here take 32.0 GB of 64.0 GB (50 %), which is not more than 50 %, so the cause is something else: quit other applications.',
      question([model('team/a', { heldBytes: 12 * gb }), b]),
    ],
    ['floor', 'The last model in memory is never evicted.', question([model('team/a', { heldBytes: 60 * gb })])],
    [
      'floor',
      'The last model that serves is never evicted.',
      question([a, model('team/b', { isReady: false, isProtected: true })]),
    ],
    [
      'runtime_ineligible',
      'No model in memory can be evicted: its server cannot be ended, or would keep the memory for other models.',
      question([a, b].map((one) => ({ ...one, canBeEvicted: false }))),
    ],
    [
      'all_protected',
      'Every model that could be evicted is protected: remove the protection from one of them.',
      question([
        { ...a, isProtected: true },
        { ...b, canBeEvicted: false },
      ]),
    ],
  ])('%s: %s', (skip, sentence, asked) => {
    expect(chooseEviction(asked)).toEqual({ skip, sentence })
  })
})

describe('who goes first', () => {
  const first = (...models: LoadedModel[]) => {
    const choice = chooseEviction(question(models, { share: 0 }))
    return 'evict' in choice ? choice.evict.join() : choice.skip
  }

  test('the lowest priority, even where it is busy and small', () => {
    expect(first(model('big'), model('low', { priority: 'low', heldBytes: gb, idleForMs: 0 }))).toBe('low')
  })

  test('of one priority the idle before the busy, even where it is small', () => {
    expect(first(model('busy', { idleForMs: minute - 1 }), model('idle', { idleForMs: minute, heldBytes: gb }))).toBe(
      'idle',
    )
    expect(first(busy('answering'), model('idle', { heldBytes: gb }))).toBe('idle')
  })

  test('of those that are not idle one that answers a request last, even where it is the largest', () => {
    const small = { heldBytes: gb }
    expect(first(busy('answering'), model('just now', { ...small, idleForMs: 0 }))).toBe('just now')
    expect(first(busy('answering'), unknown('untold', small))).toBe('untold')
    expect(first(busy('answering'), busy('low', { ...small, priority: 'low' }))).toBe('low')
  })

  test('what does not serve yet counts as idle', () => {
    expect(first(model('busy', { idleForMs: 0 }), unknown('starting', { isReady: false }))).toBe('starting')
  })

  test('of equals the largest, by measured footprint, then by name', () => {
    expect(first(model('small', { heldBytes: gb }), model('large'), model('middle', { heldBytes: 2 * gb }))).toBe(
      'large',
    )
    expect([first(b, a), first(a, b)]).toEqual(['team/a', 'team/a'])
  })

  test('never a protected one, nor one whose memory would stay', () => {
    expect(
      first(
        model('protected', { priority: 'batch', isProtected: true }),
        model('shared', { priority: 'batch', canBeEvicted: false }),
        model('other', { priority: 'critical' }),
      ),
    ).toBe('other')
  })

  test('after an eviction another one only with a new look and after a pause', () => {
    expect(chooseEviction(question([a, b], { sinceEvictionMs: evictionRules.coolDownMs, sampleAgeMs: 0 }))).toEqual({
      evict: ['team/a'],
      sentence: 'team/a leaves memory first, because it has normal priority, has been idle for 12 min, has 20.0 GB.',
    })
  })

  test('services that share one memory leave together, when the most important of them may', () => {
    const [one, other] = [model('one', { sharedAs: 'tag' }), model('other', { sharedAs: 'tag' })]
    expect(first(one, other, model('alone', { heldBytes: gb }))).toBe('one,other')
    expect(first(one, { ...other, priority: 'high' }, a)).toBe('team/a')
    expect(first(one, { ...other, isProtected: true }, a)).toBe('team/a')
    expect(first({ ...one, idleForMs: 0 }, other, model('idle', { heldBytes: gb }))).toBe('idle')
    const { idleForMs: _, ...untold } = one
    expect(first(untold, other, model('idle', { heldBytes: gb }))).toBe('idle')
    expect(first({ ...one, isReady: false }, other, busy('busy', { priority: 'high' }))).toBe('one,other')
    expect(
      first({ ...one, isReady: false }, busy('other', { sharedAs: 'tag' }), model('idle', { heldBytes: gb })),
    ).toBe('idle')
    const { sentence } = chooseEviction(question([one, other, model('alone', { priority: 'high' })], { share: 0 }))
    expect(sentence).toMatch(/^one and other leave memory first, because it has normal priority/)
  })

  test('services that share one memory are one model: the last one stays, and it counts once against the share', () => {
    const [one, other] = [model('one', { sharedAs: 'tag' }), model('other', { sharedAs: 'tag' })]
    expect(first(one, other)).toBe('floor')
    const { sentence } = chooseEviction(question([one, other, model('alone', { heldBytes: 10 * gb })]))
    expect(sentence).toMatch(/^The models here take 30\.0 GB of/)
  })

  test('one that leaves while another keeps the same memory frees nothing that would be waited for', () => {
    const leaving = model('leaving', { sharedAs: 'tag', isStopping: true, priority: 'high' })
    expect(first(leaving, model('staying', { sharedAs: 'tag' }), model('alone', { priority: 'high' }))).toBe('staying')
  })

  test('a smaller share lets our models go earlier', () => {
    const small = [a, b].map((one) => ({ ...one, heldBytes: 10 * gb }))
    expect([question(small), question(small, { share: 0.3 })].map((asked) => 'evict' in chooseEviction(asked))).toEqual(
      [false, true],
    )
  })
})

describe('who would go next', () => {
  test('is told at any level, and why', () => {
    const low = { priority: 'low', heldBytes: 5.6 * gb } as const
    const why = (one: LoadedModel) => nextToGo([a, one])
    expect(why(busy('team/z', low))).toEqual({
      key: 'team/z',
      sentence: 'team/z would go next, because it has low priority, is busy, has 5.6 GB.',
    })
    expect(why(model('team/z', { ...low, idleForMs: 59_000 }))).toMatchObject({
      sentence: 'team/z would go next, because it has low priority, answers no request now, has 5.6 GB.',
    })
    expect(why(unknown('team/z', low))).toMatchObject({
      sentence: 'team/z would go next, because it has low priority, has 5.6 GB.',
    })
    expect(nextToGo([a, { ...b, isProtected: true }])).toEqual({
      key: 'team/a',
      sentence:
        'team/a would go next, because it is the only one that may leave, has normal priority, has been idle for 12 min, has 20.0 GB.',
    })
    const pair = ['team/y', 'team/z'].map((key) => model(key, { sharedAs: 'tag', priority: 'low' }))
    const next = nextToGo([a, ...pair])
    expect([next.key, next.sentence.slice(0, 32)]).toEqual(['team/y', 'team/y and team/z would go next,'])
    expect(nextToGo([a])).toEqual({ sentence: 'Nothing would be evicted: The last model in memory is never evicted.' })
  })
})

const priorities: Priority[] = ['critical', 'high', 'normal', 'low', 'batch']
const anyModels = fc.uniqueArray(
  fc.record(
    {
      key: fc.string({ minLength: 1, maxLength: 3 }),
      priority: fc.constantFrom(...priorities),
      isProtected: fc.boolean(),
      isReady: fc.boolean(),
      isStopping: fc.boolean(),
      canBeEvicted: fc.boolean(),
      idleForMs: fc.nat(10 * minute),
      isBusy: fc.boolean(),
      heldBytes: fc.nat(40 * gb),
    },
    { requiredKeys: ['key', 'priority', 'isProtected', 'isReady', 'isStopping', 'canBeEvicted'] },
  ),
  { maxLength: 6, selector: ({ key }) => key },
)

test('whatever runs: never a protected one, never the last, never while our models hold less than the share, nobody less important stays', () => {
  let evictions = 0
  fc.assert(
    fc.property(anyModels, fc.double({ min: 0, max: 1, noNaN: true }), (models, share) => {
      const choice = chooseEviction(question(models, { share }))
      if ('skip' in choice) return true
      evictions++
      const gone = models.find(({ key }) => choice.evict.includes(key))
      const others = models.filter(({ key }) => !choice.evict.includes(key))
      const held = models.reduce((sum, one) => sum + (one.heldBytes ?? 0), 0)
      const mayGo = others.filter((one) => one.canBeEvicted && !one.isProtected)
      const hadReady = models.some(({ isReady }) => isReady)
      return (
        gone !== undefined &&
        gone.canBeEvicted &&
        !gone.isProtected &&
        others.length > 0 &&
        (!hadReady || others.some(({ isReady }) => isReady)) &&
        held > share * 64 * gb &&
        mayGo
          .filter((one) => !isLastReady(one, models))
          .every((one) => comparePriorities(one.priority, gone.priority) >= 0)
      )
    }),
    { numRuns: 2_000 },
  )
  expect(evictions).toBeGreaterThan(20)
})

const isLastReady = (one: LoadedModel, models: readonly LoadedModel[]) =>
  one.isReady && models.filter(({ isReady }) => isReady).length === 1
