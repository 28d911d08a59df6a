import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ApiKeys } from '../../../src/agent-core/gateway/api-keys.ts'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { createLog } from '../../../src/agent-core/observability/log.ts'
import { eventually } from '../../support/eventually.ts'

let keys: ApiKeys
let now: number
let answer: () => unknown
let asked: string[]
let changed: string[]
let logged: string[]

beforeEach(() => {
  asked = []
  changed = []
  logged = []
  now = 1_000
  answer = () => secret('k1')
  keys = new ApiKeys({
    api: () => ({
      get: (_resource: unknown, namespace: string, name: string) => {
        asked.push(`${namespace}/${name}`)
        return Promise.resolve().then(answer)
      },
    }),
    onChange: (key) => changed.push(key),
    log: createLog({ level: 'debug', stream: { write: (line: string) => logged.push(line) } }),
    now: () => now,
    readEveryMs: 5,
  })
})
afterEach(() => keys[Symbol.asyncDispose]())

const secret = (token: string) => ({ metadata: { name: 's' }, data: { token: Buffer.from(token).toString('base64') } })
const digest = (key: string): string => createHash('sha256').update(key).digest('hex')
const failing = (code: number | undefined) => () => {
  throw new ApiError('GET /secrets/s: no', { code })
}

test('a key is asked for as a digest, and another one in its Secret counts soon', async () => {
  keys.want('ns/a', 's')
  expect(keys.askedFor('ns/a')).toBeUndefined()
  await eventually(() => keys.askedFor('ns/a')?.key === digest('k1'))
  answer = () => secret('k2\n')
  await eventually(() => keys.askedFor('ns/a')?.key === digest('k2'))
  expect([new Set(asked), changed]).toEqual([new Set(['ns/s']), ['ns/a', 'ns/a', 'ns/a']])
  expect(logged.join('')).not.toMatch(/k1|k2/)
})

test('a service that asks for none is open, and no Secret is read for it', async () => {
  expect(keys.askedFor('ns/a')).toBeUndefined()
  keys.want('ns/a', undefined)
  expect([keys.askedFor('ns/a'), asked]).toEqual([{ key: 'none' }, []])
  keys.want('ns/a', 's')
  await eventually(() => keys.stateOf('ns/a').kind === 'known')
  keys.want('ns/a', undefined)
  expect(keys.askedFor('ns/a')).toEqual({ key: 'none' })
  const before = asked.length
  keys.want('ns/b', 's')
  keys.forget('ns/b')
  await eventually(() => !keys.isReading)
  expect(asked.length - before).toBeLessThanOrEqual(2)
})

describe('nobody gets in, with a sentence, where the Secret', () => {
  test.each<[string, string, () => unknown, RegExp]>([
    ['is not named', '', () => secret('k'), /names no Secret/],
    ['cannot have that name', '../x', () => secret('k'), /names no Secret/],
    ['is missing', 's', failing(404), /does not exist: create it/],
    ['may not be read', 's', failing(403), /allow this agent to get Secrets in ns/],
    ['is empty', 's', () => ({}), /has no key "token"/],
    ['has an empty token', 's', () => secret(' \n'), /has no key "token"/],
    ['has odd bytes', 's', () => secret('k\u0000'), /no client can send/],
    ['has two lines', 's', () => secret('a\nb'), /no client can send/],
    ['has a megabyte', 's', () => secret('k'.repeat(1_048_577)), /no client can send/],
    ['is something else', 's', () => 'secret', /has no key "token"/],
  ])('%s', async (_what, name, given, sentence) => {
    answer = given
    keys.want('ns/a', name)
    const state = await eventually(() => {
      const now = keys.stateOf('ns/a')
      return now.kind === 'unusable' && now
    })
    expect(state.message).toMatch(sentence)
    expect(keys.askedFor('ns/a')).toEqual({ key: 'nobody' })
  })

  test('is deleted after it was read', async () => {
    keys.want('ns/a', 's')
    await eventually(() => keys.stateOf('ns/a').kind === 'known')
    answer = failing(404)
    await eventually(() => keys.askedFor('ns/a')?.key === 'nobody')
  })
})

test('while the cluster does not answer, what was known counts, and what was not is as before', async () => {
  answer = failing(undefined)
  keys.want('ns/new', 's')
  await eventually(() => /cannot be read at the moment/.test(JSON.stringify(keys.stateOf('ns/new'))))
  expect(keys.askedFor('ns/new')).toBeUndefined()
  answer = () => secret('k1')
  await eventually(() => keys.stateOf('ns/new').kind === 'known')
  const failsWith = async (code: number) => {
    answer = failing(code)
    const before = asked.length
    await eventually(() => asked.length > before + 3)
    return keys.askedFor('ns/new')?.key
  }
  expect([await failsWith(503), await failsWith(401)]).toEqual([digest('k1'), digest('k1')])
  expect([await failsWith(403), await failsWith(401)]).toEqual(['nobody', 'nobody'])
})

describe('the key before the present one', () => {
  /** Reads the Secret of ns/a until its key is this one. */
  async function has(key: string): Promise<void> {
    answer = () => secret(key)
    keys.want('ns/a', 's')
    await eventually(() => keys.askedFor('ns/a')?.key === digest(key))
  }
  const a = { namespace: 'ns', name: 'a' }
  const earlier = (key: string, until: number) => ({ earlierKey: { sha256: digest(key), until } })
  const asks = (key: string, more = {}) => ({ key: digest(key), ...more })

  test('is told to a gateway for ten minutes after the change, and none before that one', async () => {
    await has('k1')
    await has('k2')
    now = 600_999
    expect(keys.askedFor('ns/a')).toEqual(asks('k2', earlier('k1', 601_000)))
    now = 601_000
    expect(keys.askedFor('ns/a')).toEqual(asks('k2'))
    await has('k3')
    expect(keys.askedFor('ns/a')).toEqual(asks('k3', earlier('k2', 1_201_000)))
  })

  test.each<[string, () => Promise<unknown>]>([
    ['the Secret is deleted', () => has('k2').then(() => deleted())],
    ['the service asks for none meanwhile', () => has('k2').then(() => keys.want('ns/a', undefined))],
    ['the service is deleted', () => has('k2').then(() => keys.forget('ns/a'))],
    ['this machine serves another cluster', () => has('k2').then(() => left())],
  ])('is forgotten where %s', async (_what, happens) => {
    await has('k1')
    await happens()
    await has('k3')
    expect(keys.askedFor('ns/a')).toEqual(asks('k3'))
  })

  async function deleted(): Promise<void> {
    answer = failing(404)
    await eventually(() => keys.askedFor('ns/a')?.key === 'nobody')
  }

  function left(): void {
    keys.forgetWhere((key) => key === 'ns/other')
    expect(keys.askedFor('ns/a')).toHaveProperty('earlierKey')
    keys.forgetWhere((key) => key === 'ns/a')
    keys.readAgain()
  }

  test('is known to the next agent from the gateway, with what changed while there was none', async () => {
    keys.adopt([{ ...a, sha256: digest('k2'), ...earlier('k1', 500_000) }])
    expect(keys.askedFor('ns/a')).toBeUndefined()
    await has('k2')
    expect(keys.askedFor('ns/a')).toEqual(asks('k2', earlier('k1', 500_000)))
    await has('k3')
    expect(keys.askedFor('ns/a')).toEqual(asks('k3', earlier('k2', 601_000)))
    // A gateway that has started again knows less.
    keys.adopt([{ ...a, sha256: digest('k3') }])
    expect(keys.askedFor('ns/a')).toEqual(asks('k3', earlier('k2', 601_000)))
  })

  test.each([
    ['k2', earlier('k1', 500_000)],
    ['k3', earlier('k2', 601_000)],
  ])('is known from the gateway also where %s was read before it answered', async (read, expected) => {
    await has(read)
    keys.adopt([{ ...a, sha256: digest('k2'), ...earlier('k1', 500_000) }])
    expect(keys.askedFor('ns/a')).toEqual(asks(read, expected))
  })
})
