import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { OmlxClaims } from '../../../src/agent-core/reconcile/omlx-claims.ts'

const claim = (spec: object, { day = 1, model = 'm' } = {}) => ({
  ...{ namespace: 'ns', since: `2026-01-0${day}T00:00:00Z`, model, spec: inferenceServiceSpec.parse(spec) },
})

function claims() {
  const enqueued: string[] = []
  const refused = new Set<string>()
  const running = new Map<string, string>()
  let changes = 0
  const all = new OmlxClaims({
    running: () => running,
    problemOf: ({ spec }) => Promise.resolve(refused.has(String(spec.hotCacheMaxSize)) ? 'Too much.' : undefined),
    enqueue: (key) => enqueued.push(key),
    onChange: () => (changes += 1),
  })
  return { all, refused, running, news: () => [enqueued.splice(0), changes] }
}

test('a change of what one service asks brings the others into the queue, and the same again brings none', () => {
  const { all, news } = claims()
  all.know('ns/a', claim({ hotCacheMaxSize: '8GB' }), true)
  expect(news()).toEqual([[], 1])
  all.know('ns/b', claim({ hotCacheMaxSize: '4GB' }, { day: 2 }), true)
  expect(news()).toEqual([['ns/a'], 2])
  expect([all.conflictOf('ns/a'), all.conflictOf('ns/c')]).toEqual([undefined, undefined])
  expect(all.conflictOf('ns/b')).toContain('4GB here and 8GB in ns/a')
  all.know('ns/b', claim({ hotCacheMaxSize: '4GB' }, { day: 2 }))
  all.know('ns/c', undefined)
  expect(news()).toEqual([[], 2])
  all.know('ns/a', undefined)
  expect([all.conflictOf('ns/b'), news()]).toEqual([undefined, [['ns/b'], 3]])
})

test('one that is not admitted asks for nothing and keeps nobody waiting, until its model is here and fits', async () => {
  const { all } = claims()
  all.know('ns/ghost', claim({ hotCacheMaxSize: '8GB' }))
  all.know('ns/later', claim({ hotCacheMaxSize: '4GB' }, { day: 2 }), true)
  expect([all.conflictOf('ns/later'), [...(await all.flags())]]).toEqual([undefined, [['--hot-cache-max-size', '4GB']]])
  all.admitted('ns/ghost', true)
  expect(all.conflictOf('ns/later')).toContain('8GB in ns/ghost')
  // It stays so while oMLX is started again, and no longer than its model.
  all.know('ns/ghost', claim({ hotCacheMaxSize: '8GB' }))
  expect([...(await all.flags())]).toEqual([['--hot-cache-max-size', '8GB']])
  all.know('ns/ghost', claim({ hotCacheMaxSize: '8GB' }, { model: 'another' }))
  expect([...(await all.flags())]).toEqual([['--hot-cache-max-size', '4GB']])
})

test.each([[true], [false]])('one that disagrees is told the same whether or not it is admitted: %s', (isAdmitted) => {
  const { all } = claims()
  all.know('ns/first', claim({ hotCacheMaxSize: '8GB' }), true)
  all.know('ns/later', claim({ hotCacheMaxSize: '4GB' }, { day: 2 }), isAdmitted)
  expect([all.conflictOf('ns/first'), all.conflictOf('ns/later')]).toEqual([
    undefined,
    expect.stringContaining('8GB in ns/first'),
  ])
})

test('what this machine does not have is asked for by nobody and told at the service, until it is there; what oMLX has is not judged again', async () => {
  const { all, refused, running, news } = claims()
  refused.add('8GB')
  all.know('ns/a', claim({ hotCacheMaxSize: '8GB' }), true)
  all.know('ns/b', claim({ hotCacheMaxSize: '4GB' }, { day: 2 }), true)
  news()
  expect([[...(await all.flags())], all.problemOf('ns/a'), all.conflictOf('ns/b')]).toEqual([
    ...[[['--hot-cache-max-size', '4GB']], 'Too much.', undefined],
  ])
  expect(news()).toEqual([['ns/a', 'ns/b'], 3])
  expect([...(await all.flags()), news()]).toEqual([
    ['--hot-cache-max-size', '4GB'],
    [[], 3],
  ])
  running.set('--hot-cache-max-size', '8GB')
  expect([[...(await all.flags())], all.problemOf('ns/a')]).toEqual([[['--hot-cache-max-size', '8GB']], undefined])
})
