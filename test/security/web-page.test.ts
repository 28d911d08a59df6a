import { request as httpRequest } from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { listenForHealth } from '../../src/agent-core/observability/health-server.ts'
import { AgentMetrics } from '../../src/agent-core/observability/agent-metrics.ts'
import type { CommandInput } from '../../src/contract/commands.ts'
import { httpPaths, sessionAnswer } from '../../src/contract/http.ts'
import { WindowServer } from '../../src/serve/http/window-server.ts'
import { RecordingDoor } from '../support/carriers/recording-door.ts'
import { writeWindow } from '../support/carriers/window-folder.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** The requests that a stranger's page, in the browser of the person at this machine, can make that browser send. */
const foreign: readonly Readonly<Record<string, string>>[] = [
  { host: 'rebound.example' },
  { host: 'rebound.example:9090', origin: 'http://rebound.example:9090', 'sec-fetch-site': 'same-origin' },
  { host: '127.0.0.1.nip.example' },
  { origin: 'https://evil.example' },
  { origin: 'null' },
  { origin: 'http://127.0.0.1:1' },
  { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
  { 'sec-fetch-site': 'same-site' },
]

let parts: AsyncDisposableStack
beforeEach(() => {
  parts = new AsyncDisposableStack()
})
afterEach(() => parts.disposeAsync())

describe('a page of somebody else', () => {
  test.each(['/metrics', '/readyz', '/healthz', '/'])('reads nothing of %s on the health port', async (path) => {
    const port = await healthPort()
    for (const headers of foreign) {
      const { status, text } = await ask(port, path, { headers })
      expect([403, 421]).toContain(status)
      expect(text).toMatch(/^\{"error":"(Another web page asked|A web page asked|This server answers to)[^"]*"\}\n?$/)
    }
  })

  test('reads and does nothing at the port of the window', async () => {
    const { port, door } = await windowPort()
    for (const headers of foreign) {
      for (const path of ['/', ...Object.values(httpPaths)]) {
        const { status, text } = await ask(port, path, { method: 'POST', headers, body: '{}' })
        expect([403, 421]).toContain(status)
        expect(text).not.toContain('<html')
      }
    }
    expect([door.commands, door.queries]).toEqual([[], []])
  })
})

test('the person, Prometheus and a probe of a program read the health port', async () => {
  const port = await healthPort()
  const own = { 'sec-fetch-site': 'none' }
  expect((await ask(port, '/metrics', { headers: {} })).status).toBe(200)
  expect((await ask(port, '/metrics', { headers: own })).status).toBe(200)
  expect((await ask(port, '/healthz', { headers: { host: 'localhost:9090' } })).status).toBe(200)
})

describe('a page that has the key', () => {
  const shellOnly: readonly CommandInput[] = [
    { name: 'selectContext', context: 'prod' },
    { name: 'updateSettings', settings: { namespace: 'kube-system' } },
    { name: 'updateSettings', settings: { namespace: null } },
    { name: 'updateSettings', settings: { llamaServer: '/tmp/evil' } },
    { name: 'applyModel', application: { namespace: 'default', name: 'x', source: '/Users/me/private.gguf' } },
  ]

  test.each(shellOnly)('may not choose the cluster, the namespaces or what is run: %j', async (command) => {
    const { port, door, authorization } = await windowPort()
    const { status, text } = await ask(port, httpPaths.command, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ requestId: crypto.randomUUID(), command }),
    })
    expect([status, door.commands]).toEqual([200, []])
    expect(JSON.parse(text)).toMatchObject({ outcome: 'refused', by: 'agent' })
  })

  test.each(['/etc/passwd', 'file:///etc/passwd', ' /etc/passwd', '../x.gguf', '~/x.gguf'])(
    'may not ask about the file %j of this machine, only about what others have',
    async (source) => {
      const { port, door, authorization } = await windowPort()
      const askAbout = (about: string) =>
        ask(port, httpPaths.query, {
          method: 'POST',
          headers: { authorization, 'content-type': 'application/json' },
          body: JSON.stringify({ name: 'fit', source: about }),
        })
      const { status, text } = await askAbout(source)
      expect([status, text, door.queries]).toEqual([422, expect.stringContaining('may not name files'), []])
      await askAbout('hf://org/repo')
      expect(door.queries).toEqual([{ name: 'fit', source: 'hf://org/repo' }])
    },
  )
})

async function healthPort(): Promise<number> {
  const metrics = parts.use(new AgentMetrics())
  const readiness = () => ({ ready: true, message: 'Watching is live.' })
  const server = await listenForHealth({ port: 0, readiness, metrics, log: silentLog })
  if (server.state !== 'listening') throw new Error(server.state)
  parts.defer(() => server.stop())
  return server.port
}

async function windowPort() {
  const folder = parts.use(await temporaryFolder())
  await writeWindow(folder.dir)
  const door = new RecordingDoor()
  const errors: unknown[] = []
  const server = parts.use(new WindowServer({ door, folder: folder.dir, onError: (error) => errors.push(error) }))
  const url = new URL(await server.open())
  const port = Number(url.port)
  const { text } = await ask(port, httpPaths.session, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token: url.hash.replace('#token=', '') }),
  })
  const { bearer } = sessionAnswer.parse(JSON.parse(text))
  return { port, door, authorization: `Bearer ${bearer}` }
}

interface Asked {
  readonly method?: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** fetch has ideas of its own about Host and Origin. */
function ask(port: number, path: string, { method = 'GET', headers, body }: Asked) {
  return new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, method, headers: { host: `127.0.0.1:${port}`, ...headers } }
    const request = httpRequest(options, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => void (text += chunk))
      response.on('end', () => resolve({ status: response.statusCode, text }))
    })
    request.on('error', reject).end(body)
  })
}
