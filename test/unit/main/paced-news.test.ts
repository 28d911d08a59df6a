import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { PacedNews } from '../../../src/main/notifications/paced-news.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** Services of these names; those of `crashing` do. */
const services = (names: readonly string[], crashing: readonly string[] = []): AgentSnapshot =>
  sampleSnapshot({
    services: names.map((name) =>
      sampleService({ uid: name, name, ...(crashing.includes(name) && { state: 'crash-looping' as const }) }),
    ),
  })

const cluster = (state: 'live' | 'offline') =>
  sampleSnapshot({ services: [], cluster: { ...sampleSnapshot().cluster, state } })

function world(isWanted = () => true) {
  const shown: string[] = []
  const news = new PacedNews({ isWanted, show: ({ title }) => shown.push(title), now: () => Date.now() })
  const after = (ms: number) => {
    vi.advanceTimersByTime(ms)
    return shown.splice(0)
  }
  return { news, after }
}

describe('notifications', () => {
  test('come at once, each for itself', () => {
    const { news, after } = world()
    const names = ['a', 'b', 'c']
    news.next(services(names))
    news.next(services(names, names))
    expect(after(0)).toEqual(['a keeps crashing', 'b keeps crashing', 'c keeps crashing'])
  })

  test('do not tell the same again within ten minutes, however often it happens', () => {
    const { news, after } = world()
    const told: string[] = []
    for (let minute = 0; minute < 20; minute += 1) {
      news.next(services(['a']))
      news.next(services(['a'], ['a']))
      told.push(...after(60_000))
    }
    expect(told).toEqual(['a keeps crashing', 'a keeps crashing'])
  })

  test('are not shown to whom does not want them, and what happened meanwhile is not made up for', () => {
    let isWanted = false
    const { news, after } = world(() => isWanted)
    news.next(services(['a', 'b']))
    news.next(services(['a', 'b'], ['a']))
    const unwanted = after(60_000)
    isWanted = true
    news.next(services(['a', 'b'], ['a']))
    const still = after(60_000)
    news.next(services(['a', 'b'], ['a', 'b']))
    expect([unwanted, still, after(60_000)]).toEqual([[], [], ['b keeps crashing']])
  })

  test('tell of a lost cluster although nothing comes from the agent any more', () => {
    const { news, after } = world()
    news.next(cluster('live'))
    news.next(cluster('offline'))
    expect([after(59_000), after(5_000)]).toEqual([[], ['lab does not answer']])
  })

  test('tell of namesakes in two namespaces', () => {
    const { news, after } = world()
    const both = (crashing: boolean) =>
      sampleSnapshot({
        services: ['a', 'b'].map((namespace) =>
          sampleService({ uid: namespace, namespace, name: 'x', ...(crashing && { state: 'crash-looping' as const }) }),
        ),
      })
    news.next(both(false))
    news.next(both(true))
    expect(after(2_000)).toEqual(['x keeps crashing', 'x keeps crashing'])
  })

  test('tell of a second loss of the cluster later, where it lasts, and of its end each time', () => {
    const { news, after } = world()
    const step = (state: 'live' | 'offline', ms: number) => {
      news.next(cluster(state))
      return after(ms)
    }
    step('live', 1_000)
    expect([step('offline', 70_000), step('live', 70_000)]).toEqual([['lab does not answer'], ['lab answers again']])
    // Over before the time comes: nothing was said of it, so nothing is of its end.
    expect([step('offline', 120_000), step('live', 30_000)]).toEqual([[], []])
    expect([step('offline', 300_000), after(100_000), step('live', 20_000)]).toEqual([
      [],
      ['lab does not answer'],
      ['lab answers again'],
    ])
  })

  test('do not count the time that the machine slept', () => {
    const { news, after } = world()
    news.next(cluster('live'))
    news.next(cluster('offline'))
    vi.setSystemTime(Date.now() + 3_600_000)
    news.woke()
    news.next(cluster('offline'))
    const woken = after(5_000)
    news.next(cluster('live'))
    expect([woken, after(120_000)]).toEqual([[], []])
  })
})
