import { expect, test } from 'vitest'
import { ObjectCache } from '../../../src/agent-core/kube/object-cache.ts'
import { parseInferenceService, type InferenceService } from '../../../src/agent-core/kube/resources.ts'
import { ServiceNames } from '../../../src/agent-core/reconcile/reading.ts'

const service = (name: string, namespace = 'ns'): InferenceService =>
  parseInferenceService({ metadata: { name, namespace, uid: `${namespace}/${name}`, resourceVersion: '1' } })

test('knows at every moment who would have the same Service name', () => {
  const cache = new ObjectCache<InferenceService>()
  const names = new ServiceNames()
  cache.onChange((change) => names.follow(change))
  const sharing = (name: string) => [...names.sharing({ namespace: 'ns', name })].map((one) => one.name)
  cache.replace([service('a.b'), service('a-b'), service('a-b', 'other'), service('c')], '1')
  expect([sharing('a-b'), sharing('a.b'), sharing('c'), sharing('d')]).toEqual([
    ['a.b', 'a-b'],
    ['a.b', 'a-b'],
    ['c'],
    [],
  ])
  cache.remove('ns', 'a.b')
  expect(sharing('a-b')).toEqual(['a-b'])
  cache.replace([], '2')
  expect(sharing('a-b')).toEqual([])
})
