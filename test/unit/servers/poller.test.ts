import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { Poller } from '../../../src/agent-core/servers/poller.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'

/** A server whose counters and connections a test says, and the one that asks it. */
async function scene({ sleepsWhenIdle = false } = {}) {
  const facts = {
    ...{ requests: 0, work: 0, counts: true, connections: 0, now: 0 },
    ...{ asked: 0, counted: 0, readings: 0 },
    /** Pass at every look at the connections. */
    sleptMs: 0,
  }
  const server = createServer((_, response) => {
    facts.asked += 1
    const { requests, work, counts } = facts
    response.end(
      counts ? `llamacpp:requests_processing ${requests}\nllamacpp:prompt_tokens_total ${work}\n` : 'other 1\n',
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const poller = new Poller({
    ...{ port, sleepsWhenIdle, log: silentLog },
    platform: {
      establishedConnections: () => {
        facts.counted += 1
        facts.now += facts.sleptMs
        return Promise.resolve(facts.connections)
      },
    },
    onReading: () => void (facts.readings += 1),
    now: () => facts.now,
  })
  const close = () => void server.close()
  const end = () => {
    poller[Symbol.dispose]()
    close()
  }
  return { facts, poller, close, [Symbol.dispose]: end }
}

test('those who look at the same time share one question, and an answer is as good as it is fresh', async () => {
  using world = await scene()
  const { facts, poller } = world
  const looks = await Promise.all(Array.from({ length: 5 }, () => poller.look()))
  expect([facts.asked, facts.readings, new Set(looks.map(({ answer }) => answer))]).toEqual([
    1,
    1,
    new Set(['counted']),
  ])
  facts.now = 999
  await poller.look({ freshMs: 1_000 })
  expect(facts.asked).toBe(1)
  facts.now = 1_000
  await poller.look({ freshMs: 1_000 })
  await poller.look()
  expect([facts.asked, facts.readings]).toEqual([3, 3])
})

test('a server that sleeps when idle is asked only where that is said, and its connections stand for requests', async () => {
  using world = await scene({ sleepsWhenIdle: true })
  const { facts, poller } = world
  facts.connections = 2
  const seen = [await poller.look(), await poller.look({ connections: true })]
  expect([seen, facts.asked]).toMatchObject([
    [
      { answer: 'notAsked', requests: undefined },
      { answer: 'notAsked', requests: 2 },
    ],
    0,
  ])
  expect(await poller.look({ evenAsleep: true })).toMatchObject({ answer: 'counted', requests: 0 })
})

test('connections are counted only where they are asked for and the server does not count its requests', async () => {
  using world = await scene()
  const { facts, poller } = world
  await poller.look({ connections: true })
  facts.counts = false
  await poller.look()
  expect([facts.counted, facts.readings]).toEqual([0, 1])
  facts.connections = 3
  expect(await poller.look({ connections: true })).toMatchObject({ answer: 'untold', requests: 3, work: undefined })
})

test('it is idle for as long as nothing is in flight and no work was done; what is not known changes nothing', async () => {
  using world = await scene()
  const { facts, poller } = world
  const idleAfter = async (ms: number, changes: Partial<typeof facts> = {}) => {
    Object.assign(facts, changes)
    facts.now += ms
    return (await poller.look()).idleForMs
  }
  const idle = [
    await idleAfter(0),
    await idleAfter(100),
    await idleAfter(100, { work: 7 }),
    await idleAfter(50),
    await idleAfter(50, { requests: 1 }),
    await idleAfter(10, { requests: 0 }),
    await idleAfter(10, { counts: false }),
    await idleAfter(10, { counts: true }),
  ]
  expect(idle).toEqual([0, 100, 0, 50, 0, 10, 10, 30])
})

test('a server that does not answer counts as used, also where nobody is connected', async () => {
  using world = await scene()
  const { facts, poller } = world
  await poller.look()
  facts.now = 500
  expect((await poller.look()).idleForMs).toBe(500)
  world.close()
  facts.now = 700
  const gone = { answer: 'silent', work: undefined, idleForMs: 0 }
  expect([await poller.look(), await poller.look({ connections: true })]).toEqual([
    { ...gone, requests: undefined },
    { ...gone, requests: 0 },
  ])
})

test('the time for which the machine slept is no idle time', async () => {
  using world = await scene({ sleepsWhenIdle: true })
  const { facts, poller } = world
  facts.sleptMs = 8 * 3_600_000
  const idle: number[] = []
  poller.limitIdleness({ idleMs: 400, onIdle: () => idle.push(facts.counted) })
  await eventually(() => facts.counted >= 1)
  expect(idle).toEqual([])
  await eventually(() => idle.length === 1)
  expect(idle).toEqual([2])
})
