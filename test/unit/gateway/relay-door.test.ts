import { execFile, spawnSync } from 'node:child_process'
import crypto, { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { request as requestTo, type RequestOptions } from 'node:https'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { connect, type TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { GatewayRoute, RelayIngressTold, RelayToken } from '../../../src/contract/gateway.ts'
import type { AskedKey } from '../../../src/gateway/keys.ts'
import { Listeners } from '../../../src/gateway/listeners.ts'
import { RelayDoor } from '../../../src/gateway/relay-door.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { pinOf, RelayStandIn } from '../../support/relay-stand-in.ts'
import { missingPrograms } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { engine, rawEngine, routeTo, type Engine } from './engines.ts'
import { forgedCount, sendForged } from './forged-paths.ts'
import { goIdentity } from './go-identity.ts'

let stack: AsyncDisposableStack
let door: RelayDoor
let listeners: Listeners
let port: number
let now: number
let isAgentThere: boolean
let keys: Map<string, AskedKey>
let keyOf: (service: string) => AskedKey | undefined
const logged: string[] = []

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  logged.length = 0
  port = await freePort()
  now = 0
  isAgentThere = true
  keys = new Map()
  keyOf = (service) => keys.get(service) ?? { key: 'none', lastKey: undefined }
  door = new RelayDoor({
    log: (line) => logged.push(line),
    keyOf: (service) => keyOf(service),
    isAgentThere: () => isAgentThere,
    now: () => now,
  })
  listeners = new Listeners(() => undefined)
})
afterEach(async () => {
  listeners.set([])
  await stack.disposeAsync()
  await door.close()
  expect(logged).toEqual([])
})

const digest = (token: string): string => createHash('sha256').update(token).digest('hex')
const tokenOf = (namespace: string, token: string): RelayToken => ({ namespace, token: digest(token) })
const { certificate, key } = goIdentity
const ingress = (...tokens: RelayToken[]): RelayIngressTold => ({ port, certificate, key, tokens })

async function tell(routes: readonly GatewayRoute[], told?: RelayIngressTold): Promise<void> {
  const wanted = door.told(routes, told)
  listeners.set(wanted)
  await eventually(() => listeners.states.filter(({ problem }) => problem === undefined).length === wanted.length)
}

const relayed = (name: string, to: number | undefined, more: Partial<GatewayRoute> = {}): GatewayRoute =>
  routeTo(name, to, { namespace: 'ns', relay: { is: 'alone', isHealthy: true }, ...more })

const echo = async (): Promise<Engine> =>
  stack.use(
    await engine(
      (request, response) =>
        void text(request).then((body) => {
          response.setHeader('x-request', JSON.stringify(request.headers)).end(body === '' ? 'hello' : body)
        }),
    ),
  )

/** One service that answers, in the namespace `ns` with the token `t1`. */
async function serving(more: Partial<GatewayRoute> = {}): Promise<Engine> {
  const one = await echo()
  await tell([relayed('one', one.port, more)], ingress(tokenOf('ns', 't1')))
  return one
}

const shows = (target: string | undefined, token?: string) => ({
  ...(target !== undefined && { 'x-llmkube-target': target }),
  ...(token !== undefined && { 'x-llmkube-relay-token': token }),
})

interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

function open(options: RequestOptions, body?: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = requestTo({ host: '127.0.0.1', port, agent: false, rejectUnauthorized: false, ...options }, resolve)
    sent.once('error', reject)
    sent.end(body)
  })
}

/** As the relay of ns/one, unless the test says otherwise. */
async function ask(options: RequestOptions = {}, body?: string): Promise<Answer> {
  const answer = await open({ path: '/health', headers: shows('ns/one', 't1'), ...options }, body)
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
}

const statusOf = async (headers: Record<string, string>, more: RequestOptions = {}): Promise<number> =>
  (await ask({ headers, ...more })).status

const withToken = (...tokens: string[]): Promise<number[]> =>
  Promise.all(tokens.map((token) => statusOf(shows('ns/one', token))))

/** A connection that is ready for bytes. */
async function tlsConnection(): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  socket.on('error', () => socket.destroy())
  await once(socket, 'secureConnect')
  return socket
}

/** What bytes on a connection are answered with, until it ends. */
async function raw(bytes: string): Promise<string> {
  const socket = await tlsConnection()
  let answered = ''
  socket.setEncoding('latin1').on('data', (piece: string) => (answered += piece))
  socket.write(bytes)
  await once(socket, 'close')
  return answered
}

describe('the connection', () => {
  test.skipIf(missingPrograms('openssl'))('is TLS 1.3 with the key of the pin, and no other', async () => {
    await serving()
    // This process has to answer meanwhile.
    const openssl = (...args: string[]): Promise<string> =>
      new Promise((resolve) => {
        const where = ['s_client', '-connect', `127.0.0.1:${port}`, ...args].join(' ')
        execFile('/bin/sh', ['-c', `openssl ${where} </dev/null 2>&1`], (_error, stdout) => resolve(stdout))
      })
    expect(await openssl('-tls1_2')).toMatch(/alert protocol version/)
    expect(await openssl('-alpn', 'h2')).toMatch(/alert no application protocol/)
    const shown = await openssl('-tls1_3', '-alpn', 'h2,http/1.1')
    expect(shown).toMatch(/New, TLSv1\.3/)
    expect(shown).toMatch(/ALPN protocol: http\/1\.1/)
    const [pem = ''] = /-----BEGIN CERTIFICATE-----[^]+-----END CERTIFICATE-----/.exec(shown) ?? []
    const { stdout } = spawnSync(
      '/bin/sh',
      ['-c', 'openssl x509 -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64'],
      { input: pem, encoding: 'utf8' },
    )
    expect(stdout.trim()).toBe(goIdentity.pin)
  })

  test('is listened for while some service is reached through it, with the identity that was told last', async () => {
    const one = await serving()
    expect(listeners.states).toEqual([{ host: '0.0.0.0', port }])
    await tell([routeTo('one', one.port, { namespace: 'ns' })])
    await expect(ask()).rejects.toThrow('ECONNREFUSED')
    await tell([relayed('one', one.port)])
    // The token was forgotten with the last service of its namespace.
    expect((await ask()).status).toBe(401)
    await tell([relayed('one', one.port)], ingress(tokenOf('ns', 't1')))
    expect((await ask()).status).toBe(200)
  })
})

describe('in this order is asked for', () => {
  test.each([
    [undefined],
    [''],
    ['one'],
    ['/one'],
    ['ns/'],
    ['ns/one/'],
    ['ns//one'],
    ['/ns/one'],
    ['ns/one/v1'],
    ['ns/one, ns/one'],
  ])('a target, which %j is not: 400', async (target) => {
    await serving()
    const { status, headers, body } = await ask({ headers: shows(target, 't1') })
    expect([status, headers['content-type'], Object.keys(JSON.parse(body) as object)]).toEqual([
      ...[400, 'application/json', ['error']],
    ])
  })

  test('a token of its namespace: 401', async () => {
    const one = await serving()
    expect(await statusOf(shows('other/one', 't1'))).toBe(401)
    expect(await withToken('', 't2', ' t1x', digest('t1'), 't1'.repeat(15_000), 't1')).toEqual([
      ...[401, 401, 401, 401, 401, 200],
    ])
    expect(await statusOf(shows('ns/one'))).toBe(401)
    expect(one.seen).toHaveLength(1)
  })

  test('a service that relays reach: 404', async () => {
    const one = await serving()
    await tell([relayed('one', one.port), routeTo('direct', one.port, { namespace: 'ns' })])
    expect(await statusOf(shows('ns/two', 't1'))).toBe(404)
    expect(await statusOf(shows('ns/direct', 't1'))).toBe(404)
    expect(await statusOf(shows('ns/ONE', 't1'))).toBe(404)
    expect(one.seen).toEqual([])
  })

  test.each([
    ['it has no server', { port: undefined as never }],
    ['its server does not answer', { relay: { is: 'alone', isHealthy: false } as const }],
  ])('a service that serves, also before its paths: 503 where %s', async (_what, more) => {
    const one = await echo()
    const { port: _port, ...route } = relayed('one', one.port)
    await tell([{ ...route, ...('port' in more ? {} : { port: one.port, ...more }) }], ingress(tokenOf('ns', 't1')))
    const { status, body } = await ask({ path: '/slots' })
    const said = { error: 'one is not serving at the moment: metal-agent status says why.' }
    expect([status, JSON.parse(body)]).toEqual([503, said])
    expect((await ask({ path: '/_llmkube/ready' })).status).toBe(503)
    expect(await statusOf(shows('ns/one', 't2'), { path: '/_llmkube/ready' })).toBe(401)
    expect(one.seen).toEqual([])
  })

  test('a path of the list: 403', async () => {
    const one = await serving()
    const asked = ['/slots', '/health/', '//health', '/v1/./models', '/v1/models/a%2Fb', '/v1/models/a;b', '/HEALTH']
    for (const path of asked) expect([path, (await ask({ path })).status]).toEqual([path, 403])
    expect((await ask({ method: 'HEAD' })).status).toBe(403)
    expect((await ask({ path: '/_llmkube/ready', method: 'POST' })).status).toBe(403)
    expect((await ask({ path: '/_llmkube/other' })).status).toBe(403)
    expect(one.seen).toEqual([])
    await tell([relayed('one', one.port, { runtime: 'unknown' })])
    expect((await ask()).status).toBe(403)
  })

  test('whether the service is ready, which no engine is asked', async () => {
    const one = await serving()
    const { status, headers, body } = await ask({ path: '/_llmkube/ready' })
    expect([status, headers['content-type'], JSON.parse(body)]).toEqual([200, 'application/json', { status: 'ready' }])
    expect(one.seen).toEqual([])
  })
})

describe('who is not let in learns nothing', () => {
  /** Of every kind: the namespace is not here, its token is not known, not there, was changed, or is another. */
  const kinds = [
    ['no namespace of this machine', 'nowhere/one', 't1'],
    ['no namespace of this machine, without a token', 'nowhere/one', undefined],
    ['no namespace that Kubernetes allows', 'NO..WHERE/one', 't1'],
    ['a wrong token', 'ns/one', 'wrong'],
    ['a wrong token, for a service that is not here', 'ns/two', 'wrong'],
    ['no token', 'ns/one', undefined],
    ['the token of another namespace', 'ns/one', 'of-other'],
    ['a namespace whose token is not known yet', 'unknown/one', 't1'],
    ['a namespace that has no token', 'revoked/one', 't1'],
    ['a namespace whose token was changed', 'rotated/one', 'wrong'],
  ] as const

  async function everyKind(): Promise<void> {
    const one = await echo()
    const names = ['ns', 'other', 'unknown', 'revoked', 'rotated']
    const routes = names.map((namespace) => relayed('one', one.port, { namespace }))
    const tokens = [tokenOf('ns', 't1'), tokenOf('other', 'of-other')]
    await tell(routes, ingress(...tokens, tokenOf('rotated', 'r1')))
    await tell(routes, ingress(...tokens, tokenOf('rotated', 'r2'), { namespace: 'revoked', token: 'nobody' }))
    expect(await statusOf(shows('rotated/one', 'r1'))).toBe(200)
  }

  const lines = (target: string, token: string | undefined): string =>
    Object.entries(shows(target, token))
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')

  test.each([
    ['GET /health', ''],
    ['GET /_llmkube/ready', ''],
    ['GET /slots', ''],
    ['POST /v1/chat/completions', '{"messages":[]}'],
  ])('by a single byte of the answer to %s', async (line, body) => {
    await everyKind()
    const answers = new Map<string, string[]>()
    for (const [what, target, token] of kinds) {
      const length = body === '' ? '' : `content-length: ${body.length}\r\n`
      const head = `${line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${length}${lines(target, token)}\r\n`
      // The second in which it was sent says nothing of what was asked.
      const answer = (await raw(head + body)).replace(/^date: .*\r\n/im, '')
      answers.set(answer, [...(answers.get(answer) ?? []), what])
    }
    expect([...answers.values()]).toEqual([kinds.map(([what]) => what)])
    expect([...answers.keys()][0]).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/)
  })

  test('by how much is compared before the answer', async () => {
    await everyKind()
    using compared = vi.spyOn(crypto, 'timingSafeEqual')
    const counts: number[] = []
    for (const [, target, token] of kinds) {
      await ask({ headers: shows(target, token) })
      counts.push(compared.mock.calls.splice(0).length)
    }
    expect(counts).toEqual(kinds.map(() => 2))
  })
})

describe('a token', () => {
  test('that was replaced counts for ten minutes more, one that was taken away no longer, and neither does the one before it', async () => {
    const one = await serving()
    const told = (token: string) => tell([relayed('one', one.port)], ingress(tokenOf('ns', token)))
    await told('t2')
    now = 599_000
    expect(await withToken('t1', 't2')).toEqual([200, 200])
    now = 600_000
    expect(await withToken('t1', 't2')).toEqual([401, 200])
    await told('t3')
    expect(await withToken('t1', 't2', 't3')).toEqual([401, 200, 200])
    await tell([relayed('one', one.port)], ingress({ namespace: 'ns', token: 'nobody' }))
    expect(await withToken('t2', 't3', 'nobody', '')).toEqual([401, 401, 401, 401])
    await told('t4')
    expect(await withToken('t3', 't4')).toEqual([401, 200])
  })

  test('stays as it was while an agent does not know it yet', async () => {
    const one = await serving()
    await tell([relayed('one', one.port)], ingress())
    await tell([relayed('one', one.port)], ingress({ namespace: 'ns' }))
    expect(await withToken('t1', 't2')).toEqual([200, 401])
  })

  test('counts no longer where no agent was heard for too long', async () => {
    const one = await serving()
    isAgentThere = false
    expect(await withToken('t1')).toEqual([401])
    isAgentThere = true
    expect(await withToken('t1')).toEqual([200])
    door.forgetTokens()
    await tell([relayed('one', one.port)])
    expect(await withToken('t1')).toEqual([401])
  })
})

test('a service that asks clients for an API key asks those of a relay too, and the engine sees neither key nor token', async () => {
  const one = await serving()
  const relay = shows('ns/one', 't1')
  const asked = await ask({ headers: { ...relay, authorization: 'Bearer of-client' } })
  expect(JSON.parse(String(asked.headers['x-request']))).toEqual({
    ...{ host: `127.0.0.1:${one.port}`, connection: 'keep-alive', authorization: 'Bearer of-client' },
  })
  keys.set('ns/one', { key: digest('k1'), lastKey: undefined })
  expect(await statusOf(relay)).toBe(401)
  expect(await statusOf({ ...relay, authorization: 'Bearer t1' })).toBe(401)
  expect(await statusOf(relay, { path: '/_llmkube/ready' })).toBe(200)
  const shown = await ask({ headers: { ...relay, authorization: 'Bearer k1' } })
  expect(JSON.parse(String(shown.headers['x-request']))).toEqual({
    ...{ host: `127.0.0.1:${one.port}`, connection: 'keep-alive' },
  })
})

test('a service of which it is not known whether it asks clients for an API key is closed', async () => {
  const one = await serving()
  keyOf = () => undefined
  expect((await ask()).status).toBe(503)
  expect(one.seen).toEqual([])
})

describe('a request is passed on', () => {
  const relay = shows('ns/one', 't1')

  test('as it was sent, without what is of the way', async () => {
    const one = await serving()
    const answer = await ask({
      path: '/v1/models/abc%2Edef?a=%2f&b',
      headers: {
        ...{ ...relay, 'x-forwarded-for': '10.0.0.1', 'x-forwarded-host': 'evil', forwarded: 'for=a' },
        ...{ connection: 'x-mine, close', 'x-mine': 'a', te: 'trailers', upgrade: 'h2c', 'x-kept': 'b' },
      },
    })
    expect([answer.status, one.seen]).toEqual([200, ['GET /v1/models/abc%2Edef?a=%2f&b']])
    expect(JSON.parse(String(answer.headers['x-request']))).toEqual({
      ...{ host: `127.0.0.1:${one.port}`, connection: 'keep-alive', 'x-kept': 'b' },
    })
  })

  test.each([
    ['changes the protocol', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n'],
    ['says something else than HTTP', 'hello\r\n\r\n'],
  ])('and answered with 502 where the engine %s', async (_what, said) => {
    const one = stack.use(await rawEngine((socket) => socket.end(said)))
    await tell([relayed('one', one.port)], ingress(tokenOf('ns', 't1')))
    const { status, body } = await ask()
    expect([status, Object.keys(JSON.parse(body) as object)]).toEqual([502, ['error']])
  })

  test('and answered with 502 where there is no engine', async () => {
    await tell([relayed('one', await freePort())], ingress(tokenOf('ns', 't1')))
    expect((await ask()).status).toBe(502)
  })

  test('to a daemon with the name and the key that it knows', async () => {
    const one = await serving({ runtime: 'omlx', names: ['apples'], engineKey: 'of-omlx' })
    const chat = { path: '/v1/chat/completions', method: 'POST', headers: { ...relay, authorization: 'Bearer x' } }
    const { body, headers } = await ask(chat, '{"model":"mine"}')
    expect([JSON.parse(body), JSON.parse(String(headers['x-request']))]).toEqual([
      { model: 'apples' },
      expect.objectContaining({ authorization: 'Bearer of-omlx' }),
    ])
    expect(one.seen).toHaveLength(1)
  })

  test.each(['one', 'the-model-ref', 'apples', 'anything', undefined])(
    'to an oMLX by the name that it has there, also where the client says %s',
    async (model) => {
      await serving({ runtime: 'omlx', names: ['apples', 'the-model-ref'] })
      const chat = { path: '/v1/chat/completions', method: 'POST', headers: relay }
      expect(JSON.parse((await ask(chat, JSON.stringify({ model }))).body)).toEqual({ model: 'apples' })
    },
  )

  test('unless a web address is in its body, which the engine would fetch', async () => {
    const one = await serving()
    const body = '{"messages":[{"content":[{"image_url":{"url":"http://10.0.0.1/"}}]}]}'
    const { status, body: said } = await ask({ path: '/v1/chat/completions', method: 'POST' }, body)
    expect([status, JSON.parse(said)]).toEqual([
      400,
      { error: expect.stringMatching(/^Send images and other media/) as string },
    ])
    expect(one.seen).toEqual([])
  })
})

describe('a scrape', () => {
  const metrics = { path: '/metrics' }
  const noFigures = { status: 200, type: 'text/plain; version=0.0.4', body: '', own: undefined }
  const scraped = async () => {
    const { status, headers, body } = await ask(metrics)
    return { status, type: headers['content-type'], body, own: headers['x-own'] }
  }
  const answering = async (status: number, runtime = 'llama-server'): Promise<Engine> => {
    const one = stack.use(
      await engine((_request, response) => {
        response.writeHead(status, { 'x-own': 'a', 'content-type': 'text/html' }).end('of the engine')
      }),
    )
    await tell([relayed('one', one.port, { runtime })], ingress(tokenOf('ns', 't1')))
    return one
  }

  test('of an engine that has no figures finds none, and no service that is down', async () => {
    const one = await answering(404)
    expect([await scraped(), one.seen]).toEqual([noFigures, ['GET /metrics']])
    expect((await ask({ path: '/props' })).status).toBe(404)
  })

  test.each(['ollama', 'omlx', 'mlx-lm'])(
    'of %s, whose figures would be of all models, finds none',
    async (runtime) => {
      const one = await answering(200, runtime)
      expect([await scraped(), one.seen]).toEqual([noFigures, []])
    },
  )

  test('of a runtime that is not known is refused', async () => {
    await answering(200, 'unknown')
    expect((await ask(metrics)).status).toBe(403)
  })
})

test('requests are counted by the status of their answer, 499 where the relay left before there was one', async () => {
  const one = stack.use(await engine(({ url }, response) => void (url === '/props' || response.end('ok'))))
  await tell([relayed('one', one.port)], ingress(tokenOf('ns', 't1')))
  await ask()
  await ask({ path: '/_llmkube/ready' })
  await ask({ path: '/slots' })
  await ask({ headers: {} })
  await withToken('wrong', 'wrong')
  const sent = requestTo({
    ...{ host: '127.0.0.1', port, agent: false, rejectUnauthorized: false, path: '/props' },
    headers: shows('ns/one', 't1'),
  })
  sent.on('error', () => undefined).end()
  await eventually(() => one.seen.includes('GET /props'))
  sent.destroy()
  await eventually(() => door.codes['499'])
  expect(door.codes).toEqual({ '200': 2, '400': 1, '401': 2, '403': 1, '499': 1 })
})

/** Node ends a TLS connection over which many requests come at once. */
const forging = {
  host: 'x',
  perConnection: 20,
  connect: () => connect({ host: '127.0.0.1', port, rejectUnauthorized: false }),
}

/** How many requests were answered. */
const answered = (): number => Object.values(door.codes).reduce((sum, one) => sum + one, 0)

test(`of ${forgedCount} requests whose targets and tokens were made up no engine sees one that it should not`, async () => {
  const [one, two] = [await echo(), await echo()]
  await tell(
    [relayed('one', one.port), relayed('two', two.port, { namespace: 'other' }), routeTo('direct', one.port)],
    ingress(tokenOf('ns', 't1'), tokenOf('other', 't2')),
  )
  const part = fc.constantFrom(
    'ns',
    'other',
    'default',
    'one',
    'two',
    'direct',
    '',
    '.',
    '..',
    'NS',
    'n%73',
    '*',
    'ns ',
  )
  const slashes = fc.constantFrom('/', '/', '/', '//', '', '\\', '%2f', '/ns/')
  const targets = fc.oneof(
    fc.tuple(part, slashes, part).map((parts) => parts.join('')),
    fc.constantFrom('ns/one', 'other/two', 'other/one', 'ns/two', 'default/direct'),
  )
  const tokens = fc.constantFrom('t1', 't2', '', 't', 't1t2', 'T1', 't1,t1', digest('t1'), '0'.repeat(64), 'nobody')
  const asked = fc.sample(fc.tuple(targets, tokens), { numRuns: forgedCount, seed: 1 })
  const right = asked.map(([target, token]) => `${target} ${token}`)
  const lines = asked.map(([target, token]) => {
    const id = `${encodeURIComponent(target).replaceAll('%', '_')}-${token.length}`
    const shown = `x-llmkube-target: ${target}\r\nx-llmkube-relay-token: ${token}\r\n`
    return ['GET', `/v1/models/${id}`, shown] as const
  })
  await sendForged(lines, forging)
  expect(answered()).toBe(forgedCount + Math.ceil(forgedCount / forging.perConnection))
  expect([right.includes('ns/one t1'), right.includes('other/two t2'), right.length]).toEqual([true, true, forgedCount])
  expect([new Set(one.seen), new Set(two.seen)]).toEqual([
    new Set(['GET /v1/models/ns_2Fone-2']),
    new Set(['GET /v1/models/other_2Ftwo-2']),
  ])
})

describe('a relay as the contract has it', () => {
  async function relayTo(pin: string): Promise<RelayStandIn & { readonly tokenFile: string }> {
    const folder = stack.use(await temporaryFolder())
    const tokenFile = path.join(folder.dir, 'token')
    await writeFile(tokenFile, 't1\n')
    const options = { target: 'ns/one', pin, tokenFile, upstream: () => ({ host: '127.0.0.1', port }) }
    return Object.assign(stack.use(await RelayStandIn.start(options)), { tokenFile })
  }

  test('is ready, and brings what its clients ask', async () => {
    const one = await serving()
    const relay = await relayTo(goIdentity.pin)
    expect(await relay.isReady()).toBe(true)
    const answer = await fetch(`${relay.url}/v1/chat/completions`, { method: 'POST', body: '{"messages":[]}' })
    expect([answer.status, await answer.text(), one.seen]).toEqual([
      ...[200, '{"messages":[]}', ['POST /v1/chat/completions']],
    ])
    expect((await fetch(`${relay.url}/slots`)).status).toBe(403)
    await writeFile(relay.tokenFile, 't2')
    expect([await relay.isReady(), (await fetch(`${relay.url}/health`)).status]).toEqual([false, 401])
    await tell([relayed('one', one.port)], ingress(tokenOf('ns', 't2')))
    expect(await relay.isReady()).toBe(true)
  })

  test('does not trust another key', async () => {
    await serving()
    const relay = await relayTo(createHash('sha256').update('another').digest('base64'))
    expect([await relay.isReady(), (await fetch(`${relay.url}/health`)).status, relay.pinMismatches]).toEqual([
      ...[false, 502, 2],
    ])
    expect(pinOf(await tlsConnection())).toBe(goIdentity.pin)
  })
})
