import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { afterEach, expect, test, vi } from 'vitest'
import { heartbeatMs } from '../../../src/contract/http.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { linkOverHttp, takeToken } from '../../../src/renderer/link/http.ts'
import { eventually } from '../../support/eventually.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

afterEach(() => vi.useRealTimers())

const session = { '/api/session': answer(200, { bearer: 'b-1' }) }
const goodbye = { type: 'end', code: 'gone', message: 'The agent is shutting down.' }

test('the token is exchanged once for a bearer that outlives a reload of the page', async () => {
  await using server = await serve({ ...session, '/api/snapshot': answer(200, sampleSnapshot()) })
  const page = server.page('t-1')
  const link = linkOverHttp(page)
  await Promise.all([link.snapshot(), link.snapshot()])
  await linkOverHttp({ ...page, token: undefined }).snapshot()
  expect(server.heard).toEqual([
    'POST /api/session {"token":"t-1"}',
    'GET /api/snapshot Bearer b-1',
    'GET /api/snapshot Bearer b-1',
    'GET /api/snapshot Bearer b-1',
  ])
})

test('an agent that cannot be reached leaves the token good', async () => {
  const answers: Answers = {
    '/api/session': (_, response) => response.destroy(),
    '/api/snapshot': answer(200, sampleSnapshot()),
  }
  await using server = await serve(answers)
  const link = linkOverHttp(server.page('t-1'))
  await expect(link.snapshot()).rejects.toMatchObject({ code: 'gone' })
  Object.assign(answers, session)
  expect((await link.snapshot()).bootId).toBe('boot-1')
})

test('a page without access, or whose access has ended, says where to get it', async () => {
  const ended = { code: 'refused', message: 'This page was open for too long: run `metal-agent ui`.' }
  await using server = await serve({ ...session, '/api/snapshot': answer(401, ended) })
  const page = server.page('t-1')
  const link = linkOverHttp(page)
  await expect(link.snapshot()).rejects.toMatchObject(ended)
  await expect(link.snapshot()).rejects.toThrow('run `metal-agent ui` and open the address it prints')
})

test.each([
  { what: 'breaks off', rest: (response: ServerResponse) => response.destroy(), code: 'gone' },
  { what: 'ends without a word', rest: (response: ServerResponse) => response.end(), code: 'gone' },
  {
    what: 'says goodbye',
    rest: (response: ServerResponse) => response.end(`${JSON.stringify(goodbye)}\n`),
    code: 'gone',
  },
  {
    what: 'speaks another version',
    rest: (response: ServerResponse) => response.end('{"type":"tea"}\n'),
    code: 'misunderstood',
  },
])('a stream that $what ends with the code $code, after what it told', async ({ rest, code }) => {
  const line = JSON.stringify({ type: 'next', item: sampleSnapshot() })
  let open: ServerResponse | undefined
  await using server = await serve({
    ...session,
    '/api/follow': (_, response) => {
      open = response
      // Cut in the middle, as networks do.
      response.write(line.slice(0, 100))
      setImmediate(() => response.write(`${line.slice(100)}\n{"type":"heartbeat"}\n`))
    },
  })
  const told: AgentSnapshot[] = []
  const ended = new Promise((end) => linkOverHttp(server.page('t-1')).follow({ next: (item) => told.push(item), end }))
  await eventually(() => told.length === 1)
  if (open !== undefined) rest(open)
  expect(await ended).toMatchObject({ code })
})

test('a stream that falls silent has lost its agent', async () => {
  await using server = await serve({ ...session, '/api/follow': (_, response) => response.flushHeaders() })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const ended = new Promise((end) => linkOverHttp(server.page('t-1')).follow({ next: () => undefined, end }))
  await vi.advanceTimersByTimeAsync(2 * heartbeatMs)
  expect(await ended).toMatchObject({ code: 'gone' })
})

test('the token is taken out of the address bar', () => {
  const replaceState = vi.fn()
  const page = { location: { hash: '#token=t-1', pathname: '/' }, history: { replaceState } }
  expect({ token: takeToken(page), shown: replaceState.mock.calls }).toEqual({ token: 't-1', shown: [[null, '', '/']] })
})

type Answers = Record<string, (request: IncomingMessage, response: ServerResponse) => unknown>

function answer(status: number, body: unknown): Answers[string] {
  return (_, response) => response.writeHead(status).end(JSON.stringify(body))
}

async function serve(answers: Answers) {
  const heard: string[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const body = (await request.toArray()).join('')
      heard.push([request.method, request.url, request.headers.authorization, body].filter(Boolean).join(' '))
      answers[request.url ?? '']?.(request, response)
    })()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = z.object({ port: z.number() }).parse(server.address())
  const kept = new Map<string, string>()
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  }
  return {
    heard,
    page: (token: string) => ({ origin: `http://127.0.0.1:${port}`, token, storage }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
