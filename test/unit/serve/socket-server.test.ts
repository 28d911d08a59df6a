import { once } from 'node:events'
import { mkdir, stat, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import path from 'node:path'
import { execa } from 'execa'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createStore, type StoreApi } from 'zustand/vanilla'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { AgentConnectionError, connectToAgent, NoAgentError } from '../../../src/serve/client/agent-client.ts'
import { maxRequestBytes } from '../../../src/serve/frames.ts'
import { serveOnSocket, type SocketServer } from '../../../src/serve/socket-server.ts'
import { eventually } from '../../support/eventually.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

interface World extends AsyncDisposable {
  readonly stateDir: string
  readonly socketPath: string
  readonly store: StoreApi<AgentSnapshot>
  readonly errors: unknown[]
  readonly server: SocketServer
  /** How many times somebody has subscribed and not yet left. */
  subscribers(): number
}

async function startWorld(snapshot = sampleSnapshot()): Promise<World> {
  const folder = await temporaryFolder()
  const socketPath = path.join(folder.dir, 'agent.sock')
  const store = createStore<AgentSnapshot>(() => snapshot)
  const errors: unknown[] = []
  let subscribers = 0
  const result = await serveOnSocket({
    socketPath,
    stateDir: folder.dir,
    version: '1.2.3',
    onError: (error) => errors.push(error),
    source: {
      get: () => store.getState(),
      subscribe(listener) {
        subscribers++
        const unsubscribe = store.subscribe(listener)
        return () => {
          subscribers--
          unsubscribe()
        }
      },
    },
  })
  if (!result.ok) throw new Error(result.message)
  const { server } = result
  return {
    stateDir: folder.dir,
    socketPath,
    store,
    errors,
    server,
    subscribers: () => subscribers,
    async [Symbol.asyncDispose]() {
      await server.close()
      await folder[Symbol.asyncDispose]()
    },
  }
}

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

const client = () => connectToAgent(world)
const revise = (revision: number) => world.store.setState({ revision })

/** A connection of bytes, for what no client of ours would send. */
async function rawConnection(): Promise<{ socket: Socket; frames: unknown[]; closed: Promise<unknown> }> {
  const socket = connect(world.socketPath)
  const frames: unknown[] = []
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) frames.push(JSON.parse(line))
  })
  socket.on('error', () => socket.destroy())
  await once(socket, 'connect')
  return { socket, frames, closed: once(socket, 'close') }
}

const hello = { type: 'hello', protocol: 1, version: '1.2.3' }

test('the socket and its folder are for their owner alone', async () => {
  const modes = [(await stat(world.socketPath)).mode & 0o777, (await stat(world.stateDir)).mode & 0o777]
  expect(modes).toEqual([0o600, 0o700])
})

test('a snapshot carries the time at which it was asked for', async () => {
  await using agent = await client()
  const before = new Date().toISOString()
  const snapshot = await agent.snapshot()
  expect({ snapshot, fresh: snapshot.now >= before }).toEqual({
    snapshot: { ...sampleSnapshot(), now: snapshot.now },
    fresh: true,
  })
})

test('a snapshot of a thousand services arrives whole', async () => {
  const services = Array.from({ length: 1_000 }, (_, index) => sampleService({ name: `service-${index}` }))
  world.store.setState({ services })
  await using agent = await client()
  expect((await agent.snapshot()).services).toEqual(services)
})

test('a follower gets the state at once and again after a change, without asking', async () => {
  const agent = await client()
  const seen: number[] = []
  for await (const { revision } of agent.follow()) {
    seen.push(revision)
    if (revision === 3) break
    revise(revision + 1)
  }
  expect(seen).toEqual([1, 2, 3])
})

test('many changes in a row reach a follower as four snapshots a second, the last one included', async () => {
  const agent = await client()
  const seen: { revision: number; at: number }[] = []
  for await (const { revision } of agent.follow()) {
    seen.push({ revision, at: performance.now() })
    if (seen.length === 1) for (let next = 2; next <= 500; next++) revise(next)
    if (revision === 500) break
  }
  const waited = (seen[1]?.at ?? 0) - (seen[0]?.at ?? 0)
  expect({ revisions: seen.map(({ revision }) => revision), waited: waited > 200 }).toEqual({
    revisions: [1, 500],
    waited: true,
  })
})

test('the state is composed for nobody: who does not follow is not subscribed, who leaves is no more', async () => {
  await using reader = await client()
  await reader.snapshot()
  const whileReading = world.subscribers()
  const agent = await client()
  const steps = agent.follow()
  await steps.next()
  const whileFollowing = world.subscribers()
  await steps.return()
  await eventually(() => world.subscribers() === 0, { what: 'the unsubscription' })
  expect([whileReading, whileFollowing]).toEqual([0, 1])
})

test('a follower that does not read costs no memory and gets the latest state when it reads again', async () => {
  const services = Array.from({ length: 3_000 }, (_, index) => sampleService({ name: `service-${index}` }))
  world.store.setState({ services })
  const { socket, frames } = await rawConnection()
  socket.pause()
  socket.write('{"id":"f","verb":"snapshot","follow":true}\n')
  await eventually(() => world.subscribers() === 1)
  for (let revision = 2; revision <= 2_000; revision++) revise(revision)
  // Two intervals of pushing pass while nothing is read.
  const later = performance.now() + 600
  await eventually(() => {
    revise(world.store.getState().revision + 1)
    return performance.now() > later
  })
  revise(1_000_000)
  socket.resume()
  const revisions = () => frames.flatMap((frame) => snapshotRevision(frame))
  await eventually(() => revisions().at(-1) === 1_000_000, { what: 'the latest revision' })
  expect(revisions()).toEqual([1, 1_000_000])
  socket.destroy()
})

const snapshotRevision = (frame: unknown): number[] =>
  typeof frame === 'object' && frame !== null && 'snapshot' in frame ? [(frame.snapshot as AgentSnapshot).revision] : []

test('a request of a newer client is refused by name and the connection goes on', async () => {
  const { socket, frames } = await rawConnection()
  socket.write(
    '{"id":"1","verb":"teleport"}\n{"id":"2","verb":"snapshot","follow":"yes"}\n{"id":"3","verb":"snapshot"}\n',
  )
  await eventually(() => frames.length === 4)
  expect(frames).toEqual([
    hello,
    { type: 'error', id: '1', code: 'unknown-verb', message: 'This agent does not know the verb "teleport".' },
    { type: 'error', id: '2', code: 'bad-request', message: expect.stringContaining('follow') as unknown },
    { type: 'snapshot', id: '3', snapshot: expect.objectContaining({ bootId: 'boot-1' }) as unknown },
  ])
  socket.destroy()
})

test('a second follow on one connection is refused', async () => {
  const { socket, frames } = await rawConnection()
  socket.write('{"id":"1","verb":"snapshot","follow":true}\n{"id":"2","verb":"snapshot","follow":true}\n')
  await eventually(() => frames.length === 3)
  expect(frames[2]).toMatchObject({ type: 'error', id: '2', code: 'busy' })
  socket.destroy()
})

describe('what is no request', () => {
  const refusal = { type: 'error', code: 'bad-frame', message: expect.any(String) as unknown }

  test.each([
    ['hello\n'],
    ['{}\n'],
    ['[]\n'],
    ['null\n'],
    ['{"id":1,"verb":"snapshot"}\n'],
    ['{"id":"1"\n'],
    ['\u0000\n'],
  ])('%j is answered with an error and the connection closed', async (bytes) => {
    const { socket, frames, closed } = await rawConnection()
    socket.write(bytes)
    await closed
    expect(frames).toEqual([hello, refusal])
  })

  test('a line without end is cut off at 64 KiB', async () => {
    const { socket, frames, closed } = await rawConnection()
    socket.write('x'.repeat(maxRequestBytes + 1))
    await closed
    expect(frames).toEqual([
      hello,
      { type: 'error', code: 'frame-too-large', message: 'A request must not be longer than 64 KiB.' },
    ])
  })

  test('whatever bytes arrive, in whatever pieces, the server goes on and others are served', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1, maxLength: 200 }), { maxLength: 8 }), async (pieces) => {
        const { socket, closed } = await rawConnection()
        for (const piece of pieces) socket.write(piece)
        socket.end()
        await closed
        await using agent = await client()
        expect((await agent.snapshot()).bootId).toBe('boot-1')
      }),
      { numRuns: 50 },
    )
    expect(world.errors).toEqual([])
  })
})

test('a snapshot that cannot be had is an error frame, not the end of the agent', async () => {
  await using agent = await client()
  world.store.getState = () => {
    throw new Error('composer broke')
  }
  await expect(agent.snapshot()).rejects.toThrow(
    'The agent refused the request: The agent could not say what it does; its log says why.',
  )
  expect(world.errors).toEqual([new Error('composer broke')])
})

test('a client that floods and never reads is let go', async () => {
  const services = Array.from({ length: 1_000 }, (_, index) => sampleService({ name: `service-${index}` }))
  world.store.setState({ services })
  const { socket, closed } = await rawConnection()
  socket.pause()
  for (let id = 0; id < 100; id++) socket.write(`{"id":"${id}","verb":"snapshot"}\n`)
  await eventually(() => world.server.connections === 0, { what: 'the end of the connection' })
  socket.resume()
  await closed
})

describe('starting', () => {
  const serve = (socketPath: string, stateDir: string) =>
    serveOnSocket({
      socketPath,
      stateDir,
      version: '2',
      onError: () => undefined,
      source: { get: () => sampleSnapshot(), subscribe: () => () => undefined },
    })

  test('a second server on the same socket is refused and the first goes on', async () => {
    const result = await serve(world.socketPath, world.stateDir)
    await using agent = await client()
    expect([result, (await agent.snapshot()).version]).toEqual([
      { ok: false, reason: 'taken', message: `Another agent answers on the socket ${world.socketPath}.` },
      '1.2.3',
    ])
  })

  test('the socket of an agent that was killed is replaced', async () => {
    await using folder = await temporaryFolder()
    const socketPath = path.join(folder.dir, 'agent.sock')
    const script = `require('node:net').createServer().listen(${JSON.stringify(socketPath)}, () => process.kill(process.pid, 'SIGKILL'))`
    await execa(process.execPath, ['-e', script], { reject: false })
    const leftOver = (await stat(socketPath)).isSocket()
    const result = await serve(socketPath, folder.dir)
    if (!result.ok) throw new Error(result.message)
    await using agent = await connectToAgent({ socketPath, stateDir: folder.dir })
    expect([leftOver, (await agent.snapshot()).bootId]).toEqual([true, 'boot-1'])
    await result.server.close()
  })

  test('a file in the place of the socket is left alone', async () => {
    await using folder = await temporaryFolder()
    const socketPath = path.join(folder.dir, 'agent.sock')
    await writeFile(socketPath, 'precious')
    expect(await serve(socketPath, folder.dir)).toEqual({
      ok: false,
      reason: 'unusable',
      message: `The socket ${socketPath} cannot be used: there is a file in its place that is no socket.`,
    })
  })

  test('a folder that is not there is made, and one open to others is closed to them', async () => {
    await using folder = await temporaryFolder()
    const open = path.join(folder.dir, 'open')
    await mkdir(open, { mode: 0o755 })
    const results = [
      await serve(path.join(open, 'agent.sock'), open),
      await serve(path.join(folder.dir, 'new', 'agent.sock'), 'x'),
    ]
    const modes = [(await stat(open)).mode & 0o777, (await stat(path.join(folder.dir, 'new'))).mode & 0o777]
    for (const result of results) if (result.ok) await result.server.close()
    expect({ ok: results.map(({ ok }) => ok), modes }).toEqual({ ok: [true, true], modes: [0o700, 0o700] })
  })
})

describe('the end', () => {
  test('a closing server removes its socket, and followers are told', async () => {
    const agent = await client()
    const steps = agent.follow()
    await steps.next()
    const told = expect(steps.next()).rejects.toThrow(
      new AgentConnectionError('The agent closed the connection: it may have stopped.'),
    )
    await world.server.close()
    await told
    await expect(stat(world.socketPath)).rejects.toThrow('ENOENT')
    await expect(client()).rejects.toBeInstanceOf(NoAgentError)
  })

  test('a follower that was busy when the agent went is told at its next step, and nothing is left unhandled', async () => {
    const agent = await client()
    const steps = agent.follow()
    await steps.next()
    await world.server.close()
    await expect(steps.next()).rejects.toBeInstanceOf(AgentConnectionError)
    await expect(agent.snapshot()).rejects.toBeInstanceOf(AgentConnectionError)
  })
})

describe('a client meets', () => {
  async function strangerSaying(text: string, timeoutMs = 5_000): Promise<string> {
    await using folder = await temporaryFolder()
    const socketPath = path.join(folder.dir, 'agent.sock')
    const server = createServer((socket) => {
      socket.on('error', () => socket.destroy())
      socket.write(text)
    }).listen(socketPath)
    await once(server, 'listening')
    try {
      await using agent = await connectToAgent({ socketPath, stateDir: folder.dir, timeoutMs })
      return (await agent.snapshot()).version
    } catch (error) {
      if (error instanceof AgentConnectionError) return error.message
      throw error
    } finally {
      server.close()
    }
  }

  test('something else on the socket', async () => {
    expect(await strangerSaying('220 mail ready\n')).toBe('What listens there is no agent of ours.')
  })

  test('an agent that is stopped in a debugger', async () => {
    expect(await strangerSaying('', 50)).toBe('The agent did not say hello within 0.05 s.')
  })

  test('an agent whose answer it cannot read', async () => {
    expect(await strangerSaying('{"type":"hello","protocol":1,"version":"x"}\n{"type":"snapshot","id":"1"}\n')).toBe(
      'The agent sent something that is no answer.',
    )
  })
})
