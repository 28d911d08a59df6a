import { expect, test } from 'vitest'
import { ObjectCache } from '../../../src/agent-core/kube/object-cache.ts'
import { objectMeta, type KubeObject } from '../../../src/agent-core/kube/resources.ts'

const object = (name: string, resourceVersion: string, uid = name): KubeObject => ({
  metadata: objectMeta.parse({ name, namespace: 'ns', uid, resourceVersion }),
})

function cacheWithHistory() {
  const cache = new ObjectCache<KubeObject>()
  const history: string[] = []
  cache.onChange(({ key, before, after }) => {
    history.push(`${key} ${before?.metadata.resourceVersion ?? '-'}→${after?.metadata.resourceVersion ?? '-'}`)
  })
  return { cache, history }
}

test('absence means nothing before the first complete list', () => {
  const { cache } = cacheWithHistory()
  cache.upsert(object('a', '1'))
  const before = cache.synced
  cache.replace([], '1')
  expect([before, cache.synced, cache.size]).toEqual([false, true, 0])
})

test('a list tells what came, changed and went, and nothing about what stayed', () => {
  const { cache, history } = cacheWithHistory()
  cache.replace([object('same', '1'), object('changed', '2'), object('gone', '3')], '3')
  history.length = 0
  cache.replace([object('same', '1'), object('changed', '5'), object('new', '4')], '5')
  expect(history.toSorted()).toEqual(['ns/changed 2→5', 'ns/gone 3→-', 'ns/new -→4'])
})

test('only the very version of a known object is known already', () => {
  const { cache } = cacheWithHistory()
  const kept = object('a', '9')
  cache.upsert(kept)
  const metadata = { namespace: 'ns', name: 'a', uid: 'a', resourceVersion: '9' }
  expect(cache.known({ metadata })).toBe(kept)
  const others = [
    { metadata: { ...metadata, resourceVersion: '10' } },
    { metadata: { ...metadata, uid: 'b' } },
    { metadata: { ...metadata, name: 'b' } },
    { metadata: { ...metadata, namespace: undefined } },
    { metadata: null },
    null,
  ]
  expect(others.map((raw) => cache.known(raw))).toEqual(others.map(() => undefined))
})

test('news older than our own write is ignored, and its echo changes nothing', () => {
  const { cache, history } = cacheWithHistory()
  cache.upsert(object('a', '9'))
  cache.upsert(object('a', '10'))
  cache.upsert(object('a', '9'))
  cache.upsert(object('a', '10'))
  expect(history).toEqual(['ns/a -→9', 'ns/a 9→10'])
})

test('a list is the truth even where it counts from an earlier number', () => {
  const { cache } = cacheWithHistory()
  cache.upsert(object('a', '1000'))
  cache.replace([object('a', '7')], '7')
  expect(cache.get('ns', 'a')?.metadata.resourceVersion).toBe('7')
})

test('an object that was made again under its name is a deletion and an addition', () => {
  const { cache, history } = cacheWithHistory()
  cache.upsert(object('a', '1', 'first'))
  cache.upsert(object('a', '5', 'second'))
  expect(history).toEqual(['ns/a -→1', 'ns/a 1→-', 'ns/a -→5'])
})

test('what our own write brought while a list was on its way is newer than the list', () => {
  const { cache } = cacheWithHistory()
  cache.replace([object('kept', '1'), object('deleted', '2')], '2')
  cache.beginList()
  cache.upsert(object('kept', '7'))
  cache.upsert(object('created', '8'))
  cache.remove('ns', 'deleted')
  cache.replace([object('kept', '1'), object('deleted', '2')], '2')
  const versions = [...cache.values()].map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`)
  cache.beginList()
  cache.replace([object('kept', '9')], '9')
  expect([versions, [...cache.values()].length]).toEqual([['kept 7', 'created 8'], 1])
})

test('a list that was taken after our own write knows what others did to that', () => {
  const { cache } = cacheWithHistory()
  cache.replace([object('deleted', '1'), object('edited', '2'), object('made-again', '3')], '3')
  cache.beginList()
  cache.upsert(object('deleted', '4'))
  cache.upsert(object('edited', '5'))
  cache.remove('ns', 'made-again')
  cache.remove('ns', 'created')
  cache.replace([object('edited', '7'), object('made-again', '8', 'another uid'), object('created', '9')], '9')
  const versions = [...cache.values()].map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`)
  expect(versions).toEqual(['edited 7', 'made-again 8', 'created 9'])
})

test('an answer to our own write that arrives after the end of its object brings nothing back', () => {
  const { cache, history } = cacheWithHistory()
  cache.upsert(object('a', '1'))
  cache.remove('ns', 'a')
  cache.assume(object('a', '2'))
  cache.assume(object('a', '4', 'another a'))
  expect(history).toEqual(['ns/a -→1', 'ns/a 1→-', 'ns/a -→4'])
})

test('an object that only left what is watched comes back with the watch', () => {
  const { cache, history } = cacheWithHistory()
  cache.upsert(object('a', '1'))
  cache.remove('ns', 'a')
  cache.upsert(object('a', '3'))
  cache.assume(object('a', '4'))
  expect(history).toEqual(['ns/a -→1', 'ns/a 1→-', 'ns/a -→3', 'ns/a 3→4'])
})
