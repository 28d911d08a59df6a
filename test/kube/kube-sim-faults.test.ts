import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { KubeHttp } from '../support/controller-stand-in/kube-http.ts'
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

/** A fault that does not happen would let every test pass that is about it. */
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
})
