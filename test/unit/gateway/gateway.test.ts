import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, chown, readFile, stat } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  frameReader,
  fromGateway,
  gatewayProtocol,
  type FromGateway,
  type GatewayRoute,
  type RelayAccess,
  type ToGateway,
} from '../../../src/contract/gateway.ts'
import { runGateway } from '../../../src/gateway/gateway.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { engine, routeTo } from './engines.ts'
import { goIdentity } from './go-identity.ts'

const openToAll = { servicePorts: [80], key: 'none' as const }
const entry = path.join(import.meta.dirname, '../../../src/cli/metal-agent.ts')

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let socketPath: string
let port: number

beforeEach(async () => {
  folder = await temporaryFolder()
  await chmod(folder.dir, 0o700)
  socketPath = path.join(folder.dir, 'gateway.sock')
  port = await freePort()
})
afterEach(() => folder[Symbol.asyncDispose]())

/** The other end of the socket. */
async function agent(): Promise<{
  readonly heard: FromGateway[]
  readonly socket: Socket
  send(frame: ToGateway): void
  tell(...routes: GatewayRoute[]): Promise<void>
}> {
  const heard: FromGateway[] = []
  const socket = await eventually(async () => {
    const one = connect(socketPath)
    await once(one, 'connect')
    return one
  })
  const read = frameReader(fromGateway, (frame) => void heard.push(frame))
  socket.setEncoding('utf8').on('data', (text: string) => {
    if (!read(text)) throw new Error(`No frame of the gateway: ${text}`)
  })
  socket.on('error', () => socket.destroy())
  const send = (frame: ToGateway): void => void socket.write(`${JSON.stringify(frame)}\n`)
  return {
    heard,
    socket,
    send,
    tell: async (...routes) => {
      send({ type: 'routes', port, routes })
      await eventually(() => heard.some(({ type }) => type === 'door'))
    },
  }
}

const status = async (): Promise<number> => {
  const answer = await fetch(`http://127.0.0.1:${port}/health`)
  await answer.text()
  return answer.status
}

/** On a connection of its own; 0 where nobody takes it. */
async function statusAt(host: string, at: number): Promise<number> {
  const sent = request({ host, port: at, path: '/health', agent: false })
  sent.end()
  try {
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    answer.resume()
    return answer.statusCode ?? 0
  } catch (error) {
    expect(error).toMatchObject({ code: 'ECONNREFUSED' })
    return 0
  }
}

describe('in this process', () => {
  const logged: string[] = []
  const run = (timings = {}): Promise<void> =>
    runGateway({ socketPath, version: 'v', log: (line) => logged.push(line), timings })

  test('it says hello, listens where it is told, forwards, counts, and ends when it is told', async () => {
    await using quick = await engine((_request, response) => response.end('ok'))
    const ended = run()
    const first = await agent()
    await first.tell(routeTo('quick', quick.port))
    expect(await status()).toBe(200)
    first.send({ type: 'count' })
    await eventually(() => first.heard.length === 3)
    expect(first.heard).toEqual([
      { type: 'hello', protocol: gatewayProtocol, version: 'v', pid: process.pid },
      { type: 'door', host: '127.0.0.1', port },
      { type: 'counts', requests: { '2xx': 1 }, services: [expect.objectContaining({ name: 'quick' })] },
    ])
    expect((await stat(socketPath)).mode & 0o777).toBe(0o600)
    first.send({ type: 'end' })
    await ended
    await expect(status()).rejects.toThrow('fetch failed')
  })

  describe('for relays', () => {
    let ingressPort: number
    beforeEach(async () => {
      ingressPort = await freePort()
    })
    const { certificate, key } = goIdentity
    const ingress = (token = 't1') => ({
      ...{ port: ingressPort, certificate, key },
      tokens: [{ namespace: 'default', token: createHash('sha256').update(token).digest('hex') }],
    })
    const relayed = (at: number | undefined, is: RelayAccess['is'] = 'alone') =>
      routeTo('quick', at, { relay: { is, isHealthy: true }, published: { access: openToAll } })

    /** 0 where nobody takes the connection. */
    async function relayStatus(token = 't1', path = '/health'): Promise<number> {
      const headers = { 'x-llmkube-target': 'default/quick', 'x-llmkube-relay-token': token }
      const where = { host: '127.0.0.1', port: ingressPort, path, agent: false, rejectUnauthorized: false }
      const sent = tlsRequest({ ...where, headers }).end()
      try {
        const [answer] = (await once(sent, 'response')) as [IncomingMessage]
        answer.resume()
        return answer.statusCode ?? 0
      } catch (error) {
        expect(error).toMatchObject({ code: 'ECONNREFUSED' })
        return 0
      }
    }

    test('it listens while one reaches a service, and counts what they are answered', async () => {
      await using quick = await engine((_request, response) => response.end('ok'))
      const ended = run()
      const first = await agent()
      await first.tell(routeTo('quick', quick.port))
      expect(await relayStatus()).toBe(0)
      first.send({ type: 'changes', routes: [relayed(quick.port)], gone: [], ingress: ingress() })
      await eventually(async () => (await relayStatus()) === 200)
      expect([await relayStatus('t2'), await relayStatus('t1', '/_llmkube/ready')]).toEqual([401, 200])
      expect(first.heard).toContainEqual({ type: 'door', host: '0.0.0.0', port: ingressPort })
      first.send({ type: 'changes', routes: [], gone: [], ingress: ingress('t2') })
      await eventually(async () => (await relayStatus('t2')) === 200)
      first.send({ type: 'count' })
      const counts = await eventually(() => first.heard.find(({ type }) => type === 'counts'))
      expect(counts).toMatchObject({ requests: {}, ingress: { 200: expect.any(Number) as number, 401: 1 } })
      first.send({ type: 'changes', routes: [routeTo('quick', quick.port)], gone: [] })
      await eventually(async () => (await relayStatus()) === 0)
      first.send({ type: 'end' })
      await ended
    })

    test('what an agent that has just started does not know is as it was, and what it never was it is not', async () => {
      await using quick = await engine((_request, response) => response.end('ok'))
      const ended = run()
      const first = await agent()
      await first.tell(relayed(quick.port, 'unchanged'))
      expect(await relayStatus()).toBe(0)
      first.send({ type: 'changes', routes: [relayed(quick.port)], gone: [], ingress: ingress() })
      await eventually(async () => (await relayStatus()) === 200)
      const next = await agent()
      const { published: _published, ...route } = relayed(quick.port, 'unchanged')
      await next.tell(route)
      expect(await relayStatus()).toBe(200)
      next.send({ type: 'changes', routes: [routeTo('quick', quick.port)], gone: [] })
      await eventually(async () => (await relayStatus()) === 0)
      next.send({ type: 'end' })
      await ended
    })

    // Only Linux has this address from the start.
    test.runIf(process.platform === 'linux')(
      'a service that they reach alone is not at the published address',
      async () => {
        await using quick = await engine((_request, response) => response.end('ok'))
        const ended = run()
        const first = await agent()
        const address = '127.0.0.2'
        const entrance = { port: quick.port, runtime: 'llama-server' }
        const reached = (is: RelayAccess['is']) => ({
          ...relayed(quick.port, is),
          published: { address, engine: entrance, access: openToAll },
        })
        const atDoors = async (): Promise<number[]> => [await statusAt(address, quick.port), await relayStatus()]
        first.send({ type: 'routes', port, routes: [reached('beside')], ingress: ingress() })
        await eventually(async () => isDeepStrictEqual(await atDoors(), [200, 200]))
        first.send({ type: 'changes', routes: [reached('alone')], gone: [] })
        await eventually(async () => isDeepStrictEqual(await atDoors(), [0, 200]))
        first.send({ type: 'changes', routes: [reached('unchanged')], gone: [] })
        first.send({ type: 'count' })
        await eventually(() => first.heard.some(({ type }) => type === 'counts'))
        expect(await atDoors()).toEqual([0, 200])
        first.send({ type: 'end' })
        await ended
      },
    )

    test('a key that is none is logged, and all else is served', async () => {
      await using quick = await engine((_request, response) => response.end('ok'))
      const ended = run()
      const first = await agent()
      first.send({ type: 'routes', port, routes: [relayed(quick.port)], ingress: { ...ingress(), key: 'none' } })
      await eventually(async () => (await status()) === 200)
      expect(await relayStatus()).toBe(0)
      expect(logged.join('\n')).toMatch(/The identity of the relay ingress cannot be used/)
      first.send({ type: 'end' })
      await ended
    })
  })

  test('requests that a stopped model of a daemon answers are cut, whether they wait or stream, and no others', async () => {
    const closed: string[] = []
    const answers = new Map<string, () => void>()
    await using daemon = await engine((request, response) => {
      const path = request.url ?? ''
      response.once('close', () => void (response.writableEnded || closed.push(path)))
      if (path === '/v1/completions') response.write('a')
      answers.set(path, () => response.end('b'))
    })
    const ended = run()
    const first = await agent()
    const [one, other] = ['one', 'other'].map((name) =>
      routeTo(name, daemon.port, { runtime: 'ollama', names: ['tag'] }),
    )
    if (!one || !other) return
    await first.tell(one, other)
    const post = async (name: string, where: string): Promise<string> => {
      const url = `http://127.0.0.1:${port}/default/${name}${where}`
      const answer = await fetch(url, { method: 'POST', body: '{"messages":[]}' })
      return `${answer.status} ${await answer.text()}`
    }
    const waiting = post('one', '/v1/chat/completions')
    const streaming = post('one', '/v1/completions')
    const kept = post('other', '/v1/embeddings')
    await eventually(() => answers.size === 3)
    first.send({ type: 'changes', routes: [{ ...routeTo('one', undefined), cut: ['tag'] }], gone: [] })
    expect(await waiting).toMatch(/^503 .*one is no longer serving: it was stopped, and this request was cut off/)
    await expect(streaming).rejects.toThrow('terminated')
    await eventually(() => closed.length === 2)
    answers.get('/v1/embeddings')?.()
    expect(await kept).toBe('200 b')
    first.send({ type: 'end' })
    await ended
  })

  test('it goes on without an agent, until its last engine has been gone for a while', async () => {
    const quick = await engine((_request, response) => response.end('ok'))
    const ended = run({ lookMs: 20, lingerMs: 60 })
    const first = await agent()
    await first.tell(routeTo('quick', quick.port))
    first.socket.destroy()
    // More looks than it takes to end one that nobody needs.
    for (let looks = 0; looks < 20; looks++) expect(await status()).toBe(200)
    await quick[Symbol.asyncDispose]()
    await eventually(async () => (await status().catch(() => 503)) === 503)
    await ended
    expect(logged.at(-1)).toBe('ends: there is neither an agent nor an engine')
  })

  test('an agent keeps it also where nothing serves, and one that is silent for too long does not', async () => {
    const ended = run({ lookMs: 10, lingerMs: 30, agentGoneMs: 400 })
    const first = await agent()
    await first.tell()
    const began = performance.now()
    await ended
    expect(performance.now() - began).toBeGreaterThan(300)
  })

  describe('by a stated clock', () => {
    beforeEach(() => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
    afterEach(() => vi.useRealTimers())

    const passes = (seconds: number): unknown => vi.advanceTimersByTimeAsync(seconds * 1_000)

    // Only Linux has this address from the start.
    test.runIf(process.platform === 'linux')(
      'after 180 s without a heartbeat it leaves the published address, and the client proxy goes on',
      async () => {
        await using quick = await engine((_request, response) => response.end('ok'))
        const ended = run()
        const first = await agent()
        const address = '127.0.0.2'
        const entrance = { port: quick.port, runtime: 'llama-server' }
        const access = { servicePorts: [8080], key: 'none' as const }
        const loading = routeTo('later', undefined, { message: 'It loads.' })
        await first.tell(routeTo('quick', quick.port, { published: { address, engine: entrance, access } }), loading)
        const atDoors = () => Promise.all([statusAt(address, quick.port), statusAt('127.0.0.1', port)])
        const whyNot = async () => (await fetch(`http://127.0.0.1:${port}/default/later/health`)).text()
        await eventually(async () => isDeepStrictEqual(await atDoors(), [200, 200]))
        // One that was only silent is heard again, and has nothing new to tell.
        await passes(200)
        await eventually(async () => isDeepStrictEqual(await atDoors(), [0, 200]))
        first.send({ type: 'ping' })
        await eventually(async () => isDeepStrictEqual(await atDoors(), [200, 200]))
        expect(await whyNot()).toContain('It loads.')
        first.socket.destroy()
        // It looks every 15 s.
        await passes(179)
        expect(await atDoors()).toEqual([200, 200])
        await passes(15)
        await eventually(async () => isDeepStrictEqual(await atDoors(), [0, 200]))
        await passes(86_400)
        expect(await atDoors()).toEqual([0, 200])
        ;(await agent()).send({ type: 'end' })
        await ended
      },
    )

    test('after 180 s without a heartbeat no token of a relay counts any longer, before the next agent has told it', async () => {
      await using quick = await engine((_request, response) => response.end('ok'))
      const ended = run()
      const first = await agent()
      const ingressPort = await freePort()
      const { certificate, key } = goIdentity
      const tokens = [{ namespace: 'default', token: createHash('sha256').update('t1').digest('hex') }]
      const ingress = { port: ingressPort, certificate, key, tokens }
      const route = routeTo('quick', quick.port, {
        relay: { is: 'alone', isHealthy: true },
        published: { access: openToAll },
      })
      first.send({ type: 'routes', port, routes: [route], ingress })
      const connections = new TlsAgent({ rejectUnauthorized: false })
      const relayStatus = async (): Promise<number> => {
        const headers = { 'x-llmkube-target': 'default/quick', 'x-llmkube-relay-token': 't1' }
        const where = { host: '127.0.0.1', port: ingressPort, path: '/_llmkube/ready', agent: connections }
        const [answer] = (await once(tlsRequest({ ...where, headers }).end(), 'response')) as [IncomingMessage]
        answer.resume()
        return answer.statusCode ?? 0
      }
      await eventually(async () => (await relayStatus()) === 200)
      // One that was only silent is heard again, and has nothing new to tell.
      await passes(200)
      expect(await relayStatus()).toBe(401)
      first.send({ type: 'ping' })
      await eventually(async () => (await relayStatus()) === 200)
      first.socket.destroy()
      await passes(179)
      expect(await relayStatus()).toBe(200)
      // Before the gateway looks for itself, which it does every 15 s.
      await passes(1)
      expect(await relayStatus()).toBe(401)
      await passes(15)
      const next = await agent()
      const unknown = { ...ingress, tokens: [{ namespace: 'default' }] }
      next.send({ type: 'routes', port, routes: [route], ingress: unknown })
      next.send({ type: 'ping' })
      await eventually(() => next.heard.some(({ type }) => type === 'pong'))
      expect(await relayStatus()).toBe(401)
      next.send({ type: 'changes', routes: [], gone: [], ingress })
      await eventually(async () => (await relayStatus()) === 200)
      next.send({ type: 'end' })
      await ended
    })

    test('ten minutes after its last engine has gone, and its agent before, it ends', async () => {
      const quick = await engine((_request, response) => response.end('ok'))
      let hasEnded = false
      const ended = run().then(() => (hasEnded = true))
      const first = await agent()
      await first.tell(routeTo('quick', quick.port))
      first.socket.destroy()
      await passes(3_600)
      expect(await status()).toBe(200)
      await quick[Symbol.asyncDispose]()
      await passes(15)
      await eventually(async () => (await status()) === 503)
      await passes(599)
      expect([await status(), hasEnded]).toEqual([503, false])
      await passes(15)
      await ended
      expect(logged.at(-1)).toBe('ends: there is neither an agent nor an engine')
    })
  })

  test('an agent that says what is not understood is let go, and the next one is heard', async () => {
    const ended = run()
    for (const line of ['{"type":"routes"}\n', 'no JSON\n', 'x'.repeat(9_000_000)]) {
      const odd = await agent()
      odd.socket.write(line)
      await new Promise((resolve) => odd.socket.once('close', resolve))
    }
    const next = await agent()
    await next.tell()
    next.send({ type: 'end' })
    await ended
  })

  test('a second one on the socket leaves it to the first, and one that finds what is left of an earlier one takes its place', async () => {
    const ended = run()
    const first = await agent()
    await run()
    first.send({ type: 'end' })
    await ended
    const again = run()
    ;(await agent()).send({ type: 'end' })
    await again
  })

  test('in a folder that others may look into it does not listen', async () => {
    await chmod(folder.dir, 0o755)
    await expect(run()).rejects.toThrow('is not a folder of this user alone')
  })

  test.runIf(process.geteuid?.() === 0)('in a folder of another user neither, though root could', async () => {
    await chown(folder.dir, 65_534, 65_534)
    await expect(run()).rejects.toThrow('is not a folder of this user alone')
  })
})

describe('as a process', () => {
  const start = (): ChildProcess =>
    spawn(process.execPath, [entry, 'gateway', '--socket', socketPath], { stdio: 'ignore', detached: true })

  test.runIf(process.platform === 'linux' && process.geteuid?.() === 0)('of root it is nobody', async () => {
    const child = start()
    const first = await agent()
    await first.tell()
    const ids = await readFile(`/proc/${child.pid}/status`, 'utf8')
    const nobody = spawnSync('id', ['-u', 'nobody'], { encoding: 'utf8' }).stdout.trim()
    expect(/^Uid:\s+(.*)$/m.exec(ids)?.[1]?.split('\t')).toEqual([nobody, nobody, nobody, nobody])
    expect(/^Groups:[ \t]*(.*)$/m.exec(ids)?.[1]?.trim()).toBe('')
    first.send({ type: 'end' })
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})
