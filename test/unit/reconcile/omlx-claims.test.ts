import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { OmlxClaims } from '../../../src/agent-core/reconcile/omlx-claims.ts'

const claim = (spec: object, since = '2026-01-01T00:00:00Z') => ({
  ...{ namespace: 'ns', since, model: 'm', spec: inferenceServiceSpec.parse(spec) },
})

function claims({ closed = [] as readonly string[] } = {}) {
  const enqueued: string[] = []
  let changes = 0
  const all = new OmlxClaims({
    running: () => undefined,
    allowsFolder: (path, namespace) => Promise.resolve(namespace === 'ns' && !closed.includes(path)),
    enqueue: (key) => enqueued.push(key),
    onChange: () => (changes += 1),
  })
  return { all, news: () => [enqueued.splice(0), changes] }
}

test('a change of what one service asks brings the others into the queue, and the same again brings none', () => {
  const { all, news } = claims()
  all.know('ns/a', claim({ hotCacheMaxSize: '8GB' }))
  expect(news()).toEqual([[], 1])
  all.know('ns/b', claim({ hotCacheMaxSize: '4GB' }, '2026-01-02T00:00:00Z'))
  expect(news()).toEqual([['ns/a'], 2])
  expect([all.conflictOf('ns/a'), all.conflictOf('ns/c')]).toEqual([undefined, undefined])
  expect(all.conflictOf('ns/b')).toContain('4GB here and 8GB in ns/a')
  all.know('ns/b', claim({ hotCacheMaxSize: '4GB' }, '2026-01-02T00:00:00Z'))
  all.know('ns/c', undefined)
  expect(news()).toEqual([[], 2])
  all.know('ns/a', undefined)
  expect([all.conflictOf('ns/b'), news()]).toEqual([undefined, [['ns/b'], 3]])
})

test('a folder that is closed to who asks is asked of nobody', async () => {
  const { all } = claims({ closed: ['/lent/way-out'] })
  all.know('ns/a', claim({ pagedSSDCacheDir: '/lent/way-out', hotCacheMaxSize: '8GB' }))
  expect([...(await all.flags())]).toEqual([['--hot-cache-max-size', '8GB']])
  all.know('ns/a', claim({ pagedSSDCacheDir: '/lent/cache' }))
  expect([...(await all.flags())]).toEqual([['--paged-ssd-cache-dir', '/lent/cache']])
})
