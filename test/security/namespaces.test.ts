import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ModelError } from '../../src/agent-core/models/errors.ts'
import {
  defaultDownloadSettings,
  type LocalModel,
  type ModelRequest,
  type ModelsOptions,
} from '../../src/agent-core/models/models.ts'
import { startFakeHub, type FakeHub } from '../support/fake-hub.ts'
import { failure, filesBelow, gguf, place, startWorld, staying, type World } from '../unit/models/world.ts'

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
  ['b', 'a', 'none'],
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

  test('and a source that gives it to both is fetched by each into a folder of its own', async () => {
    await hub.addRepo('org/both', { 'm.gguf': gguf('both') }, { private: true, grantedTo: [tokens.a, tokens.b] })
    for (const namespace of ['a', 'b'] as const) await ensure(asked(namespace, { source: 'hf://org/both' }))
    expect(Object.keys(await filesBelow(world.store))).toEqual(['@a/shared/m.gguf', '@b/shared/m.gguf'])
  })

  test('not by its path in the store', async () => {
    const { path } = await ensure(asked('a'))
    expect(await failure(ensure(asked('b', { source: path })))).toMatchObject({ reason: 'ModelSourceNotAllowed' })
    expect(await ensure(asked('a', { source: path }))).toMatchObject({ path })
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
    expect(place(relative(world.store, path))).toBe('@a/shared/m.gguf')
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
      expect(Object.keys(await filesBelow(world.store))).toEqual(['@/shared/m.gguf', '@a/shared/m.gguf'])
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

describe('what lies in the store without a record is everybody’s', () => {
  const named = { source: 'hf://org/private/m.gguf' }
  const file = () => join(world.store, 'shared', 'm.gguf')
  beforeEach(async () => {
    await mkdir(join(world.store, 'shared'), { recursive: true })
    await writeFile(file(), gguf('for a'))
  })

  test('and one model for all that ask for it at the same time, without a request', async () => {
    const all = [asked('b', named), asked('a', named), asked('none', named)]
    const paths = (await Promise.all(all.map((one) => ensure(one)))).map(({ path }) => path)
    expect([paths, hub.requests]).toEqual([all.map(() => file()), []])
  })

  test('and stays where it is, whatever checksum a Model states', async () => {
    expect(await outcome(asked('b', { ...named, sha256: '0'.repeat(64) }))).toBe('NotFound')
    expect(await ensure(asked('a', named))).toMatchObject({ path: file() })
    expect(await readFile(file(), 'latin1')).toBe(gguf('for a').toString('latin1'))
  })
})

describe('what is stored stays in use by its owner', () => {
  const options = { private: true, grantedTo: [tokens.a] }
  const named = { source: 'hf://org/kept/m.gguf' }
  const all = async () => [
    await outcome(asked('a', named)),
    await outcome(asked('b', named)),
    await outcome(asked('none', named)),
  ]

  test('when it is gone upstream', async () => {
    const files = await hub.addRepo('org/kept', { 'm.gguf': gguf('kept') }, options)
    await ensure(asked('a', named))
    await files.commit({ 'other.gguf': gguf('other') })
    expect(await all()).toEqual(['ok', 'NotFound', 'NotFound'])
  })

  test('when its Secret is gone, also by a namespace that is made anew under its name', async () => {
    await hub.addRepo('org/kept', { 'm.gguf': gguf('kept') }, options)
    await ensure(asked('a', named))
    expect(await outcome(asked('none', { ...named, namespace: 'a' }))).toBe('ok')
  })

  test('when it was open and is closed, and what was closed and is open is fetched anew by others', async () => {
    await hub.addRepo('org/kept', { 'm.gguf': gguf('kept') })
    await ensure(asked('none', named))
    await hub.addRepo('org/kept', { 'm.gguf': gguf('kept') }, options)
    expect(await all()).toEqual(['ok', 'ok', 'ok'])
    await ensure(asked('a'))
    await hub.addRepo('org/private', { 'm.gguf': gguf('for all') })
    expect(await readFile((await ensure(asked('b'))).path, 'latin1')).toBe(gguf('for all').toString('latin1'))
    expect(Object.keys(await filesBelow(world.store))).toEqual([
      '@/shared/m.gguf',
      expect.stringMatching(/^@\/shared\/[0-9a-f]{16}\/m\.gguf$/),
      '@a/shared/m.gguf',
    ])
  })
})

test('of a public repository the login of a Secret leaves nothing that is not everybody’s, and of one that wants it everything', async () => {
  const { path } = await ensure(asked('a', { source: 'hf://org/public' }))
  expect(await ensure(asked('none', { source: 'hf://org/public', name: 'other' }))).toMatchObject({ path })
  // Some mirrors pass on that a repository is public, and want a login themselves.
  await using mirror = await startFakeHub({ tokens: Object.values(tokens) })
  await mirror.addRepo(
    'org/m',
    { 'm.gguf': gguf('for a') },
    { private: true, grantedTo: [tokens.a], isCalledPublic: true },
  )
  const models = world.restarted({ env: { HF_ENDPOINT: mirror.endpoint } })
  const named = { name: 'mirrored', source: 'hf://org/m' }
  expect([await outcome(asked('a', named), models), await outcome(asked('none', named), models)]).toEqual([
    'ok',
    'NotFound',
  ])
})

test.each([
  ['login in its address', (url: string) => url.replace('//', '//me:secret@')],
  ['query', (url: string) => `${url}?signature=secret`],
])(
  'what came with a %s belongs to the namespace that has it, and to nobody who knows its digest',
  async (_, secret) => {
    const content = gguf('for a')
    const { url } = world.server.serve('/m.gguf', content)
    const { path } = await ensure(asked('none', { namespace: 'a', source: secret(url) }))
    const sha256 = createHash('sha256').update(content).digest('hex')
    world.server.serve('/m.gguf', gguf('for b'))
    const byDigest = [secret(url), url].map((source) => outcome(asked('none', { namespace: 'b', source, sha256 })))
    expect([place(relative(world.store, path)), await Promise.all(byDigest)]).toEqual([
      '@a/shared/m.gguf',
      ['ChecksumMismatch', 'ChecksumMismatch'],
    ])
  },
)

describe('a registry of somebody that states the digest of', () => {
  const registry = async (content: Buffer) => {
    const digest = createHash('sha256').update(content).digest('hex')
    const layer = { mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${digest}`, size: content.length }
    const server = createServer(({ url = '' }, response) => {
      const isManifest = url.includes('/manifests/')
      response.writeHead(isManifest ? 200 : 404).end(isManifest ? JSON.stringify({ layers: [layer] }) : '')
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    return {
      source: `ollama://127.0.0.1:${port}/b/x:1`,
      [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
    }
  }

  test('a private model of another namespace is asked for the bytes, and has none', async () => {
    await ensure(asked('a'))
    await using evil = await registry(gguf('for a'))
    expect(await outcome(asked('none', { name: 'x', source: evil.source }))).toBe('NotFound')
  })

  test("a model in the person's own caches is asked for the bytes, and has none", async () => {
    const content = gguf('of the person')
    const digest = createHash('sha256').update(content).digest('hex')
    const home = join(world.folder, 'home')
    for (const [folder, name] of [
      ['.ollama/models/blobs', `sha256-${digest}`],
      ['.cache/huggingface/hub/models--b--x/blobs', digest],
    ] as const) {
      await mkdir(join(home, folder), { recursive: true })
      await writeFile(join(home, folder, name), content)
    }
    await using evil = await registry(content)
    const models = world.restarted({ homeDir: home })
    expect(await outcome(asked('none', { name: 'x', source: evil.source }), models)).toBe('NotFound')
  })
})

test("a file of the person's cache of the Hub serves who may read it there, and nobody else", async () => {
  const folder = join(world.folder, 'home/.cache/huggingface/hub/models--org--private/blobs')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, createHash('sha256').update(gguf('for a')).digest('hex')), gguf('for a'))
  const models = world.restarted({ homeDir: join(world.folder, 'home') })
  const all = await Promise.all((['b', 'a', 'none'] as const).map((namespace) => outcome(asked(namespace), models)))
  expect([all, Object.keys(await filesBelow(world.store))]).toEqual([
    ['NotFound', 'ok', 'NotFound'],
    ['@a/shared/m.gguf'],
  ])
  const whole = hub.requests.filter(({ server, headers }) => server === 'cdn' && headers.range === undefined)
  expect(whole).toEqual([])
})

test('a link, or a path in other words, opens no folder of another namespace', async () => {
  const { path } = await ensure(asked('a'))
  const link = join(world.folder, 'link.gguf')
  await symlink(path, link)
  for (const source of [link, `file://${path}`, path.replace('/@a/', '/x/../@a/'), path.replace('/@a/', '/@a//')]) {
    expect(await failure(ensure(asked('b', { source })))).toMatchObject({ reason: 'ModelSourceNotAllowed' })
  }
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

test('whatever three namespaces ask for, in any order, none is given bytes that its own logins do not open', async () => {
  const opens = { a: ['for a', 'of both', 'public'], b: ['of both', 'public'], c: ['public'] } as const
  await hub.addRepo('org/both', { 'm.gguf': gguf('of both') }, { private: true, grantedTo: [tokens.a, tokens.b] })
  const sha256Of = (label: string) => createHash('sha256').update(gguf(label)).digest('hex')
  const { url } = world.server.serve('/m.gguf', gguf('public'))
  const home = join(world.folder, 'home')
  const cached = join(home, '.cache/huggingface/hub/models--org--private/blobs')
  await mkdir(cached, { recursive: true })
  await writeFile(join(cached, sha256Of('for a')), gguf('for a'))
  const sources = [source, 'hf://org/both', 'hf://org/public', `${hub.endpoint}/org/private/resolve/main/m.gguf`, url]
  const asking = fc.record({
    namespace: fc.constantFrom('a', 'b', 'c'),
    hasSecret: fc.boolean(),
    name: fc.constantFrom('m', 'n'),
    source: fc.constantFrom(...sources, `${url}?query=1`),
    sha256: fc.constantFrom(undefined, sha256Of('for a'), sha256Of('of both')),
    isAnew: fc.boolean(),
  })
  let run = 0
  await fc.assert(
    fc.asyncProperty(fc.array(asking, { minLength: 6, maxLength: 12 }), async (all) => {
      const directory = join(world.folder, `store-${(run += 1)}`)
      let models = world.restarted({ directory, homeDir: home })
      const first = { namespace: 'a', name: 'm', source, hasSecret: true, isAnew: false } as const
      for (const { namespace, hasSecret, isAnew, ...more } of [first, ...all]) {
        if (isAnew) models = world.restarted({ directory, homeDir: home })
        const login = namespace === 'c' ? tokens.b.replace('b', 'c') : tokens[namespace]
        const secret = () => Promise.resolve({ namespace, name: 'hub', values: { HF_TOKEN: login } })
        const wanted = { ...more, namespace, ...(hasSecret && { secret }) }
        const given = await models.ensure(wanted, staying()).catch((error: unknown) => error)
        if (given instanceof ModelError) continue
        const content = await readFile((given as LocalModel).path)
        expect([namespace, opens[namespace].some((label) => content.equals(gguf(label)))]).toEqual([namespace, true])
        // Every path in the store that somebody else may find out is closed too.
        for (const stranger of ['b', 'c'] as const) {
          if (opens[stranger].some((label) => content.equals(gguf(label)))) continue
          expect(await models.allowsFile((given as LocalModel).path, stranger)).toBe(false)
        }
      }
    }),
    { numRuns: 5 },
  )
})
