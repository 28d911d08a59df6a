import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { probeHealth, activityFrom, askActivity, serverProtocols } from '../../../src/agent-core/servers/probe.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, ServerRoom } from './server-room.ts'

const patience = new AbortController().signal
const longMs = 10_000

async function listening<T extends Server>(server: T) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { port, [Symbol.dispose]: () => server.close() }
}

/** Calls `answer` for every connection. */
const speaking = (answer: (socket: Socket) => void) =>
  listening(
    createServer((socket) => {
      socket.on('error', () => socket.destroy())
      answer(socket)
    }),
  )

test('asks for /health as any client, on a connection that the server closes', async () => {
  const asked: unknown[] = []
  const server = createHttpServer((request, response) => {
    const { method, url, headers } = request
    asked.push({ method, url, host: headers.host, connection: headers.connection })
    response.writeHead(503).end('{"error":{"message":"Loading model"}}')
  })
  using place = await listening(server)
  const answer = await probeHealth(place.port, longMs, patience)
  expect([answer, asked]).toEqual([
    { kind: 'answered', status: 503 },
    [{ method: 'GET', url: '/health', host: `127.0.0.1:${place.port}`, connection: 'close' }],
  ])
  await eventually(
    () => new Promise<boolean>((resolve) => server.getConnections((_, connections) => resolve(connections === 0))),
  )
})

test.each([
  ['that is not HTTP', (socket: Socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'), 'the answer is not HTTP'],
  ['cut short', (socket: Socket) => socket.end('HTTP/'), 'the connection was closed without an answer'],
  ['that does not come', () => {}, 'no answer within 30 ms'],
])('an answer %s is silence', async (_, answer, reason) => {
  using place = await speaking(answer)
  const limitMs = reason.startsWith('no answer') ? 30 : longMs
  expect(await probeHealth(place.port, limitMs, patience)).toEqual({ kind: 'silent', reason })
})

test('nobody who listens is silence', async () => {
  const place = await listening(createServer())
  place[Symbol.dispose]()
  const answer = await probeHealth(place.port, longMs, patience)
  expect(answer).toEqual({ kind: 'silent', reason: `connect ECONNREFUSED 127.0.0.1:${place.port}` })
})

test.each([
  [
    'what is processed and what waits are in flight; what only rises is work',
    [
      '# TYPE llamacpp:requests_processing gauge',
      'llamacpp:requests_processing 2',
      'llamacpp:requests_deferred 3',
      'llamacpp:prompt_tokens_total 1.5e+06',
      'llamacpp:tokens_predicted_total 40',
      'llamacpp:predicted_tokens_seconds 99.5',
    ],
    {
      kind: 'counted',
      requests: 5,
      work: 1_500_040,
      reading: {
        askedAt: 7,
        counters: { requestsRunning: 2, requestsWaiting: 3, promptTokens: 1_500_000, generatedTokens: 40 },
      },
    },
  ],
  [
    'figures that cannot be true are as if they were not told',
    [
      'llamacpp:requests_processing NaN',
      'llamacpp:requests_deferred 1',
      'llamacpp:prompt_tokens_total -5',
      'llamacpp:tokens_predicted_total 1e999',
      'llamacpp:prompt_seconds_total 1.2.3',
      'llamacpp:n_decode_total +Inf',
      'llamacpp:tokens_predicted_seconds_total 1e16',
      'llamacpp:kv_cache_usage_ratio 1.5',
    ],
    { kind: 'counted', requests: 1, work: 0, reading: { askedAt: 7, counters: { requestsWaiting: 1 } } },
  ],
  ['a page tells nothing', ['<html>', 'llamacpp:requests_processing 2</html>'], { kind: 'untold' }],
  ['figures of another program tell nothing', ['http_requests_total 4'], { kind: 'untold' }],
  ['an empty answer tells nothing', [], { kind: 'untold' }],
])('%s', (_, lines, activity) => {
  expect(activityFrom(lines.join('\n'), 7)).toEqual(activity)
})

test('a server tells how many requests it works on, and its work rises with them', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 5 })
  const { port } = await room.reached('ready')
  const answer = ask(port, { max_tokens: 60 })
  const first = await eventually(async () => {
    const activity = await askActivity(port, 2_000)
    return activity.kind === 'counted' && activity.requests === 1 ? activity : undefined
  })
  expect(await answer).toBe('answered')
  const after = await askActivity(port, 2_000)
  expect(after).toMatchObject({ kind: 'counted', requests: 0, work: expect.any(Number) as number })
  expect(after.kind === 'counted' && after.work > first.work).toBe(true)
})

test('a server without counters is told from one that does not answer, and from one that is not there', async () => {
  await using room = await ServerRoom.create()
  room.start({ noMetrics: true })
  const { port, pid } = await room.reached('ready')
  const untold = await askActivity(port, 2_000)
  process.kill(pid, 'SIGSTOP')
  expect([untold, await askActivity(port, 50), await askActivity(1, 50)]).toEqual([
    { kind: 'untold' },
    { kind: 'silent' },
    { kind: 'silent' },
  ])
})

test('mlx-lm is asked for one token while it loads, however often it is looked at, and counts as loading until it answers', async () => {
  const asked: string[] = []
  const loaded = Promise.withResolvers<undefined>()
  await using server = createHttpServer((request, response) => {
    request.resume()
    if (request.url === '/health') return void response.end('{}')
    asked.push(`${request.method ?? ''} ${request.url ?? ''}`)
    return void loaded.promise.then(() => response.end('{}'))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const probe = serverProtocols['mlx-lm'].readiness()
  const look = () => probe(port, 50, new AbortController().signal)
  expect([await look(), await look()]).toEqual([
    { kind: 'answered', status: 503 },
    { kind: 'answered', status: 503 },
  ])
  loaded.resolve(undefined)
  await eventually(async () => {
    const answer = await look()
    return answer.kind === 'answered' && answer.status === 200
  })
  expect(asked).toEqual(['POST /v1/completions'])
})

test('mlx-lm that says it is unavailable never serves again, while llama-server is only busy', async () => {
  await using server = createHttpServer((_request, response) => void response.writeHead(503).end())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const { signal } = new AbortController()
  expect([
    await serverProtocols['mlx-lm'].health(port, 1_000, signal),
    await serverProtocols['llama-server'].health(port, 1_000, signal),
  ]).toEqual([
    { kind: 'answered', status: 500 },
    { kind: 'answered', status: 503 },
  ])
})
