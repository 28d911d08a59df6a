import { once } from 'node:events'
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { heartbeatMs, httpPaths, maxBodyBytes } from '../../../src/contract/http.ts'
import { verbs } from '../../../src/contract/app-bridge.ts'
import { WindowServer, type WindowServerOptions } from '../../../src/serve/http/window-server.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'
import { writeWindow } from '../../support/carriers/window-folder.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const minute = 60_000
const hour = 60 * minute

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let door: RecordingDoor
let server: WindowServer
let clock: number
let errors: unknown[]
const sockets: Socket[] = []

const windowServer = (options: Partial<WindowServerOptions> = {}) =>
  new WindowServer({ door, folder: folder.dir, onError: (error) => errors.push(error), now: () => clock, ...options })

beforeEach(async () => {
  folder = await temporaryFolder()
  await writeWindow(folder.dir)
  door = new RecordingDoor()
  clock = 0
  errors = []
  server = windowServer()
})

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await server.close()
  await folder[Symbol.asyncDispose]()
  expect(errors).toEqual([])
})

async function minted(from = server): Promise<{ origin: string; port: number; token: string }> {
  const { origin, port, hash } = new URL(await from.open())
  return { origin, port: Number(port), token: hash.replace('#token=', '') }
}

interface Reply {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface Asked {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

/** Sends exactly the given request, unlike fetch, which sets Host and Origin itself. */
async function ask(port: number, url: string, { method = 'GET', headers = {}, body }: Asked = {}): Promise<Reply> {
  const request = httpRequest({ host: '127.0.0.1', port, path: url, method, headers, agent: false })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk)
  return { status: response.statusCode, headers: response.headers, text }
}

const json = { 'content-type': 'application/json' }

const exchange = (port: number, token: string, headers: Record<string, string> = {}) =>
  ask(port, httpPaths.session, { method: 'POST', headers: { ...json, ...headers }, body: JSON.stringify({ token }) })

async function session(): Promise<{ port: number; origin: string; bearer: string; authorization: string }> {
  const { port, origin, token } = await minted()
  const { bearer } = JSON.parse((await exchange(port, token)).text) as { bearer: string }
  return { port, origin, bearer, authorization: `Bearer ${bearer}` }
}

/** A request as bytes on a connection that stays open, and what arrives on it. */
async function rawRequest(port: number, head: string): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect({ host: '127.0.0.1', port })
  sockets.push(socket)
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  socket.on('error', () => socket.destroy())
  await once(socket, 'connect')
  socket.write(head)
  return { socket, received: () => text }
}

const followHead = (authorization: string) =>
  `GET ${httpPaths.follow} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`

const allPaths = Object.entries(httpPaths).map(([name, url]) => ({ name, url }))
const guarded = allPaths.filter(({ name }) => name !== 'session')
const methodOf = (name: string) => (name === 'snapshot' || name === 'follow' ? 'GET' : 'POST')

test('nothing listens before somebody asks for the window', async () => {
  const { port } = await minted()
  await server.close()
  const late = connect(port, '127.0.0.1')
  const [error] = (await once(late, 'error')) as [NodeJS.ErrnoException]
  await expect(server.open()).rejects.toMatchObject({ code: 'gone' })
  await expect(
    windowServer()
      .open(port)
      .then(() => 'listens'),
  ).resolves.toBe('listens')
  expect(error.code).toBe('ECONNREFUSED')
})

describe('a token', () => {
  test('is good once', async () => {
    const { port, token } = await minted()
    const statuses = [(await exchange(port, token)).status, (await exchange(port, token)).status]
    expect(statuses).toEqual([200, 401])
  })

  test('is good for two minutes', async () => {
    const { port, token } = await minted()
    const { token: other } = await minted()
    clock = 2 * minute - 1
    const inTime = await exchange(port, token)
    clock = 2 * minute
    const late = await exchange(port, other)
    expect([inTime.status, late.status, JSON.parse(late.text)]).toEqual([
      200,
      401,
      {
        code: 'refused',
        message: 'This address of the window was already used or is too old: metal-agent ui prints a new one.',
      },
    ])
  })

  test('is 256 random bits in the fragment, which no browser sends, and another one each time', async () => {
    const tokens = [(await minted()).token, (await minted()).token]
    expect([tokens.map((token) => Buffer.from(token, 'base64url').length), tokens[0] === tokens[1]]).toEqual([
      [32, 32],
      false,
    ])
  })

  test('that is guessed is slowed down after ten times, and the right one is taken all the same', async () => {
    const { port, token } = await minted()
    const wrong = []
    for (let guess = 0; guess < 11; guess++) wrong.push((await exchange(port, `${token}${guess}`)).status)
    const right = await exchange(port, token)
    clock = 2 * minute
    const later = await exchange(port, 'x')
    expect([wrong, right.status, later.status]).toEqual([[...Array<number>(10).fill(401), 429], 200, 401])
  })

  test('is taken from our own page alone', async () => {
    const { port, token } = await minted()
    const foreign = await exchange(port, token, { origin: 'https://evil.example' })
    const own = await exchange(port, token, { origin: `http://127.0.0.1:${port}`, 'sec-fetch-site': 'same-origin' })
    expect([foreign.status, own.status]).toEqual([403, 200])
  })
})

describe('a bearer', () => {
  test.each(guarded)('is wanted for $name', async ({ name, url }) => {
    const { port, bearer } = await session()
    const request = { method: methodOf(name), body: name === 'snapshot' || name === 'follow' ? '' : '{}' }
    const tried = [undefined, '', 'Bearer', 'Bearer x', `Basic ${bearer}`, bearer, `Bearer ${bearer}x`, 'Bearer äöü']
    const statuses = []
    for (const authorization of tried) {
      const headers = { ...json, ...(authorization !== undefined && { authorization }) }
      statuses.push((await ask(port, url, { ...request, headers })).status)
    }
    expect([statuses, door.followers, door.commands, door.queries, door.streams]).toEqual([
      tried.map(() => 401),
      0,
      [],
      [],
      [],
    ])
  })

  test('is wanted for what there is not, too', async () => {
    const { port, authorization } = await session()
    const urls = ['/api', '/api/', '/api/nothing', '/api/../api/snapshot', '/api/snapshot/']
    const without = await Promise.all(urls.map(async (url) => (await ask(port, url)).status))
    const withIt = await Promise.all(
      urls.map(async (url) => (await ask(port, url, { headers: { authorization } })).status),
    )
    expect([without, withIt]).toEqual([urls.map(() => 401), urls.map(() => 404)])
  })

  test('opens nothing of what is the app’s alone', async () => {
    const { port, authorization } = await session()
    const served = new Set<string>(Object.values(httpPaths))
    const urls = Object.keys(verbs)
      .map((verb) => `/api/${verb}`)
      .filter((url) => !served.has(url))
    const asked = urls.map((url) =>
      ask(port, url, { method: 'POST', headers: { ...json, authorization }, body: '{}' }).then(({ status }) => status),
    )
    expect([urls.length > 15, await Promise.all(asked)]).toEqual([true, urls.map(() => 404)])
  })

  test('is no token, and a token is no bearer', async () => {
    const { port, bearer } = await session()
    const { token } = await minted()
    const swapped = [
      await exchange(port, bearer),
      await ask(port, httpPaths.snapshot, { headers: { authorization: `Bearer ${token}` } }),
    ]
    expect(swapped.map(({ status }) => status)).toEqual([401, 401])
  })

  test('ends after twelve hours in which nobody used it', async () => {
    const { port, authorization } = await session()
    const snapshot = async () => (await ask(port, httpPaths.snapshot, { headers: { authorization } })).status
    clock = 12 * hour - 1
    const first = await snapshot()
    clock = 24 * hour - 2
    const second = await snapshot()
    clock = 36 * hour
    expect([first, second, await snapshot()]).toEqual([200, 200, 401])
  })

  test('does not end while a page listens, and does twelve hours after it left', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { port, authorization } = await session()
    const log = JSON.stringify({ name: 'log', service: { namespace: 'default', name: 'qwen' } })
    const streams = [
      followHead(authorization),
      `POST ${httpPaths.stream} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: ${authorization}\r\nContent-Length: ${log.length}\r\n\r\n${log}`,
    ]
    for (const head of streams) {
      const { socket, received } = await rawRequest(port, head)
      await eventually(() => received().includes('\r\n\r\n'))
      for (let hours = 0; hours < 24; hours += 8) {
        clock += 8 * hour
        vi.advanceTimersByTime(heartbeatMs)
      }
      await eventually(() => received().includes('{"type":"heartbeat"}'))
      socket.destroy()
      await eventually(() => vi.getTimerCount() === 0, { what: 'the end of the heartbeats' })
    }
    clock += 12 * hour - 1
    vi.advanceTimersByTime(heartbeatMs)
    const status = async () => (await ask(port, httpPaths.snapshot, { headers: { authorization } })).status
    const inTime = await status()
    clock += 12 * hour
    expect([inTime, await status()]).toEqual([200, 401])
  })

  test('ends with its agent', async () => {
    const { port, authorization } = await session()
    await server.close()
    server = windowServer()
    await server.open(port)
    expect((await ask(port, httpPaths.snapshot, { headers: { authorization } })).status).toBe(401)
  })
})

describe('a request', () => {
  test.each([
    ['evil.example', 421],
    ['127.0.0.1.evil.example', 421],
    ['localhost:1@evil.example', 421],
    ['192.168.1.20', 421],
    ['localhost:8080', 200],
    ['[::1]:1', 200],
    ['127.0.0.1', 200],
  ])('for the host %s is answered with %i on every path', async (host, status) => {
    const { port, authorization } = await session()
    const urls = ['/', '/assets/plain.css', httpPaths.snapshot]
    const statuses = await Promise.all(
      urls.map(async (url) => (await ask(port, url, { headers: { host, authorization } })).status),
    )
    expect(statuses).toEqual(urls.map(() => status))
  })

  test('of another page is refused on every path, also with the right bearer, also from another port', async () => {
    const { port, origin, authorization } = await session()
    const otherPort = `http://127.0.0.1:${port === 65_535 ? port - 1 : port + 1}`
    const pages: Record<string, string>[] = [
      { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
      { origin: otherPort, 'sec-fetch-site': 'same-site' },
      { origin: otherPort },
      { origin: 'null' },
      { origin: `http://localhost:${port}` },
      { origin: `${origin}.evil.example` },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
      { origin, 'sec-fetch-site': 'cross-site' },
    ]
    const urls = ['/', '/assets/plain.css', ...Object.values(httpPaths), '/api/nothing']
    const statuses = []
    for (const page of pages) {
      for (const url of urls) {
        const request = { method: 'POST', headers: { ...json, authorization, ...page }, body: '{}' }
        statuses.push((await ask(port, url, request)).status)
      }
    }
    expect([new Set(statuses), door.commands, door.queries]).toEqual([new Set([403]), [], []])
  })

  test('through a tunnel, where host and origin are those of its other end, is answered', async () => {
    const { port, authorization } = await session()
    const headers = { host: 'localhost:8080', origin: 'http://localhost:8080', authorization }
    expect((await ask(port, httpPaths.snapshot, { headers })).status).toBe(200)
  })

  test('is never allowed to another origin, and a preflight is no way to ask', async () => {
    const { port, authorization } = await session()
    const preflight = await ask(port, httpPaths.command, {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
    })
    const answers = [preflight, await ask(port, httpPaths.snapshot, { headers: { authorization } })]
    const allowing = answers.flatMap(({ headers }) =>
      Object.keys(headers).filter((name) => /^access-control/.test(name)),
    )
    expect([preflight.status, allowing]).toEqual([403, []])
  })

  test.each([['text/plain'], ['application/x-www-form-urlencoded'], ['application/jsonx'], ['']])(
    'of the type %j is refused',
    async (type) => {
      const { port, authorization } = await session()
      const headers = { authorization, 'content-type': type }
      const statuses = []
      for (const url of [httpPaths.session, httpPaths.command, httpPaths.query, httpPaths.stream]) {
        statuses.push((await ask(port, url, { method: 'POST', headers, body: '{}' })).status)
      }
      expect(statuses).toEqual([415, 415, 415, 415])
    },
  )

  test.each(allPaths)('by another method is refused for $name', async ({ name, url }) => {
    const { port, authorization } = await session()
    const others = ['PUT', 'DELETE', 'HEAD', methodOf(name) === 'GET' ? 'POST' : 'GET']
    const answers = await Promise.all(
      others.map((method) => ask(port, url, { method, headers: { ...json, authorization } })),
    )
    expect(answers.map(({ status, headers }) => [status, headers.allow])).toEqual(
      others.map(() => [405, methodOf(name)]),
    )
  })

  test.each([['{'], ['[]'], ['{}'], ['{"requestId":"x","command":{"name":"resync"}}']])(
    'with the body %s is not understood',
    async (body) => {
      const { port, authorization } = await session()
      const headers = { ...json, authorization }
      const { status, text } = await ask(port, httpPaths.command, { method: 'POST', headers, body })
      expect([status, JSON.parse(text), door.commands]).toEqual([
        400,
        {
          code: 'misunderstood',
          message: expect.stringMatching(/^The agent did not understand this command request: .+\.$/) as unknown,
        },
        [],
      ])
    },
  )

  test('that chooses what is run on this machine is refused with a reason', async () => {
    const { port, authorization } = await session()
    const body = JSON.stringify({
      requestId: '7c0a4f0e-1111-4222-8333-444455556666',
      command: { name: 'updateSettings', settings: { llamaServer: '/tmp/evil' } },
    })
    const { status, text } = await ask(port, httpPaths.command, {
      method: 'POST',
      headers: { ...json, authorization },
      body,
    })
    expect([status, JSON.parse(text), door.commands]).toEqual([
      200,
      {
        outcome: 'refused',
        by: 'agent',
        message:
          'A page in a browser may not choose what is run on this machine, or for which cluster: use the app, or metal-agent in a terminal.',
      },
      [],
    ])
  })
})

describe('a body', () => {
  const tooLong = { code: 'refused', message: 'A request must not be longer than 64 KiB.' }

  test('of 1 GB is refused before it arrives, by what it says of its length', async () => {
    const { port, authorization } = await session()
    const { socket, received } = await rawRequest(
      port,
      `POST ${httpPaths.command} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: ${authorization}\r\nContent-Length: 1000000000\r\n\r\n`,
    )
    await once(socket, 'close')
    const [head = '', body = ''] = received().split('\r\n\r\n')
    expect([head.split('\r\n')[0], JSON.parse(body)]).toEqual(['HTTP/1.1 413 Payload Too Large', tooLong])
  })

  test('of 1 GB that says nothing of its length is cut off early, and costs no memory', async () => {
    const { port, authorization } = await session()
    const before = process.memoryUsage().rss
    const request = httpRequest({
      host: '127.0.0.1',
      port,
      path: httpPaths.command,
      method: 'POST',
      headers: { ...json, authorization, 'transfer-encoding': 'chunked' },
    })
    let status: number | undefined
    request.on('response', (response) => (status = response.statusCode))
    request.on('error', () => request.destroy())
    const closed = new Promise((resolve) => request.once('close', resolve))
    const megabyte = Buffer.alloc(1_024 * 1_024, 0x20)
    let sent = 0
    while (!request.destroyed && sent < 1_000) {
      sent += 1
      if (!request.write(megabyte))
        await Promise.race([new Promise((resolve) => request.once('drain', resolve)), closed])
    }
    await closed
    const grown = process.memoryUsage().rss - before
    // A reset may overtake the answer; the connection ends either way.
    expect([413, undefined]).toContain(status)
    expect([sent < 100, grown < 100 * 1_024 * 1_024, door.commands]).toEqual([true, true, []])
  })

  test('of the greatest length is read, and a byte more is not', async () => {
    const { port, authorization } = await session()
    const headers = { ...json, authorization }
    const command = JSON.stringify({
      requestId: '7c0a4f0e-1111-4222-8333-444455556666',
      command: { name: 'resync' },
    })
    const send = async (length: number) =>
      (await ask(port, httpPaths.command, { method: 'POST', headers, body: command.padEnd(length) })).status
    expect([await send(maxBodyBytes), await send(maxBodyBytes + 1), door.commands.length]).toEqual([200, 413, 1])
  })

  test('that arrives too slowly ends its connection', async () => {
    await server.close()
    server = windowServer({ limits: { headersMs: 50, requestMs: 100 } })
    const { port, authorization } = await session()
    const { socket, received } = await rawRequest(
      port,
      `POST ${httpPaths.command} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: ${authorization}\r\nContent-Length: 100\r\n\r\n{`,
    )
    await once(socket, 'close')
    expect([received().split('\r\n')[0], door.commands]).toEqual(['HTTP/1.1 408 Request Timeout', []])
  })

  test('that breaks off does nothing', async () => {
    const { port, authorization } = await session()
    const { socket } = await rawRequest(
      port,
      `POST ${httpPaths.command} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: ${authorization}\r\nContent-Length: 100\r\n\r\n{"requestId"`,
    )
    socket.destroy()
    const answer = await ask(port, httpPaths.snapshot, { headers: { authorization } })
    expect([answer.status, door.commands]).toEqual([200, []])
  })
})

describe('streams', () => {
  test('of a hundred windows that only listen are sixteen; the others are refused, and one that ends makes room', async () => {
    const { port, authorization } = await session()
    const requests: Awaited<ReturnType<typeof rawRequest>>[] = []
    for (let count = 0; count < 100; count++) {
      const one = await rawRequest(port, followHead(authorization))
      // Until it is answered, so that no more are open at once than a server takes.
      await eventually(() => one.received().includes('\r\n\r\n'))
      requests.push(one)
    }
    const statuses = requests.map(({ received }) => Number(received().split(' ')[1]))
    const [first] = requests
    first?.socket.destroy()
    await eventually(() => door.followers === 15)
    const { received } = await rawRequest(port, followHead(authorization))
    await eventually(() => received().includes('"type":"next"'))
    await eventually(() => requests.at(-1)?.received().endsWith('}\n'))
    const owner = await ask(port, httpPaths.snapshot, { headers: { authorization } })
    expect([statuses, requests.at(-1)?.received().split('\r\n\r\n')[1], owner.status]).toEqual([
      [...Array<number>(16).fill(200), ...Array<number>(84).fill(503)],
      '{"code":"refused","message":"16 streams are open already: close another window of this agent."}\n',
      200,
    ])
  })
})

describe('the page', () => {
  test('may run and load what we serve, nothing else, with a nonce of its own for each answer', async () => {
    const { port } = await minted()
    const answers = [await ask(port, '/'), await ask(port, '/index.html?x')]
    const nonces = answers.map(({ text }) => /nonce="([^"]+)"/.exec(text)?.[1] ?? '')
    expect([
      answers.map(({ status, text }) => [status, text]),
      nonces[0] === nonces[1],
      answers.map(({ headers }) => ({ ...headers, date: '', 'content-length': '' })),
    ]).toEqual([
      nonces.map((nonce) => [200, `<meta property="csp-nonce" nonce="${nonce}"><title>W</title>`]),
      false,
      nonces.map((nonce) => ({
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
        'cache-control': 'no-store',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        connection: 'close',
        date: '',
        'content-length': '',
      })),
    ])
  })

  test.each([
    '/../secret',
    '/..%2fsecret',
    '/%2e%2e/secret',
    '/assets/../../secret',
    '/assets\\..\\..\\secret',
    '//etc/passwd',
    '/etc/passwd',
    '/assets',
    '/assets/',
    '/index.html%00.css',
    '/.env',
  ])('is not left by the path %s', async (url) => {
    await writeWindow(path.join(folder.dir, 'window'))
    await server.close()
    server = windowServer({ folder: path.join(folder.dir, 'window') })
    const { port } = await minted()
    const { status, text } = await ask(port, url)
    expect([status, text]).toEqual([404, '{"code":"misunderstood","message":"There is no such file."}\n'])
  })

  test('is read, not written: other methods are refused, HEAD has no body', async () => {
    const { port } = await minted()
    const statuses = await Promise.all(
      ['POST', 'PUT', 'DELETE', 'OPTIONS'].map(async (method) => (await ask(port, '/', { method })).status),
    )
    const head = await ask(port, '/assets/plain.css', { method: 'HEAD' })
    expect([statuses, head.status, head.headers['content-length'], head.text]).toEqual([
      [405, 405, 405, 405],
      200,
      '4',
      '',
    ])
  })
})

test('a port that is in use, by others or by this window, is named', async () => {
  const { port } = await minted()
  const other = windowServer()
  await expect(other.open(port)).rejects.toMatchObject({
    code: 'refused',
    message: `Port ${port} on 127.0.0.1 is taken by another program: stop it or choose another port.`,
  })
  await expect(server.open(port === 1_024 ? 1_025 : 1_024)).rejects.toMatchObject({
    code: 'refused',
    message: `The window is already served on port ${port}: leave the port out.`,
  })
  await expect(server.open(port)).resolves.toContain(`:${port}/#token=`)
  await other.close()
})
