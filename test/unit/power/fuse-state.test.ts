import { describe, expect, test } from 'vitest'
import {
  cutShort,
  fuseSentence,
  nothingEnded,
  outlived,
  servedAgain,
  verdictOn,
  withAgent,
  withEnd,
  withReport,
  withReported,
  type AskedStart,
  type FuseState,
  type StartSituation,
  type StartVerdict,
} from '../../../src/agent-core/power/fuse-state.ts'

const at = (time: string) => `2026-11-23T${time}:00.000Z`
const startIn = (bootId: string, time = '10:00') => ({ bootId, intendedAt: at(time) })
const end = (bootId: string, more: Partial<FuseState['ends'][number]> = {}) => ({
  ...{ bootId, noticedAt: at('10:05'), isSoon: true, hasReport: false },
  ...more,
})

describe('an end of the machine', () => {
  test.each<[string, Partial<FuseState>, string, readonly ReturnType<typeof startIn>[], number]>([
    ['cuts short what the ledger has of an earlier boot', {}, 'two', [startIn('one'), startIn('one')], 2],
    ['is none where the boot is the same', {}, 'one', [startIn('one')], 0],
    ['is none where no model ran', {}, 'two', [], 0],
    ['is none where the system does not say which boot this is', {}, '', [startIn('one')], 0],
    ['is none where nobody knows in which boot a model ran', {}, 'two', [startIn('')], 0],
    ['is orderly where the agent was asked to end in that boot', { leftIn: 'one' }, 'two', [startIn('one')], 0],
    ['is not orderly for a boot before', { leftIn: 'zero' }, 'two', [startIn('one')], 1],
    ['is counted once', { ends: [end('one')] }, 'two', [startIn('one')], 0],
  ])('%s', (_what, state, bootId, starts, cut) => {
    expect(cutShort({ ...nothingEnded, ...state }, bootId, starts)).toHaveLength(cut)
  })

  const noticed = { noticedAt: at('11:00'), hasReport: false }

  test.each<[string, Partial<FuseState>, { starts?: ReturnType<typeof startIn>[]; hasReport?: boolean }, object]>([
    ['one: models start in turn, and none is held', {}, {}, { inTurn: true, held: null, soon: [true] }],
    [
      'two, each soon after a start: large ones are held',
      { ends: [end('zero')] },
      {},
      { inTurn: true, held: at('11:00'), soon: [true, true] },
    ],
    [
      'two, of which one came long after every start: none is held',
      { ends: [end('zero')], outlivedUpTo: at('10:00') },
      {},
      { inTurn: true, held: null, soon: [true, false] },
    ],
    [
      'one with a report: large ones are held',
      {},
      { hasReport: true },
      { inTurn: true, held: at('11:00'), soon: [true] },
    ],
    [
      'held since before: the time stays',
      { held: { since: at('09:00'), because: 'soonEnds' }, ends: [end('zero')] },
      {},
      { inTurn: true, held: at('09:00'), soon: [true, true] },
    ],
    ['none: nothing changes', {}, { starts: [] }, { inTurn: false, held: null, soon: [] }],
  ])('%s', (_what, state, { starts = [startIn('one', '09:00'), startIn('one')], hasReport = false }, wanted) => {
    const after = withEnd({ ...nothingEnded, ...state }, starts, { ...noticed, hasReport })
    expect({
      inTurn: after.ends.length > 0,
      held: after.held?.since ?? null,
      soon: after.ends.map(({ isSoon }) => isSoon),
    }).toEqual(wanted)
  })
})

describe('what is known', () => {
  const afterOne = withEnd(nothingEnded, [startIn('one')], { noticedAt: at('11:00'), hasReport: false })

  test('a report that is found later holds large models, once', () => {
    const after = withReport(afterOne, at('11:02'))
    expect([after.held?.since, after.ends.at(-1)?.hasReport]).toEqual([at('11:02'), true])
    expect(withReport(after, at('11:03'))).toBe(after)
    expect(withReport(nothingEnded, at('11:02'))).toBe(nothingEnded)
  })

  test('a machine that outlives its starts forgets its ends, but holds what it held', () => {
    const held = withReport(afterOne, at('11:02'))
    expect(outlived(held, at('11:30'), 'two')).toMatchObject({
      ends: [],
      outlivedUpTo: at('11:30'),
      held: { since: at('11:02'), because: 'panic' },
    })
    expect(servedAgain(held)).toMatchObject({ ends: [], held: null })
  })

  test('where the system does not tell boots apart, of the ends only those before the starts that the machine outlived are forgotten', () => {
    expect(outlived(afterOne, at('10:59'), '').ends).toHaveLength(1)
    expect(outlived(afterOne, at('11:00'), '').ends).toHaveLength(0)
  })

  test('a clock that was ahead when the machine outlived a start makes no later end a late one', () => {
    const before = outlived(nothingEnded, '2027-11-23T10:00:00.000Z', 'one')
    const ends = (state: FuseState, ...boots: string[]) =>
      boots
        .reduce((known, boot) => withEnd(known, [startIn(boot)], { noticedAt: at('10:05'), hasReport: false }), state)
        .ends.map(({ isSoon }) => isSoon)
    expect(ends(before, 'one', 'two', 'three')).toEqual([true, true, true])
    expect(ends({ ...before, outlivedIn: null }, 'one')).toEqual([true])
    // Nor does it keep an end that it dated far ahead.
    const dated = { ...nothingEnded, ends: [end('one', { noticedAt: '2027-11-23T10:05:00.000Z' })] }
    expect(outlived(dated, at('11:30'), 'two').ends).toEqual([])
  })

  test('which services were told of a hold is kept once each, and only while there is one', () => {
    const held = withReport(afterOne, at('11:02'))
    const told = withReported(withReported(withReported(held, 'a/one'), 'a/two'), 'a/one')
    expect([withReported(nothingEnded, 'a/one').told, told.told, servedAgain(told).told]).toEqual([
      [],
      ['a/one', 'a/two'],
      [],
    ])
  })

  test('a hold keeps its cause when the ends that led to it are forgotten, and a panic says more than two ends', () => {
    const afterPanic = outlived(withReport(afterOne, at('11:02')), at('11:30'), 'two')
    expect(fuseSentence(afterPanic, [])).toMatch(
      /^This machine went down with a kernel panic while models were running:.* or choose Serve again\.$/,
    )
    expect(fuseSentence(afterPanic, ['a/one', 'a/two'])).toMatch(/ or choose Serve again\. Waiting: a\/one, a\/two\.$/)
    const afterTwo = withEnd(afterOne, [startIn('two', '11:10')], { noticedAt: at('11:20'), hasReport: false })
    expect(fuseSentence(outlived(afterTwo, at('12:00'), 'two'), [])).toContain('more than once')
    expect(withReport(afterTwo, at('11:21')).held).toEqual({ since: at('11:20'), because: 'panic' })
  })

  test('an agent that begins again takes back that it was asked to end', () => {
    const left = withAgent(nothingEnded, 'one')
    expect([left.leftIn, withAgent(left, null).leftIn]).toEqual(['one', null])
    expect(withAgent(left, 'one')).toBe(left)
  })
})

const large = { key: 'a/large', needBytes: 60 }
const middle = { key: 'a/middle', needBytes: 50 }
const small = { key: 'a/small', needBytes: 1 }
const unknown = { key: 'a/unknown', needBytes: undefined }

const held = { since: at('09:00'), because: 'panic' } as const

interface Situation extends Partial<Omit<StartSituation, 'state'>> {
  readonly isInTurn?: boolean
  readonly isHeld?: boolean
}

const usual = {
  budgetBytes: 100,
  waiting: [large, middle, small],
  loading: undefined,
  isGathering: false,
}

test.each<[string, AskedStart, Situation, StartVerdict]>([
  ['the smallest goes first', small, {}, { kind: 'go' }],
  ['the others wait for it', large, {}, { kind: 'inTurn', behind: 'a/small' }],
  ['of the rest the smallest goes', middle, { waiting: [large, middle] }, { kind: 'go' }],
  ['the largest goes last', large, { waiting: [large] }, { kind: 'go' }],
  [
    'one whose need nobody knows goes after all others',
    unknown,
    { waiting: [unknown, large] },
    { kind: 'inTurn', behind: 'a/large' },
  ],
  ['nothing goes beside one that loads', small, { loading: 'a/other' }, { kind: 'inTurn', behind: 'a/other' }],
  ['what loads itself goes on', small, { loading: 'a/small' }, { kind: 'go' }],
  ['nothing goes while others may still ask', small, { isGathering: true }, { kind: 'inTurn', behind: undefined }],
  [
    'equals go by name',
    { key: 'a/b', needBytes: 1 },
    {
      waiting: [
        { key: 'a/b', needBytes: 1 },
        { key: 'a/a', needBytes: 1 },
      ],
    },
    { kind: 'inTurn', behind: 'a/a' },
  ],
  ['above half the budget it is held', large, { isHeld: true }, { kind: 'held' }],
  ['half the budget is not above it', middle, { isHeld: true, waiting: [large, middle] }, { kind: 'go' }],
  ['any is held where the budget is not known', small, { isHeld: true, budgetBytes: undefined }, { kind: 'held' }],
  ['one whose need nobody knows is held', unknown, { isHeld: true }, { kind: 'held' }],
  [
    'a held one holds up no other',
    middle,
    { isHeld: true, waiting: [{ ...small, needBytes: 51 }, middle] },
    { kind: 'go' },
  ],
  [
    'held without a turn: the others go at once',
    small,
    { isHeld: true, isInTurn: false, loading: 'a/other' },
    { kind: 'go' },
  ],
])('%s', (_what, start, { isInTurn = true, isHeld = false, ...situation }, verdict) => {
  const state = { ends: isInTurn ? [end('one')] : [], held: isHeld ? held : null }
  expect(verdictOn(start, { state, ...usual, ...situation })).toEqual(verdict)
})
