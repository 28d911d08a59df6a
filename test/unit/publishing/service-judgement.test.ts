import { expect, test } from 'vitest'
import type { Service } from '../../../src/agent-core/kube/resources.ts'
import { judgeService } from '../../../src/agent-core/publishing/service.ts'
import { publication, serviceOf, target } from './examples.ts'

const ours = serviceOf(publication)
const goAgents = serviceOf(publication, { ownerReferences: [] })
const controlled = (uid: string) =>
  serviceOf(publication, {
    ownerReferences: [
      {
        apiVersion: 'inference.llmkube.dev/v1alpha1',
        kind: 'InferenceService',
        name: 'llama',
        uid,
        controller: true,
      },
    ],
  })

test.each<[string, Service | undefined, object]>([
  ['none', undefined, { kind: 'absent' }],
  ['ours', ours, { kind: 'ours' }],
  ["a Go agent's", goAgents, { kind: 'ours' }],
  ['ours whose labels were taken away', serviceOf(publication, { labels: {} }), { kind: 'ours' }],
  ['ours for an InferenceService that is gone', serviceOf({ ...publication, uid: 'cr-0' }), { kind: 'ours' }],
  [
    "somebody's",
    serviceOf(publication, { labels: {}, ownerReferences: [] }),
    {
      kind: 'taken',
      message:
        'Service ml/llama has the name this InferenceService needs but was not made by an agent; delete it (kubectl -n ml delete service llama) or rename the InferenceService.',
    },
  ],
  ['one with a selector', { ...ours, spec: { ...ours.spec, selector: { app: 'x' } } }, { kind: 'taken' }],
  ["LLMKube's controller's, for its relay", controlled('cr-1'), { kind: 'relayed' }],
  ["LLMKube's controller's, for an InferenceService that is gone", controlled('cr-0'), { kind: 'taken' }],
  [
    'one whose selector an agent left that took it back',
    { ...ours, spec: { ...ours.spec, selector: { app: 'llama-relay', 'inference.llmkube.dev/metal-relay': 'llama' } } },
    { kind: 'relayed' },
  ],
  ['one that points outside', { ...ours, spec: { type: 'ExternalName', ports: [] } }, { kind: 'taken' }],
  [
    'one of a.b where we are a-b',
    serviceOf({ ...publication, name: 'lla.ma' }),
    {
      kind: 'taken',
      message:
        'Service ml/llama belongs to InferenceService lla.ma, whose name maps to the same Service; rename one of the two.',
    },
  ],
])('%s', (_, service, expected) => {
  expect(judgeService(service, target)).toMatchObject(expected)
})
