import { setTimeout as delay } from 'node:timers/promises'
import { CustomObjectsApi, KubeConfig, Watch } from '@kubernetes/client-node'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { KubeHttp } from '../support/controller-stand-in/kube-http.ts'
import { eventually } from '../support/eventually.ts'
import type { Fault } from '../support/kube-sim/faults.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'

const models = '/apis/inference.llmkube.dev/v1alpha1/models'
const model = (name: string) => ({
  apiVersion: 'inference.llmkube.dev/v1alpha1',
  kind: 'Model',
  metadata: { name },
  spec: { source: 'https://models.test/tiny.gguf', hardware: { accelerator: 'metal' } },
})
const event = z.looseObject({
  type: z.string(),
  object: z.looseObject({ code: z.number().optional(), metadata: z.looseObject({ name: z.string().optional() }) }),
})

let sim: KubeSim
let http: KubeHttp
beforeEach(async () => {
  sim = await KubeSim.start()
  http = new KubeHttp(sim.connection())
})
afterEach(async () => {
  http.close()
  await sim[Symbol.asyncDispose]()
})

describe('a request', () => {
  test('that stalls is never answered', async () => {
    sim.faults.add({ on: { verb: 'list', resource: 'models' }, fault: { kind: 'stall' } })
    const stop = new AbortController()
    const answer = http.request({ path: models, signal: stop.signal })
    const first = await Promise.race([answer, delay(300, 'silence')])
    stop.abort()
    await expect(answer).rejects.toThrow('abort')
    expect(first).toBe('silence')
  })

  test('fails as often as it was told to, beginning where it was told to', async () => {
    sim.faults.add({ on: { path: /models/ }, skip: 1, times: 2, fault: { kind: 'status', code: 503 } })
    const answers = []
    for (let attempt = 0; attempt < 4; attempt += 1) answers.push((await http.request({ path: models })).status)
    expect(answers).toEqual([200, 503, 503, 200])
  })

  test('is told when to try again', async () => {
    sim.faults.add({ fault: { kind: 'status', code: 429, retryAfterSeconds: 7 } })
    const { status, headers, body } = await http.request({ path: models })
    expect([status, headers['retry-after'], body]).toMatchObject([
      429,
      '7',
      { reason: 'TooManyRequests', details: { retryAfterSeconds: 7 } },
    ])
  })

  test('is reset before it counts, or after it counted', async () => {
    const create = (name: string) =>
      http.request({ method: 'POST', path: models.replace('/models', '/namespaces/default/models'), body: model(name) })
    sim.faults.add({ on: { verb: 'create' }, fault: { kind: 'reset' } })
    sim.faults.add({ on: { verb: 'create' }, fault: { kind: 'reset-after' } })
    await expect(create('lost')).rejects.toMatchObject({ code: 'ECONNRESET' })
    await expect(create('kept')).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(sim.list('models').map(({ metadata }) => metadata.name)).toEqual(['kept'])
  })

  test('gets half an answer', async () => {
    sim.create(model('a'))
    sim.faults.add({ on: { verb: 'list' }, fault: { kind: 'half-body' } })
    await expect(http.request({ path: models })).rejects.toThrow()
  })

  test('gets its answer slowly', async () => {
    sim.create(model('a'))
    sim.faults.add({ on: { verb: 'list' }, fault: { kind: 'slow-body', bytes: 200, everyMs: 20 } })
    const start = performance.now()
    const { body } = await http.request({ path: models })
    expect([body, performance.now() - start > 60]).toMatchObject([{ items: [{ metadata: { name: 'a' } }] }, true])
  })
})

describe('a watch', () => {
  /** Everything that arrives until the stream ends, a line as a word. */
  const watched = async (act: () => void = () => undefined, query = 'watch=true&timeoutSeconds=1') => {
    const seen: string[] = []
    const failure = await (async () => {
      const stream = http.watch(`${models}?${query}`, new AbortController().signal)
      act()
      for await (const line of stream) {
        const { type, object } = event.parse(line)
        seen.push(`${type} ${object.metadata.name ?? object.code ?? ''}`)
      }
    })().catch((error: unknown) => (error instanceof Error ? error.name : 'unknown'))
    return failure === undefined ? seen : [...seen, failure]
  }

  const cases: [string, Fault, string[]][] = [
    ['falls silent', { kind: 'silence', after: 1 }, ['ADDED a']],
    ['is closed', { kind: 'close', after: 2 }, ['ADDED a', 'ADDED b']],
    ['is reset', { kind: 'reset-watch', after: 1 }, ['ADDED a', 'Error']],
    ['ends with a 410 in the stream', { kind: 'error-event', after: 1 }, ['ADDED a', 'ERROR 410']],
    [
      'ends with another error in the stream',
      { kind: 'error-event', code: 500, reason: 'InternalError' },
      ['ERROR 500'],
    ],
    ['loses events', { kind: 'lose', after: 1, count: 1 }, ['ADDED a', 'ADDED c']],
    ['sees an event twice', { kind: 'duplicate', after: 1 }, ['ADDED a', 'ADDED b', 'ADDED b', 'ADDED c']],
    ['sees events in the wrong order', { kind: 'reorder', after: 1 }, ['ADDED a', 'ADDED c', 'ADDED b']],
    ['gets half a line', { kind: 'half-line', after: 1 }, ['ADDED a']],
    ['gets a line that is no JSON', { kind: 'malformed-line', after: 1 }, ['ADDED a', 'SyntaxError']],
  ]
  test.each(cases)('%s', async (_what, fault, expected) => {
    for (const name of ['a', 'b', 'c']) sim.create(model(name))
    sim.faults.add({ on: { verb: 'watch' }, fault })
    expect(
      await watched(
        undefined,
        fault.kind === 'silence' ? 'watch=true&timeoutSeconds=1&allowWatchBookmarks=true' : undefined,
      ),
    ).toEqual(expected)
  })

  test('from a forgotten version ends with a 410 in the stream, and a list that is being paged is refused', async () => {
    for (const name of ['a', 'b']) sim.create(model(name))
    const page = z.object({ metadata: z.object({ continue: z.string() }) })
    const { continue: token } = page.parse((await http.request({ path: `${models}?limit=1` })).body).metadata
    const before = sim.resourceVersion
    sim.create(model('c'))
    sim.compact()
    const resumed = await http.request({ path: `${models}?limit=1&continue=${token}` })
    expect([
      await watched(undefined, `watch=true&resourceVersion=${before}`),
      resumed.status,
      resumed.body,
    ]).toMatchObject([['ERROR 410'], 410, { reason: 'Expired', metadata: { continue: expect.any(String) as string } }])
    const rest = page.parse(resumed.body).metadata.continue
    expect((await http.request({ path: `${models}?continue=${rest}` })).body).toMatchObject({
      items: [{ metadata: { name: 'b' } }, { metadata: { name: 'c' } }],
    })
  })

  test('that is open can be broken, and only those that are meant', async () => {
    const closed = watched(undefined, 'watch=true&timeoutSeconds=600')
    await eventually(() => sim.watchCount({ resource: 'models' }) === 1)
    sim.breakWatches('gone', { resource: 'services' })
    sim.create(model('a'))
    sim.breakWatches('gone', { resource: 'models' })
    expect(await closed).toEqual(['ADDED a', 'ERROR 410'])
  })

  test('gets a last bookmark before the server ends it', async () => {
    const from = sim.resourceVersion
    sim.createNamespace('elsewhere')
    const query = `watch=true&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion=${from}`
    expect(await watched(undefined, query)).toEqual(['BOOKMARK '])
  })

  test('gets bookmarks as often as the sim was told', async () => {
    await using quick = await KubeSim.start({ bookmarkEveryMs: 20 })
    quick.create(model('a'))
    const client = new KubeHttp(quick.connection())
    const seen: string[] = []
    const stop = new AbortController()
    for await (const line of client.watch(`${models}?watch=true&allowWatchBookmarks=true`, stop.signal)) {
      seen.push(event.parse(line).type)
      if (seen.length === 4) break
      quick.createNamespace(`another-${seen.length}`)
    }
    client.close()
    expect(seen).toEqual(['ADDED', 'BOOKMARK', 'BOOKMARK', 'BOOKMARK'])
  })
})

test('after an outage the same objects are there under the same address', async () => {
  sim.create(model('a'))
  const before = sim.url
  const watching = http.watch(`${models}?watch=true`, new AbortController().signal)
  await watching.next()
  await sim.stop()
  await expect(watching.next()).rejects.toThrow()
  await expect(http.request({ path: models })).rejects.toThrow('ECONNREFUSED')
  await sim.start()
  expect([sim.url, (await http.request({ path: models })).body]).toMatchObject([
    before,
    { items: [{ metadata: { name: 'a' } }] },
  ])
})

test('definitions can be missing at first and be installed later', async () => {
  await using bare = await KubeSim.start({ crds: false })
  const client = new KubeHttp(bare.connection())
  const before = await client.request({ path: models })
  await bare.installCrds()
  const installed = await client.request({ path: models })
  bare.removeCrds()
  const after = await client.request({ path: models })
  client.close()
  expect([before, installed, after].map(({ status }) => status)).toEqual([404, 200, 404])
})

test('the clock of the server can be wrong', async () => {
  sim.clockOffsetMs = -3_600_000
  const { headers } = await http.request({ path: '/version' })
  const { metadata } = sim.create(model('a'))
  for (const text of [headers.date ?? '', metadata.creationTimestamp]) {
    expect(Math.abs(Date.now() - 3_600_000 - Date.parse(text))).toBeLessThan(5_000)
  }
})

test('what lost its owner is collected', async () => {
  const owner = sim.create(model('owner'))
  const reference = { apiVersion: owner.apiVersion, kind: owner.kind, name: 'owner', uid: owner.metadata.uid }
  const owned = (name: string) => ({ ...model(name), metadata: { name, ownerReferences: [reference] } })
  sim.create(owned('owned'))
  sim.delete({ resource: 'models', name: 'owner' })
  await eventually(() => sim.list('models').length === 0)
  sim.create(owned('orphan from the start'.replaceAll(' ', '-')))
  await eventually(() => sim.list('models').length === 0)
})

test('every request is counted by verb and resource', async () => {
  await http.request({ path: models })
  await http.request({ path: `${models.replace('/models', '/namespaces/default/models')}/a` })
  expect([sim.requests.summary(), sim.requests.count({ verb: 'get', name: 'a' })]).toEqual([
    { 'list models': 1, 'get models': 1 },
    1,
  ])
})

describe.each(['https', 'http'] as const)('the unchanged client over %s', (protocol) => {
  test('lists, watches and is refused like anywhere', async () => {
    await using served = await KubeSim.start({
      protocol,
      users: [
        {
          name: 'reader',
          token: 'reader-token',
          rules: [{ apiGroups: ['*'], resources: ['models'], verbs: ['list', 'watch'] }],
        },
      ],
    })
    served.create(model('a'))
    const config = new KubeConfig()
    config.loadFromString(served.kubeconfig({ namespace: 'default', user: 'reader' }))
    const api = config.makeApiClient(CustomObjectsApi)
    const where = { group: 'inference.llmkube.dev', version: 'v1alpha1', namespace: 'default' }
    const listed: unknown = await api.listNamespacedCustomObject({ ...where, plural: 'models' })
    await expect(api.listNamespacedCustomObject({ ...where, plural: 'inferenceservices' })).rejects.toMatchObject({
      code: 403,
    })
    const seen: string[] = []
    const ended = Promise.withResolvers<unknown>()
    await new Watch(config).watch(
      models,
      { timeoutSeconds: 1 },
      (type, object: unknown) => seen.push(`${type} ${event.shape.object.parse(object).metadata.name ?? ''}`),
      (error: unknown) => {
        ended.resolve(error)
      },
    )
    expect([listed, seen, await ended.promise]).toMatchObject([
      { items: [{ metadata: { name: 'a' } }] },
      ['ADDED a'],
      null,
    ])
  })
})
