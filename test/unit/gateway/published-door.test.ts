import { createHash } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { GatewayRoute, PublishedAccess } from '../../../src/contract/gateway.ts'
import { Listeners } from '../../../src/gateway/listeners.ts'
import { PublishedDoor } from '../../../src/gateway/published-door.ts'
import { eventually } from '../../support/eventually.ts'
import { skipWhen } from '../../support/skip.ts'
import { freePort } from '../../support/free-port.ts'
import { engine, forbiddenOf, routeTo, type Engine } from './engines.ts'
import { forgedCount, forgedRequests, sendForged } from './forged-paths.ts'

const engineAt = (port: number, runtime = 'llama-server') => ({ port, runtime })

/** An address of this machine that no engine listens at. */
const address = '127.0.0.2'
skipWhen(process.platform === 'linux' ? undefined : `only Linux has ${address} from the start`)

let door: PublishedDoor
let listeners: Listeners
let stack: AsyncDisposableStack
let now: number
const logged: string[] = []

beforeEach(() => {
  stack = new AsyncDisposableStack()
  logged.length = 0
  now = 0
  door = new PublishedDoor(
    (line) => logged.push(line),
    undefined,
    () => now,
  )
  listeners = new Listeners(() => undefined)
})
afterEach(async () => {
  listeners.set([])
  await door.close()
  await stack.disposeAsync()
  expect(logged).toEqual([])
})

const open: PublishedAccess = { servicePorts: [8080, 80], key: 'none' }
const digest = (key: string): string => createHash('sha256').update(key).digest('hex')

const echo = (): Promise<Engine> =>
  engine((request, response) => void text(request).then((body) => response.end(body === '' ? 'hello' : body)))

const routeOf = (
  name: string,
  { port }: Engine,
  access: PublishedAccess | undefined,
  more: Partial<GatewayRoute> = {},
) =>
  routeTo(name, port, {
    published: { address, engine: engineAt(port, more.runtime), ...(access && { access }) },
    ...more,
  })

async function tell(...routes: GatewayRoute[]): Promise<void> {
  const wanted = door.told(routes)
  listeners.set(wanted)
  await eventually(() => listeners.states.filter(({ problem }) => problem === undefined).length === wanted.length)
}

interface Question {
  readonly path?: string
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

async function ask(
  { port }: Pick<Engine, 'port'>,
  { path = '/health', method = 'GET', headers = {}, body }: Question = {},
) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
  const sent = httpRequest({ host: address, port, path, method, headers, agent: false }, (answer) => {
    text(answer).then((said) => resolve({ status: answer.statusCode ?? 0, body: said }), reject)
  })
  sent.on('error', reject)
  sent.end(body)
  return promise
}

async function codeOf(...question: Parameters<typeof ask>): Promise<[number, string]> {
  const { status, body } = await ask(...question)
  const { error } = JSON.parse(body) as { error: { code: string } }
  return [status, error.code]
}

describe('the name that a request is for', () => {
  test.each([
    ['127.0.0.2:PORT', 200],
    ['my-model:8080', 200],
    ['My-Model', 200],
    ['my-model.dev:8080', 200],
    ['my-model.dev.svc', 200],
    ['my-model.dev.svc:31234', 200],
    ['my-model.dev.svc.cluster.local', 200],
    ['my-model.dev.svc.cluster.local.:8080', 200],
    ['my-model.dev.svc.other.domain:8080', 200],
    // A page whose name leads here sends the port that it connects to.
    ['my-model.dev:PORT', 421],
    ['my-model.dev.svc.evil.example:PORT', 421],
    ['my-model:PORT', 421],
    ['evil.example:PORT', 421],
    ['evil.example', 421],
    ['other.dev:8080', 421],
    ['my-model.prod:8080', 421],
    ['my-model.dev.evil.example:8080', 421],
    ['127.0.0.1:PORT', 421],
    ['127.0.0.2', 421],
    ['localhost:PORT', 421],
  ])('%j is answered with %i', async (host, status) => {
    const quick = stack.use(await echo())
    await tell(routeOf('my.model', quick, open, { namespace: 'dev' }))
    const answer = await ask(quick, { headers: { host: host.replace('PORT', String(quick.port)) } })
    expect(answer.status).toBe(status)
    expect(quick.seen).toHaveLength(status === 200 ? 1 : 0)
  })

  test('with the port of the Service for its own, only names that nobody has in the DNS count', async () => {
    const quick = stack.use(await echo())
    await tell(routeOf('quick', quick, { servicePorts: [quick.port], key: 'none' }, { namespace: 'dev' }))
    const statusOf = async (host: string) => (await ask(quick, { headers: { host: `${host}:${quick.port}` } })).status
    expect([await statusOf('quick'), await statusOf('quick.dev.svc'), await statusOf('quick.dev')]).toEqual([
      ...[200, 200, 421],
    ])
  })
})

test.each([
  { origin: 'http://my-model:8080' },
  { origin: 'null' },
  { origin: 'https://evil.example' },
  { 'sec-fetch-site': 'same-origin' },
])('a page reaches nothing: %j', async (headers) => {
  const quick = stack.use(await echo())
  await tell(routeOf('quick', quick, open))
  expect(await codeOf(quick, { headers })).toEqual([403, 'foreign_page'])
  expect(quick.seen).toEqual([])
})

describe('a service that asks for an API key', () => {
  const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` } })

  test('is open to who has it, and the engine never sees it', async () => {
    const shown: unknown[] = []
    const quick = stack.use(
      await engine((request, response) => {
        shown.push([request.headers.authorization, request.headers['x-api-key']])
        response.end('ok')
      }),
    )
    await tell(routeOf('quick', quick, { ...open, key: digest('k1') }))
    expect((await ask(quick, bearer('k1'))).status).toBe(200)
    expect((await ask(quick, { headers: { authorization: 'bearer   k1' } })).status).toBe(200)
    expect((await ask(quick, { headers: { 'x-api-key': 'k1' } })).status).toBe(200)
    expect(shown).toEqual([
      [undefined, undefined],
      [undefined, undefined],
      [undefined, undefined],
    ])
  })

  test.each([
    ['none', {}],
    ['an empty one', { authorization: 'Bearer ' }],
    ['a wrong one', { authorization: 'Bearer k2' }],
    ['its digest', { authorization: `Bearer ${digest('k1')}` }],
    ['another kind', { authorization: 'Basic azE=' }],
    ['a long one', { authorization: `Bearer ${'k1'.repeat(8_000)}` }],
  ])('is closed to who shows %s', async (_what, headers) => {
    const quick = stack.use(await echo())
    await tell(routeOf('quick', quick, { ...open, key: digest('k1') }))
    expect(await codeOf(quick, { headers })).toEqual([401, 'invalid_api_key'])
    expect(quick.seen).toEqual([])
  })

  test('knows the last one for ten minutes more, and none once the key is taken away', async () => {
    const quick = stack.use(await echo())
    const statuses = async (...keys: string[]) =>
      Promise.all(keys.map(async (key) => (await ask(quick, bearer(key))).status))
    for (const key of ['k1', 'k2']) await tell(routeOf('quick', quick, { ...open, key: digest(key) }))
    expect(await statuses('k1', 'k2')).toEqual([200, 200])
    now = 599_000
    expect(await statuses('k1', 'k2')).toEqual([200, 200])
    now = 600_000
    expect(await statuses('k1', 'k2')).toEqual([401, 200])
    await tell(routeOf('quick', quick, { ...open, key: digest('k3') }))
    expect(await statuses('k1', 'k2', 'k3')).toEqual([401, 200, 200])
    await tell(routeOf('quick', quick, { ...open, key: 'nobody' }))
    expect(await statuses('k1', 'k2', 'k3', 'nobody')).toEqual([401, 401, 401, 401])
    await tell(routeOf('quick', quick, { ...open, key: digest('k4') }))
    expect(await statuses('k2', 'k3', 'k4')).toEqual([401, 401, 200])
  })

  describe('of a door that has not seen its key change', () => {
    const rotated = (until: number): PublishedAccess => ({
      ...{ servicePorts: [8080], key: digest('k2') },
      earlierKey: { sha256: digest('k1'), until },
    })
    const inSeconds = (seconds: number): number => Date.now() + seconds * 1_000

    test.each([
      ['for as long as its agent says', 60, 59_000, 61_000],
      ['for ten minutes at most, whatever the clock says', 86_400, 599_000, 600_000],
    ])('takes the last one %s, however often it is told', async (_how, seconds, still, over) => {
      const quick = stack.use(await echo())
      const statuses = async () => [(await ask(quick, bearer('k1'))).status, (await ask(quick, bearer('k2'))).status]
      await tell(routeOf('quick', quick, rotated(inSeconds(seconds))))
      now = still
      await tell(routeOf('quick', quick, rotated(inSeconds(seconds))))
      expect(await statuses()).toEqual([200, 200])
      now = over
      expect(await statuses()).toEqual([401, 200])
    })
  })

  test('stays as it was while an agent does not know it yet, and a service of which nothing was ever told is closed', async () => {
    const quick = stack.use(await echo())
    await tell(routeOf('quick', quick, undefined))
    expect(await codeOf(quick)).toEqual([503, 'not_serving'])
    await tell(routeOf('quick', quick, { ...open, key: digest('k1') }))
    await tell(routeTo('quick', quick.port, { published: { engine: engineAt(quick.port) } }))
    expect([(await ask(quick)).status, (await ask(quick, bearer('k1'))).status]).toEqual([401, 200])
  })
})

test('an engine is asked by the rules of its own runtime, also where it takes over from another', async () => {
  const [old, next] = [stack.use(await echo()), stack.use(await echo())]
  const chat = { path: '/v1/chat/completions', method: 'POST', body: '{"model":"/etc","adapters":"/x"}' }
  await tell(routeOf('quick', old, open))
  expect([(await ask(old, chat)).body, (await ask(old, { path: '/v1/models' })).status]).toEqual([chat.body, 200])
  await tell(routeOf('quick', next, open, { runtime: 'mlx-lm' }))
  await expect(ask(old)).rejects.toThrow('ECONNREFUSED')
  expect(JSON.parse((await ask(next, chat)).body)).toEqual({ model: 'default_model' })
  expect(await codeOf(next, { path: '/v1/models' })).toEqual([403, 'path_forbidden'])
})

test('models of one daemon have an entrance each, are asked by the name that they have there, and answer /health', async () => {
  const daemon = stack.use(await echo())
  const models = await Promise.all(
    ['apples', 'pears'].map(async (model) => ({ model, port: await freePort(), at: daemon.port, runtime: 'ollama' })),
  )
  await tell(
    ...models.map((one) => routeTo(one.model, daemon.port, { published: { address, engine: one, access: open } })),
  )
  for (const { model, port } of models) {
    const chat = { path: '/v1/chat/completions', method: 'POST', body: '{"model":"mine","keep_alive":0}' }
    expect(JSON.parse((await ask({ port }, chat)).body)).toEqual({ model })
    expect((await ask({ port }, { path: '/health' })).status).toBe(200)
    expect(await codeOf({ port }, { path: '/api/tags' })).toEqual([403, 'path_forbidden'])
  }
  expect(daemon.seen.filter((line) => line.startsWith('GET'))).toEqual(['GET /api/version', 'GET /api/version'])
})

test('an oMLX is shown its own key, if it has one, and never what a client sends for one', async () => {
  const shown: unknown[] = []
  const daemon = stack.use(
    await engine((request, response) => {
      const { authorization, 'x-api-key': other } = request.headers
      shown.push([authorization, other])
      response.end()
    }),
  )
  const asked: PublishedAccess = { servicePorts: [8080], key: digest('of-clients') }
  const [keyed, keyless] = [await freePort(), await freePort()]
  const entrance = (port: number) => ({ port, at: daemon.port, model: 'apples', runtime: 'omlx' })
  await tell(
    routeTo('keyed', daemon.port, {
      published: { address, engine: { ...entrance(keyed), engineKey: 'of-omlx' }, access: asked },
    }),
    routeTo('keyless', daemon.port, { published: { address, engine: entrance(keyless), access: open } }),
  )
  const headers = { authorization: 'Bearer of-clients', 'x-api-key': 'of-clients' }
  expect((await ask({ port: keyed }, { headers })).status).toBe(200)
  expect((await ask({ port: keyless }, { headers })).status).toBe(200)
  expect(await codeOf({ port: keyed }, { headers: { authorization: 'Bearer of-omlx' } })).toEqual([
    ...[401, 'invalid_api_key'],
  ])
  expect(shown).toEqual([
    ['Bearer of-omlx', undefined],
    [undefined, undefined],
  ])
})

test('of the health of an oMLX clients are told the status alone', async () => {
  const daemon = stack.use(
    await engine((request, response) => {
      response.statusCode = request.url === '/health' ? 503 : 200
      response.end('{"default_model":"of-the-person"}')
    }),
  )
  await tell(routeOf('kiwis', daemon, open, { runtime: 'omlx', names: ['kiwis'] }))
  expect(await ask(daemon)).toEqual({ status: 503, body: '' })
  const chat = { path: '/v1/chat/completions', method: 'POST', body: '{}' }
  expect((await ask(daemon, chat)).body).toContain('default_model')
})

test('a model of a daemon that is stopped with its requests cut takes no further ones', async () => {
  const daemon = stack.use(await engine((_request, response) => void response.write('a')))
  const model = { model: 'old', port: await freePort(), at: daemon.port, runtime: 'ollama' }
  const route = routeTo('quick', daemon.port, { published: { address, engine: model, access: open } })
  await tell(route)
  const chat = { path: '/v1/chat/completions', method: 'POST', body: '{}' }
  const asked = ask(model, chat).catch((error: unknown) => String(error))
  await eventually(() => daemon.seen.length === 1)
  const cut = { ...route, cut: ['old'] }
  await tell(cut)
  door.cut('default/quick', cut.cut)
  expect(await asked).toContain('aborted')
  expect(await codeOf(model, chat)).toEqual([503, 'not_serving'])
})

test(`what the list of paths forbids, no engine sees, of ${forgedCount} that were made up`, async () => {
  const runtimes = ['llama-server', 'mlx-lm', 'ollama', 'omlx', 'unknown']
  const engines = await Promise.all(runtimes.map(async () => stack.use(await echo())))
  await tell(...engines.map((one, index) => routeOf(`m${index}`, one, open, { runtime: runtimes[index] ?? '' })))
  const asked = forgedRequests(['', '', '', '/default/m0', '/.'])
  const part = Math.ceil(asked.length / engines.length)
  for (const [index, { port }] of engines.entries())
    await sendForged(asked.slice(index * part, (index + 1) * part), {
      ...{ host: `${address}:${port}`, connect: () => connect(port, address) },
    })
  expect(engines.flatMap((one, index) => forbiddenOf(one, runtimes[index] ?? ''))).toEqual([])
  expect(engines.map(({ seen }) => seen.length > 0)).toEqual([true, true, true, true, false])
  expect(door.counts.requests.path_forbidden).toBeGreaterThan(forgedCount * 0.4)
})
