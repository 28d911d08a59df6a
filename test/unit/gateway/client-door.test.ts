import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, type RequestOptions, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ClientDoor } from '../../../src/gateway/client-door.ts'
import { Arrival } from '../../../src/gateway/door.ts'
import { maxBodyBytes } from '../../../src/gateway/held-pieces.ts'
import { Listeners } from '../../../src/gateway/listeners.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { engine, forbiddenOf, rawEngine, routeTo, type Engine } from './engines.ts'
import { forgedCount, forgedRequests, sendForged } from './forged-paths.ts'

let door: ClientDoor
let port: number
const logged: string[] = []
let listeners: Listeners

beforeEach(async () => {
  port = await freePort()
  logged.length = 0
  const listening = Promise.withResolvers<undefined>()
  door = new ClientDoor((line) => logged.push(line))
  listeners = new Listeners(() => listening.resolve(undefined))
  listeners.set([{ host: '127.0.0.1', port, onConnection: (socket) => door.connect(socket) }])
  await listening.promise
})
afterEach(async () => {
  listeners.set([])
  await door.close()
  expect(logged).toEqual([])
})

interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

function open(options: RequestOptions, body?: string | Buffer): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ host: '127.0.0.1', port, agent: false, ...options }, resolve)
    sent.once('error', reject)
    sent.end(body)
  })
}

async function ask(options: RequestOptions, body?: string | Buffer): Promise<Answer> {
  const answer = await open(options, body)
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
}

const post = (path: string, body: object | string, headers: Record<string, string> = {}): Promise<Answer> =>
  ask({ method: 'POST', path, headers }, typeof body === 'string' ? body : JSON.stringify(body))

const errorOf = ({ status, body }: Answer): [number, string, string] => {
  const { error } = JSON.parse(body) as { error: { message: string; type: string; code: string } }
  return [status, error.code, error.message]
}

/** What bytes on a connection are answered with, until it ends. */
async function raw(bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => socket.destroy())
  socket.write(bytes)
  let answered = ''
  socket.setEncoding('latin1').on('data', (piece: string) => (answered += piece))
  await once(socket, 'close')
  return answered
}

const hello = (): Promise<Engine> =>
  engine((request, response) => {
    request.resume()
    request.once('end', () => response.end('hello'))
  })

describe('a request goes', () => {
  test('to the service that its model or its path names, and as it was sent', async () => {
    const bodies: string[] = []
    await using first = await hello()
    await using second = await engine((request, response) => {
      void text(request).then((body) => {
        bodies.push(body)
        response.setHeader('x-request', JSON.stringify(request.headers)).end('second')
      })
    })
    door.routes = [routeTo('one', first.port), routeTo('two', second.port, { names: ['alias', 'two.gguf'] })]
    const body = '{"stream": false ,"model":"alias","x":"\\u00e9"}'
    const answer = await post('/v1/chat/completions?a=%2f&b', body, {
      ...{
        connection: 'x-mine, close',
        'x-mine': 'a',
        'x-forwarded-for': '10.0.0.1',
        forwarded: 'for=a',
        te: 'trailers',
      },
      ...{ upgrade: 'websocket', authorization: 'Bearer k', 'content-type': 'application/json' },
      'content-length': String(Buffer.byteLength(body)),
    })
    expect([answer.status, answer.body, bodies]).toEqual([200, 'second', [body]])
    expect(JSON.parse(String(answer.headers['x-request']))).toEqual({
      ...{ host: `127.0.0.1:${second.port}`, connection: 'keep-alive', authorization: 'Bearer k' },
      ...{ 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) },
    })
    expect((await ask({ path: '/default/one/metrics?x=1' })).body).toBe('hello')
    expect((await post('/default/two/tokenize', { content: 'a' })).body).toBe('second')
    expect([first.seen, second.seen]).toEqual([
      ['GET /metrics?x=1'],
      ['POST /v1/chat/completions?a=%2f&b', 'POST /tokenize'],
    ])
  })

  test('to an oMLX with its own key in the place of what the client sends', async () => {
    const shown: unknown[] = []
    await using daemon = await engine((request, response) => {
      const { authorization, 'x-api-key': other } = request.headers
      shown.push([authorization, other])
      void text(request).then((body) => response.end(body))
    })
    const of = { runtime: 'omlx', names: ['apples'], engineKey: 'of-omlx' }
    door.routes = [routeTo('one', daemon.port, of)]
    const headers = { authorization: 'Bearer of-client', 'x-api-key': 'of-client' }
    const { body } = await post('/v1/chat/completions', { model: 'one' }, headers)
    expect(JSON.parse(body)).toEqual({ model: 'apples' })
    expect(shown).toEqual([['Bearer of-omlx', undefined]])
    expect((await ask({ path: '/' })).body).not.toContain('of-omlx')
  })

  test.each(['one', 'default/one', 'the-model-ref', 'apples'])(
    'to an oMLX by the name that it has there, where the client says %s',
    async (model) => {
      await using omlx = await engine((request, response) => {
        void text(request).then((body) => response.end(body))
      })
      await using other = await hello()
      const named = { runtime: 'omlx', names: ['apples', 'the-model-ref'] }
      door.routes = [routeTo('one', omlx.port, named), routeTo('two', other.port)]
      const answer = await post('/v1/chat/completions', JSON.stringify({ model }))
      expect(JSON.parse(answer.body)).toEqual({ model: 'apples' })
    },
  )

  test('without a name to the one that is there, with any body that is a JSON object', async () => {
    await using only = await engine((request, response) => void text(request).then((body) => response.end(body)))
    door.routes = [routeTo('one', only.port)]
    const large = 'x'.repeat(600_000)
    expect((await post('/completion', { prompt: large })).body).toBe(JSON.stringify({ prompt: large }))
    expect((await post('/completion', 'no JSON')).body).toContain('body_not_json')
    expect((await post('/completion', '')).body).toBe('')
    expect((await post('/completion', '{"a":1}', { 'transfer-encoding': 'chunked' })).body).toBe('{"a":1}')
    expect((await ask({ path: '/health' })).status).toBe(200)
  })

  test('nowhere, with a sentence, where nothing serves it', async () => {
    door.routes = []
    expect(errorOf(await post('/v1/chat/completions', { model: 'a' }))).toEqual([
      ...[503, 'no_backend', 'No model serves on this machine: metal-agent status says why.'],
    ])
    const message = 'It loads its model.'
    door.routes = [
      routeTo('slow', undefined, { message, retryAfterS: 42 }),
      ...[routeTo('big', undefined, { message: 'It does not fit.' }), routeTo('two', 1)],
    ]
    const refused = await post('/v1/chat/completions', { model: 'slow' })
    expect([errorOf(refused), refused.headers['retry-after']]).toEqual([
      [503, 'not_serving', `slow is not serving at the moment: ${message}`],
      '42',
    ])
    expect((await post('/v1/chat/completions', { model: 'big' })).headers['retry-after']).toBeUndefined()
    expect(errorOf(await post('/v1/chat/completions', { model: 'gpt-4' }))).toEqual([
      ...[404, 'model_not_found', 'No service here answers to the model "gpt-4". Available: two.'],
    ])
    expect(errorOf(await post('/v1/chat/completions', { model: 'two' }))[2]).toContain(
      'two did not answer: its engine has ended',
    )
    expect(door.counts.requests).toEqual({ no_backend: 3, '4xx': 1, '5xx': 1 })
  })
})

describe('an answer', () => {
  test('comes piece by piece, as the engine sends it', async () => {
    const answers = Promise.withResolvers<{ write(piece: string): void; end(): void }>()
    await using streaming = await engine((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      answers.resolve({ write: (piece) => response.write(piece), end: () => response.end() })
    })
    door.routes = [routeTo('one', streaming.port)]
    const answer = await open({ method: 'POST', path: '/v1/completions' }, '{"stream":true}')
    const said = await answers.promise
    for (const piece of ['data: 1\n\n', 'data: 2\n\n']) {
      said.write(piece)
      const [came] = (await once(answer, 'data')) as [Buffer]
      expect(came.toString()).toBe(piece)
    }
    said.end()
    await once(answer, 'end')
  })

  test('waits for a client that is slow to read, and takes no memory for it', async () => {
    let written = 0
    await using endless = await engine((_request, response) => {
      const piece = Buffer.alloc(65_536)
      const more = (): void => {
        while (!response.destroyed && written < 500 * 1_024 * 1_024) {
          written += piece.length
          if (!response.write(piece)) return void response.once('drain', more)
        }
      }
      more()
    })
    door.routes = [routeTo('one', endless.port)]
    const answer = await open({ path: '/props' })
    answer.pause()
    let before = -1
    await eventually(() => {
      const isHeld = written === before
      before = written
      return isHeld && written > 0
    })
    expect(written).toBeLessThan(64 * 1_024 * 1_024)
    answer.destroy()
  })

  test('that nobody waits for any more is cancelled at the engine', async () => {
    const gone = Promise.withResolvers<undefined>()
    await using working = await engine((request, response) => {
      response.once('close', () => gone.resolve(undefined))
      if (request.url === '/v1/completions') response.write('a')
    })
    door.routes = [routeTo('one', working.port)]
    const answer = await open({ method: 'POST', path: '/v1/completions' }, '{}')
    answer.destroy()
    await gone.promise
    const silent = httpRequest({ host: '127.0.0.1', port, method: 'POST', path: '/completion' })
    silent.on('error', () => undefined)
    silent.end('{}')
    await eventually(() => working.seen.length === 2)
    silent.destroy()
    await eventually(() => door.counts.requests.other === 1)
  })

  test.each([
    ['in HTTP/1.1', 'POST /v1/completions HTTP/1.1', false],
    ['in HTTP/1.0', 'POST /v1/completions HTTP/1.0', true],
  ])('that breaks off at the engine is no whole one for a client: %s', async (_version, line, isReset) => {
    await using dying = await rawEngine((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n', () =>
        setImmediate(() => socket.resetAndDestroy()),
      )
    })
    door.routes = [routeTo('one', dying.port)]
    const socket = connect(port, '127.0.0.1')
    const failed = Promise.withResolvers<boolean>()
    socket.on('error', () => failed.resolve(true))
    socket.on('close', () => failed.resolve(false))
    let answered = ''
    socket.setEncoding('latin1').on('data', (piece: string) => (answered += piece))
    socket.write(`${line}\r\nhost: 127.0.0.1:${port}\r\ncontent-length: 2\r\n\r\n{}`)
    expect(await failed.promise).toBe(isReset)
    expect(answered.endsWith('0\r\n\r\n')).toBe(false)
    expect(door.counts.requests).toEqual({ '5xx': 1 })
  })

  test.each([
    ['101', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nbytes'],
    ['garbage', 'no HTTP at all\r\n\r\n'],
    ['nothing', ''],
    ['a status that there is not', 'HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\nok'],
    ['50 MB of headers', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(50_000_000)}\r\n\r\n`],
  ])('of an engine that is %s is a 502 with a sentence', async (_what, bytes) => {
    await using odd = await rawEngine((socket) => socket.end(bytes))
    door.routes = [routeTo('one', odd.port)]
    const [status, code, message] = errorOf(await post('/v1/completions', {}))
    expect([status, code]).toEqual([502, 'engine_failed'])
    expect(message).toMatch(/^one did not answer: its engine .*; ask again once it serves\.$/)
  })

  test('has neither what concerns one connection alone nor trailers', async () => {
    await using trailing = await engine((_request, response) => {
      response.writeHead(200, {
        trailer: 'x-late',
        'x-a': '1',
        'keep-alive': 'timeout=77',
        'set-cookie': ['a=1', 'b=2'],
      })
      response.write('a')
      response.addTrailers({ 'x-late': 'b' })
      response.end()
    })
    door.routes = [routeTo('one', trailing.port)]
    const answer = await open({ path: '/props' })
    expect(await text(answer)).toBe('a')
    expect([answer.headers['x-a'], answer.headers['set-cookie'], answer.headers.trailer, answer.trailers]).toEqual([
      ...['1', ['a=1', 'b=2'], undefined, {}],
    ])
    expect(answer.headers['keep-alive']).not.toBe('timeout=77')
  })
})

describe('a body', () => {
  test.each([
    ['of a length that was said', `content-length: 100000`, '{"model":"one"'],
    ['in chunks', 'transfer-encoding: chunked', 'e\r\n{"model":"one"\r\n'],
  ])('%s that the client breaks off is no whole one for the engine', async (_how, header, part) => {
    const got = Promise.withResolvers<boolean>()
    await using only = await engine((request) => {
      request.on('error', () => undefined)
      request.once('close', () => got.resolve(request.complete))
      request.resume()
    })
    door.routes = [routeTo('one', only.port)]
    const socket = connect(port, '127.0.0.1')
    socket.write(`POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${header}\r\n\r\n${part}`)
    await eventually(() => only.seen.length === 1)
    socket.destroy()
    expect(await got.promise).toBe(false)
    await eventually(() => door.counts.requests.other === 1)
  })

  test('that an engine does not read to its end is answered with what it says, and no more of it is sent', async () => {
    const gone = Promise.withResolvers<undefined>()
    await using only = await engine((request, response) => {
      request.socket.once('close', () => gone.resolve(undefined))
      response.writeHead(413).end('too much')
    })
    door.routes = [routeTo('one', only.port)]
    const sent = httpRequest({ host: '127.0.0.1', port, agent: false, method: 'POST', path: '/default/one/completion' })
    sent.on('error', () => undefined)
    sent.write('{')
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect([answer.statusCode, await text(answer)]).toEqual([413, 'too much'])
    await gone.promise
    sent.destroy()
  })

  test('of a GET is not the next request', async () => {
    await using only = await hello()
    door.routes = [routeTo('one', only.port)]
    const hidden = 'GET /slots/0?action=erase HTTP/1.1\r\nhost: a\r\n\r\n'
    const body = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`
    const head = (method: string): string => `${method} /health HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n`
    const answered = await raw(`${head('GET')}transfer-encoding: chunked\r\nconnection: close\r\n\r\n${body}`)
    expect(answered).toContain('body_not_json')
    await ask({ path: '/metrics' })
    expect(only.seen).toEqual(['GET /metrics'])
  })
})

describe('who may not ask', () => {
  test.each(['evil.example', '127.0.0.1', 'localhost:1', '192.168.1.2:PORT', '127.0.0.1:PORT.', 'a@127.0.0.1:PORT'])(
    'by the Host %j gets 421 before anything is looked up',
    async (host) => {
      door.routes = []
      const refused = await ask({ path: '/v1/models', headers: { host: host.replace('PORT', String(port)) } })
      expect(errorOf(refused).slice(0, 2)).toEqual([421, 'bad_host'])
      expect(door.counts.requests).toEqual({ bad_host: 1 })
    },
  )

  test.each(['localhost:PORT', 'LocalHost:PORT', '[::1]:PORT'])('but by %j it is ours', async (host) => {
    expect((await ask({ path: '/', headers: { host: host.replace('PORT', String(port)) } })).status).toBe(200)
  })

  test('and by a name that the person allowed, who is told how where it is not', async () => {
    const headers = { host: 'Host.Docker.internal:9999' }
    expect(errorOf(await ask({ path: '/', headers }))[2]).toContain('--client-hosts and that name, such as host.docker')
    door.hosts = ['host.docker.internal']
    expect((await ask({ path: '/', headers })).status).toBe(200)
  })

  test('without a Host, or with two, it is none', async () => {
    const own = `host: 127.0.0.1:${port}\r\n`
    const asked = (hosts: string) => raw(`GET / HTTP/1.1\r\n${hosts}connection: close\r\n\r\n`)
    expect((await asked('')).slice(0, 12)).toBe('HTTP/1.1 421')
    expect((await asked('host: \r\n')).slice(0, 12)).toBe('HTTP/1.1 421')
    expect((await asked(`${own}host: evil.example\r\n`)).slice(0, 12)).toBe('HTTP/1.1 421')
    expect((await asked(own)).slice(0, 12)).toBe('HTTP/1.1 200')
  })

  test.each([
    [{ origin: 'https://evil.example' }, 403],
    [{ origin: 'null' }, 403],
    [{ origin: 'http://localhost.evil.example' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ origin: 'http://localhost:3000', 'sec-fetch-site': 'cross-site' }, 200],
    [{ origin: 'chrome-extension://abc' }, 200],
    [{ 'sec-fetch-site': 'none' }, 200],
  ])('as a page: %j gets %i', async (headers, status) => {
    expect((await ask({ path: '/v1/models', headers })).status).toBe(status)
  })

  test(`what the list of paths forbids, no engine sees, of ${forgedCount} that were made up`, async () => {
    const runtimes = ['llama-server', 'mlx-server', 'ollama', 'unknown']
    await using stack = new AsyncDisposableStack()
    const engines = await Promise.all(runtimes.map(async () => stack.use(await hello())))
    door.routes = runtimes.map((runtime, index) => routeTo(runtime, engines[index]?.port, { runtime }))
    const asked = forgedRequests(['', ...runtimes.map((name) => `/default/${name}`), '/default', '/x/y', '/.'])
    await sendForged(asked, { host: `127.0.0.1:${port}`, connect: () => connect(port, '127.0.0.1') })
    const total = Object.values(door.counts.requests).reduce((sum, count) => sum + count, 0)
    expect(total).toBeGreaterThan(asked.length)
    expect(engines.flatMap((one, index) => forbiddenOf(one, runtimes[index] ?? ''))).toEqual([])
    expect(engines.map(({ seen }) => seen.length > 0)).toEqual([true, true, true, false])
    expect(door.counts.requests.path_forbidden).toBeGreaterThan(forgedCount * 0.4)
  })
})

describe('what is too much', () => {
  test('a body beyond the limit, said before or not, gets 413 with a sentence', async () => {
    await using only = await hello()
    door.routes = [routeTo('one', only.port)]
    const said = await raw(
      `POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-length: ${maxBodyBytes + 1}\r\n\r\n{`,
    )
    expect(said).toMatch(/^HTTP\/1.1 413 [^]*"A request may have at most 128 MiB: send smaller images or less text."/)
    expect(only.seen).toEqual([])
    const sent = httpRequest({ host: '127.0.0.1', port, method: 'POST', path: '/v1/completions', agent: false })
    sent.on('error', () => undefined)
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    const piece = Buffer.alloc(1_048_576, ' ')
    for (let mib = 0; mib <= 128; mib++) if (!sent.write(piece)) await Promise.race([once(sent, 'drain'), answered])
    const [answer] = await answered
    expect([answer.statusCode, (await text(answer)).includes('body_too_large')]).toEqual([413, true])
  })

  test('headers beyond 32 kB get 431', async () => {
    const answer = await raw(`GET / HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`)
    expect(answer.slice(0, 12)).toBe('HTTP/1.1 431')
  })

  test('connections that never send a request make room for those that do', async () => {
    await using only = await hello()
    door.routes = [routeTo('one', only.port)]
    const slow: Socket[] = []
    const closed = { count: 0 }
    for (let count = 0; count < 3_000; count++) {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined).on('close', () => (closed.count += 1))
      socket.write('GET /health HTTP/1.1\r\nhost: ')
      slow.push(socket)
      if (count % 500 === 499) expect((await ask({ path: '/health' })).status).toBe(200)
    }
    await eventually(() => closed.count >= 1_900)
    expect((await post('/v1/completions', {})).body).toBe('hello')
    for (const socket of slow) socket.destroy()
  })

  test('requests whose bodies do not come keep nobody out, and 30 MiB of each that come are not held here', async () => {
    const bytes = { seen: 0 }
    await using only = await engine((request, response) => {
      request.on('data', (piece: Buffer) => (bytes.seen += piece.length)).once('end', () => response.end('hello'))
    })
    door.routes = [routeTo('one', only.port, { runtime: 'mlx-lm' })]
    const quiet: Socket[] = []
    for (let count = 0; count < 1_500; count++) {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      const path = count % 2 ? '/v1/completions' : '/default/one/v1/completions'
      socket.write(`POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-length: 1000\r\n\r\n{`)
      quiet.push(socket)
      if (count % 500 === 499) expect((await post('/v1/completions', {})).body).toBe('hello')
    }
    const mebibyte = Buffer.alloc(1_048_576, 'a')
    const large = Array.from({ length: 10 }, () => {
      const headers = { 'content-length': 40 * mebibyte.length }
      const path = '/default/one/v1/completions'
      const sent = httpRequest({ host: '127.0.0.1', port, agent: false, method: 'POST', path, headers })
      sent.on('error', () => undefined).write('{"a":"')
      for (let count = 0; count < 30; count += 1) sent.write(mebibyte)
      return sent
    })
    await eventually(() => bytes.seen > 10 * 30 * mebibyte.length, { timeoutMs: 60_000 })
    for (const one of [...quiet, ...large]) one.destroy()
  })

  test('a body that comes at less than 1 KiB a second is ended, and one that waits for its engine is not', () => {
    const socket = { bytesRead: 500 }
    const request = { socket, readableLength: 0 }
    const arrival = new Arrival(request as IncomingMessage, {} as ServerResponse, 0)
    const looks = (now: number, bytesRead: number, readableLength = 0) => {
      Object.assign(socket, { bytesRead })
      Object.assign(request, { readableLength })
      return arrival.look(now)
    }
    expect([looks(2_000, 501), looks(4_000, 501), looks(20_000, 10_751), looks(30_000, 10_752, 1)]).toEqual([
      ...['comes', 'quiet', 'comes', 'comes'],
    ])
    expect([looks(39_000, 10_752), looks(42_000, 11_000)]).toEqual(['quiet', 'slow'])
  })

  test('requests that a client sends before it has the answer are both answered before the door closes', async () => {
    const go = Promise.withResolvers<undefined>()
    await using only = await engine((request, response) => {
      if (request.url === '/metrics') void go.promise.then(() => response.end('second'))
      else response.end('first')
    })
    door.routes = [routeTo('one', only.port)]
    const head = (path: string) => `GET /default/one${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`
    const socket = connect(port, '127.0.0.1')
    socket.write(head('/health') + head('/metrics'))
    await eventually(() => only.seen.length === 2 && socket.bytesRead > 0)
    const closed = door.close()
    go.resolve(undefined)
    expect(await text(socket)).toMatch(/first[^]*second$/)
    await closed
  })
})

describe('what is counted by service', () => {
  const of = (name: string) => door.counts.services.find((one) => one.name === name)
  const requestsOf = (name: string) => of(name)?.requests.map(({ code, reason, count }) => `${code} ${reason} ${count}`)

  test('are answers and refusals, and the seconds to the first byte and to the end of an answer', async () => {
    await using one = await engine((request, response) => {
      void text(request).then((body) => {
        response.statusCode = body.includes('bad') ? 400 : 200
        response.end('{}')
      })
    })
    door.routes = [routeTo('one', one.port), routeTo('two', undefined, { message: 'It waits.' })]
    await post('/v1/chat/completions', { model: 'one' })
    await post('/v1/chat/completions', { model: 'one', bad: true })
    await post('/v1/completions', { model: 'one' })
    await post('/tokenize', { model: 'one' })
    await ask({ path: '/default/one/api/tags' })
    await post('/v1/chat/completions', { model: 'two' })
    await post('/v1/chat/completions', { model: 'nobody' })
    expect(requestsOf('one')).toEqual(['2xx answered 3', '4xx answered 1', '4xx path_forbidden 1'])
    expect(requestsOf('two')).toEqual(['5xx not_serving 1'])
    expect(door.counts.services.length).toBe(2)
    const counts = of('one')
    expect(counts).toMatchObject({ waiting: 0, streaming: 0 })
    const timed = [counts?.firstByte, counts?.inTotal].map((one) => one?.counts.reduce((sum, count) => sum + count, 0))
    expect(timed).toEqual([4, 4])
  })

  test('are requests that wait, that stream, and that their client left', async () => {
    const go = Promise.withResolvers<undefined>()
    await using one = await engine((_request, response) => void go.promise.then(() => response.write('a')))
    door.routes = [routeTo('one', one.port)]
    const leaving = httpRequest({ host: '127.0.0.1', port, path: '/v1/chat/completions', method: 'POST' })
    leaving.on('error', () => undefined).end('{"model":"one"}')
    await eventually(() => of('one')?.waiting === 1)
    go.resolve(undefined)
    await eventually(() => of('one')?.streaming === 1 && of('one')?.waiting === 0)
    leaving.destroy()
    await eventually(() => of('one')?.streaming === 0)
    expect(requestsOf('one')).toEqual(['2xx client_left 1'])
  })

  test('are those whose client left before a body that is changed was whole', async () => {
    await using one = await hello()
    door.routes = [routeTo('one', one.port, { runtime: 'mlx-lm' })]
    const leaving = connect(port, '127.0.0.1')
    const head = `POST /default/one/v1/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-length: 100\r\n\r\n`
    leaving.write(`${head}{"model":`)
    await eventually(() => of('one')?.waiting === 1)
    leaving.destroy()
    await eventually(() => of('one')?.waiting === 0)
    expect(requestsOf('one')).toEqual(['none client_left 1'])
    expect(one.seen).toEqual([])
  })

  test('of at most 200 services', async () => {
    door.routes = Array.from({ length: 205 }, (_, index) => routeTo(`s${index}`, undefined))
    for (let index = 0; index < 205; index += 1) await ask({ path: `/default/s${index}/health` })
    await ask({ path: '/default/s0/health' })
    expect([door.counts.services.length, requestsOf('s0'), of('s204')]).toEqual([200, ['5xx not_serving 2'], undefined])
  })
})

describe('the door itself', () => {
  test('lists what serves in OpenAI’s shape, by the shortest name', async () => {
    door.routes = [
      ...[routeTo('one', 1), routeTo('two', 2), routeTo('two', 3, { namespace: 'team', names: ['qwen'] })],
      routeTo('three', undefined, { message: 'It is fetched.' }),
    ]
    const { body } = await ask({ path: '/v1/models' })
    const list = JSON.parse(body) as { object: string; data: { id: string; object: string; owned_by: string }[] }
    expect([list.object, list.data.map(({ id, object, owned_by: by }) => `${id} ${object} ${by}`)]).toEqual([
      'list',
      ['one model metalbar', 'two model metalbar', 'team/two model metalbar'],
    ])
    expect(JSON.parse((await ask({ path: '/v1/models/qwen' })).body)).toMatchObject({ id: 'team/two', object: 'model' })
    for (const path of ['/v1/models/team/two', '/v1/models/team%2Ftwo'])
      expect(JSON.parse((await ask({ path })).body)).toMatchObject({ id: 'team/two', object: 'model' })
    expect(errorOf(await ask({ path: '/v1/models/team%2fnobody' })).slice(0, 2)).toEqual([404, 'model_not_found'])
    expect(errorOf(await ask({ path: '/v1/models/nobody' })).slice(0, 2)).toEqual([404, 'model_not_found'])
    expect(errorOf(await ask({ path: '/v1/models/three' })).slice(0, 2)).toEqual([503, 'not_serving'])
  })

  test('says at / what is here, in JSON and for people', async () => {
    door.routes = [routeTo('one', 1), routeTo('two', undefined, { message: '<b>It</b> is fetched.' })]
    expect(JSON.parse((await ask({ path: '/' })).body)).toMatchObject({
      models: '/v1/models',
      services: [
        { id: 'one', service: 'default/one', path: '/default/one/v1', serves: true },
        { id: 'two', serves: false, message: '<b>It</b> is fetched.' },
      ],
    })
    const page = await ask({ path: '/', headers: { accept: 'text/html,*/*' } })
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(page.headers['content-security-policy']).toContain("default-src 'none'")
    expect(page.body).toContain('<b>two</b>: &#60;b&#62;It&#60;/b&#62; is fetched.')
    for (const path of ['/healthz', '/readyz', '/favicon.ico', '/v1'])
      expect(errorOf(await ask({ path })).slice(0, 2)).toEqual([403, 'path_forbidden'])
  })
})
