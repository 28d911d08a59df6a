import { once } from 'node:events'
import { access, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { ApiError, isDecision } from '../../../src/agent-core/kube/api-error.ts'
import { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { requestTimeoutMs } from '../../../src/agent-core/kube/kube-transport.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { resources } from '../../../src/agent-core/kube/resources.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

afterEach(() => {
  vi.useRealTimers()
})

test('an exec plugin that hangs holds up no request for longer than a server would', async () => {
  await using folder = await temporaryFolder()
  const started = join(folder.dir, 'started')
  const file = join(folder.dir, 'kubeconfig')
  await writeFile(file, JSON.stringify(kubeconfigWithPlugin(`touch ${started}; sleep 20`)))
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const giveUp = new AbortController()
  const groups = api.groups(giveUp.signal)
  await eventually(() => access(started).then(() => true), { what: 'the plugin being asked' })
  giveUp.abort()
  await expect(groups).rejects.toThrow(/gave no credentials in time; is its exec plugin waiting/)
})

test('a plugin that hangs while a watch is opened is not taken for a watch on which nothing happens', async () => {
  await using folder = await temporaryFolder()
  const started = join(folder.dir, 'started')
  const file = join(folder.dir, 'kubeconfig')
  await writeFile(file, JSON.stringify(kubeconfigWithPlugin(`touch ${started}; sleep 20`)))
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const query = { namespace: undefined, labelSelector: undefined, resourceVersion: '1', timeoutSeconds: 150 }
  const onOpen = vi.fn()
  const { signal } = new AbortController()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const first = api.watch(resources.models, query, { silenceMs: 180_000, onOpen, signal }).next()
  vi.advanceTimersByTime(requestTimeoutMs)
  await expect(first).rejects.toThrow(/gave no credentials in time; is its exec plugin waiting/)
  expect(onOpen).not.toHaveBeenCalled()
})

test('a watch is taken for silent only where nothing came for the whole time, however long it has been open', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'kubeconfig')
  let open: ServerResponse | undefined
  const server = createServer((_, response) => {
    open = response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close().closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  await writeFile(
    file,
    JSON.stringify(kubeconfigOf({ server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true }, {})),
  )
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const query = { namespace: undefined, labelSelector: undefined, resourceVersion: '1', timeoutSeconds: 600 }
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const onOpen = vi.fn()
  const { signal } = new AbortController()
  const events = api.watch(resources.models, query, { silenceMs: 180_000, onOpen, signal })
  for (const version of ['2', '3', '4']) {
    const next = events.next()
    await eventually(() => onOpen.mock.calls.length > 0)
    vi.advanceTimersByTime(120_000)
    open?.write(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: version } } })}\n`)
    expect(await next).toMatchObject({ value: { object: { metadata: { resourceVersion: version } } } })
  }
  const last = events.next()
  vi.advanceTimersByTime(180_000)
  await expect(last).rejects.toThrow('nothing came for 180 s')
})

test('a step of the clock of this machine does not reach what is said in the time of the server', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'kubeconfig')
  await writeFile(file, JSON.stringify(kubeconfigWithPlugin('true')))
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  using _stopped = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  const before = api.serverNow()
  vi.useFakeTimers({ toFake: ['Date'], now: before - 3_600_000 })
  expect(api.serverNow()).toBe(before)
})

test('expired credentials, too many requests, a lost conflict and an outage decide nothing about a request', () => {
  const codes = [undefined, 400, 401, 403, 404, 405, 408, 409, 410, 422, 429, 500, 502, 503, 504]
  expect(codes.filter((code) => isDecision(new ApiError('no', { code })))).toEqual([400, 403, 404, 405, 410, 422])
})

const kubeconfigWithPlugin = (script: string): object =>
  kubeconfigOf(
    { server: 'https://192.0.2.1:6443' },
    {
      exec: {
        apiVersion: 'client.authentication.k8s.io/v1',
        command: 'sh',
        args: ['-c', script],
        interactiveMode: 'Never',
      },
    },
  )

const kubeconfigOf = (cluster: object, user: object): object => ({
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'lab',
  clusters: [{ name: 'lab', cluster }],
  contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'me' } }],
  users: [{ name: 'me', user }],
})
