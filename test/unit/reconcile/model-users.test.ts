import { expect, test } from 'vitest'
import type { Cluster } from '../../../src/agent-core/kube/cluster.ts'
import { ObjectCache } from '../../../src/agent-core/kube/object-cache.ts'
import {
  type InferenceService,
  type Model,
  parseInferenceService,
  parseModel,
} from '../../../src/agent-core/kube/resources.ts'
import { modelUsers } from '../../../src/agent-core/reconcile/model-users.ts'

const metadata = (name: string, namespace = 'ns') => ({ name, namespace, uid: name, resourceVersion: '1' })

function usersOf(spec: object): unknown {
  const inferenceServices = new ObjectCache<InferenceService>()
  const models = new ObjectCache<Model>()
  inferenceServices.replace([parseInferenceService({ metadata: metadata('chat'), spec })], '1')
  models.replace(
    [
      ...['large', 'small', 'third'].map((name) =>
        parseModel({ metadata: metadata(name), spec: { source: `/${name}` } }),
      ),
      parseModel({ metadata: metadata('elsewhere', 'other'), spec: { source: '/elsewhere' } }),
    ],
    '1',
  )
  return modelUsers({ synced: true, inferenceServices, models } as unknown as Cluster)?.map(
    ({ service, model, path, isActive }) => [service, model, path, isActive],
  )
}

test('a service uses its Model and the one that it drafts with, also while it is stopped', () => {
  const drafting = (draftModelRef: string) => ({ speculativeDecoding: { type: 'draft', draftModelRef } })
  expect([
    usersOf({ modelRef: 'large' }),
    usersOf({ modelRef: 'large', replicas: 0, ...drafting('small') }),
    usersOf({ modelRef: 'large', ...drafting('large') }),
    usersOf({ modelRef: 'large', ...drafting('elsewhere') }),
  ]).toEqual([
    [['ns/chat', 'large', '/large', true]],
    [
      ['ns/chat', 'large', '/large', false],
      ['ns/chat', 'small', '/small', false],
    ],
    [['ns/chat', 'large', '/large', true]],
    [['ns/chat', 'large', '/large', true]],
  ])
})
