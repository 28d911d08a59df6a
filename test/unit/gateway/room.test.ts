import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Gateway, type GatewayOptions } from '../../../src/agent-core/gateway/gateway.ts'
import { createLog } from '../../../src/agent-core/observability/log.ts'
import type { GatewayRoute } from '../../../src/contract/gateway.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
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
  const gateway = new Gateway({
    ...{ port, stateDir: folder.dir, socketPath: path.join(folder.dir, 'gateway.sock'), routes: () => routes },
    command: () => Promise.resolve([process.execPath, entry]),
    holders: () => Promise.resolve([{ pid: 4711, command: 'squatter' }]),
    log: createLog({ level: 'debug', format: 'json', stream: { write: (line: string) => lines.push(read(line)) } }),
    onChange: () => undefined,
    onDoors: () => undefined,
    ...more,
  })
  gateway.start()
  return gateway
}

const read = (line: string): Record<string, unknown> => {
  const said = JSON.parse(line) as Record<string, unknown>
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

test('of many services that wait it is told why, a part at a time', async () => {
  const gateway = room()
  await listening(gateway)
  const names = Array.from({ length: 150 }, (_, index) => `s${index}`)
  routes = [
    ...names.map((name) => routeTo(name, undefined, { message: `${name} waits.` })),
    routeTo('quick', quick.port),
  ]
  gateway.reasonsChanged()
  const last = async () => (await fetch(`http://127.0.0.1:${port}/default/s149/health`)).text()
  await eventually(async () => (await last()).includes('s149 does not serve at the moment: s149 waits.'))
  expect(await status()).toBe(200)
  await gateway.end()
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

test('one that is killed is back soon, and one that goes on ending ever later', { timeout: 60_000 }, async () => {
  const gateway = room()
  await listening(gateway)
  const { pid } = said('started the gateway')[0] ?? {}
  const began = performance.now()
  kill(pid)
  await eventually(() => said('the gateway ended').length === 1)
  const noticedMs = performance.now() - began
  await eventually(async () => (await status().catch(() => 0)) === 200)
  const backMs = performance.now() - began
  // Half a second on a machine that does nothing else.
  expect({ noticed: noticedMs < 100, back: backMs < 3_000 }).toEqual({ noticed: true, back: true })
  await eventually(() => said('started the gateway').length === 2)
  const again = performance.now()
  kill(said('started the gateway')[1]?.['pid'])
  await eventually(async () => (await status().catch(() => 0)) === 200)
  expect(performance.now() - again).toBeGreaterThan(900)
  await gateway.end()
  await expect(status()).rejects.toThrow('fetch failed')
})

test('a port that is taken is told with who has it, and used as soon as it is free', async () => {
  const squatter = createServer()
  await once(squatter.listen(port, '127.0.0.1'), 'listening')
  const gateway = room()
  expect(await eventually(() => gateway.notice)).toBe(
    `There is no client proxy yet: port ${port} on 127.0.0.1 is taken by process 4711 (squatter): stop it or choose another port with --client-port. It is tried again every few seconds.`,
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
    /^There is no client proxy on 127.0.0.1:\d+: \/nowhere\/metal-agent gateway: .*ENOENT.*\. It is tried again\.$/,
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
