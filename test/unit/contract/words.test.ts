import { expect, test } from 'vitest'
import { stateWord } from '../../../src/contract/words.ts'

test.each([
  { state: 'waiting', reason: 'InsufficientMemory', word: 'Does not fit' },
  { state: 'waiting', reason: 'Pending', word: 'Waiting' },
  { state: 'stopped', reason: 'Idle', word: 'Idle' },
  { state: 'waiting', reason: 'StartsInTurn', word: 'Waits its turn' },
  { state: 'refused', reason: 'ServiceNameTaken', word: 'Name taken' },
  { state: 'refused', reason: 'Refused', word: 'Refused' },
  { state: 'unready', reason: 'Asleep', word: 'Asleep' },
  { state: 'unready', reason: 'NoGateway', word: 'Not ready' },
  { state: 'ready', reason: 'ClusterDisagrees', word: 'Ready' },
] as const)('a service that is $state with $reason is called $word', ({ state, reason, word }) => {
  expect(stateWord({ state, reason })).toBe(word)
})

test('a service that was evicted is called so, not stopped', () => {
  const hold = {
    cause: 'evicted',
    by: 'pressure',
    since: '2026-01-02T03:03:05.000Z',
    message: 'Memory ran out.',
  } as const
  expect(stateWord({ state: 'stopped', reason: 'Held', hold })).toBe('Evicted')
})
