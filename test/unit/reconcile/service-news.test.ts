import { expect, test } from 'vitest'
import { parseInferenceService } from '../../../src/agent-core/kube/resources.ts'
import { isOnlyStatusNoise } from '../../../src/agent-core/reconcile/reconciler.ts'

interface Facts {
  readonly version?: string
  readonly metadata?: object
  readonly spec?: object
  readonly status?: object
  readonly ours?: object
  readonly controllers?: object
}

const service = ({ version = '1', metadata, spec, status, ours, controllers }: Facts = {}) =>
  parseInferenceService({
    metadata: {
      ...{ name: 'a', namespace: 'ns', uid: 'u', generation: 1, resourceVersion: version },
      managedFields: [{ manager: 'controller', time: `T${version}` }],
      ...metadata,
    },
    spec: { modelRef: 'm', ...spec },
    status: {
      ...{ phase: 'Ready', readyReplicas: 1, desiredReplicas: 1, lastUpdated: `T${version}`, ...status },
      conditions: [
        { type: 'MetalAgent', status: 'True', reason: 'Serving', lastTransitionTime: 'T1', ...ours },
        { type: 'Available', status: 'True', reason: 'Ready', lastTransitionTime: `T${version}`, ...controllers },
      ],
    },
  })

const version = '2'

test.each([
  ['the same with other times', service({ version }), true],
  ["another word of the controller's own", service({ version, controllers: { reason: 'Other' } }), true],
  ['another phase', service({ version, status: { phase: 'Creating' } }), false],
  ['fewer ready replicas', service({ version, status: { readyReplicas: 0 } }), false],
  ['fewer wanted replicas', service({ version, status: { desiredReplicas: 0 } }), false],
  ['another scheduling status', service({ version, status: { schedulingStatus: 'InsufficientMemory' } }), false],
  ['our condition in other words', service({ version, ours: { message: 'x' } }), false],
  ['another specification', service({ version, spec: { contextSize: 4096 } }), false],
  ['another annotation', service({ version, metadata: { annotations: { a: 'b' } } }), false],
  ['the beginning of a deletion', service({ version, metadata: { deletionTimestamp: 'T2' } }), false],
  ['an end', undefined, false],
])('%s is no reason to look again: %s', (_what, after, expected) => {
  expect(isOnlyStatusNoise(service(), after)).toBe(expected)
})

test('a service that is new is a reason to look', () => {
  expect(isOnlyStatusNoise(undefined, service())).toBe(false)
})
