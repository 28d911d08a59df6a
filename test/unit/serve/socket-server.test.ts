import { once } from 'node:events'
import { stat, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import path from 'node:path'
import { execa } from 'execa'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { LinkError } from '../../../src/contract/client.ts'
import { logChunk, type LogChunk } from '../../../src/contract/log.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { connectToAgent } from '../../../src/serve/client/agent-client.ts'
import { maxRequestBytes } from '../../../src/serve/frames.ts'
import { serveOnSocket, type SocketServer } from '../../../src/serve/socket-server.ts'
import { Heard } from '../../support/carriers/heard.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'
import { eventually } from '../../support/eventually.ts'
import { sampleService } from '../../support/sample-snapshot.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

interface World extends AsyncDisposable {
  readonly stateDir: string
  readonly socketPath: string
  readonly door: RecordingDoor
  readonly errors: unknown[]
  readonly server: SocketServer
}

async function startWorld(): Promise<World> {
  const folder = await temporaryFolder()
  const socketPath = path.join(folder.dir, 'agent.sock')
  const door = new RecordingDoor()
  const errors: unknown[] = []
  const result = await serveOnSocket({
    socketPath,
    stateDir: folder.dir,
    version: '1.2.3',
    onError: (error) => errors.push(error),
    door,
  })
  if (!result.ok) throw new Error(result.message)
  const { server } = result
  return {
    stateDir: folder.dir,
    socketPath,
    door,
    errors,
    server,
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
const revise = (revision: number) => world.door.show({ revision })

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

test('many changes in a row reach a follower as four snapshots a second, the last one included', async () => {
  await using agent = await client()
  const seen: { revision: number; at: number }[] = []
  agent.follow({
    next: ({ revision }) => {
      seen.push({ revision, at: performance.now() })
      if (seen.length === 1) for (let next = 2; next <= 500; next++) revise(next)
    },
    end: (error) => world.errors.push(error),
  })
  await eventually(() => seen.at(-1)?.revision === 500)
  const waited = (seen[1]?.at ?? 0) - (seen[0]?.at ?? 0)
  expect({ revisions: seen.map(({ revision }) => revision), waited: waited > 200 }).toEqual({
    revisions: [1, 500],
    waited: true,
  })
})

test('the state is composed for nobody: who does not follow is not subscribed, who leaves is no more', async () => {
  await using agent = await client()
  await agent.snapshot()
  const whileReading = world.door.followers
  const heard = new Heard<AgentSnapshot>()
  const unsubscribe = agent.follow(heard)
  await eventually(() => heard.items.length === 1)
  const whileFollowing = world.door.followers
  unsubscribe()
  await eventually(() => world.door.followers === 0, { what: 'the unsubscription' })
  revise(2)
  await agent.snapshot()
  expect([whileReading, whileFollowing, heard.items.length, heard.ends]).toEqual([0, 1, 1, []])
})

test('a follower that does not read costs no memory and gets the latest state when it reads again', async () => {
  const services = Array.from({ length: 3_000 }, (_, index) => sampleService({ name: `service-${index}` }))
  world.door.show({ services })
  const slow = await rawConnection()
  slow.socket.pause()
  slow.socket.write('{"id":"f","verb":"snapshot","follow":true}\n')
  await eventually(() => world.door.composed === 1, { what: 'the first look for it' })
  for (let revision = 2; revision <= 2_000; revision++) revise(revision)
  // Another one that reads gets one after the other: as often the slow one could have got one.
  const other = await rawConnection()
  other.socket.write('{"id":"f","verb":"snapshot","follow":true}\n')
  for (let seen = 1; seen <= 4; seen++) {
    await eventually(() => other.frames.flatMap(snapshotRevision).length === seen, {
      what: 'the next look for the other',
    })
    revise(2_000 + seen)
  }
  expect(world.door.composed).toBe(1 + 4)
  revise(1_000_000)
  slow.socket.resume()
  const revisions = () => slow.frames.flatMap(snapshotRevision)
  await eventually(() => revisions().at(-1) === 1_000_000, { what: 'the latest revision' })
  expect(revisions()).toEqual([1, 1_000_000])
  slow.socket.destroy()
  other.socket.destroy()
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
    { type: 'error', id: '1', code: 'misunderstood', message: 'This agent does not know the verb "teleport".' },
    { type: 'error', id: '2', code: 'misunderstood', message: expect.stringContaining('follow') as unknown },
    { type: 'snapshot', id: '3', snapshot: expect.objectContaining({ bootId: 'boot-1' }) as unknown },
  ])
  socket.destroy()
})

test.each([
  ['a follow', '{"id":"1","verb":"snapshot","follow":true}'],
  ['a query', '{"id":"1","verb":"query","query":{"name":"models"}}'],
])('the id of %s that is in use ends the connection, since nobody could tell the answers apart', async (_, line) => {
  const { socket, frames, closed } = await rawConnection()
  socket.write(`${line}\n${line}\n`)
  await closed
  expect(frames).toEqual([
    hello,
    { type: 'error', code: 'misunderstood', message: 'The id "1" is in use on this connection.' },
  ])
})

test('a connection follows sixteen things at once, and another one when one of them ends', async () => {
  await using agent = await client()
  const heard = Array.from({ length: 17 }, () => new Heard<AgentSnapshot>())
  const [leave] = heard.map((one) => agent.follow(one))
  await eventually(() => heard[16]?.ends.length === 1)
  leave?.()
  const late = new Heard<AgentSnapshot>()
  agent.follow(late)
  await eventually(() => late.items.length === 1)
  expect([heard[16]?.ends, world.door.followers]).toEqual([
    [
      new LinkError(
        'refused',
        'A connection can follow at most 16 streams at once: end one, or open another connection.',
      ),
    ],
    16,
  ])
})

describe('a log that is followed', () => {
  const service = { namespace: 'default', name: 'qwen' }
  const lines = (from: number, count: number): LogChunk => ({
    lines: Array.from({ length: count }, (_, index) => `line ${from + index} ${'x'.repeat(90)}`),
    start: { fileId: 'f', offset: from },
    end: { fileId: 'f', offset: from + count },
  })

  test('ends with the reason, and the connection goes on', async () => {
    await using agent = await client()
    const heard = new Heard<LogChunk>()
    agent.stream({ name: 'log', service }, heard)
    const [reader] = await eventually(() => world.door.readers.size === 1 && [...world.door.readers])
    reader?.end(new LinkError('refused', 'The service is gone.'))
    await eventually(() => heard.ends.length === 1)
    expect([heard.ends, (await agent.snapshot()).bootId]).toEqual([
      [new LinkError('refused', 'The service is gone.')],
      'boot-1',
    ])
  })

  test('is skipped for a reader that pauses, who is told how much, and costs the agent no memory', async () => {
    const { socket, frames } = await rawConnection()
    socket.write(`${JSON.stringify({ id: 's', verb: 'stream', stream: { name: 'log', service } })}\n`)
    await eventually(() => world.door.readers.size === 1)
    socket.pause()
    const count = 1_000
    for (let chunk = 0; chunk < count; chunk++) world.door.print(lines(chunk * 100, 100))
    socket.resume()
    const items = () => frames.flatMap((frame) => z.object({ item: logChunk }).safeParse(frame).data?.item ?? [])
    await eventually(() => items().at(-1)?.end.offset === count * 100, { what: 'the newest lines' })
    const skipped = items().flatMap(({ gap }) => (gap === undefined ? [] : [gap]))
    const told = skipped.map((gap) => Number(/^Skipped ([\d,]+) lines\.$/.exec(gap)?.[1]?.replaceAll(',', '')))
    const received = items().reduce((sum, { lines }) => sum + lines.length, 0)
    expect([told.length > 0, told.reduce((sum, one) => sum + one, 0) + received, received < 20_000]).toEqual([
      true,
      count * 100,
      true,
    ])
    socket.destroy()
  })
})

describe('a thousand messages at once', () => {
  test('are all answered, with no more than a chunk of them under way', async () => {
    let underWay = 0
    let most = 0
    world.door.onQuery = async () => {
      most = Math.max(most, ++underWay)
      await new Promise((resolve) => setImmediate(resolve))
      underWay -= 1
      return { settings: [], start: [] }
    }
    const { socket, frames } = await rawConnection()
    const asked = Array.from({ length: 1_000 }, (_, id) => ({
      id: String(id),
      verb: 'query',
      query: { name: 'settings' },
    }))
    // More than one read of the server's.
    const padding = ' '.repeat(1_000)
    for (const one of asked) socket.write(`${padding}${JSON.stringify(one)}\n`)
    await eventually(() => frames.length === 1_001, { what: 'every answer' })
    expect([frames.slice(1).map((frame) => (frame as { id: string }).id), most < 200]).toEqual([
      asked.map(({ id }) => id),
      true,
    ])
    socket.destroy()
  })
})

test('half a message is nothing: its connection ends, and nothing was done', async () => {
  const { socket, frames, closed } = await rawConnection()
  socket.end('{"id":"1","verb":"command","request":{"requestId":"7c0a4f0e-1111-4222-8333-444455556666","command":{"na')
  await closed
  await using agent = await client()
  await agent.snapshot()
  expect([frames, world.door.commands, world.errors]).toEqual([[hello], [], []])
})

test('a request that would be too long is not sent, and the connection goes on', async () => {
  await using agent = await client()
  const settings = { namespace: 'x'.repeat(maxRequestBytes) }
  await expect(agent.command({ name: 'updateSettings', settings })).rejects.toEqual(
    new LinkError('refused', 'A request must not be longer than 64 KiB.'),
  )
  expect((await agent.snapshot()).bootId).toBe('boot-1')
})

describe('what is no request', () => {
  const refusal = { type: 'error', code: 'misunderstood', message: expect.any(String) as unknown }

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
      { type: 'error', code: 'refused', message: 'A request must not be longer than 64 KiB.' },
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
  world.door.get = () => {
    throw new Error('composer broke')
  }
  const heard = new Heard<AgentSnapshot>()
  agent.follow(heard)
  const refusal = new LinkError('refused', 'The agent failed to answer; its log says why.')
  await expect(agent.snapshot()).rejects.toEqual(refusal)
  await eventually(() => heard.ends.length === 1)
  expect([heard.ends, world.errors, world.door.followers]).toEqual([
    [refusal],
    [new Error('composer broke'), new Error('composer broke')],
    0,
  ])
})

test('a client that floods and never reads is let go', async () => {
  const services = Array.from({ length: 1_000 }, (_, index) => sampleService({ name: `service-${index}` }))
  world.door.show({ services })
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
      door: new RecordingDoor(),
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
      message: `The socket ${socketPath} cannot be used: there is a file in its place that is not a socket.`,
    })
  })
})

describe('the end', () => {
  const gone = new LinkError('gone', 'The agent closed the connection: it may have stopped.')

  test('a closing server removes its socket, and whoever listens or waits is told', async () => {
    const agent = await client()
    const heard = [new Heard<AgentSnapshot>(), new Heard<LogChunk>()] as const
    agent.follow(heard[0])
    agent.stream({ name: 'log', service: { namespace: 'default', name: 'qwen' } }, heard[1])
    world.door.onCommand = () => new Promise(() => undefined)
    const told = expect(agent.command({ name: 'resync' })).rejects.toEqual(gone)
    await eventually(() => world.door.commands.length === 1)
    await world.server.close()
    await told
    await expect(stat(world.socketPath)).rejects.toThrow('ENOENT')
    await expect(client()).rejects.toMatchObject({ name: 'LinkError', code: 'gone' })
    expect([heard.map(({ ends }) => ends), world.door.readers.size]).toEqual([[[gone], [gone]], 0])
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
      if (error instanceof LinkError) return error.message
      throw error
    } finally {
      server.close()
    }
  }

  test('an agent that is stopped in a debugger', async () => {
    expect(await strangerSaying('', 50)).toBe('The agent did not say hello within 0.05 s.')
  })

  test('an agent whose answer it cannot read', async () => {
    expect(await strangerSaying('{"type":"hello","protocol":1,"version":"x"}\n{"type":"snapshot","id":"1"}\n')).toBe(
      'The agent sent something that is not a valid answer.',
    )
  })
})
