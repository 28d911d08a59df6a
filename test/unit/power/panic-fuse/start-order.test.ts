import { expect, test } from 'vitest'
import {
  verdictOn,
  type StartSituation,
  type StartVerdict,
} from '../../../../src/agent-core/power/panic-fuse/start-order.ts'

const large = { key: 'a/large', needBytes: 60 }
const middle = { key: 'a/middle', needBytes: 50 }
const small = { key: 'a/small', needBytes: 1 }
const unknown = { key: 'a/unknown', needBytes: undefined }

const usual: StartSituation = {
  isInTurn: true,
  isHeld: false,
  budgetBytes: 100,
  waiting: [large, middle, small],
  loading: undefined,
  isGathering: false,
}

test.each<[string, typeof large | typeof unknown, Partial<StartSituation>, StartVerdict]>([
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
])('%s', (_what, start, situation, verdict) => {
  expect(verdictOn(start, { ...usual, ...situation })).toEqual(verdict)
})
