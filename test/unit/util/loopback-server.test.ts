import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import {
  isLoopbackHost,
  listenOnLoopback,
  type LoopbackServer,
  type LoopbackServerOptions,
} from '../../../src/agent-core/util/loopback-server.ts'

const open: AsyncDisposable[] = []
const errors: unknown[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one[Symbol.asyncDispose]()
  errors.length = 0
})

async function listen(options: Partial<LoopbackServerOptions> = {}): Promise<LoopbackServer> {
  const result = await listenOnLoopback({
    port: 0,
    handle: (_, response) => void response.end('hello'),
    onError: (error) => errors.push(error),
    ...options,
  })
  if (!result.ok) throw new Error(result.message)
  open.push(result.server)
  return result.server
}

/** What arrives until the server ends the connection. */
async function exchange(port: number, text: string): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port })
  socket.write(text)
  return read(socket)
}

async function read(socket: Socket): Promise<string> {
  let received = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    received += chunk
  })
  socket.on('error', () => socket.destroy())
  await once(socket, 'close')
  return received
}

test('headers that never end are cut off', async () => {
  const { port } = await listen({ limits: { headersMs: 50, requestMs: 100 } })
  expect(await exchange(port, 'GET / HTTP/1.1\r\nHost: localhost\r\nX-')).toMatch(/^HTTP\/1\.1 408 /)
})

test('headers that are too long are refused', async () => {
  const { port } = await listen({ limits: { headerBytes: 1_024 } })
  expect(await exchange(port, `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(2_000)}\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 431 /,
  )
})

test('an answer that takes too long ends with its connection', async () => {
  const { port } = await listen({ limits: { answerMs: 50 }, handle: () => undefined })
  expect(await exchange(port, 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')).toBe('')
})

test('a connection is closed when it was idle for as long as the limit, and no sooner', async () => {
  const patient = await listen({ limits: { idleMs: 60_000 } })
  const { port } = await listen({ limits: { idleMs: 20 } })
  const request = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const kept = connect(patient.port, '127.0.0.1')
  kept.write(request)
  const [answer] = (await once(kept, 'data')) as [Buffer]
  const closed = await exchange(port, request)
  // Without its limit a server keeps connections for some seconds, and would have closed the older one first.
  expect([kept.readyState, answer.toString(), closed]).toEqual([
    'open',
    expect.stringMatching(/^HTTP\/1\.1 200 OK\r\n[^]*\r\nKeep-Alive: timeout=60\r\n/),
    expect.stringMatching(/^HTTP\/1\.1 200 OK\r\n[^]*\r\nKeep-Alive: timeout=0\r\n/),
  ])
  kept.destroy()
})

test('without another wish a connection may be idle for a minute', async () => {
  const { port } = await listen()
  const { headers } = await fetch(`http://127.0.0.1:${port}/`)
  expect(headers.get('keep-alive')).toBe('timeout=60')
})

test('no more connections than the limit are held, and those that ask nothing keep nobody out', async () => {
  const slow = Promise.withResolvers<undefined>()
  const { port } = await listen({
    limits: { connections: 2 },
    handle: async ({ url }, response) => {
      if (url === '/slow') await slow.promise
      response.end('hello')
    },
  })
  const ask = (path: string) => exchange(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  const held = Array.from({ length: 3 }, () => read(connect(port, '127.0.0.1')))
  expect(await Promise.race(held)).toBe('')
  expect(await ask('/')).toContain('hello')
  const answered = [ask('/slow'), ask('/slow')]
  await Promise.all(held)
  expect(await ask('/')).toBe('')
  slow.resolve(undefined)
  for (const answer of answered) expect(await answer).toContain('hello')
})

test('a request without a host is refused, of whatever version', async () => {
  const { port } = await listen()
  const answers = [
    await exchange(port, 'GET / HTTP/1.0\r\n\r\n'),
    await exchange(port, 'GET / HTTP/1.1\r\nHost: \r\n\r\n'),
    await exchange(port, 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n'),
  ]
  expect(answers.map((answer) => answer.split('\r\n')[0])).toEqual([
    'HTTP/1.1 421 Misdirected Request',
    'HTTP/1.1 421 Misdirected Request',
    'HTTP/1.1 400 Bad Request',
  ])
})

test('a handler that fails costs its request alone', async () => {
  let calls = 0
  const { port } = await listen({
    handle: (_, response) => {
      if (++calls === 1) return Promise.reject(new Error('broken'))
      response.end('hello')
      return Promise.resolve()
    },
  })
  const answers = [await fetch(`http://127.0.0.1:${port}/`), await fetch(`http://127.0.0.1:${port}/`)]
  expect([answers.map(({ status }) => status), errors]).toEqual([[500, 200], [new Error('broken')]])
})

test('closing lets an answer finish, ends idle connections at once and takes no new ones', async () => {
  const started = Promise.withResolvers<undefined>()
  const finish = Promise.withResolvers<undefined>()
  const server = await listen({
    handle: async (_, response) => {
      started.resolve(undefined)
      await finish.promise
      response.end('hello')
    },
  })
  const slow = exchange(server.port, 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  await started.promise
  const closed = server.close()
  const late = connect(server.port, '127.0.0.1')
  const [error] = (await once(late, 'error')) as [NodeJS.ErrnoException]
  finish.resolve(undefined)
  await closed
  expect([error.code, (await slow).endsWith('hello')]).toEqual(['ECONNREFUSED', true])
})

test('closing does not wait for ever', async () => {
  const started = Promise.withResolvers<undefined>()
  const server = await listen({
    limits: { closeMs: 50, answerMs: undefined },
    handle: () => started.resolve(undefined),
  })
  const stuck = exchange(server.port, 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await started.promise
  await server.close()
  expect(await stuck).toBe('')
})

test('a port that is taken is named', async () => {
  const { port } = await listen()
  expect(await listenOnLoopback({ port, handle: () => undefined, onError: () => undefined })).toEqual({
    ok: false,
    code: 'EADDRINUSE',
    message: `Port ${port} on 127.0.0.1 is taken by another program: stop it or choose another port.`,
  })
})

test.each([
  ['127.0.0.1:80', true],
  ['[::1]', true],
  ['::1', false],
  ['127.0.0.1:', false],
  ['127.0.0.1:x', false],
  ['localhost.', false],
  ['127.0.0.10', false],
  ['0.0.0.0', false],
  [undefined, false],
])('%j names this machine: %s', (host, ours) => {
  expect(isLoopbackHost(host)).toBe(ours)
})
