import { expect, test } from 'vitest'
import { parseInferenceService } from '../../../src/agent-core/kube/resources.ts'
import { conditionsChange, type ConditionWanted } from '../../../src/agent-core/kube/status-writer.ts'

const lastTransitionTime = '2026-01-01T00:00:00Z'
const wanted = { type: 'MetalAgent', status: 'True', reason: 'Serving', message: 'Serving.' } as const
const short = { type: 'MemoryPressure', status: 'True', reason: 'Critical', message: 'Short.' } as const
const foreign = { type: 'Ready', status: 'False', reason: 'Pending', message: 'Not yet.' }

function serviceSaying(conditions: readonly object[]) {
  return parseInferenceService({
    metadata: { name: 'a', namespace: 'ns', uid: 'u', resourceVersion: '1', generation: 3 },
    status: { conditions: conditions.map((one) => ({ ...one, lastTransitionTime, observedGeneration: 3 })) },
  })
}

const changeOf = (said: readonly object[], all: readonly ConditionWanted[]) =>
  conditionsChange(serviceSaying(said), all, new Date('2026-02-02T00:00:00Z'))?.map(
    ({ type, status, lastTransitionTime: since }) => `${type} ${status} ${since}`,
  )

test('conditions are written where one of ours is new, says something else, or is to go, and for none of others', () => {
  expect(changeOf([wanted, foreign], [wanted])).toBeUndefined()
  expect(changeOf([wanted, short], [wanted])).toEqual([`MetalAgent True ${lastTransitionTime}`])
  expect(changeOf([wanted], [wanted, short])).toEqual([
    `MetalAgent True ${lastTransitionTime}`,
    'MemoryPressure True 2026-02-02T00:00:00Z',
  ])
  expect(changeOf([wanted], [{ ...wanted, message: 'Serving elsewhere.' }])).toEqual([
    `MetalAgent True ${lastTransitionTime}`,
  ])
  expect(changeOf([wanted], [{ ...wanted, status: 'False' }])).toEqual(['MetalAgent False 2026-02-02T00:00:00Z'])
})
