import { connect } from 'node:net'
import { request as httpRequest } from 'node:http'
import { afterEach, expect, test } from 'vitest'
import {
  listenForHealth,
  startHealthServer,
  type HealthServer,
  type Readiness,
} from '../../../src/agent-core/observability/health-server.ts'
import { AgentMetrics } from '../../../src/agent-core/observability/agent-metrics.ts'
import { silentLog } from '../../support/silent-log.ts'

const servers: HealthServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()))
})

async function start(
  readiness: () => Readiness = () => ({ ready: true, message: 'Watching is live.' }),
): Promise<number> {
  using metrics = new AgentMetrics()
  const server = await listenForHealth({ port: 0, readiness, metrics, log: silentLog })
  servers.push(server)
  if (server.state !== 'listening') throw new Error(server.state)
  return server.port
}

interface Answer {
  readonly status: number | undefined
  readonly allow: string | undefined
  readonly body: unknown
}

/** fetch would not send a Host header of our choice. */
function ask(port: number, path: string, { method = 'GET', host = `127.0.0.1:${port}` } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port, path, method, headers: { host } }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => {
        const json = response.headers['content-type'] === 'application/json'
        const body: unknown = json && text !== '' ? JSON.parse(text) : text
        resolve({ status: response.statusCode, allow: response.headers.allow, body })
      })
    })
    request.on('error', reject).end()
  })
}

test('alive is alive, and ready says why or why not', async () => {
  let readiness: Readiness = { ready: true, message: 'Watching is live.' }
  const port = await start(() => readiness)
  const alive = await ask(port, '/healthz')
  const ready = await ask(port, '/readyz?verbose=1')
  readiness = { ready: false, message: 'The API server does not answer.' }
  const notReady = await ask(port, '/readyz')
  expect([alive, ready, notReady, (await ask(port, '/healthz')).status]).toMatchObject([
    { status: 200, body: { status: 'ok' } },
    { status: 200, body: { status: 'ready', message: 'Watching is live.' } },
    { status: 503, body: { status: 'not ready', message: 'The API server does not answer.' } },
    200,
  ])
})

test.each([
  { path: '/', method: 'GET', status: 404 },
  { path: '/healthz/', method: 'GET', status: 404 },
  { path: '//', method: 'GET', status: 404 },
  { path: '/constructor', method: 'GET', status: 404 },
  { path: '/healthz', method: 'POST', status: 405 },
  { path: '/metrics', method: 'DELETE', status: 405 },
  { path: '/readyz', method: 'HEAD', status: 200 },
])('$method $path is answered with $status', async ({ path, method, status }) => {
  const answer = await ask(await start(), path, { method })
  expect(answer).toMatchObject({ status, allow: status === 405 ? 'GET, HEAD' : undefined })
  if (method === 'HEAD') expect(answer.body).toBe('')
})

test.each([
  ['127.0.0.1', 200],
  ['localhost:1234', 200],
  ['[::1]:9090', 200],
  ['LOCALHOST', 200],
  ['evil.example.org', 421],
  ['127.0.0.1.evil.example.org', 421],
  ['localhost.evil.example.org:9090', 421],
])('a request to the host %j is answered with %i', async (host, status) => {
  expect((await ask(await start(), '/healthz', { host })).status).toBe(status)
})

test('it listens on loopback alone', async () => {
  const port = await start()
  const other = connect({ host: '127.0.0.2', port })
  const refused = await new Promise((resolve) => {
    other.on('error', (error: NodeJS.ErrnoException) => resolve(error.code)).on('connect', () => resolve('connected'))
  })
  other.destroy()
  expect(refused).toBe('ECONNREFUSED')
})

test('a port that is taken is a sentence, not an exception, and port 0 means no server', async () => {
  const port = await start()
  using metrics = new AgentMetrics()
  const readiness = () => ({ ready: true, message: '' })
  const options = { readiness, metrics, log: silentLog }
  expect([
    await startHealthServer({ ...options, port }),
    await startHealthServer({ ...options, port: 0 }),
  ]).toMatchObject([
    {
      state: 'failed',
      message: `There is no /healthz, /readyz and /metrics: port ${port} on 127.0.0.1 is taken by another program: stop it or choose another port.`,
    },
    { state: 'disabled' },
  ])
})
