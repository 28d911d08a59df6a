import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { probeHealth } from '../../../src/agent-core/servers/probe.ts'
import type { Ready, ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { Sleep } from '../../../src/agent-core/power/sleep.ts'
import { eventually } from '../../support/eventually.ts'
import { Recorder } from '../../support/running-agent.ts'

/** A server that holds its health back until it is told to answer. */
class HeldServer implements AsyncDisposable {
  readonly #server: Server
  asked = 0
  answers = false
  status = 200

  constructor() {
    this.#server = createServer((_request, response) => {
      this.asked += 1
      if (this.answers) response.writeHead(this.status).end()
    })
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  get state(): Ready {
    const { port } = this.#server.address() as AddressInfo
    return { kind: 'ready', since: 0, readySince: 0, pid: 1, port, healthy: true }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

function sleepOf(states: Map<string, ServerState>, refresh: () => Promise<unknown> = () => Promise.resolve()) {
  const passes: string[] = []
  const sleep: Sleep = new Sleep({
    servers: {
      state: () => states,
      answers: (key, timeLimitMs, signal) => {
        const state = states.get(key)
        return state?.kind === 'ready' ? probeHealth(state.port, timeLimitMs, signal) : undefined
      },
    },
    session: () => ({
      cluster: { reconnect: () => undefined },
      publisher: { withdrawAll: () => Promise.resolve([]) },
      reconciler: {
        enqueue: (key) => void passes.push(`${key}: ${sleep.silenceOf(key) ?? 'published'}`),
        enqueueAll: () =>
          void passes.push(...[...states.keys()].map((key) => `${key}: ${sleep.silenceOf(key) ?? 'published'}`)),
      },
    }),
    log: new Recorder(),
    refresh,
  })
  return { sleep, passes }
}

test('nothing is published before it is known where the machine woke, unless that takes long', async () => {
  await using server = await new HeldServer().listen()
  server.answers = true
  const looks = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()] as const
  let seen = 0
  const { sleep } = sleepOf(new Map([['a', server.state]]), () => looks[seen++ % 2]?.promise ?? Promise.resolve())
  using _ = sleep
  await sleep.suspend()
  const first = sleep.resume()
  await eventually(() => seen === 1)
  expect([sleep.silenceOf('a'), server.asked]).toEqual(['unverified', 0])
  looks[0].resolve(undefined)
  await first
  expect(sleep.silenceOf('a')).toBeUndefined()
  await sleep.suspend()
  await sleep.resume()
  expect([seen, sleep.silenceOf('a')]).toEqual([2, undefined])
})

test('what answers after a sleep with an error is not published for that', async () => {
  await using server = await new HeldServer().listen()
  Object.assign(server, { answers: true, status: 500 })
  const { sleep } = sleepOf(new Map([['a', server.state]]))
  using _ = sleep
  await sleep.suspend()
  const woken = sleep.resume()
  await eventually(() => server.asked > 1)
  expect(sleep.silenceOf('a')).toBe('unverified')
  server.status = 200
  await woken
  expect(sleep.silenceOf('a')).toBeUndefined()
})

describe('a machine that is awake', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('though a sleep was announced publishes again after a minute', async () => {
    const { sleep } = sleepOf(new Map())
    using _ = sleep
    await sleep.suspend()
    vi.advanceTimersByTime(60_000)
    const before = sleep.silenceOf('a')
    vi.advanceTimersByTime(5_000)
    expect([before, sleep.silenceOf('a')]).toEqual(['asleep', undefined])
  })

  test('for a moment only, as for mail at night, goes on to sleep', async () => {
    const { sleep } = sleepOf(new Map())
    using _ = sleep
    await sleep.suspend()
    for (let hour = 0; hour < 5; hour++) {
      vi.advanceTimersByTime(30_000)
      vi.setSystemTime(Date.now() + 3_600_000)
    }
    expect(sleep.silenceOf('a')).toBe('asleep')
  })
})
