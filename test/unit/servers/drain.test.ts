import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { ask, platform, ServerRoom, untilInFlight } from './server-room.ts'

/** What was told of a server on its way to its end. */
const stoppings = (room: ServerRoom) =>
  room.changes.flatMap(({ state }) => (state.kind === 'stopping' ? [state.drain?.requestsInFlight ?? 'none'] : []))

test('requests in flight are answered to their end before a stop, and told meanwhile', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 40 })
  const { port } = await room.reached('ready')
  const answer = ask(port)
  await untilInFlight(port)
  const stopping = room.servers.stop('a/b')
  const { since, drain } = await room.reached('stopping', { where: (state) => state.drain !== undefined })
  expect(room.servers.counted()).toMatchObject([{ port, isWell: false }])
  expect([await answer, await stopping]).toEqual(['answered', { stopped: true }])
  expect(stoppings(room)).toEqual(['none', 1, 0, 'none'])
  const restMs = (drain?.endsAt ?? 0) - since
  expect(restMs > 20_000 && restMs <= 30_000).toBe(true)
})

test('requests that are still on their way when the last one is answered are answered as well', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 20 })
  const { port } = await room.reached('ready')
  const first = ask(port)
  await untilInFlight(port)
  const stopping = room.servers.stop('a/b')
  await room.reached('stopping', { where: ({ drain }) => drain?.requestsInFlight === 0 })
  const late = ask(port)
  expect([await first, await late, await stopping]).toEqual(['answered', 'answered', { stopped: true }])
  expect(stoppings(room)).toEqual(['none', 1, 0, 1, 0, 'none'])
})

test('a request goes on after a sleep that was longer than the limit', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 40 }, { drainLimitMs: 10_000 })
  const { port } = await room.reached('ready')
  const answer = ask(port)
  await untilInFlight(port)
  const stopping = room.servers.stop('a/b')
  await room.reached('stopping', { where: ({ drain }) => drain?.requestsInFlight === 1 })
  const awake = performance.now.bind(performance)
  const asleep = vi.spyOn(performance, 'now').mockImplementation(() => awake() + 3_600_000)
  onTestFinished(() => {
    asleep.mockRestore()
  })
  expect([await answer, await stopping]).toEqual(['answered', { stopped: true }])
})

test('a request that takes longer than the limit is cut', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 60_000 }, { drainLimitMs: 300 })
  const { port } = await room.reached('ready')
  const answer = ask(port)
  await untilInFlight(port)
  expect([await room.servers.stop('a/b'), await answer]).toEqual([{ stopped: true }, 'cut'])
  expect(stoppings(room)).toEqual(['none', 1, 'none'])
})

test('who does not want to wait any longer skips the wait, and the stop goes on in order', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 60_000 })
  const { port } = await room.reached('ready')
  const answer = ask(port)
  await untilInFlight(port)
  const stopping = room.servers.stop('a/b')
  await room.reached('stopping', { where: ({ drain }) => drain?.requestsInFlight === 1 })
  room.servers.skipDrain('a/b')
  expect([await stopping, await answer]).toEqual([{ stopped: true }, 'cut'])
  expect(room.servers.get('a/b')).toMatchObject({ cause: 'stopped', code: 0 })
})

test('once drains are cut no stop waits for requests, whether it is under way or begins later', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 60_000 })
  room.start({ tokenMs: 60_000 }, {}, 'c/d')
  const [one, other] = [await room.reached('ready'), await room.reached('ready', { key: 'c/d' })]
  const answers = [ask(one.port), ask(other.port)]
  await Promise.all([untilInFlight(one.port), untilInFlight(other.port)])
  const stopping = room.servers.stop('a/b')
  await room.reached('stopping', { where: ({ drain }) => drain?.requestsInFlight === 1 })
  room.servers.cutDrains()
  expect([await stopping, await room.servers.stop('c/d')]).toEqual([{ stopped: true }, { stopped: true }])
  expect(await Promise.all(answers)).toEqual(['cut', 'cut'])
})

test('a server that counts its requests is not held up by a connection that a client merely keeps', async () => {
  await using room = await ServerRoom.create()
  room.start()
  const { port } = await room.reached('ready')
  const client = connect(port, '127.0.0.1')
  await once(client, 'connect')
  await room.servers.stop('a/b')
  client.destroy()
  expect(stoppings(room)).toEqual(['none'])
})

test('where a server does not count, a connection that stays open holds up the stop no longer than the limit', async () => {
  await using room = await ServerRoom.create()
  room.start({ noMetrics: true }, { drainLimitMs: 300 })
  const { port } = await room.reached('ready')
  const client = connect(port, '127.0.0.1').on('error', () => {})
  await once(client, 'connect')
  expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
  client.destroy()
  expect(stoppings(room)).toEqual(['none', 1, 'none'])
})

test('a server that says nothing for a moment keeps its last count, whoever else is connected', async () => {
  let looksAtConnections = 0
  await using room = await ServerRoom.create({
    platform: Object.assign(Object.create(platform) as typeof platform, {
      establishedConnections: (port: number) => {
        looksAtConnections += 1
        return platform.establishedConnections(port)
      },
    }),
  })
  room.start({ tokenMs: 20 })
  const { port, pid } = await room.reached('ready')
  const idle = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
  await Promise.all(idle.map((client) => once(client, 'connect')))
  const answer = ask(port, { max_tokens: 60 })
  await untilInFlight(port)
  const stopping = room.servers.stop('a/b')
  await room.reached('stopping', { where: ({ drain }) => drain?.requestsInFlight === 1 })
  process.kill(pid, 'SIGSTOP')
  await eventually(() => looksAtConnections >= 2, { what: 'two looks at the silent server' })
  process.kill(pid, 'SIGCONT')
  expect([await answer, await stopping]).toEqual(['answered', { stopped: true }])
  for (const client of idle) client.destroy()
  expect(stoppings(room)).toEqual(['none', 1, 0, 'none'])
})
