import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LinkError } from '../../../src/contract/client.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { connectToAgent } from '../../../src/serve/client/agent-client.ts'
import { LastingLink, type AgentMirror } from '../../../src/serve/client/lasting-link.ts'
import { serveOnSocket, type SocketServer } from '../../../src/serve/socket-server.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'
import { eventually } from '../../support/eventually.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let server: SocketServer | undefined
let link: LastingLink
let connections: number

const socketPath = () => path.join(folder.dir, 'agent.sock')

async function serve(door: RecordingDoor, name = 'agent.sock'): Promise<SocketServer> {
  const onError = (error: unknown) => {
    throw error
  }
  const at = path.join(folder.dir, name)
  const result = await serveOnSocket({ socketPath: at, stateDir: folder.dir, version: '1', door, onError })
  if (!result.ok) throw new Error(result.message)
  return result.server
}

/** An agent on the socket of the one before. */
async function start(door: RecordingDoor): Promise<void> {
  server = await serve(door)
}

beforeEach(async () => {
  folder = await temporaryFolder()
  connections = 0
  link = new LastingLink({
    connect: () => {
      connections += 1
      return connectToAgent({ socketPath: socketPath(), stateDir: folder.dir })
    },
    retryDelayMs: () => 20,
  })
})

afterEach(async () => {
  await link[Symbol.asyncDispose]()
  await server?.close()
  server = undefined
  await folder[Symbol.asyncDispose]()
})

const agent = (bootId: string, message: string, changes: Partial<AgentSnapshot> = {}) =>
  new RecordingDoor(sampleSnapshot({ bootId, services: [sampleService({ message })], ...changes }))

/** In words, without the repetitions while the agent stays away. */
function told(mirrors: readonly AgentMirror[]): string[] {
  const words = mirrors.map((mirror) => {
    if (mirror.state !== 'live' && mirror.state !== 'away') return mirror.state
    const { bootId, services } = mirror.snapshot ?? { bootId: 'never seen', services: [] }
    return [mirror.state, bootId, ...services.map(({ message }) => message)].join(': ')
  })
  return words.filter((word, index) => word !== words[index - 1])
}

describe('an agent that restarts under a client', () => {
  test('is shown as it was, then as away, then as the other one that it is', async () => {
    const mirrors: AgentMirror[] = []
    await start(agent('boot-1', 'Serves.', { revision: 40 }))
    link.watch((mirror) => mirrors.push(mirror))
    await eventually(() => mirrors.at(-1)?.state === 'live')
    const before = Date.now()
    await server?.close()
    await eventually(() => mirrors.filter(({ state }) => state === 'away').length > 2)
    // Of the same uid and revision, and yet another one.
    await start(agent('boot-2', 'Starts.', { revision: 1 }))
    await eventually(() => mirrors.at(-1)?.state === 'live')
    const away = mirrors.flatMap((mirror) => (mirror.state === 'away' ? [mirror] : []))
    expect([told(mirrors), new Set(away.map(({ since }) => since)).size, (away[0]?.since ?? 0) >= before]).toEqual([
      ['connecting', 'live: boot-1: Serves.', 'away: boot-1: Serves.', 'live: boot-2: Starts.'],
      1,
      true,
    ])
  })

  test('is said to be away from the start where it was never there, and found when it comes', async () => {
    const mirrors: AgentMirror[] = []
    link.watch((mirror) => mirrors.push(mirror))
    await eventually(() => mirrors.length > 2)
    await start(agent('boot-1', 'Serves.'))
    await eventually(() => mirrors.at(-1)?.state === 'live')
    expect(told(mirrors)).toEqual(['connecting', 'away: never seen', 'live: boot-1: Serves.'])
  })

  test('keeps what did not change where it is still the same one', async () => {
    const mirrors: AgentMirror[] = []
    const door = agent('boot-1', 'Serves.')
    await start(door)
    link.watch((mirror) => mirrors.push(mirror))
    await eventually(() => mirrors.at(-1)?.state === 'live')
    await server?.close()
    await eventually(() => mirrors.at(-1)?.state === 'away')
    await start(door)
    await eventually(() => mirrors.at(-1)?.state === 'live')
    const services = mirrors.flatMap((mirror) => (mirror.state === 'live' ? mirror.snapshot.services : []))
    expect(new Set(services).size).toBe(1)
  })

  test('is told of no more once nobody watches', async () => {
    const mirrors: AgentMirror[] = []
    const door = agent('boot-1', 'Serves.')
    await start(door)
    const leave = link.watch((mirror) => mirrors.push(mirror))
    await eventually(() => mirrors.at(-1)?.state === 'live')
    leave()
    await eventually(() => door.followers === 0)
    await server?.close()
    await expect(link.snapshot()).rejects.toMatchObject({ code: 'gone' })
    expect(told(mirrors)).toEqual(['connecting', 'live: boot-1: Serves.'])
  })
})

test('what no waiting mends is left to a person', async () => {
  await link[Symbol.asyncDispose]()
  const refusal = new LinkError('misunderstood', 'The running agent speaks protocol 99.')
  link = new LastingLink({ connect: () => Promise.reject(refusal) })
  const mirrors: AgentMirror[] = []
  link.watch((mirror) => mirrors.push(mirror))
  await eventually(() => mirrors.length === 2)
  expect(mirrors).toEqual([{ state: 'connecting' }, { state: 'refused', message: refusal.message }])
})

/** A wire to the agent at `to` that can be cut, and then leads elsewhere. */
async function wire(to: string) {
  const at = path.join(folder.dir, 'wire.sock')
  const ends: Socket[] = []
  let target = to
  const relay = createServer((end) => {
    const other = connect(target)
    ends.push(end, other)
    for (const one of [end, other])
      one.on('error', () => one.destroy()).on('close', () => [end, other].map((each) => each.destroy()))
    end.pipe(other).pipe(end)
  }).listen(at)
  await once(relay, 'listening')
  return {
    at,
    cut(next: string) {
      target = next
      for (const end of ends.splice(0)) end.destroy()
    },
    [Symbol.dispose]: () => void relay.close(),
  }
}

describe('a command whose connection breaks', () => {
  const requestId = randomUUID()
  const service = { namespace: 'default', name: 'qwen' }
  const stop = { name: 'stop', service, scope: 'cluster' } as const
  const unknown = new LinkError(
    'gone',
    'The agent went away during the command stop: check whether it was carried out before you repeat it.',
  )

  test.each([
    { now: 'asked again of the same agent, under the same id', socket: 'agent.sock', asked: 2, fails: false },
    { now: 'not asked again of another agent', socket: 'other.sock', asked: 1, fails: true },
    { now: 'not asked again of nobody', socket: 'none.sock', asked: 1, fails: true },
  ])('is $now', async ({ socket, asked, fails }) => {
    const door = agent('boot-1', 'Serves.')
    const other = agent('boot-2', 'Starts.')
    await start(door)
    await using _ = await serve(other, 'other.sock')
    using line = await wire(socketPath())
    await using overWire = new LastingLink({
      connect: () => connectToAgent({ socketPath: line.at, stateDir: folder.dir }),
    })
    const answer = door.onCommand
    door.onCommand = (request) => {
      door.onCommand = answer
      line.cut(path.join(folder.dir, socket))
      return answer(request)
    }
    const result = await overWire.command(stop, requestId).catch((error: unknown) => error)
    expect([result, door.commands, other.commands.length]).toEqual([
      fails ? unknown : { outcome: 'done', message: 'Did stop.' },
      Array.from({ length: asked }, () => ({ requestId, command: stop })),
      0,
    ])
  })

  test('goes to the agent that is there now where the break was seen before', async () => {
    await start(agent('boot-1', 'Serves.'))
    await link.snapshot()
    await server?.close()
    const door = agent('boot-2', 'Starts.')
    await start(door)
    expect([await link.command(stop, requestId), door.commands.length]).toEqual([
      { outcome: 'done', message: 'Did stop.' },
      1,
    ])
  })
})

test('many who ask at once share a connection', async () => {
  await start(agent('boot-1', 'Serves.'))
  await Promise.all(Array.from({ length: 20 }, () => link.snapshot()))
  await server?.close()
  await start(agent('boot-2', 'Serves.'))
  const answers = await Promise.all(Array.from({ length: 20 }, () => link.snapshot()))
  expect([connections, new Set(answers.map(({ bootId }) => bootId))]).toEqual([2, new Set(['boot-2'])])
})
