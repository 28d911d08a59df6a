import { expect, test } from 'vitest'
import { HeartbeatWatch } from '../../../src/agent-core/publishing/heartbeat.ts'

function watchAt(start: number) {
  const clock = { now: start }
  return { clock, watch: new HeartbeatWatch({ monotonicNow: () => clock.now }) }
}

test('silence counts from the last change of the value, however often it is seen again', () => {
  const { clock, watch } = watchAt(1_000)
  watch.observe('slice', 'a')
  clock.now += 60_000
  watch.observe('slice', 'a')
  const before = watch.silentMs('slice')
  watch.observe('slice', 'b')
  clock.now += 5_000
  expect([before, watch.silentMs('slice'), watch.silentMs('never seen')]).toEqual([60_000, 5_000, 0])
})

test('what the server stamped counts for a slice that is new to us, and only then', () => {
  const { watch } = watchAt(1_000)
  watch.observe('slice', 'a', 200_000)
  watch.observe('future', 'a', -5_000)
  const first = [watch.silentMs('slice'), watch.silentMs('future')]
  watch.observe('slice', 'b', 200_000)
  expect([first, watch.silentMs('slice')]).toEqual([[200_000, 0], 0])
})

test('a gap in the watch starts every wait over', () => {
  const { clock, watch } = watchAt(0)
  watch.observe('slice', 'a')
  clock.now = 179_000
  watch.watchGap()
  clock.now = 181_000
  expect(watch.silentMs('slice')).toBe(2_000)
})

test('nobody is silent while we are deaf, nor for the time we were', () => {
  const { clock, watch } = watchAt(0)
  watch.observe('slice', 'a')
  watch.setLive(false)
  clock.now = 500_000
  const deaf = watch.silentMs('slice')
  watch.setLive(true)
  clock.now = 510_000
  watch.setLive(true)
  expect([deaf, watch.silentMs('slice')]).toEqual([0, 10_000])
})

test('a watch that is cut again and again counts the silence in between', () => {
  const { clock, watch } = watchAt(0)
  watch.observe('dead', 'a')
  watch.observe('alive', 'a')
  for (const value of ['b', 'c', 'd']) {
    clock.now += 60_000
    watch.setLive(false)
    clock.now += 5_000
    watch.setLive(true)
    watch.observe('alive', value)
  }
  expect([watch.silentMs('dead'), watch.silentMs('alive')]).toEqual([180_000, 0])
})

test('a forgotten slice is new when it comes back', () => {
  const { clock, watch } = watchAt(0)
  watch.observe('slice', 'a')
  clock.now = 100_000
  watch.forget('slice')
  watch.observe('slice', 'a')
  expect(watch.silentMs('slice')).toBe(0)
})
