import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { objectUrl, s3Login, s3Refusal, signature } from '../../../src/agent-core/models/download/s3.ts'
import { secretMissing } from '../../../src/agent-core/models/source-secret.ts'
import type { ModelRequest } from '../../../src/agent-core/models/models.ts'
import { parsedAuthorization, s3Region, signatureOf, startS3Server, type S3Server } from '../../support/s3-server.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from './world.ts'

const keys = { accessKeyId: 'AKIDOFTHETEST', secretAccessKey: 'wJalr/XUtnFEMI+K7MDENG' }

let s3: S3Server
let world: World
beforeEach(async () => {
  s3 = await startS3Server(keys)
  world = await startWorld()
})
afterEach(async () => {
  await world[Symbol.asyncDispose]()
  await s3[Symbol.asyncDispose]()
})

const usual = () => ({
  AWS_ACCESS_KEY_ID: keys.accessKeyId,
  AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
  AWS_REGION: s3Region,
  AWS_ENDPOINT_URL: s3.origin,
})

/** `changes`: of the Secret's keys; undefined leaves one out. */
const wanted = (source: string, changes: Record<string, string | undefined> = {}, namespace = 'a'): ModelRequest => {
  const all = Object.entries<string | undefined>({ ...usual(), ...changes })
  const values = Object.fromEntries(all.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))
  return {
    ...request(source, 'm', namespace),
    secret: () => Promise.resolve({ namespace, name: 'bucket', values }),
  }
}

const content = async (asked: ModelRequest): Promise<Buffer> =>
  readFile((await world.models.ensure(asked, staying())).path)

test("the server of these tests finds the signature of the example in AWS's specification", () => {
  const headers = new Map([
    ['host', 'examplebucket.s3.amazonaws.com'],
    ['range', 'bytes=0-9'],
    ['x-amz-content-sha256', createHash('sha256').update('').digest('hex')],
    ['x-amz-date', '20130524T000000Z'],
  ])
  const stated = { day: '20130524', region: 'us-east-1', signedHeaders: [...headers.keys()].join(';') }
  const found = signatureOf(
    { method: 'GET', target: '/test.txt', headers },
    stated,
    'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  )
  expect(found).toBe('f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41')
})

describe('an object of S3', () => {
  test('is fetched with the keys of the Secret, from the server that it names', async () => {
    s3.objects.set('models/llm/x.gguf', gguf('A'))
    const found = await content(wanted('s3://models/llm/x.gguf'))
    expect([found.equals(gguf('A')), await filesBelow(world.store), s3.requests]).toEqual([
      true,
      { '@a+m/m/x.gguf': 'AAAAAAAA' },
      [expect.objectContaining({ method: 'GET', path: '/models/llm/x.gguf', isSigned: true, status: 206 })],
    ])
  })

  test.each(['a b+c&d=e.gguf', "it's (1)*!.gguf", 'größe-模型.gguf', '100%25 @ 5$.gguf', 'deep/er/~x_y.gguf'])(
    'is found under a key like %s',
    async (key) => {
      s3.objects.set(`models/${key}`, gguf('A'))
      expect((await content(wanted(`s3://models/${key}`))).equals(gguf('A'))).toBe(true)
    },
  )

  test('whose download breaks off is continued, each request with a signature of its own', async () => {
    const large = gguf('A', 3_000_000)
    s3.objects.set('models/x.gguf', large)
    s3.drops.push(1_000_000)
    const models = world.restarted({ attempts: 3 })
    const { path } = await models.ensure(wanted('s3://models/x.gguf'), staying())
    const from = s3.requests.map(({ range }) => Number(/bytes=(\d+)/.exec(range ?? '')?.[1]))
    expect([(await readFile(path)).equals(large), from[0], (from[1] ?? 0) > 500_000, s3.requests.length]).toEqual([
      true,
      0,
      true,
      2,
    ])
    expect(s3.requests.every(({ isSigned, status }) => isSigned && status === 206)).toBe(true)
  })

  test('has its other shards and its projector fetched from beside it', async () => {
    for (const [at, name] of ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf', 'mmproj.gguf'].entries())
      s3.objects.set(`models/${name}`, gguf(`${at}`))
    const asked = { ...wanted('s3://models/m-00001-of-00002.gguf'), mmproj: 'mmproj.gguf' }
    const { files } = await world.models.ensure(asked, staying())
    expect(files.length).toBe(3)
  })

  test('is checked by spec.sha256, and one that changed there is fetched anew', async () => {
    s3.objects.set('models/x.gguf', gguf('A'))
    const asked = wanted('s3://models/x.gguf')
    const sha256 = createHash('sha256').update(gguf('B')).digest('hex')
    const wrong = await failure(world.models.ensure({ ...asked, sha256 }, staying()))
    const first = await world.models.ensure(asked, staying())
    const same = await world.models.refresh(asked, first, staying())
    s3.objects.set('models/x.gguf', gguf('B'))
    const next = await world.models.refresh(asked, first, staying())
    expect([wrong.reason, same, (await readFile(next?.path ?? '')).equals(gguf('B'))]).toEqual([
      'ChecksumMismatch',
      undefined,
      true,
    ])
  })

  test('that LLMKube’s agent has fetched before is used as it lies in the store, whatever became of the Secret', async () => {
    await mkdir(join(world.store, 'm'), { recursive: true })
    await writeFile(join(world.store, 'm/x.gguf'), gguf('A'))
    const secret = () => Promise.reject(secretMissing('a', 'bucket', 's3://models/x.gguf'))
    const found = await content({ ...wanted('s3://models/x.gguf'), secret })
    const missing = await failure(content({ ...wanted('s3://models/y.gguf'), secret }))
    expect([found.equals(gguf('A')), s3.requests, missing.message]).toEqual([
      true,
      [],
      'Secret a/bucket, which spec.sourceSecretRef names, does not exist: create it with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or remove sourceSecretRef.',
    ])
  })

  test('that everybody may read needs no keys', async () => {
    s3.objects.set('models/x.gguf', gguf('A'))
    s3.open.add('models/x.gguf')
    const without = { AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined }
    expect((await content(wanted('s3://models/x.gguf', without))).equals(gguf('A'))).toBe(true)
    expect(s3.requests.map(({ isSigned }) => isSigned)).toEqual([false])
  })

  test('may be asked for with a session token', async () => {
    await using temporary = await startS3Server({ ...keys, sessionToken: 'FwoGZXIvYXdzE==' })
    temporary.objects.set('models/x.gguf', gguf('A'))
    const at = { AWS_ENDPOINT_URL: temporary.origin }
    const refused = await failure(content(wanted('s3://models/x.gguf', { ...at, AWS_SESSION_TOKEN: 'old' })))
    const found = await content(wanted('s3://models/x.gguf', { ...at, AWS_SESSION_TOKEN: 'FwoGZXIvYXdzE==' }))
    expect([refused.message, found.length]).toEqual([
      expect.stringMatching(/does not accept the AWS_SESSION_TOKEN of Secret a\/bucket: put a new one there\.$/),
      4096,
    ])
  })

  test('that its server redirects elsewhere is asked for there without the session token', async () => {
    const sessionToken = 'FwoGZXIvYXdzE=='
    await using temporary = await startS3Server({ ...keys, sessionToken })
    temporary.movedTo = s3.origin
    s3.objects.set('models/x.gguf', gguf('A'))
    s3.open.add('models/x.gguf')
    const asked = wanted('s3://models/x.gguf', { AWS_ENDPOINT_URL: temporary.origin, AWS_SESSION_TOKEN: sessionToken })
    await expect(world.models.lookThere(asked, new AbortController().signal)).rejects.toThrow(/GGUF file of version/)
    await content(asked)
    expect([temporary, s3].map(({ requests }) => [...new Set(requests.map((one) => one.sessionToken))])).toEqual([
      [sessionToken],
      [undefined],
    ])
  })

  test('is sized by its header before it is fetched, and why that cannot be is told', async () => {
    s3.objects.set('models/x.gguf', gguf('A'))
    const look = (source: string) => world.models.lookThere(wanted(source), new AbortController().signal)
    const refused = await failure(look('s3://models/none.gguf'))
    await expect(look('s3://models/x.gguf')).rejects.toThrow(/GGUF/)
    expect(refused.message).toMatch(/has no object .*\/models\/none\.gguf/)
  })
})

describe('why an object cannot be had is one sentence', () => {
  const cases: [string, Record<string, string | undefined>, RegExp][] = [
    ['a missing object', {}, /^ORIGIN has no object ORIGIN\/models\/x\.gguf: correct spec\.source or put it there\.$/],
    [
      'an unknown key',
      { AWS_ACCESS_KEY_ID: 'AKIDELSE' },
      /^ORIGIN does not know the AWS_ACCESS_KEY_ID of Secret a\/bucket: replace it\.$/,
    ],
    [
      'a wrong key',
      { AWS_SECRET_ACCESS_KEY: 'else' },
      /^ORIGIN does not accept the AWS_SECRET_ACCESS_KEY of Secret a\/bucket: replace it\.$/,
    ],
    [
      'another region',
      { AWS_REGION: undefined },
      /^The bucket models is in the region eu-test-1 and was asked for in us-east-1: put eu-test-1 under AWS_REGION into Secret a\/bucket\.$/,
    ],
    [
      'half of the keys',
      { AWS_SECRET_ACCESS_KEY: ' ' },
      /^Secret a\/bucket, which spec\.sourceSecretRef names, lacks AWS_SECRET_ACCESS_KEY: put AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY there\.$/,
    ],
    [
      'a Secret for something else',
      { AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined, AWS_ENDPOINT_URL: undefined },
      /^Secret a\/bucket, which spec\.sourceSecretRef names, has no keys for S3 \(its keys: AWS_REGION\): put /,
    ],
    [
      'a key that breaks the line',
      { AWS_ACCESS_KEY_ID: 'AKID\r\nx: y' },
      /^AWS_ACCESS_KEY_ID of Secret a\/bucket, which spec\.sourceSecretRef names, is not a key: put /,
    ],
    [
      'an address with a password',
      { AWS_ENDPOINT_URL: 'https://me:wJalrElse@s3.example' },
      /^AWS_ENDPOINT_URL of Secret a\/bucket, which spec\.sourceSecretRef names, is not the address of a server: /,
    ],
  ]
  test.each(cases)('%s', async (_, changes, sentence) => {
    s3.objects.set('models/other.gguf', gguf('A'))
    const { message = '' } = await failure(content(wanted('s3://models/x.gguf', changes)))
    expect(message.replaceAll(s3.origin, 'ORIGIN')).toMatch(sentence)
    expect(message + world.logged.join()).not.toMatch(/wJalr|AKID/)
  })

  test('a bucket that is not there, a key that may not, and a clock that is wrong', async () => {
    const missing = await failure(content(wanted('s3://none/x.gguf')))
    s3.objects.set('models/x.gguf', gguf('A'))
    s3.refusal = { status: 403, code: 'AccessDenied' }
    const denied = await failure(content(wanted('s3://models/x.gguf')))
    s3.refusal = undefined
    s3.skewMs = 3_600_000
    const skewed = await failure(content(wanted('s3://models/x.gguf')))
    expect(
      [missing.message, denied.message, skewed.message].map((one) => one?.replaceAll(s3.origin, 'ORIGIN')),
    ).toEqual([
      'ORIGIN has no bucket none: correct spec.source, or AWS_ENDPOINT_URL in Secret a/bucket.',
      'ORIGIN/models/x.gguf cannot be read with the key of Secret a/bucket, or is not there (AccessDenied): allow the key s3:GetObject, or correct spec.source.',
      expect.stringMatching(
        /^ORIGIN refuses requests from this machine, whose clock is (?:3600|3599|3601) s behind its own: set the clock\.$/,
      ),
    ])
  })

  test('without a Secret', () => {
    const login = s3Login({ bucket: 'models' }, undefined)
    const answer = { status: 403, headers: new Headers(), text: '<Code>AccessDenied</Code>' }
    expect(s3Refusal(answer, login, objectUrl(login, 'x.gguf'), 0)?.message).toBe(
      'https://models.s3.us-east-1.amazonaws.com/x.gguf is not public: put AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY into a Secret in spec.sourceSecretRef.',
    )
  })
})

test("AWS's own servers are asked by the name of the bucket, unless their certificate would not be for it", () => {
  const of = (bucket: string, AWS_REGION: string) => {
    const values = { ...keysOnly, AWS_REGION }
    return objectUrl(s3Login({ bucket }, { namespace: 'a', name: 'b', values }), 'a/x.gguf')
  }
  const keysOnly = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' }
  expect([of('models', 'eu-central-1'), of('models.example', 'eu-central-1'), of('models', 'cn-north-1')]).toEqual([
    'https://models.s3.eu-central-1.amazonaws.com/a/x.gguf',
    'https://s3.eu-central-1.amazonaws.com/models.example/a/x.gguf',
    'https://models.s3.cn-north-1.amazonaws.com.cn/a/x.gguf',
  ])
})

describe('the keys', () => {
  test('sign requests to the server of the bucket alone', async () => {
    const secret = { namespace: 'a', name: 'b', values: usual() }
    const login = s3Login({ bucket: 'models' }, secret)
    const signed = await signature(login, 'GET', new URL(`${s3.origin}/models/x.gguf`))
    const elsewhere = await signature(login, 'GET', new URL('http://127.0.0.1:1/models/x.gguf'))
    expect([parsedAuthorization(signed['authorization'] ?? '')?.accessKeyId, elsewhere]).toEqual([keys.accessKeyId, {}])
    expect(JSON.stringify(signed)).not.toContain(keys.secretAccessKey)
  })

  test('of one namespace open nothing to another, which fetches with its own or not at all', async () => {
    s3.objects.set('models/x.gguf', gguf('A'))
    await content(wanted('s3://models/x.gguf'))
    await using other = await startS3Server(keys)
    other.objects.set('models/x.gguf', gguf('A'))
    const at = { AWS_ENDPOINT_URL: other.origin }
    const refused = await failure(content(wanted('s3://models/x.gguf', { ...at, AWS_ACCESS_KEY_ID: 'x' }, 'b')))
    const before = other.requests.length
    await content(wanted('s3://models/x.gguf', at, 'b'))
    const bytes = other.requests.slice(before).filter(({ range }) => /^bytes=0-\d{5,}$/.test(range ?? ''))
    expect([refused.reason, bytes.length]).toEqual(['AccessDenied', 1])
  })

  test('of another Secret that are refused at the same time fail the Model of that one alone', async () => {
    s3.objects.set('models/x.gguf', gguf('A'))
    const values = { ...usual(), AWS_SECRET_ACCESS_KEY: 'else' }
    const secret = () => Promise.resolve({ namespace: 'a', name: 'other', values })
    const [refused, found] = await Promise.all([
      failure(content({ ...wanted('s3://models/x.gguf'), name: 'other', secret })),
      content(wanted('s3://models/x.gguf')),
    ])
    expect([refused.message, found.length]).toEqual([expect.stringContaining('Secret a/other'), 4096])
  })

  test('and the server of a Secret tell two Models of one source apart', async () => {
    await using other = await startS3Server(keys)
    s3.objects.set('models/x.gguf', gguf('A'))
    other.objects.set('models/x.gguf', gguf('B'))
    const second = { ...wanted('s3://models/x.gguf', { AWS_ENDPOINT_URL: other.origin }), name: 'second' }
    const both = [await content(wanted('s3://models/x.gguf')), await content(second)]
    expect(both.map((one) => one.toString('latin1', 4, 5))).toEqual(['A', 'B'])
  })
})
