import { expect, test } from 'vitest'
import { stableAfterMs } from '../../../src/agent-core/servers/server-state.ts'
import { ServerRoom } from './server-room.ts'

const key = 'a/b'

/** Starts that failed one after the other, and how long the next waits after each. */
async function delays(failures: number, { random = 0.999999, servedMs = 0 } = {}): Promise<number[]> {
  await using room = await ServerRoom.create({ now: () => 1_000, random: () => random })
  return Array.from({ length: failures }, () => room.servers.countFailure(key, servedMs).retryAt - 1_000)
}

test('the wait doubles from one second and stays at five minutes', async () => {
  const seconds = (await delays(10)).map((ms) => Math.round(ms / 1_000))
  expect(seconds).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300])
})

test('jitter is full: anything from nothing to the bound', async () => {
  const fourth = async (random: number) => (await delays(4, { random })).at(-1)
  expect([await fourth(0), await fourth(0.25), await fourth(0.999999)]).toEqual([0, 2_000, 8_000])
})

test('only the first crash of a server that served is restarted at once', async () => {
  const served = await delays(2, { servedMs: 60_000 })
  const never = await delays(2)
  expect([served, never]).toEqual([
    [0, 2_000],
    [1_000, 2_000],
  ])
})

test('a crash after ten minutes of serving counts as the first, and what is cleared is forgotten', async () => {
  await using room = await ServerRoom.create()
  const count = (servedMs: number) => room.servers.countFailure(key, servedMs).failures
  const counts = [1_000, 1_000, stableAfterMs - 1, stableAfterMs, 0].map(count)
  room.servers.clearBackOff(key)
  expect([counts, room.servers.backOff(key), count(0)]).toEqual([[1, 2, 3, 1, 2], undefined, 1])
})
