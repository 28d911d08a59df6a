import { expect, test } from 'vitest'
import { type ServiceView, serviceStates } from '../../../src/contract/service.ts'
import { actionsFor } from '../../../src/contract/words.ts'
import { sampleService } from '../../support/sample-snapshot.ts'

const labels = (changes: Partial<ServiceView>) => actionsFor(sampleService(changes)).map(({ label }) => label)

test('each state offers what makes sense in it', () => {
  expect(Object.fromEntries(serviceStates.map((state) => [state, labels({ state })]))).toEqual({
    waiting: ['Stop'],
    fetching: ['Cancel download', 'Stop'],
    starting: ['Stop', 'Restart', 'Evict from memory', 'Protect'],
    ready: ['Stop', 'Restart', 'Evict from memory', 'Protect'],
    unready: ['Stop', 'Restart', 'Evict from memory', 'Protect'],
    'crash-looping': ['Stop', 'Restart', 'Evict from memory', 'Protect'],
    stopping: [],
    stopped: ['Start'],
    refused: ['Stop'],
    foreign: [],
  })
})

test.each([
  { cause: 'stopped', label: 'Start' },
  { cause: 'evicted', label: 'Bring back' },
  { cause: 'downloadCancelled', label: 'Start' },
] as const)('what is $cause here is undone by "$label"', ({ cause, label }) => {
  const hold = { cause, since: '2026-01-02T03:04:05.000Z', message: 'Held.' }
  expect(labels({ state: 'waiting', hold })).toEqual([label])
})
