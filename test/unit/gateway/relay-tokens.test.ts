import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { RelayTokens } from '../../../src/agent-core/gateway/relay-tokens.ts'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { createLog } from '../../../src/agent-core/observability/log.ts'
import { eventually } from '../../support/eventually.ts'

let tokens: RelayTokens
let answer: (signal: AbortSignal | undefined) => unknown
let asked: string[]
let changes: number
let logged: string[]

/** By the stated clock, which the timers of promises do not know. */
const pause = (ms: number, signal: AbortSignal): Promise<boolean> =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(false))
    setTimeout(() => resolve(true), ms)
  })

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000 })
  asked = []
  logged = []
  changes = 0
  answer = () => secret('t1')
  tokens = new RelayTokens({
    api: () => ({
      get: (_resource: unknown, namespace: string, name: string, signal?: AbortSignal) => {
        asked.push(`${namespace}/${name}`)
        return Promise.resolve().then(() => answer(signal))
      },
    }),
    onChange: () => (changes += 1),
    log: createLog({ level: 'debug', stream: { write: (line: string) => logged.push(line) } }),
    ...{ pause, readLimitMs: 20 },
  })
})
afterEach(async () => {
  await tokens[Symbol.asyncDispose]()
  vi.useRealTimers()
})

const ours = 'llmkube-controller'
const secret = (token: string, managedBy = ours) => ({
  metadata: { name: 's', labels: { 'llmkube.ai/managed-by': managedBy } },
  data: { token: Buffer.from(token).toString('base64') },
})
const digest = (token: string): string => createHash('sha256').update(token).digest('hex')
const failing = (code: number | undefined) => () => {
  throw new ApiError('GET /secrets/s: no', { code })
}
const want = (...namespaces: string[]): void => tokens.want(new Set(namespaces))
const passes = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const told = (namespace = 'ns') => {
  const one = tokens.told.find((token) => token.namespace === namespace)
  return one && [one.token, one.earlierKey?.sha256]
}

test('it is told as a digest, read once in five seconds, and forgotten where no service needs it', async () => {
  want('ns')
  expect([told(), asked]).toEqual([[undefined, undefined], ['ns/llmkube-metal-relay']])
  await passes(4_999)
  expect([told(), asked.length, changes]).toEqual([[digest('t1'), undefined], 1, 1])
  await passes(1)
  expect([asked.length, changes]).toEqual([2, 1])
  want('ns', 'other')
  expect(asked.slice(2)).toEqual(['other/llmkube-metal-relay'])
  want('other')
  await passes(5_000)
  expect([told(), asked.slice(3)]).toEqual([undefined, ['other/llmkube-metal-relay']])
  want()
  await passes(60_000)
  expect([tokens.told, asked.length]).toEqual([[], 4])
  expect(logged.join('')).not.toContain('t1')
})

test('of a namespace that is no DNS label no Secret is read', async () => {
  want('../x', 'a.b', '', 'x'.repeat(64))
  await passes(10_000)
  expect([asked, tokens.told]).toEqual([[], []])
})

test('the last one counts for ten minutes after a change, and none before it', async () => {
  want('ns')
  await passes(0)
  answer = () => secret('t2')
  await passes(5_000)
  expect(tokens.told).toEqual([
    { namespace: 'ns', token: digest('t2'), earlierKey: { sha256: digest('t1'), until: 606_000 } },
  ])
  await passes(599_999)
  expect(told()).toEqual([digest('t2'), digest('t1')])
  await passes(1)
  expect(told()).toEqual([digest('t2'), undefined])
  answer = () => secret('t3')
  await passes(5_000)
  answer = () => secret('t4')
  await passes(5_000)
  expect(told()).toEqual([digest('t4'), digest('t3')])
})

describe('nobody is let in, the last one included, with one warning, where the Secret', () => {
  test.each<[string, () => unknown, RegExp]>([
    ['is missing', failing(404), /does not exist yet: LLMKube's controller makes it/],
    ['is somebody else’s', () => secret('t1', 'me'), /its label llmkube\.ai\/managed-by is not llmkube-controller/],
    ['has no label', () => ({ data: { token: 'dDE=' } }), /its label llmkube\.ai\/managed-by is not/],
    ['has no token', () => ({ ...secret('t1'), data: {} }), /has no token/],
    ['has a blank token', () => secret(' \n'), /has no token/],
    ['has odd bytes', () => secret('t\u0000'), /has a "token" that no relay can send/],
    ['has a token of a megabyte', () => secret('t'.repeat(1_048_576)), /has a "token" that no relay can send/],
    ['is something else', () => 'secret', /is not LLMKube's/],
  ])('%s', async (_what, given, sentence) => {
    want('ns')
    await passes(0)
    answer = () => secret('t2')
    await passes(5_000)
    answer = given
    await passes(5_000)
    expect(told()).toEqual(['nobody', undefined])
    expect(tokens.problem('ns')).toMatch(sentence)
    await passes(60_000)
    expect(logged).toEqual([expect.stringContaining('"no relay token"')])
    answer = () => secret('t1')
    await passes(5_000)
    expect([told(), tokens.problem('ns')]).toEqual([[digest('t1'), undefined], undefined])
    answer = given
    await passes(5_000)
    expect(logged).toHaveLength(2)
  })
})

describe('while the Secret cannot be read', () => {
  test.each([
    ['no answer', failing(undefined)],
    ['an error of the server', failing(503)],
    ['credentials that have expired', failing(401)],
    ['no right to read it', failing(403)],
  ])('what is known counts on, and what is not stays unknown: %s', async (_what, given) => {
    want('ns')
    await passes(0)
    answer = given
    await passes(60_000)
    want('ns', 'new')
    await passes(60_000)
    expect([told(), told('new')]).toEqual([
      [digest('t1'), undefined],
      [undefined, undefined],
    ])
  })

  test('it is denied by a decision of the cluster alone, until it was read', async () => {
    want('ns')
    const denied: boolean[] = []
    for (const given of [failing(401), failing(403), failing(401), failing(undefined), () => secret('t1')]) {
      answer = given
      await passes(6_000)
      denied.push(tokens.isDenied('ns'))
    }
    expect(denied).toEqual([false, true, true, true, false])
  })

  test('an answer that does not come is given up', async () => {
    answer = (signal) =>
      new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(new Error('too late'))))
    want('ns')
    vi.useRealTimers()
    await eventually(() => logged.some((line) => line.includes('too late')))
    expect(told()).toEqual([undefined, undefined])
  })
})
