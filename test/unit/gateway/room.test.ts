import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { Agent, request, type IncomingMessage, type RequestOptions, type ServerResponse } from 'node:http'
import { request as tlsRequest, type Agent as TlsAgent } from 'node:https'
import { createServer } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Gateway, type GatewayOptions } from '../../../src/agent-core/gateway/gateway.ts'
import { RelayIngress } from '../../../src/agent-core/gateway/relay-ingress.ts'
import { createLog } from '../../../src/agent-core/observability/log.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { pause } from '../../../src/agent-core/util/pause.ts'
import type { GatewayRoute, ServiceKey } from '../../../src/contract/gateway.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { engine, routeTo, type Engine } from './engines.ts'

const entry = path.join(import.meta.dirname, '../../../src/cli/metal-agent.ts')

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let stack: AsyncDisposableStack
let quick: Engine
let port: number
let routes: GatewayRoute[]
let lines: Record<string, unknown>[]
const pids = new Set<number>()

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  folder = stack.use(await temporaryFolder())
  quick = stack.use(await engine((_request, response) => response.end('ok')))
  port = await freePort()
  routes = [routeTo('quick', quick.port)]
  lines = []
})
afterEach(async () => {
  await stack.disposeAsync()
  for (const pid of pids) kill(pid)
  pids.clear()
})

/** The room of an agent. */
function room(more: Partial<GatewayOptions> = {}): Gateway {
  const gateway = stack.use(
    new Gateway({
      ...{ port, stateDir: folder.dir, socketPath: path.join(folder.dir, 'gateway.sock'), routes: () => routes },
      command: () => Promise.resolve([process.execPath, entry]),
      version: 'dev',
      commandLine: async (pid) => (await hostPlatform().process(pid))?.commandLine,
      holders: () => Promise.resolve([{ pid: 4711, command: 'squatter' }]),
      log: createLog({ level: 'debug', stream: { write: (line: string) => lines.push(read(line)) } }),
      onChange: () => undefined,
      onDoors: () => undefined,
      onKeys: () => undefined,
      ...more,
    }),
  )
  gateway.start()
  return gateway
}

const read = (line: string): Record<string, unknown> => {
  const said: Record<string, unknown> = { ...(JSON.parse(line) as object), at: performance.now() }
  if (typeof said['pid'] === 'number') pids.add(said['pid'])
  return said
}

const said = (msg: string) => lines.filter((line) => line['msg'] === msg)

const listening = (gateway: Gateway): Promise<string> => eventually(() => gateway.url, { what: 'a client proxy' })

async function status(): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}/health`)
  await answer.text()
  return answer.status
}

function kill(pid: unknown, signal: NodeJS.Signals | 0 = 'SIGKILL'): boolean {
  try {
    return process.kill(Number(pid), signal)
  } catch {
    return false
  }
}

test('it is started, told what serves as that changes, asked what it counts, and ended in good order', async () => {
  const gateway = room()
  expect(await listening(gateway)).toBe(`http://127.0.0.1:${port}`)
  expect(await status()).toBe(200)
  routes = [routeTo('quick', undefined, { message: 'It loads.' })]
  gateway.routesChanged()
  await eventually(async () => (await status()) === 503)
  expect(await gateway.counts()).toMatchObject({ requests: { '2xx': 1 } })
  await gateway.end()
  const [started] = said('started the gateway')
  await eventually(() => !kill(started?.['pid'], 0))
  await expect(status()).rejects.toThrow('fetch failed')
  expect(lines.map((line) => line['msg'])).toEqual(['started the gateway'])
})

test('while somebody looks it knows who is being answered', async () => {
  const answers: (() => void)[] = []
  await using slow = await engine((_request, response) => answers.push(() => response.end('late')))
  routes = [routeTo('slow', slow.port)]
  let changes = 0
  const gateway = room({ onChange: () => (changes += 1) })
  await listening(gateway)
  const asked = status()
  await eventually(() => answers.length === 1)
  expect(gateway.openOf('default/slow')).toEqual([])
  const before = changes
  gateway.watch(true)
  await eventually(() => gateway.openOf('default/slow').length === 1)
  expect([changes - before, gateway.openOf('default/slow')[0]?.requests, gateway.openOf('default/other')]).toEqual([
    1,
    1,
    [],
  ])
  gateway.watch(false)
  expect(gateway.openOf('default/slow')).toEqual([])
  answers[0]?.()
  expect(await asked).toBe(200)
  await gateway.end()
})

test('the next agent takes over the same process, and an agent that goes ends none', async () => {
  const first = room()
  await listening(first)
  await first[Symbol.asyncDispose]()
  expect(await status()).toBe(200)
  const second = room()
  await listening(second)
  expect(said('took over the gateway').map((line) => line['pid'])).toEqual([said('started the gateway')[0]?.['pid']])
  await second.end()
})

test('its process is told from the gateway of another state folder and from any other program', async () => {
  await using elsewhere = await temporaryFolder()
  const gateway = room()
  const socketPath = path.join(elsewhere.dir, 'gateway.sock')
  const other = room({ port: await freePort(), stateDir: elsewhere.dir, socketPath })
  await Promise.all([listening(gateway), listening(other)])
  const asked = [gateway.pid, other.pid, process.pid].map((pid) => gateway.isOwn(pid ?? 0))
  expect(await Promise.all(asked)).toEqual([true, false, false])
})

test(
  'one that is killed is started again at once, and one that goes on ending ever later',
  { timeout: 60_000 },
  async () => {
    const startedAt: number[] = []
    const gateway = room({
      command: () => (startedAt.push(performance.now()), Promise.resolve([process.execPath, entry])),
    })
    const killed = async (): Promise<number> => {
      await eventually(async () => (await status().catch(() => 0)) === 200)
      await eventually(() => said('started the gateway').length === startedAt.length)
      const began = performance.now()
      kill(said('started the gateway').at(-1)?.['pid'])
      const starts = startedAt.length
      return (await eventually(() => startedAt[starts])) - began
    }
    const [first, second] = [await killed(), await killed()]
    // The first waits for nothing, and the second for a second: as much as a busy machine may be late.
    expect([second > 900, first < second / 2.5]).toEqual([true, true])
    await eventually(async () => (await status().catch(() => 0)) === 200)
    await gateway.end()
    await expect(status()).rejects.toThrow('fetch failed')
  },
)

test('a port that is taken is told with who has it, and used as soon as it is free', async () => {
  const squatter = createServer()
  await once(squatter.listen(port, '127.0.0.1'), 'listening')
  const gateway = room()
  expect(await eventually(() => gateway.notice)).toBe(
    `There is no client proxy yet: port ${port} on 127.0.0.1 is taken by process 4711 (squatter): stop it or choose another port with --client-port. The agent tries again every few seconds.`,
  )
  expect(gateway.url).toBeUndefined()
  squatter.close()
  await listening(gateway)
  expect(gateway.notice).toBeUndefined()
  await gateway.end()
})

test('where there is to be none, the one of an earlier agent is ended', async () => {
  const first = room()
  await listening(first)
  await first[Symbol.asyncDispose]()
  await room({ port: 0 })[Symbol.asyncDispose]()
  await eventually(() =>
    status().then(
      () => false,
      () => true,
    ),
  )
  expect(await readdir(folder.dir)).not.toContain('agent.sock')
})

test('a program that is none, or ends at once, is a notice with what it said', async () => {
  const missing = room({ command: () => Promise.resolve(['/nowhere/metal-agent']) })
  expect(await eventually(() => missing.notice)).toMatch(
    /^There is no client proxy on 127.0.0.1:\d+: \/nowhere\/metal-agent gateway: .*ENOENT.*\. The agent tries again\.$/,
  )
  await missing.end()
  const failing = room({ command: () => Promise.resolve(['/bin/sh', '-c', 'echo its last words >&2; exit 7']) })
  expect(await eventually(() => failing.notice)).toContain('it ended at once with code 7 its last words')
  await failing[Symbol.asyncDispose]()
})

test('a gateway of another protocol is told to end, and replaced', async () => {
  const told: string[] = []
  const old = createServer((socket) => {
    socket.write('{"type":"hello","protocol":0,"version":"0.0.1","pid":99999999}\n')
    socket.setEncoding('utf8').on('data', (text: string) => {
      told.push(text)
      old.close()
      socket.end()
    })
  })
  await once(old.listen(path.join(folder.dir, 'gateway.sock')), 'listening')
  const gateway = room()
  await listening(gateway)
  expect(told).toEqual(['{"type":"end"}\n'])
  expect(await status()).toBe(200)
  await gateway.end()
})

test('one that hangs is killed and started again', async () => {
  const gateway = room({ timings: { heartbeatMs: 100 } })
  await listening(gateway)
  const pid = said('started the gateway')[0]?.['pid']
  kill(pid, 'SIGSTOP')
  await eventually(() => said('started the gateway').length === 2)
  await listening(gateway)
  expect([said('kills a gateway that hangs')[0]?.['pid'], await status()]).toEqual([pid, 200])
  await gateway.end()
})

test('one that greets while its agent stands still does not count as hanging', async () => {
  const first = room()
  await listening(first)
  await first[Symbol.asyncDispose]()
  const pid = said('started the gateway')[0]?.['pid']
  const standStill = (): void => {
    unsubscribe('net.client.socket', standStill)
    process.nextTick(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000))
  }
  subscribe('net.client.socket', standStill)
  const next = room({ timings: { helloMs: 500 } })
  await listening(next)
  expect([next.pid, said('kills a gateway that hangs')]).toEqual([pid, []])
  await next.end()
})

test('a number that another process has by now is left alone', async () => {
  const bystander = spawn('/bin/sleep', ['60'], { detached: true })
  pids.add(bystander.pid ?? 0)
  await writeFile(path.join(folder.dir, 'gateway.pid'), `${bystander.pid}\n`)
  const silent = createServer()
  await once(silent.listen(path.join(folder.dir, 'gateway.sock')), 'listening')
  const { pid } = bystander
  const asked = Promise.withResolvers<number>()
  const commandLine = (of: number) => {
    asked.resolve(of)
    return Promise.resolve('/bin/sleep 60')
  }
  const gateway = room({ timings: { helloMs: 100 }, commandLine })
  expect(await asked.promise).toBe(pid)
  await gateway[Symbol.asyncDispose]()
  expect([kill(pid, 0), said('kills a gateway that hangs')]).toEqual([true, []])
  silent.close()
})

const inVersion = (version: string): Pick<GatewayOptions, 'version' | 'command'> => ({
  version,
  command: () => Promise.resolve([process.execPath, '--import', stated(version), entry]),
})
const stated = (version: string) => `data:text/javascript,globalThis.METAL_AGENT_VERSION=${JSON.stringify(version)}`

test('one that this agent has started is kept, also where its program is of another version by now', async () => {
  let starts = 0
  const { command } = inVersion('2')
  const gateway = room({ version: '1', command: () => ((starts += 1), command()) })
  await listening(gateway)
  const { pid } = gateway
  for (let look = 0; look < 20; look += 1) await gateway.counts()
  expect([starts, gateway.pid === pid, gateway.notice]).toEqual([1, true, undefined])
  await gateway.end()
})

describe('a gateway of another version', () => {
  /** One in version 1 that an agent has left running. */
  async function earlier(): Promise<unknown> {
    const first = room(inVersion('1'))
    await listening(first)
    await first[Symbol.asyncDispose]()
    return said('started the gateway')[0]?.['pid']
  }

  test('is replaced while it answers: streams end whole, told of what changes, and the next one takes what comes', async () => {
    const open = new Map<string, ServerResponse[]>()
    await using streaming = await engine(({ url = '' }, response) => {
      if (url === '/health') return void response.end('ok')
      response.write('first ')
      open.set(url, [...(open.get(url) ?? []), response])
    })
    const daemons = routeTo('two', streaming.port, { runtime: 'ollama', names: ['tag'] })
    routes = [routeTo('one', streaming.port), daemons]
    const old = await earlier()
    const streams = Array.from({ length: 300 }, () => ask('/default/one/v1/completions', { method: 'POST' }))
    const cut = ask('/default/two/v1/chat/completions', { method: 'POST' })
    await eventually(() => open.get('/v1/completions')?.length === 300 && open.size === 2)
    const idle = new Agent({ keepAlive: true, maxSockets: 1 })
    const next = room(inVersion('2'))
    next.watch(true)
    await eventually(() => said('replaced the gateway').length === 1)
    await listening(next)
    expect([next.notice, next.pid === old, kill(old, 0)]).toEqual([undefined, false, true])
    const health = () => ask('/default/one/health', { agent: idle }).catch(() => 'refused for a moment')
    await eventually(async () => (await health()) === '200 ok')
    expect((await next.counts())?.requests).toEqual({ '2xx': 1 })
    await eventually(() => next.openOf('default/one')[0]?.requests === 300)
    routes = [routeTo('one', streaming.port), { ...routeTo('two', undefined), cut: ['tag'] }]
    next.routesChanged()
    await expect(cut).rejects.toThrow('aborted')
    for (const response of open.get('/v1/completions') ?? []) response.end('last')
    expect(new Set(await Promise.all(streams))).toEqual(new Set(['200 first last']))
    await eventually(() => !kill(old, 0), { what: 'the end of the one that was replaced' })
    // What the old one says last may be heard after its end.
    const ofOne = async () => (await next.counts())?.services.find(({ name }) => name === 'one')
    const counted = await eventually(async () => {
      const now = await ofOne()
      return now?.requests[0]?.count === 301 && now
    })
    expect(counted).toMatchObject({ requests: [{ code: '2xx', reason: 'answered' }], waiting: 0, streaming: 0 })
    await eventually(() => next.openOf('default/one').length === 0)
    idle.destroy()
    await next.end()
  })

  // Only Linux has this address from the start.
  test.runIf(process.platform === 'linux')('knows the API key before the present one from the last one', async () => {
    const address = '127.0.0.2'
    const digest = (key: string): string => createHash('sha256').update(key).digest('hex')
    const routeWith = (key: string): GatewayRoute =>
      routeTo('quick', quick.port, {
        published: {
          ...{ address, engine: { port: quick.port, runtime: 'llama-server' } },
          access: { servicePorts: [80], key: digest(key) },
        },
      })
    const answers = async (): Promise<string> => {
      const asked = ['k1', 'k2', 'k3'].map((key) => {
        const headers = { host: `${address}:${quick.port}`, 'x-api-key': key }
        return ask('/health', { host: address, port: quick.port, headers })
      })
      return (await Promise.all(asked)).map((answer) => answer.slice(0, 3)).join(' ')
    }
    routes = [routeWith('k1')]
    const first = room(inVersion('1'))
    await listening(first)
    await eventually(() => first.door(address, quick.port).kind === 'open')
    expect(await answers()).toBe('200 401 401')
    routes = [routeWith('k2')]
    first.routesChanged()
    await eventually(async () => (await answers()) === '200 200 401')
    await first[Symbol.asyncDispose]()
    const told: (readonly ServiceKey[])[] = []
    const next = room({ ...inVersion('2'), onKeys: (keys) => told.push(keys) })
    await eventually(() => said('replaced the gateway').length === 1)
    await eventually(async () => (await answers().catch(() => '')) === '200 200 401')
    expect(told.map(([known]) => [known?.sha256, known?.earlierKey?.sha256])).toEqual([[digest('k2'), digest('k1')]])
    await next.end()
  })

  // Only Linux has this address from the start.
  test.runIf(process.platform === 'linux')(
    'still knows where it listens when the next agent learns its own address later',
    async () => {
      const address = '127.0.0.2'
      const entrance = { port: quick.port, runtime: 'llama-server' }
      routes = [routeTo('quick', quick.port, { published: { address, engine: entrance } })]
      const first = room()
      await eventually(() => first.door(address, quick.port).kind === 'open')
      await first[Symbol.asyncDispose]()
      routes = [routeTo('quick', quick.port, { published: { engine: entrance } })]
      const next = room()
      await eventually(() => next.door(address, quick.port).kind === 'open')
      routes = [...routes, routeTo('another', undefined)]
      next.routesChanged()
      routes = [routeTo('quick', quick.port, { published: { address, engine: entrance } })]
      next.routesChanged()
      await eventually(() => next.door(address, quick.port).kind === 'open')
      await next.end()
    },
  )

  test.each([
    ['cannot be started', () => ['/nowhere/metal-agent'], 'ENOENT'],
    ['ends at once', () => ['/bin/sh', '-c', 'exit 7'], 'it ended at once with code 7'],
  ])('keeps serving where the next one %s, and a notice says so', async (_how, command, why) => {
    const old = await earlier()
    const next = room({ version: '2', command: () => Promise.resolve(command() as [string]) })
    const notice = await eventually(() => next.notice)
    expect(notice).toMatch(/^The client proxy still runs version 1, because version 2 could not be started: /)
    expect(notice).toContain(why)
    // It is connected to the old one a moment after.
    expect(await eventually(() => next.url)).toBe(`http://127.0.0.1:${port}`)
    expect([await status(), said('took over the gateway')[0]?.['pid']]).toEqual([200, old])
    routes = []
    next.routesChanged()
    await eventually(async () => (await status()) === 503)
    await next.end()
  })

  test('keeps serving where the next one hangs before it answers, says so once, and is replaced later', async () => {
    const old = await earlier()
    const marks = path.join(folder.dir, 'marks')
    const hanging = path.join(folder.dir, 'hanging.mjs')
    await writeFile(
      hanging,
      `import { appendFileSync, readFileSync } from 'node:fs'
       import { createServer } from 'node:net'
       appendFileSync(${JSON.stringify(marks)}, process.pid + ' ')
       if (readFileSync(${JSON.stringify(marks)}, 'utf8').split(' ').length > 3) await import(${JSON.stringify(entry)})
       else createServer().listen(${JSON.stringify(folder.dir)} + '/gw.' + process.pid)`,
    )
    const next = room({
      ...{ version: '2', timings: { replaceAgain: { firstMs: 100, maxMs: 100 }, helloMs: 2_000 } },
      command: () => Promise.resolve([process.execPath, '--import', stated('2'), hanging]),
    })
    expect(await eventually(() => next.notice)).toContain('it did not answer in time')
    expect(await status()).toBe(200)
    await eventually(() => said('replaced the gateway').length === 1)
    await listening(next)
    const tried = (await readFile(marks, 'utf8')).trim().split(' ')
    await eventually(() => tried.slice(0, 2).every((pid) => !kill(pid, 0)), { what: 'the end of those that hung' })
    expect({
      notice: next.notice,
      told: said('gateway not replaced').length,
      tries: tried.length,
      replaced: said('replaced the gateway').map(({ pid }) => pid),
    }).toEqual({ notice: undefined, told: 1, tries: 3, replaced: [old] })
    await next.end()
  })
})

describe('with relays', () => {
  let ingressPort: number
  let token: string
  const key = 'default/quick'
  const access = { servicePorts: [80], key: 'none' as const }

  beforeEach(async () => {
    ingressPort = await freePort()
    token = 't1'
  })

  /** An agent whose one service they reach; the cluster has its token. */
  function relayedRoom(more: Partial<GatewayOptions> = {}): { gateway: Gateway; relays: RelayIngress } {
    const relays = stack.use(
      new RelayIngress({
        ...{ stateDir: folder.dir, port: ingressPort, log: silentLog, onState: () => undefined },
        onTold: () => gateway.routesChanged(),
        isIpv6: () => false,
        door: (address, at) => gateway.door(address, at),
        pause: (_ms, signal) => pause(20, signal),
        api: () => ({
          get: () =>
            Promise.resolve({
              metadata: { labels: { 'llmkube.ai/managed-by': 'llmkube-controller' } },
              data: { token: Buffer.from(token).toString('base64') },
            }),
        }),
      }),
    )
    const routesNow = (): GatewayRoute[] => {
      const is = relays.how(key)
      const relay = is && { relay: { is, isHealthy: true } }
      return [routeTo('quick', quick.port, { ...relay, published: { access } })]
    }
    const gateway = room({ routes: routesNow, ingress: relays, ...more })
    return { gateway, relays }
  }

  const relayStatus = async (shown = token, agent: TlsAgent | false = false): Promise<number> => {
    const headers = { 'x-llmkube-target': key, 'x-llmkube-relay-token': shown }
    const where = { host: '127.0.0.1', port: ingressPort, path: '/health', agent, rejectUnauthorized: false }
    const [answer] = (await once(tlsRequest({ ...where, headers }).end(), 'response')) as [IncomingMessage]
    expect(await text(answer)).not.toBe('')
    return answer.statusCode ?? 0
  }
  const openTo = (shown?: string) => eventually(async () => (await relayStatus(shown).catch(() => 0)) === 200)

  test('it listens once a service is behind it, without a client proxy too, and is back after the gateway was killed', async () => {
    const { gateway, relays } = relayedRoom({ port: 0 })
    expect(gateway.pid).toBeUndefined()
    relays.set(key, 'alone')
    await openTo()
    await eventually(() => relays.state.kind === 'open')
    kill(gateway.pid)
    await openTo()
    expect(relays.state.kind).toBe('open')
    relays.set(key, undefined)
    await eventually(() =>
      relayStatus().then(
        () => false,
        () => true,
      ),
    )
    await gateway.end()
  })
})

/** Each on a connection of its own, unless `agent` says otherwise. */
async function ask(url: string, how: RequestOptions): Promise<string> {
  const sent = request({ host: '127.0.0.1', port, path: url, agent: false, ...how })
  sent.end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return `${answer.statusCode} ${await text(answer)}`
}
