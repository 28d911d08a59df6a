import { expect, test, vi } from 'vitest'
import { snapshotJson } from '../../../src/serve/feeds.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

test('the JSON of a snapshot is that of JSON.stringify, also when it is made again of the same parts', () => {
  const services = [sampleService({ name: 'a "quoted" ⟨name⟩' }), sampleService({ url: 'http://x:1' })]
  const snapshot = sampleSnapshot({ services })
  const expected = JSON.stringify(snapshot)
  expect([snapshotJson(snapshot), snapshotJson(snapshot)]).toEqual([expected, expected])
})

test('a field that is absent is left out', () => {
  const { memory: _, ...snapshot } = sampleSnapshot()
  expect(snapshotJson(Object.assign(snapshot, { memory: undefined }))).toBe(JSON.stringify(snapshot))
})

test('a service that did not change is not serialized again, one that did is', () => {
  const serialized = vi.fn()
  const watched = (name: string) =>
    Object.defineProperty(sampleService({ name }), 'toJSON', {
      value: () => {
        serialized(name)
        return { name }
      },
    })
  const same = watched('same')
  const first = snapshotJson(sampleSnapshot({ services: [same, watched('before')] }))
  const second = snapshotJson(sampleSnapshot({ services: [same, watched('after')] }))
  expect([serialized.mock.calls.flat(), first.includes('before'), second.includes('after')]).toEqual([
    ['same', 'before', 'after'],
    true,
    true,
  ])
})
