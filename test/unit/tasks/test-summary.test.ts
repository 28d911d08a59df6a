import { expect, test } from 'vitest'
import type { FailedTest } from '../../../tasks/test-results.ts'
import { type Suite, summaryOf } from '../../../tasks/test-summary.ts'

const storm: FailedTest = {
  project: 'agent',
  file: 'test/agent/storm.test.ts',
  name: 'a storm passes',
  error: 'too late',
}
const swap: FailedTest = { project: 'agent', file: 'test/agent/swap.test.ts', name: 'a swap', error: 'no answer' }

test('a failure is named with its file and error just before the line of counts', () => {
  const { text, passed } = summaryOf([suite('unit', 10, []), suite('agent', 5, [storm])])
  expect(passed).toBe(false)
  expect(text.split('\n').slice(-3)).toEqual([
    'Failed:',
    '  agent: test/agent/storm.test.ts: a storm passes: too late',
    '15 passed, 1 failed, 0 skipped',
  ])
})

test('a file that passes in its second run is named as a race and does not fail the whole', () => {
  const again = suite('again', 3, [])
  const { text, passed } = summaryOf([suite('agent', 5, [storm]), again], again)
  expect(passed).toBe(true)
  expect(text).toContain('Passed only in a second run, alone (a race to be found):\n  agent: test/agent/storm.test.ts')
  expect(text.split('\n').at(-1)).toBe('6 passed, 0 failed, 0 skipped')
})

test('a file that fails twice fails the whole, whatever passed beside it', () => {
  const again = suite('again', 3, [swap])
  const { text, passed } = summaryOf([suite('agent', 5, [storm, swap]), again], again)
  expect(passed).toBe(false)
  expect(text.split('\n').slice(-2)).toEqual([
    '  agent: test/agent/swap.test.ts: a swap: no answer',
    '6 passed, 1 failed, 0 skipped',
  ])
})

function suite(name: string, passed: number, failed: FailedTest[]): Suite {
  return { name, minutes: 1, results: { passed, failed, skipped: [] } }
}
