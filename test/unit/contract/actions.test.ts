import { expect, test } from 'vitest'
import { type ServiceView, serviceStates } from '../../../src/contract/service.ts'
import { actionsFor, furtherActionsFor } from '../../../src/contract/words.ts'
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
  { cause: 'released', label: 'Bring back' },
] as const)('what is $cause here is undone by "$label"', ({ cause, label }) => {
  const hold = { cause, since: '2026-01-02T03:04:05.000Z', message: 'Held.' }
  expect(labels({ state: 'waiting', hold })).toEqual([label])
})

test('a wait for requests can be skipped, and only what serves here can be released', () => {
  const further = (changes: Partial<ServiceView>, isDraining = false) =>
    furtherActionsFor(sampleService(changes), { isDraining }).map(({ label }) => label)
  const hold = { cause: 'evicted', since: '2026-01-02T03:04:05.000Z', message: 'Held.' } as const
  expect([
    further({ state: 'stopping' }, true),
    further({ state: 'stopping' }),
    further({ state: 'ready' }),
    further({ state: 'ready', hold }),
    further({ state: 'foreign' }),
  ]).toEqual([['Skip the wait'], [], ['Release to other machines'], [], []])
})
