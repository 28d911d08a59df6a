import { readdir, readFile, writeFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { defaultDownloadSettings, type ModelRequest, type ModelsOptions } from '../../src/agent-core/models/models.ts'
import { startFakeHub, type FakeHub } from '../support/fake-hub.ts'
import { failure, filesBelow, gguf, startWorld, staying, type World } from '../unit/models/world.ts'

const tokens = { a: 'hf_aaaaaaaa', b: 'hf_bbbbbbbb', mine: 'hf_ofThePerson' }
const source = 'hf://org/private'

let hub: FakeHub
let world: World
beforeEach(async () => {
  hub = await startFakeHub({ tokens: Object.values(tokens) })
  await hub.addRepo('org/private', { 'm.gguf': gguf('for a') }, { private: true, grantedTo: [tokens.a, tokens.mine] })
  await hub.addRepo('org/public', { 'm.gguf': gguf('public') })
  world = await startWorld({ env: { HF_ENDPOINT: hub.endpoint }, allowInsecureLoopback: true })
})
afterEach(async () => {
  await world[Symbol.asyncDispose]()
  await hub[Symbol.asyncDispose]()
})

type Namespace = 'a' | 'b' | 'none'

const asked = (namespace: Namespace, more: Partial<ModelRequest> = {}): ModelRequest => ({
  namespace,
  name: 'shared',
  source,
  ...(namespace !== 'none' && {
    secret: () => Promise.resolve({ namespace, name: 'hub', values: { HF_TOKEN: tokens[namespace] } }),
  }),
  ...more,
})
const ensure = (request: ModelRequest, options: Partial<ModelsOptions> = {}) =>
  world.restarted(options).ensure(request, staying())

/** `ok`, or why not. */
const outcome = (request: ModelRequest, models = world.models): Promise<string> =>
  models.ensure(request, staying()).then(
    () => 'ok',
    async (error: unknown) => (await failure(Promise.reject(error as Error))).reason ?? '',
  )

const orders: Namespace[][] = [
  ['a', 'b', 'none'],
  ['a', 'none', 'b'],
  ['b', 'a', 'none'],
  ['b', 'none', 'a'],
  ['none', 'a', 'b'],
  ['none', 'b', 'a'],
]
const expected = { a: 'ok', b: 'NotFound', none: 'NotFound' }

describe('what one namespace fetched with its Secret another gets only with its own', () => {
  describe.each([
    { what: 'a Model of the same name', more: {} },
    { what: 'a Model of another name', more: { byNamespace: true } },
  ])('as $what', ({ more }) => {
    const request = (namespace: Namespace) => asked(namespace, 'byNamespace' in more ? { name: `m-${namespace}` } : {})

    test.each(orders.map((order) => ({ order })))('one after the other: $order', async ({ order }) => {
      for (const namespace of order)
        expect([namespace, await outcome(request(namespace))]).toEqual([namespace, expected[namespace]])
      // Another life of the agent knows it too.
      const later = world.restarted()
      for (const namespace of order) expect(await outcome(request(namespace), later)).toBe(expected[namespace])
    })

    test('all at once', async () => {
      const all = ['b', 'a', 'none'] as const
      const outcomes = await Promise.all(all.map((namespace) => outcome(request(namespace))))
      expect(outcomes).toEqual(all.map((namespace) => expected[namespace]))
    })
  })

  test('and a source that gives it to both is not fetched twice', async () => {
    await hub.addRepo('org/both', { 'm.gguf': gguf('both') }, { private: true, grantedTo: [tokens.a, tokens.b] })
    const bytes = () => hub.requests.filter(({ path, method }) => method === 'GET' && path.includes('/resolve/')).length
    await ensure(asked('a', { source: 'hf://org/both' }))
    const before = bytes()
    expect(await ensure(asked('b', { source: 'hf://org/both' }))).toMatchObject({ sizeBytes: 4096 })
    expect(bytes()).toBe(before)
  })

  test('not by its checksum under an address of its own', async () => {
    const { path } = await ensure(asked('a'))
    const sha256 = await storedSha256(path)
    world.server.serve('/m.gguf', gguf('for b', 8192))
    const stolen = ensure(asked('none', { name: 'mine', source: `${world.server.origin}/m.gguf`, sha256 }))
    expect(await failure(stolen)).toMatchObject({ reason: 'ChecksumMismatch' })
  })

  test('not by its path in the store', async () => {
    const { path } = await ensure(asked('a'))
    expect(await failure(ensure(asked('b', { source: path })))).toMatchObject({ reason: 'ModelSourceNotAllowed' })
    expect(await ensure(asked('a', { source: path }))).toMatchObject({ path })
  })

  test('not by its path in a store that another agent left', async () => {
    const { path } = await ensure(asked('a'))
    const record = `${path}.metalbar.json`
    const { access: _, namespace: __, ...old } = JSON.parse(await readFile(record, 'utf8')) as Record<string, unknown>
    await writeFile(record, JSON.stringify(old))
    expect(await failure(ensure(asked('b', { source: path })))).toMatchObject({ reason: 'ModelSourceNotAllowed' })
  })

  test('a store that another agent left is used without a new fetch, by who has access', async () => {
    const { path } = await ensure(asked('a'))
    const record = `${path}.metalbar.json`
    const { access: _, namespace: __, ...old } = JSON.parse(await readFile(record, 'utf8')) as Record<string, unknown>
    await writeFile(record, JSON.stringify(old))
    const fetched = hub.requests.filter(({ server }) => server === 'cdn').length
    expect([await outcome(asked('b')), await outcome(asked('a')), await outcome(asked('b'))]).toEqual([
      'NotFound',
      'ok',
      'NotFound',
    ])
    expect(hub.requests.filter(({ server }) => server === 'cdn').length).toBe(fetched)
  })
})

describe.each([
  { mirror: 'has no API', options: { api: 'files-only' }, repo: 'org/private', link: true },
  { mirror: 'has no API and lies below a path', options: { api: 'files-only', prefix: '/hub' }, link: true },
  { mirror: 'lies below a path', options: { prefix: '/hub' }, link: true },
  { mirror: 'lies below a path, by name', options: { prefix: '/hub' }, link: false },
  { mirror: 'does not say that a repository is gated', options: { api: 'silent' }, repo: 'org/gated', link: true },
] as const)('where the mirror of the Hub $mirror', ({ options, link, ...given }) => {
  const repo = 'repo' in given ? given.repo : 'org/private'
  let mirror: FakeHub
  let mirrored: World
  beforeEach(async () => {
    mirror = await startFakeHub({ tokens: Object.values(tokens), ...options })
    const files = { 'm.gguf': gguf('for a') }
    await mirror.addRepo('org/private', files, { private: true, grantedTo: [tokens.a] })
    await mirror.addRepo('org/gated', files, { gated: true, grantedTo: [tokens.a] })
    mirrored = await startWorld({ env: { HF_ENDPOINT: mirror.endpoint }, allowInsecureLoopback: true })
  })
  afterEach(async () => {
    await mirrored[Symbol.asyncDispose]()
    await mirror[Symbol.asyncDispose]()
  })
  const request = (namespace: Namespace, name = 'shared') =>
    asked(namespace, {
      name,
      source: link ? `${mirror.endpoint}/${repo}/resolve/main/m.gguf` : `hf://${repo}/m.gguf`,
    })
  const isGiven = async (namespace: Namespace, name?: string, models = mirrored.models): Promise<boolean> => {
    const reason = await outcome(request(namespace, name), models)
    expect(['ok', 'NotFound', 'AccessDenied']).toContain(reason)
    return reason === 'ok'
  }

  test('one after the other, in every order, as Models of one name and of several', async () => {
    for (const [at, order] of orders.entries()) {
      const name = (namespace: Namespace) => (at % 2 === 0 ? `m${at}` : `m${at}-${namespace}`)
      for (const namespace of order)
        expect([order, namespace, await isGiven(namespace, name(namespace))]).toEqual([
          order,
          namespace,
          namespace === 'a',
        ])
      expect(await isGiven('none', name('none'))).toBe(false)
    }
  })

  test('all at once', async () => {
    const all = ['b', 'a', 'none', 'a', 'b'] as const
    expect(await Promise.all(all.map((namespace) => isGiven(namespace)))).toEqual([false, true, false, true, false])
  })
})

test('a mirror without API that shows others a page to log in has given them nothing', async () => {
  const login = world.server.serve('/login', gguf('x'), { fault: { kind: 'html' } })
  await using mirror = await startFakeHub({ tokens: Object.values(tokens), api: 'files-only', loginPage: login.url })
  await mirror.addRepo('org/private', { 'm.gguf': gguf('for a') }, { private: true, grantedTo: [tokens.a] })
  const models = world.restarted({ env: { HF_ENDPOINT: mirror.endpoint } })
  const named = { source: `${mirror.endpoint}/org/private/resolve/main/m.gguf` }
  expect([await outcome(asked('a', named), models), await outcome(asked('none', named), models)]).toEqual([
    'ok',
    'NotAModel',
  ])
})

test('a Hub that shows others a page to log in, and does not say that a repository is gated, has given them nothing', async () => {
  const login = world.server.serve('/login', gguf('x'), { fault: { kind: 'html' } })
  await using silent = await startFakeHub({ tokens: Object.values(tokens), api: 'silent', loginPage: login.url })
  await silent.addRepo('org/gated', { 'm.gguf': gguf('for a') }, { gated: true, grantedTo: [tokens.a] })
  const models = world.restarted({ env: { HF_ENDPOINT: silent.endpoint } })
  const named = { source: 'hf://org/gated' }
  expect([
    await outcome(asked('a', named), models),
    await outcome(asked('none', named), models),
    await outcome(asked('none', { ...named, name: 'other' }), models),
  ]).toEqual(['ok', 'NotAModel', 'NotAModel'])
})

describe('another repository under the name of the one that was fetched opens nothing that is stored', () => {
  const content = async ({ path }: { readonly path: string }) => (await readFile(path)).toString('latin1')
  const other = { 'm.gguf': gguf('of another') }

  test.each([
    { what: 'after it was registered anew', isMoved: false },
    { what: 'at another Hub', isMoved: true },
  ])('$what', async ({ isMoved }) => {
    const { path } = await ensure(asked('a'))
    await using moved = await startFakeHub({ tokens: Object.values(tokens) })
    await (isMoved ? moved : hub).addRepo('org/private', other)
    const models = world.restarted({ env: { HF_ENDPOINT: (isMoved ? moved : hub).endpoint } })
    for (const name of ['shared', 'elsewhere'])
      expect(await content(await models.ensure(asked('none', { name }), staying()))).toBe(
        gguf('of another').toString('latin1'),
      )
    expect(JSON.parse(await readFile(`${path}.metalbar.json`, 'utf8'))).toMatchObject({
      access: { isPublic: false, namespaces: ['a'] },
    })
    expect(await content(await models.ensure(asked('a'), staying()))).toBe(gguf('for a').toString('latin1'))
  })

  test('also where it has no such file or revision', async () => {
    const named = { source: 'hf://org/private/m.gguf' }
    await ensure(asked('a', named))
    await hub.addRepo('org/private', { 'n.gguf': gguf('of another') })
    expect([await outcome(asked('none', named)), await outcome(asked('a', named))]).toEqual(['NoSuchFile', 'ok'])
  })

  test('nor does the address of a mirror to which a login was sent, once that is the Hub no more', async () => {
    await using mirror = await startFakeHub({ tokens: Object.values(tokens), api: 'files-only' })
    await mirror.addRepo('org/private', { 'm.gguf': gguf('for a') }, { private: true, grantedTo: [tokens.a] })
    const named = { source: `${mirror.endpoint}/org/private/resolve/main/m.gguf` }
    await ensure(asked('a', named), { env: { HF_ENDPOINT: mirror.endpoint } })
    const later = world.restarted({ env: { HF_ENDPOINT: hub.endpoint } })
    expect([await outcome(asked('none', named), later), await outcome(asked('a', named), later)]).toEqual([
      'AccessDenied',
      'ok',
    ])
  })
})

describe('the folder of a Model belongs to its namespace', () => {
  test.each([
    { what: 'another source', others: 'hf://org/public' },
    { what: 'the same source and another checksum', others: source },
  ])("and another namespace's Model of that name with $what goes beside it", async ({ others }) => {
    const first = await ensure(asked('a'))
    const sha256 = others === source ? { sha256: '0'.repeat(64) } : {}
    await ensure(asked('b', { source: others, ...sha256 })).catch(() => undefined)
    expect(await readFile(first.path, 'latin1')).toBe(gguf('for a').toString('latin1'))
    expect(await outcome(asked('a'))).toBe('ok')
    if (others !== source)
      expect(Object.keys(await filesBelow(world.store))).toEqual([
        expect.stringMatching(/^shared\/[0-9a-f]{16}\/m\.gguf$/),
        'shared/m.gguf',
      ])
  })
})

describe('the login of the person at this machine', () => {
  const env = () => ({ HF_ENDPOINT: hub.endpoint, HF_TOKEN: tokens.mine })

  test('serves what the person pulls, and no namespace', async () => {
    const models = world.restarted({ env: env() })
    expect(await outcome(asked('none'), models)).toBe('NotFound')
    expect(await outcome(asked('none', { namespace: '', name: 'pulled' }), models)).toBe('ok')
    expect(await outcome(asked('none', { name: 'pulled' }), models)).toBe('NotFound')
    expect(hub.requests.filter(({ headers }) => headers.authorization !== undefined).length).toBeGreaterThan(0)
  })

  test('may be what the app keeps: it serves what the person pulls, over the environment, and no namespace', async () => {
    const env = { HF_ENDPOINT: hub.endpoint, HF_TOKEN: 'hf_wrong' }
    const models = world.restarted({ env, keptHubToken: () => Promise.resolve(tokens.mine) })
    const broken = world.restarted({ env, keptHubToken: () => Promise.reject(new Error('no keychain')) })
    expect([
      await outcome(asked('none'), models),
      await outcome(asked('none', { namespace: '', name: 'kept' }), broken),
      await outcome(asked('none', { namespace: '', name: 'kept' }), models),
    ]).toEqual(['NotFound', 'FileUnreadable', 'ok'])
  })

  test('what it fetched serves every namespace without the Hub where that said it is public, and else none', async () => {
    const models = world.restarted({ env: env() })
    const names = { pulled: 'hf://org/public', mine: source }
    for (const [name, from] of Object.entries(names))
      expect(await outcome(asked('none', { namespace: '', name, source: from }), models)).toBe('ok')
    const offline = world.restarted({ env: { HF_ENDPOINT: hub.endpoint, HF_HUB_OFFLINE: '1' } })
    const later = Object.entries(names).map(([name, from]) => outcome(asked('none', { name, source: from }), offline))
    expect(await Promise.all(later)).toEqual(['ok', 'Offline'])
  })

  test('serves a namespace that the person listed', async () => {
    const settings = () => ({ ...defaultDownloadSettings, hubLoginNamespaces: ['none'] })
    expect(await outcome(asked('none'), world.restarted({ env: env(), settings }))).toBe('ok')
    expect(await outcome(asked('none', { namespace: 'other' }), world.restarted({ env: env(), settings }))).toBe(
      'NotFound',
    )
  })
})

test('a file that the Go agent left counts for a Model whose login its source accepts', async () => {
  await mkdir(join(world.store, 'shared'), { recursive: true })
  await writeFile(join(world.store, 'shared', 'm.gguf'), gguf('for a'))
  const named = { source: 'hf://org/private/m.gguf' }
  expect([await outcome(asked('b', named)), await outcome(asked('a', named))]).toEqual(['NotFound', 'ok'])
  expect((await readdir(join(world.store, 'shared'))).filter((name) => name.endsWith('.gguf'))).toEqual(['m.gguf'])
})

describe('what is stored stays in use when its file is gone upstream', () => {
  const gone = { 'other.gguf': gguf('other') }
  const options = { private: true, grantedTo: [tokens.a] }
  /** As it is recorded of what was found. */
  const forget = async (path: string): Promise<void> => {
    const record = `${path}.metalbar.json`
    const { access: _, namespace: __, ...old } = JSON.parse(await readFile(record, 'utf8')) as Record<string, unknown>
    await writeFile(record, JSON.stringify(old))
  }
  const cdnRequests = () => hub.requests.filter(({ server }) => server === 'cdn').length

  test.each([
    { kept: 'by another agent', repo: options },
    { kept: 'by another agent, gated', repo: { gated: true, grantedTo: [tokens.a] } },
  ])('$kept, for who may read the repository, and nobody else', async ({ repo }) => {
    const files = await hub.addRepo('org/kept', { 'm.gguf': gguf('kept') }, repo)
    const named = { source: 'hf://org/kept/m.gguf' }
    const { path } = await ensure(asked('a', named))
    await forget(path)
    await files.commit(gone)
    const before = cdnRequests()
    const refusal = 'gated' in repo ? 'AccessDenied' : 'NotFound'
    expect([
      await outcome(asked('b', named)),
      await outcome(asked('a', named)),
      await outcome(asked('none', named)),
    ]).toEqual([refusal, 'ok', refusal])
    expect(cdnRequests()).toBe(before)
    await hub.addRepo('org/kept', gone, { private: true })
    await forget(path)
    expect(await outcome(asked('a', named))).toBe('NotFound')
  })

  test('by the Go agent, also at a revision that is gone', async () => {
    for (const [name, ending] of [
      ['one', 'lost.gguf'],
      ['two', 'm.gguf@lost'],
    ] as const) {
      await mkdir(join(world.store, name), { recursive: true })
      await writeFile(join(world.store, name, ending), gguf('kept'))
      const named = { name, source: `hf://org/private/${ending}` }
      expect([await outcome(asked('b', named)), await outcome(asked('a', named))]).toEqual(['NotFound', 'ok'])
    }
  })

  test('by another namespace with its Secret', async () => {
    const both = await hub.addRepo(
      'org/both',
      { 'm.gguf': gguf('both') },
      { ...options, grantedTo: [tokens.a, tokens.b] },
    )
    const named = { source: 'hf://org/both/m.gguf' }
    await ensure(asked('a', named))
    await both.commit(gone)
    expect([await outcome(asked('b', named)), await outcome(asked('none', named))]).toEqual(['ok', 'NotFound'])
  })
})

test('what several namespaces are given at the same time is recorded for each of them', async () => {
  await hub.addRepo(
    'org/both',
    { 'm.gguf': gguf('both') },
    { private: true, grantedTo: [tokens.a, tokens.b, tokens.mine] },
  )
  const named = { source: 'hf://org/both' }
  const { path } = await ensure(asked('a', named))
  const person = { namespace: 'c', name: 'hub', values: { HF_TOKEN: tokens.mine } }
  const third = asked('none', { ...named, namespace: 'c', secret: () => Promise.resolve(person) })
  await Promise.all([asked('b', named), third].map((request) => world.models.ensure(request, staying())))
  const { access } = JSON.parse(await readFile(`${path}.metalbar.json`, 'utf8')) as { access: { namespaces: string[] } }
  expect([...access.namespaces].sort()).toEqual(['a', 'b', 'c'])
})

test('a file that the Go agent left is given to nobody while its source only says that it is in trouble', async () => {
  await mkdir(join(world.store, 'shared'), { recursive: true })
  await writeFile(join(world.store, 'shared', 'm.gguf'), gguf('for a'))
  const named = { source: 'hf://org/private/m.gguf' }
  for (const [status, reason] of [
    [429, 'RateLimited'],
    [503, 'ServerError'],
  ] as const) {
    hub.outage = { status }
    expect(await outcome(asked('b', named))).toBe(reason)
  }
  hub.outage = undefined
  const offline = world.restarted({ env: { HF_ENDPOINT: hub.endpoint, HF_HUB_OFFLINE: '1' } })
  expect(await outcome(asked('b', named), offline)).toBe('ok')
})

test('a file that was found in the store is not taken, nor called wrong, by who may not read its source', async () => {
  const file = join(world.store, 'shared', 'm.gguf')
  await mkdir(join(world.store, 'shared'), { recursive: true })
  await writeFile(file, gguf('for a'))
  const named = { source: 'hf://org/private/m.gguf' }
  expect(await outcome(asked('b', { ...named, sha256: '0'.repeat(64) }))).toBe('NotFound')
  expect(await ensure(asked('a', named))).toMatchObject({ path: file })
  expect(JSON.parse(await readFile(`${file}.metalbar.json`, 'utf8'))).toMatchObject({ namespace: 'a' })
})

test('a file that was found in the store is one model for all that ask for it at the same time', async () => {
  const file = join(world.store, 'shared', 'm.gguf')
  await mkdir(join(world.store, 'shared'), { recursive: true })
  await writeFile(file, gguf('for a'))
  const named = { source: 'hf://org/private/m.gguf' }
  const outcomes = await Promise.all(
    [asked('b', named), asked('a', named), asked('none', named)].map((one) => outcome(one)),
  )
  expect(outcomes).toEqual(['NotFound', 'ok', 'NotFound'])
  expect(await ensure(asked('a', named))).toMatchObject({ path: file })
  expect(hub.requests.filter(({ server }) => server === 'cdn')).toEqual([])
})

test("a checksum that another namespace's Model states takes no file that was found in the store from its Model", async () => {
  const file = join(world.store, 'shared', 'm.gguf')
  await mkdir(join(world.store, 'shared'), { recursive: true })
  await writeFile(file, gguf('for a'))
  const named = { source: 'hf://org/private/m.gguf' }
  const wrong = { ...named, sha256: '0'.repeat(64) }
  expect(await ensure(asked('a', named))).toMatchObject({ path: file })
  expect(await outcome(asked('b', wrong))).toBe('NotFound')
  expect(await ensure(asked('a', named))).toMatchObject({ path: file })
  // Its own Model may say that the file is wrong.
  expect(await outcome(asked('a', wrong))).toBe('WrongChecksum')
  expect((await readdir(join(world.store, 'shared'))).filter((name) => name.endsWith('.gguf'))).toEqual([])
})

test('the refusal of a private or gated repository names what gives a Model of the namespace access', async () => {
  await hub.addRepo('org/gated', { 'm.gguf': gguf('gated') }, { gated: true })
  const message = async (request: ModelRequest) => (await failure(world.models.ensure(request, staying()))).message
  for (const repo of [source, 'hf://org/gated']) {
    expect(await message(asked('none', { source: repo }))).toContain(
      "put a token into the Secret of spec.sourceSecretRef, or lend namespace none this machine's login with --hub-login-namespaces none.",
    )
    expect(await message(asked('none', { source: repo, namespace: '' }))).toContain('hubTokenFile or HF_TOKEN.')
  }
})

async function storedSha256(path: string): Promise<string> {
  const { files } = JSON.parse(await readFile(`${path}.metalbar.json`, 'utf8')) as { files: { sha256: string }[] }
  return files[0]?.sha256 ?? ''
}
