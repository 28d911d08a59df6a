import { spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, readFile } from 'node:fs/promises'
import { Agent, request, type IncomingMessage } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { nodeOptionsOfGateway } from '../../../src/agent-core/gateway/gateway.ts'
import type { ToGateway } from '../../../src/contract/gateway.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { engine, routeTo, type Engine } from './engines.ts'
import { goIdentity } from './go-identity.ts'

skipWhen(process.platform === 'linux' ? undefined : 'memory and open files of the gateway are read from /proc')

const entry = path.join(import.meta.dirname, '../../../src/cli/metal-agent.ts')

let stack: AsyncDisposableStack
/** A gateway as a process of its own, as the agent starts it. */
let gateway: ChildProcess
let port: number
let agent: Socket

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  await chmod(folder.dir, 0o700)
  const socketPath = path.join(folder.dir, 'gateway.sock')
  port = await freePort()
  gateway = spawn(process.execPath, [...nodeOptionsOfGateway, entry, 'gateway', '--socket', socketPath], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  stack.defer(async () => {
    gateway.kill('SIGKILL')
    await once(gateway, 'exit')
  })
  agent = await eventually(async () => {
    const one = connect(socketPath)
    await once(one, 'connect')
    return one
  })
  agent.resume()
})
afterEach(() => stack.disposeAsync())

async function serve(one: Engine): Promise<void> {
  const told: ToGateway = { type: 'routes', port, routes: [routeTo('one', one.port)] }
  agent.write(`${JSON.stringify(told)}\n`)
  await eventually(() => health())
}

/** How long an answer takes that the engine gives at once; undefined where there is none. */
async function health(connections: Agent | false = false): Promise<number | undefined> {
  const began = performance.now()
  const sent = request({ host: '127.0.0.1', port, path: '/health', agent: connections })
  sent.end()
  try {
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    return (await text(answer)) === 'ok' && answer.statusCode === 200 ? performance.now() - began : undefined
  } catch {
    return undefined
  }
}

async function memoryMiB(): Promise<number> {
  const status = await readFile(`/proc/${gateway.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1_024
}

test('3,000 connections with slow headers take neither its memory nor its service', async () => {
  await using quick = await engine((_request, response) => response.end('ok'))
  await serve(quick)
  const keptAlive = new Agent({ keepAlive: true, maxSockets: 1 })
  const before = await memoryMiB()
  const held = new Set<Socket>()
  const answers: (number | undefined)[] = []
  let mostHeld = 0
  let mostMiB = 0
  for (let wave = 0; wave < 6; wave += 1) {
    const sockets = Array.from({ length: 500 }, () => {
      const socket = connect(port, '127.0.0.1')
      held.add(socket)
      socket.on('error', () => undefined).once('close', () => held.delete(socket))
      return socket
    })
    await Promise.all(
      sockets.map(async (socket) => {
        await once(socket, 'connect')
        socket.write('GET /health HTTP/1.1\r\nhost: ')
      }),
    )
    answers.push(await health(), await health(keptAlive))
    mostHeld = Math.max(mostHeld, held.size)
    mostMiB = Math.max(mostMiB, await memoryMiB())
  }
  await eventually(() => held.size <= 1_024)
  expect(await health(keptAlive)).toBeDefined()
  expect({ unanswered: answers.filter((one) => one === undefined).length, asked: answers.length }).toEqual({
    ...{ unanswered: 0, asked: 12 },
  })
  // Those of one wave may come before the gateway closes as many of the earlier ones.
  expect(mostHeld).toBeLessThanOrEqual(1_024 + 500)
  // 20 MiB on a quiet machine.
  expect(mostMiB - before).toBeLessThan(64)
  keptAlive.destroy()
  for (const socket of held) socket.destroy()
})

describe('a relay', () => {
  const token = 't1'
  const { certificate, key } = goIdentity
  let ingressPort: number

  const askReady = async (connections: TlsAgent | false = false): Promise<number | undefined> => {
    const began = performance.now()
    const headers = { 'x-llmkube-target': 'default/one', 'x-llmkube-relay-token': token }
    const where = { host: '127.0.0.1', port: ingressPort, path: '/_llmkube/ready', agent: connections }
    const sent = tlsRequest({ ...where, headers, rejectUnauthorized: false }).end()
    try {
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      await text(answer)
      return answer.statusCode === 200 ? performance.now() - began : undefined
    } catch {
      return undefined
    }
  }

  async function serveRelays(one: Engine): Promise<void> {
    ingressPort = await freePort()
    const tokens = [{ namespace: 'default', token: createHash('sha256').update(token).digest('hex') }]
    const access = { servicePorts: [80], key: 'none' as const }
    const route = routeTo('one', one.port, {
      relay: { is: 'alone', isHealthy: true },
      published: { access },
    })
    const told: ToGateway = {
      ...{ type: 'routes', port, routes: [route] },
      ingress: { port: ingressPort, certificate, key, tokens },
    }
    agent.write(`${JSON.stringify(told)}\n`)
    await eventually(() => askReady())
  }

  test('that opens 1,000 connections, handshakes that are never finished, keeps nobody else out', async () => {
    const connection = (): Socket => connect(ingressPort, '127.0.0.1')
    await using quick = await engine((_request, response) => response.end('ok'))
    await serveRelays(quick)
    const keptAlive = new TlsAgent({ keepAlive: true, maxSockets: 1 })
    const before = await memoryMiB()
    const answers: (number | undefined)[] = []
    const held: Socket[] = []
    for (let wave = 0; wave < 10; wave += 1) {
      const sockets = Array.from({ length: 100 }, () => connection().on('error', () => undefined))
      held.push(...sockets)
      const ready = sockets.map((one) => once(one, 'connect'))
      answers.push(await askReady(), await askReady(keptAlive), await health())
      await Promise.all(ready)
    }
    answers.push(await askReady(), await askReady(keptAlive), await health())
    expect({ unanswered: answers.filter((one) => one === undefined).length, asked: answers.length }).toEqual({
      ...{ unanswered: 0, asked: 33 },
    })
    const grownMiB = (await memoryMiB()) - before
    expect(grownMiB).toBeLessThan(128)
    // More of them make room for those that ask.
    for (let more = 0; more < 200; more += 1) held.push(connection().on('error', () => undefined))
    await eventually(() => held.filter(({ destroyed }) => !destroyed).length <= 1_024)
    expect([await askReady(), await askReady(keptAlive), await health()]).not.toContain(undefined)
    keptAlive.destroy()
    for (const socket of held) socket.destroy()
  })
})
