import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { Server as NetServer, type ListenOptions } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { PortPolicy } from '../../../src/agent-core/servers/launch.ts'
import { NoPortError, Ports } from '../../../src/agent-core/servers/ports.ts'
import { freePort, freePorts } from '../../support/free-port.ts'
import { ServerRoom } from './server-room.ts'

/** A foreign server, on a port of its own or the given one; it answers every request with 200. */
async function stranger(port = 0, host = '0.0.0.0'): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer((_, response) => response.end('{"status":"ok"}')).listen(port, host)
  await once(server, 'listening')
  return { port: portOf(server), [Symbol.asyncDispose]: () => closed(server) }
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
}

function portOf(server: Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not a TCP port')
  return address.port
}

afterEach(() => vi.restoreAllMocks())

const portFlag = '--port-range'

describe('ports', () => {
  test('a range is used from below, skips what is taken, and says when it is used up', async () => {
    const from = await freePorts(2)
    await using taken = await stranger(from)
    const ports = new Ports()
    const policy = { kind: 'range', from: taken.port, to: taken.port + 1 } as const
    using reservation = await ports.reserve(policy)
    expect(reservation.port).toBe(taken.port + 1)
    await expect(ports.reserve(policy, { setting: '--port-range' })).rejects.toThrow(
      new NoPortError(
        `No port from ${taken.port} to ${taken.port + 1} is free: widen the range (--port-range) or stop the programs that use them.`,
      ),
    )
  })

  test('where the gateway still listens for a service its next server listens, at another address, and no other service does', async () => {
    const from = await freePorts(2)
    // Only Linux has it from the start; elsewhere nobody listens there.
    await using gateway = process.platform === 'linux' ? await stranger(from, '127.0.0.2') : undefined
    const ports = new Ports({ published: (key) => ({ own: key === 'ns/a' ? from : undefined, besides: new Set() }) })
    const policy = { kind: 'range', from, to: from + 1 } as const
    const take = async (key: string): Promise<number> => {
      using reservation = await ports.reserve(policy, { key, host: '127.0.0.1' })
      return reservation.port
    }
    expect(await take('ns/a')).toBe(from)
    if (gateway) expect(await take('ns/b')).toBe(from + 1)
    expect([await ports.isFree(from, '127.0.0.1'), await ports.keepersOf(from, '127.0.0.1')]).toEqual([true, undefined])
  })

  test('where pods are still sent for another service nobody else listens, and a port given back comes last', async () => {
    const from = await freePorts(3)
    const published = new Map<string, number>()
    const besides = (key: string) => new Set([...published].flatMap(([other, port]) => (other === key ? [] : [port])))
    const ports = new Ports({ published: (key) => ({ own: undefined, besides: besides(key) }) })
    const policy = { kind: 'range', from, to: from + 2 } as const
    const take = async (key: string): Promise<number> => {
      using reservation = await ports.reserve(policy, { key })
      return reservation.port
    }
    published.set('ns/a', await take('ns/a'))
    const taken: number[] = []
    for (const key of ['ns/b', 'ns/b', 'ns/b', 'ns/a', 'ns/b']) taken.push(await take(key))
    expect(taken).toEqual([from + 1, from + 2, from + 1, from, from + 2])
    await expect(ports.reserve({ kind: 'fixed', port: from }, { key: 'ns/b' })).rejects.toThrow(
      /is still published for another service/,
    )
    using own = await ports.reserve({ kind: 'fixed', port: from }, { key: 'ns/a' })
    expect(own.port).toBe(from)
  })

  test('the next server of a service listens where pods are still sent, on a port of the policy that nobody else has', async () => {
    const from = await freePorts(3)
    let own: number | undefined
    const ports = new Ports({ published: () => ({ own, besides: new Set() }) })
    const range = { kind: 'range', from, to: from + 2 } as const
    const take = async (policy: PortPolicy, avoid: readonly number[] = []): Promise<number> => {
      using reservation = await ports.reserve(policy, { avoid: new Set(avoid) })
      return reservation.port
    }
    own = from + 1
    expect([await take(range), await take(range), await take(range, [own])]).toEqual([own, own, from])
    own = await freePort()
    expect(await take(range)).toBe(from + 2)
    // Whoever may write slices has no say in which port of this machine is listened on.
    expect(await take({ kind: 'ephemeral' })).not.toBe(own)
    own = await take({ kind: 'ephemeral' })
    expect(await take({ kind: 'ephemeral' })).toBe(own)
    await using _ = await stranger(own)
    expect(await take({ kind: 'ephemeral' })).not.toBe(own)
  })

  test('a listener on one address takes the port on all of them', async () => {
    await using taken = await stranger(0, '127.0.0.1')
    await expect(new Ports().reserve({ kind: 'fixed', port: taken.port })).rejects.toThrow(NoPortError)
  })

  test('a listener on loopback takes the port also where the system lets others listen on all addresses beside it', async () => {
    await using taken = await stranger(0, '127.0.0.1')
    const beside = '127.0.0.2'
    const real = Reflect.get(NetServer.prototype, 'listen') as (this: NetServer, options: ListenOptions) => NetServer
    vi.spyOn(NetServer.prototype, 'listen').mockImplementation(function (this: NetServer, options: ListenOptions) {
      return real.call(this, options.host === '0.0.0.0' ? { ...options, host: beside } : options)
    } as typeof real)
    await expect(new Ports().reserve({ kind: 'fixed', port: taken.port })).rejects.toThrow(NoPortError)
    const policy = { kind: 'range', from: taken.port, to: taken.port } as const
    await expect(new Ports().reserve(policy)).rejects.toThrow(NoPortError)
  })

  test('a server of two ports gets neither where one is taken, and no other server gets its second', async () => {
    const further = [1]
    const from = await freePorts(2)
    const one = (port: number) => ({ kind: 'range', from: port, to: port }) as const
    const ports = new Ports()
    const both = await ports.reserve(one(from), { further })
    await expect(ports.reserve(one(from + 1))).rejects.toThrow(NoPortError)
    both[Symbol.dispose]()
    const second = await ports.reserve(one(from + 1))
    await expect(ports.reserve(one(from), { further })).rejects.toThrow(NoPortError)
    second[Symbol.dispose]()
    using _kept = ports.keep(from, further)
    await expect(ports.reserve(one(from + 1))).rejects.toThrow(NoPortError)

    await using _taken = await stranger(from + 1)
    await expect(new Ports().reserve(one(from), { further })).rejects.toThrow(NoPortError)
    await expect(new Ports().reserve(one(65_535), { further })).rejects.toThrow(NoPortError)
  })

  test('reservations at the same time never meet', async () => {
    const ports = new Ports()
    const reserved = await Promise.all(Array.from({ length: 200 }, () => ports.reserve({ kind: 'ephemeral' })))
    expect(new Set(reserved.map(({ port }) => port)).size).toBe(200)
  })
})

test('a fixed port that is taken is a sentence with the process that has it', async () => {
  await using taken = await stranger()
  await using room = await ServerRoom.create()
  room.start({}, { port: { kind: 'fixed', port: taken.port }, portFlag })
  expect((await room.reached('failedToSpawn')).message).toMatch(
    new RegExp(
      `^Port ${taken.port} \\(--port-range\\) is taken by process ${process.pid} \\(.+\\): stop it, or choose another port\\.$`,
    ),
  )
})

/** Takes the port in the gap between our test and the server's own bind. */
function thief(room: ServerRoom, times: number): { strangers: AsyncDisposable[] } & AsyncDisposable {
  const strangers: Awaited<ReturnType<typeof stranger>>[] = []
  const pending: Promise<unknown>[] = []
  room.servers.onChange((_, state) => {
    if (state.kind !== 'starting' || state.port === undefined || pending.length >= times) return
    pending.push(stranger(state.port).then((taken) => strangers.push(taken)))
  })
  return {
    strangers,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(pending)
      await Promise.all(strangers.map((taken) => taken[Symbol.asyncDispose]()))
    },
  }
}

test('a server whose port was taken in between gets another one', async () => {
  await using room = await ServerRoom.create()
  await using thieves = thief(room, 2)
  room.start({ listenAfterMs: 200 })
  const { port, pid } = await room.reached('ready')
  expect(thieves.strangers).toHaveLength(2)
  const attempts = room.changes.flatMap(({ state }) =>
    state.kind === 'starting' && state.pid !== undefined ? [state] : [],
  )
  expect(attempts).toHaveLength(3)
  expect(attempts[2]).toMatchObject({ port, pid })
  expect(room.servers.get('a/b')).toMatchObject({ kind: 'ready' })
})

test('the answer of somebody else on a fixed port is never taken for ours', async () => {
  const port = await freePort()
  await using room = await ServerRoom.create()
  await using thieves = thief(room, 1)
  room.start({ listenAfterMs: 60_000 }, { port: { kind: 'fixed', port }, portFlag })
  expect(await room.settled()).toMatchObject({
    cause: 'portTaken',
    failures: 1,
    message: expect.stringContaining(`Port ${port} (--port-range) is taken by process ${process.pid}`) as string,
  })
  expect(room.kinds()).not.toContain('ready')
  expect(thieves.strangers).toHaveLength(1)
})

test('a server that finds its fixed port taken is told as such, although it exited by itself', async () => {
  const port = await freePort()
  await using room = await ServerRoom.create()
  await using thieves = thief(room, 1)
  room.start({ crashAtStart: { message: 'bind: Address already in use' } }, { port: { kind: 'fixed', port }, portFlag })
  expect(await room.settled()).toMatchObject({
    cause: 'portTaken',
    message: expect.stringContaining(`Port ${port} (--port-range) is taken by process ${process.pid}`) as string,
  })
  expect(thieves.strangers).toHaveLength(1)
})

test('a server that ends because its port was taken is started on the next one of the range', async () => {
  const from = await freePorts(2)
  await using room = await ServerRoom.create()
  room.start(
    { crashAtStart: { message: 'bind: Address already in use' } },
    { port: { kind: 'range', from, to: from + 1 } },
  )
  expect((await room.reached('failedToSpawn')).message).toMatch(/^No port from /)
  const tried = room.changes.flatMap(({ state }) =>
    state.kind === 'starting' && state.port !== undefined ? [state.port] : [],
  )
  expect(tried).toEqual([from, from + 1])
})
