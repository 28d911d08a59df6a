import { expect, test, vi } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { OmlxClaims } from '../../../src/agent-core/reconcile/omlx-claims.ts'

const claim = (spec: object, { day = 1, model = 'm' } = {}) => ({
  ...{ namespace: 'ns', since: `2026-01-0${day}T00:00:00Z`, model, spec: inferenceServiceSpec.parse(spec) },
})

function claims() {
  const enqueued: string[] = []
  const refused = new Set<string>()
  let judged = 0
  const running = new Map<string, string>()
  let changes = 0
  const all = new OmlxClaims({
    running: () => running,
    problemOf: ({ spec }) => {
      judged += 1
      const isRefused = refused.has(String(spec.hotCacheMaxSize))
      return Promise.resolve(isRefused ? { message: `Too much by ${judged} GB.`, cause: 'room' } : undefined)
    },
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
    ...[[['--hot-cache-max-size', '4GB']], 'Too much by 1 GB.', undefined],
  ])
  expect(news()).toEqual([['ns/a', 'ns/b'], 3])
  expect([...(await all.flags()), news()]).toEqual([
    ['--hot-cache-max-size', '4GB'],
    [[], 3],
  ])
  // Another figure alone brings nobody into the queue.
  expect(all.problemOf('ns/a')).toBe('Too much by 3 GB.')
  running.set('--hot-cache-max-size', '8GB')
  expect([[...(await all.flags())], all.problemOf('ns/a')]).toEqual([[['--hot-cache-max-size', '8GB']], undefined])
})

test('what was refused is judged again every minute, until this machine has it', async () => {
  vi.useFakeTimers()
  try {
    const { all, refused, news } = claims()
    refused.add('8GB')
    all.know('ns/a', claim({ hotCacheMaxSize: '8GB' }), true)
    await all.flags()
    expect(news()).toEqual([['ns/a'], 2])
    vi.advanceTimersByTime(60_000)
    expect(news()).toEqual([[], 3])
    refused.clear()
    expect([[...(await all.flags())], all.problemOf('ns/a')]).toEqual([[['--hot-cache-max-size', '8GB']], undefined])
    expect(news()).toEqual([['ns/a'], 4])
    vi.advanceTimersByTime(600_000)
    expect(news()).toEqual([[], 4])
  } finally {
    vi.useRealTimers()
  }
})
