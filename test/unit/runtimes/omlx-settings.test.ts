import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import {
  agreement,
  cacheFolderProblem,
  diskCacheProblem,
  folderRefused,
  hotCacheBytes,
  hotCacheProblem,
  type OmlxClaim,
  unreadFields,
} from '../../../src/agent-core/runtimes/omlx-settings.ts'

interface Asked {
  readonly [field: string]: unknown
  readonly model?: string
}

/** Admitted claims of services that were made one after the other. */
const claimsOf = (...asked: readonly Asked[]): ReadonlyMap<string, OmlxClaim> =>
  new Map(
    asked.map(({ model = '', ...spec }, at) => [
      `ns/${'abcdef'[at] ?? ''}`,
      {
        ...{ namespace: 'ns', since: `2026-01-0${at + 1}T00:00:00Z`, model: model === '' ? `model ${at}` : model },
        spec: inferenceServiceSpec.parse(spec),
        isAdmitted: true,
      },
    ]),
  )

const agreed = (...asked: readonly Asked[]) => {
  const { flags, conflicts } = agreement(claimsOf(...asked), undefined)
  return { flags: flags.map(([flag, value]) => `${flag} ${value}`), conflicts: [...conflicts] }
}

test('what services ask together is had together, and those that ask for nothing agree with all', () => {
  expect(agreed({ hotCacheMaxSize: '8 gb' }, {}, { pagedSSDCacheDir: '/lent/cache', hotCacheMaxSize: '8GB' })).toEqual({
    flags: ['--paged-ssd-cache-dir /lent/cache', '--hot-cache-max-size 8GB'],
    conflicts: [],
  })
})

test('of two that disagree the later one waits, and is told with whom, about what, and what to do', () => {
  expect(agreed({ hotCacheMaxSize: '8GB' }, { hotCacheMaxSize: '4GB', pagedSSDCacheMaxSize: '1TB' })).toEqual({
    flags: ['--hot-cache-max-size 8GB'],
    conflicts: [
      [
        'ns/b',
        'spec.hotCacheMaxSize is 4GB here and 8GB in ns/a, and one oMLX serves both and has only one value for all its models: it waits until both have the same value or ns/a is gone. Change one of them, or serve one with another runtime.',
      ],
    ],
  })
})

test('one that waits asks for nothing: who comes after it is compared with those that are served', () => {
  const { flags, conflicts } = agreed(
    { hotCacheMaxSize: '8GB' },
    { hotCacheMaxSize: '4GB', pagedSSDCacheMaxSize: '1TB' },
    { pagedSSDCacheMaxSize: '2TB' },
  )
  expect([flags, conflicts.map(([key]) => key)]).toEqual([
    ['--hot-cache-max-size 8GB', '--paged-ssd-cache-max-size 2TB'],
    ['ns/b'],
  ])
})

test('who agrees with the oMLX that runs comes before older ones: an edit takes it from nobody', () => {
  const running = new Map([['--hot-cache-max-size', '8GB']])
  const { flags, conflicts } = agreement(claimsOf({ hotCacheMaxSize: '16GB' }, { hotCacheMaxSize: '8GB' }), running)
  expect([flags.map(([, value]) => value), [...conflicts.keys()]]).toEqual([['8GB'], ['ns/a']])
})

test('bits are one model’s: services of one Model have to say the same of them, nothing included', () => {
  expect(agreed({ turboQuantBits: 4 }, { turboQuantBits: 8 }, {}).conflicts).toEqual([])
  expect(agreed({ turboQuantBits: 4, model: 'm' }, { turboQuantBits: 4, model: 'm' }).conflicts).toEqual([])
  expect(agreed({ model: 'm' }, { turboQuantBits: 8, model: 'm' }).conflicts).toEqual([
    [
      'ns/b',
      expect.stringMatching(
        /^spec\.turboQuantBits is 8 here and absent in ns\/a, and oMLX has the model of both in mem/,
      ),
    ],
  ])
})

test.each([
  [{ turboQuantBits: 5, hotCacheMaxSize: 'much' }, ['turboQuantBits', 'hotCacheMaxSize']],
  [{ turboQuantBits: '4', pagedSSDCacheDir: 'cache' }, ['turboQuantBits', 'pagedSSDCacheDir']],
  [{ pagedSSDCacheDir: '/a\nb', pagedSSDCacheMaxSize: '--x' }, ['pagedSSDCacheDir', 'pagedSSDCacheMaxSize']],
  [{ hotCacheMaxSize: { a: ['b'.repeat(10_000)] } }, ['hotCacheMaxSize']],
  [{ turboQuantBits: 3.5, hotCacheMaxSize: '0', pagedSSDCacheMaxSize: '1.5 tb', pagedSSDCacheDir: '/a' }, []],
])('what oMLX would not understand is kept from it: %j', (spec, unread) => {
  const parsed = inferenceServiceSpec.parse(spec)
  expect(unreadFields(parsed)).toEqual(unread)
  expect(agreed(spec).flags.join(' ')).not.toMatch(/unreadable/)
})

test('the cache in memory counts in bytes', () => {
  const bytes = (hotCacheMaxSize?: string) => hotCacheBytes(inferenceServiceSpec.parse({ hotCacheMaxSize }))
  expect([bytes(), bytes('0'), bytes('1.5GB'), bytes('512 KB'), bytes('much')]).toEqual([
    ...[0, 0, 1.5 * 1024 ** 3, 512 * 1024, 0],
  ])
})

test.each([
  ['/store/cache', true],
  ['/store', false],
  ['/storecache', false],
  ['/store/../etc', false],
  ['/etc/cron.d', false],
])('a folder for its cache may be below the model roots alone: %s', (folder, isAllowed) => {
  const problem = cacheFolderProblem(inferenceServiceSpec.parse({ pagedSSDCacheDir: folder }), ['/store', '/lent'])
  expect(problem === undefined).toBe(isAllowed)
  if (problem !== undefined)
    expect(problem).toContain(`${folder} is refused: the cache of oMLX needs a folder of its own`)
})

test('a folder for its cache that has to do with a model’s is refused in a sentence that names that one', () => {
  expect(folderRefused('/lent/kiwis/cache', '/lent/kiwis')).toBe(
    'spec.pagedSSDCacheDir: /lent/kiwis/cache is refused: /lent/kiwis is the folder of a model, and oMLX must keep its cache neither inside nor around it. Name a folder separate from all models, or remove it.',
  )
})

test('a size that this machine does not have is refused in a sentence that says what it has', () => {
  const spec = inferenceServiceSpec.parse({ hotCacheMaxSize: '8 GB', pagedSSDCacheMaxSize: '1TB' })
  const gib = 1024 ** 3
  expect([hotCacheProblem(spec, 8 * gib), diskCacheProblem(spec, '/cache', 1024 * gib)]).toEqual([undefined, undefined])
  expect([hotCacheProblem(spec, 8 * gib - 1), diskCacheProblem(spec, '/cache', 90e9)]).toEqual([
    'spec.hotCacheMaxSize: 8GB is refused: all models of this machine together may take 8.6 GB of memory. Set less, or remove it.',
    'spec.pagedSSDCacheMaxSize: 1TB is refused: the disk of /cache has room for a cache of 90.0 GB. Set less, name a folder on another disk as spec.pagedSSDCacheDir, or make room there.',
  ])
})
