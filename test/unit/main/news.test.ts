import { describe, expect, test } from 'vitest'
import { cleanText } from '../../../src/contract/clean-text.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { lossAfterMs, newsIn, type News, type Watched } from '../../../src/main/notifications/news.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

const ready = {}
const crashing = { state: 'crash-looping', reason: 'CrashLooping', message: 'It ended three times.' } as const
const starting = { state: 'starting', reason: 'Starting' } as const
const tooLarge = { state: 'waiting', reason: 'InsufficientMemory', message: 'It needs 44.0 GB.' } as const
const refused = { state: 'refused', reason: 'Refused', message: 'Not for a Mac.' } as const
const stopped = { state: 'stopped', reason: 'Suspended' } as const
const evicted = (by: 'pressure' | 'person') =>
  ({
    state: 'stopped',
    reason: by === 'pressure' ? 'MemoryPressure' : 'Held',
    message: 'Evicted.',
    hold: { cause: 'evicted', since: '2026-01-02T03:03:05.000Z', message: 'Evicted.', by },
  }) as const

const withService = (service: Partial<ServiceView>, changes: Partial<AgentSnapshot> = {}) =>
  sampleSnapshot({ services: [sampleService(service)], ...changes })

const withCluster = (state: AgentSnapshot['cluster']['state'], context = 'lab') =>
  sampleSnapshot({ services: [], cluster: { ...sampleSnapshot().cluster, state, context, message: 'It is away.' } })

/** What is told of snapshots that come one after the other, each at its time. */
function told(snapshots: readonly (AgentSnapshot | readonly [AgentSnapshot, number])[]): News[] {
  let watched: Watched | undefined
  return snapshots.flatMap((one) => {
    const [snapshot, nowMs] = 'protocol' in one ? [one, 0] : one
    const { watched: after, news } = newsIn(watched, snapshot, nowMs)
    watched = after
    return news
  })
}

const titles = (snapshots: Parameters<typeof told>[0]) => told(snapshots).map(({ title }) => title)

describe('of a service', () => {
  test.for<[string, readonly Partial<ServiceView>[], readonly string[]]>([
    ['what is there at the start', [crashing], []],
    ['all goes well', [starting, ready, stopped, starting, ready], []],
    ['a crash loop', [ready, crashing], ['qwen keeps crashing']],
    ['its next attempts', [ready, crashing, starting, crashing, starting, crashing], ['qwen keeps crashing']],
    [
      'another crash loop after it served, soon after the first',
      [ready, crashing, starting, ready, crashing],
      ['qwen keeps crashing'],
    ],
    ['too large', [starting, tooLarge], ['qwen does not fit into memory']],
    ['refused', [starting, refused, refused], ['qwen was refused']],
    ['evicted by pressure', [ready, evicted('pressure')], ['qwen was evicted: memory was short']],
    ['evicted by a person', [ready, evicted('person')], []],
    ['stopped by a person', [ready, stopped], []],
    ['of another machine', [ready, { state: 'foreign', reason: 'ClaimedElsewhere' }], []],
    [
      'one trouble after another',
      [ready, crashing, tooLarge],
      ['qwen keeps crashing', 'qwen does not fit into memory'],
    ],
  ])('%s', ([, services, expected]) => {
    expect(titles(services.map((service) => withService(service)))).toEqual(expected)
  })

  test('one that appears in trouble is told of, and again when it was deleted and made anew', () => {
    const none = sampleSnapshot({ services: [] })
    const later = [withService(tooLarge), 600_000] as const
    expect(titles([none, withService(tooLarge), none, later])).toHaveLength(2)
  })

  test('the same trouble is not told again by an agent that has started anew and does not see its cluster yet', () => {
    const bootId = 'boot-2'
    const blind = sampleSnapshot({
      bootId,
      services: [],
      cluster: { ...sampleSnapshot().cluster, state: 'connecting' },
    })
    expect(titles([withService(ready), withService(crashing), blind, withService(crashing, { bootId })])).toEqual([
      'qwen keeps crashing',
    ])
  })

  test('a click opens it, and a button does what helps', () => {
    const service = { namespace: 'default', name: 'qwen' }
    const at = { service: sampleService().uid }
    expect(told([withService(ready), withService(crashing), withService(evicted('pressure'))])).toEqual([
      {
        id: 'default/qwen crashes',
        title: 'qwen keeps crashing',
        body: 'It ended three times.',
        click: ['open', at],
        button: { label: 'Stop', action: ['command', { name: 'stop', service }] },
      },
      {
        id: 'default/qwen evicted',
        title: 'qwen was evicted: memory was short',
        body: 'Evicted.',
        click: ['open', at],
        button: { label: 'Bring back', action: ['command', { name: 'bringBack', service }] },
      },
    ])
  })

  test('names and messages of any kind are clean and short', () => {
    const hostile = { ...crashing, name: `q\u202E${'x'.repeat(300)}`, message: `a\u0007${'b '.repeat(3_000)}` }
    const [news] = told([withService({ name: hostile.name }), withService(hostile)])
    expect([news?.title.length, Buffer.byteLength(news?.body ?? '')]).toEqual([
      expect.toSatisfy((length: number) => length < 90),
      expect.toSatisfy((bytes: number) => bytes <= 240),
    ])
    expect(cleanText(`${news?.title}${news?.body}`)).toBe(`${news?.title}${news?.body}`)
  })
})

describe('of the cluster', () => {
  const [live, away] = [withCluster('live'), withCluster('offline')]
  test.for<[string, readonly (readonly [AgentSnapshot, number])[], readonly string[]]>([
    [
      'away for less than a minute',
      [
        [live, 0],
        [away, 1],
        [away, lossAfterMs],
        [live, lossAfterMs + 1],
      ],
      [],
    ],
    [
      'away for longer, and back',
      [
        [live, 0],
        [away, 1],
        [withCluster('stale'), 2],
        [away, lossAfterMs + 1],
        [away, lossAfterMs * 5],
        [live, lossAfterMs * 6],
      ],
      ['lab does not answer', 'lab answers again'],
    ],
    [
      'never there',
      [
        [withCluster('connecting'), 0],
        [away, 1],
        [away, lossAfterMs * 9],
        [live, lossAfterMs * 10],
      ],
      [],
    ],
    [
      'another one is chosen',
      [
        [live, 0],
        [away, 1],
        [withCluster('offline', 'other'), lossAfterMs * 2],
        [withCluster('live', 'other'), lossAfterMs * 3],
      ],
      [],
    ],
    [
      'gone, and left for another',
      [
        [live, 0],
        [away, 1],
        [away, lossAfterMs * 2],
        [withCluster('live', 'other'), lossAfterMs * 3],
      ],
      ['lab does not answer'],
    ],
  ])('%s', ([, snapshots, expected]) => {
    expect(titles(snapshots)).toEqual(expected)
  })
})
