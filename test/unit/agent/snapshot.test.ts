import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SnapshotStore } from '../../../src/agent-core/agent/snapshot.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

/** A store over one notice that changes, and how often it was asked for. */
function room() {
  const state = { notice: 'first', composed: 0 }
  const { bootId, version, host, cluster } = sampleSnapshot()
  const store = new SnapshotStore(() => ({ bootId, version, host, cluster, startedAt: 0, now: 0 }))
  store.register(() => {
    state.composed += 1
    return { notices: [state.notice] }
  })
  store.get()
  state.composed = 0
  return { state, store }
}

const soonMs = 1_000

test('nothing is composed for nobody, and whoever asks then sees what is so', () => {
  const { state, store } = room()
  state.notice = 'second'
  store.changed()
  vi.advanceTimersByTime(soonMs)
  expect(state.composed).toBe(0)
  expect([store.get().notices, store.get().notices, state.composed]).toEqual([['second'], ['second'], 1])
})

test('changes that come together are told once, with the latest', () => {
  const { state, store } = room()
  const told: string[] = []
  store.subscribe(() => told.push(...store.get().notices))
  for (const notice of ['second', 'third']) {
    state.notice = notice
    store.changed()
  }
  vi.advanceTimersByTime(soonMs)
  expect([told, state.composed]).toEqual([['third'], 1])
})

test('the one who sees most decides what is measured, and each change of that is told once', () => {
  const { store } = room()
  const told: unknown[] = []
  store.onLooker((looker) => told.push(looker))
  const leave = (['icon', 'window', 'menu', 'window'] as const).map((looker) =>
    store.subscribe(() => undefined, looker),
  )
  for (const index of [1, 3, 2, 0]) leave[index]?.()
  expect(told).toEqual(['icon', 'window', 'menu', 'icon', undefined])
})

test('what rooms say is joined: the notices of all, and each part from the room that has it', () => {
  const { store } = room()
  store.register(() => ({ downloads: [], notices: ['another'] }))
  expect(store.get()).toMatchObject({ notices: ['first', 'another'], downloads: [], services: [] })
})
