import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ModelUser } from '../../../src/agent-core/models/inventory.ts'
import { wantedDigest } from '../../../src/agent-core/models/wanted.ts'
import { eventually } from '../../support/eventually.ts'
import { startFakeHub, type FakeHub } from '../../support/fake-hub.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from './world.ts'

let world: World
let hub: FakeHub
let users: readonly ModelUser[] | undefined
beforeEach(async () => {
  hub = await startFakeHub()
  users = []
  world = await startWorld({ env: { HF_ENDPOINT: hub.endpoint }, homeDir: '/nowhere', users: () => users })
})
afterEach(async () => {
  await world[Symbol.asyncDispose]()
  await hub[Symbol.asyncDispose]()
})

const inode = async (path: string): Promise<number> => (await stat(join(world.store, path))).ino
const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

test('two Models of one source, at the same time, are one download and one content on the disk', async () => {
  const file = world.server.serve('/x.gguf', gguf('A', 50_000), { paced: true })
  const both = ['one', 'two'].map((name) => world.models.ensure(request(file.url, name), staying()))
  await eventually(() => world.models.state().fetches.length === 2 && file.openResponses === 1)
  file.allow(1_000_000)
  await Promise.all(both)
  expect([file.requests.length, await inode('one/x.gguf')]).toEqual([1, await inode('two/x.gguf')])
})

test('the same content under two addresses is fetched once where its checksum is known', async () => {
  const content = gguf('A', 50_000)
  await hub.addRepo('a/one', { 'x.gguf': content })
  await hub.addRepo('b/two', { 'y.gguf': content })
  await world.models.ensure(request('hf://a/one', 'one'), staying())
  await world.models.ensure(request('hf://b/two', 'two'), staying())
  const downloads = hub.requests.filter(({ server }) => server === 'cdn').length
  expect([downloads, await inode('one/x.gguf')]).toEqual([1, await inode('two/y.gguf')])
})

test('all files of a split model and its projector arrive, and are found again without a request', async () => {
  await hub.addRepo('org/split', {
    'm-Q8_0-00001-of-00002.gguf': gguf('A'),
    'm-Q8_0-00002-of-00002.gguf': gguf('B'),
    'mmproj-m.gguf': gguf('P'),
  })
  const wanted = { ...request('hf://org/split'), mmproj: 'mmproj-m.gguf' }
  const model = await world.models.ensure(wanted, staying())
  const asked = hub.requests.length
  const again = await world.restarted().ensure(wanted, staying())
  expect([again, await filesBelow(world.store), hub.requests.length - asked, model]).toEqual([
    model,
    {
      'tiny/m-Q8_0-00001-of-00002.gguf': 'AAAAAAAA',
      'tiny/m-Q8_0-00002-of-00002.gguf': 'BBBBBBBB',
      'tiny/mmproj-m.gguf': 'PPPPPPPP',
    },
    0,
    {
      path: join(world.store, 'tiny/m-Q8_0-00001-of-00002.gguf'),
      mmproj: join(world.store, 'tiny/mmproj-m.gguf'),
      sizeBytes: 3 * 4096,
      revision: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    },
  ])
})

test('no more than two models are downloaded at a time, and the others say what they wait for', async () => {
  const said: (string | undefined)[][] = []
  const begin = (name: string, at: number) => {
    const file = world.server.serve(`/${name}.gguf`, gguf(name), { paced: true })
    said[at] = []
    const onProgress = ({ message }: { message?: string | undefined }) => void said[at]?.push(message)
    return { file, model: world.models.ensure(request(file.url, name), { ...staying(), onProgress }) }
  }
  const running = []
  for (const [at, name] of ['a', 'b'].entries()) {
    const begun = begin(name, at)
    await eventually(() => begun.file.openResponses === 1)
    running.push(begun)
  }
  const third = begin('c', 2)
  await eventually(() => said[2]?.includes('Waiting for 2 other downloads.') === true)
  const fourth = begin('d', 3)
  await eventually(() => said[3]?.includes('Waiting for 3 other downloads.') === true)
  running[0]?.file.allow(1_000_000)
  await eventually(() => third.file.openResponses === 1 && said[3]?.includes('Waiting for 2 other downloads.') === true)
  const asked = fourth.file.requests.length
  for (const { file } of [...running, third, fourth]) file.allow(1_000_000)
  const models = await Promise.all([...running, third, fourth].map(({ model }) => model))
  expect([asked, models.length, fourth.file.requests.length]).toEqual([0, 4, 1])
})

test('a file in the store that is not what spec.sha256 says is quarantined, kept, and fetched anew', async () => {
  const right = gguf('R')
  const { url } = world.server.serve('/x.gguf', right)
  await mkdir(join(world.store, 'tiny'), { recursive: true })
  await writeFile(join(world.store, 'tiny/x.gguf'), gguf('W'))
  const model = await world.models.ensure({ ...request(url), sha256: sha256(right).toUpperCase() }, staying())
  const { models } = await world.models.view()
  const bad = models.find(({ state }) => state === 'quarantined')
  expect([
    (await readFile(model.path)).equals(right),
    (await readFile(bad?.path ?? '')).equals(gguf('W')),
    world.logged.includes('model file quarantined'),
  ]).toEqual([true, true, true])
})

test('a download that is not what spec.sha256 says is never served, and kept in quarantine', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('W'))
  const wanted = { ...request(url), sha256: sha256(gguf('R')) }
  const failed = await failure(world.models.ensure(wanted, staying()))
  const { models } = await world.models.view()
  const [bad] = models
  expect([failed.reason, models.length, bad?.state, (await readFile(bad?.path ?? '')).equals(gguf('W'))]).toEqual([
    'ChecksumMismatch',
    1,
    'quarantined',
    true,
  ])
})

test('a Model whose format contradicts its file is refused for good, with both named', async () => {
  const path = join(world.folder, 'x.gguf')
  await writeFile(path, gguf('A'))
  const wrong = await failure(world.models.ensure({ ...request(path), format: 'pytorch' }, staying()))
  expect([wrong]).toEqual([
    expect.objectContaining({ kind: 'terminal', message: expect.stringMatching(/pytorch/) as string }),
  ])
})

test('a format that contradicts the first bytes is refused before the rest is asked for, whatever the name and the token', async () => {
  const weights = Buffer.alloc(3_000_000)
  weights.writeBigUInt64LE(22n)
  weights.write('{"a":{"dtype":"F32"}}', 8)
  await hub.addRepo('org/m', { 'model.safetensors': weights }, { private: true, grantedTo: ['hf_good'] })
  const gated = { secret: () => Promise.resolve({ value: 'hf_good', from: 'the test' }) }
  const plain = world.server.serve('/x.gguf', gguf('A', 3_000_000))
  hub.cdn.throttle = 100_000
  const models = world.restarted({ allowInsecureLoopback: true })
  const failures = [
    await failure(models.ensure({ ...request(plain.url), format: 'pytorch' }, staying())),
    await failure(models.ensure({ ...request('hf://org/m/model.safetensors'), ...gated }, staying())),
  ]
  expect(failures).toEqual([
    {
      kind: 'terminal',
      reason: 'UnsupportedSource',
      message: expect.stringMatching(
        /a model of spec\.format pytorch has several files: name them in spec\.files/,
      ) as string,
    },
    {
      kind: 'terminal',
      reason: 'FormatMismatch',
      message: expect.stringMatching(/^spec\.format says gguf, but the file is a safetensors file: /) as string,
    },
  ])
  const asked = hub.requests.filter(({ server }) => server === 'cdn').map(({ headers }) => headers.range)
  expect([asked, plain.requests, await filesBelow(world.store)]).toEqual([['bytes=0-511'], [], {}])
})

test('another quantization of a repository is another content, also by the address of its page', async () => {
  await hub.addRepo('org/m', { 'm-Q4_K_M.gguf': gguf('A'), 'm-Q8_0.gguf': gguf('B') })
  for (const source of ['hf://org/m', `${hub.endpoint}/org/m`, `${hub.endpoint}/org/m/tree/main`]) {
    const name = `m${wantedDigest({ source }).slice(0, 8)}`
    const of = async (quantization: string) =>
      (await world.models.ensure({ ...request(source, name), quantization }, staying())).path.split('/').at(-1)
    expect([await of('Q4_K_M'), await of('Q8_0'), await of('Q4_K_M')]).toEqual([
      'm-Q4_K_M.gguf',
      'm-Q8_0.gguf',
      'm-Q4_K_M.gguf',
    ])
  }
  const file = 'https://huggingface.co/org/m/resolve/main/m-Q8_0.gguf'
  expect(wantedDigest({ source: file, quantization: 'Q8_0' })).toBe(wantedDigest({ source: file }))
})

test('a changed source is fetched beside what serves, and the older content goes once the new one is used', async () => {
  const repo = await hub.addRepo('org/m', { 'x.gguf': gguf('A') })
  const wanted = request('hf://org/m')
  const old = await world.models.ensure(wanted, staying())
  const same = await world.models.refresh(wanted, old, staying())
  await repo.commit({ 'x.gguf': gguf('B') })
  const fresh = await world.models.refresh(wanted, old, staying())
  const both = await filesBelow(world.store)
  await world.models.markUsed(wanted, fresh ?? old)
  expect([
    same,
    Object.values(both),
    await filesBelow(world.store),
    await world.models.ensure(wanted, staying()),
  ]).toEqual([
    undefined,
    expect.arrayContaining(['AAAAAAAA', 'BBBBBBBB']),
    { [(fresh?.path ?? '').slice(world.store.length + 1)]: 'BBBBBBBB' },
    fresh,
  ])
})

test('of a plain server a changed ETag or length is a changed content', async () => {
  const wanted = request(world.server.serve('/x.gguf', gguf('A')).url)
  const old = await world.models.ensure(wanted, staying())
  const same = await world.models.refresh(wanted, old, staying())
  world.server.serve('/x.gguf', gguf('B', 8192))
  expect([same, await world.models.refresh(wanted, old, staying())]).toMatchObject([undefined, { sizeBytes: 8192 }])
})

test('what is here under one name is not asked for again under another', async () => {
  const { url, requests } = world.server.serve('/x.gguf', gguf('A'))
  await world.models.ensure(request(url, 'a'), staying())
  await world.models.ensure(request(url, 'b'), staying())
  expect([requests.length, await inode('a/x.gguf')]).toEqual([1, await inode('b/x.gguf')])
})

test('a dry run deletes nothing, and what a service uses is not removed', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('A'))
  await world.models.ensure(request(url, 'a'), staying())
  const before = await filesBelow(world.store)
  const dry = await world.models.prune({ dryRun: true })
  users = [{ service: 'default/chat', model: 'a', digest: wantedDigest({ source: url }), isActive: true }]
  const removed = await world.models.remove('a')
  expect([dry, removed, await filesBelow(world.store)]).toEqual([
    expect.stringMatching(/^1 entry, which would free 4\.1 kB: a: /) as string,
    { removed: false, message: 'The model a is used by default/chat: delete or stop that service first.' },
    before,
  ])
})

test('while nobody knows which services there are, a complete model is not removed', async () => {
  await world.models.ensure(request(world.server.serve('/x.gguf', gguf('A')).url, 'a'), staying())
  users = undefined
  const unknown = await world.models.remove('a')
  const kept = await filesBelow(world.store)
  users = []
  expect([unknown, kept, await world.models.remove('a'), await filesBelow(world.store)]).toEqual([
    {
      removed: false,
      message: 'Which services use the model a is not known until the cluster has answered: try again then.',
    },
    { 'a/x.gguf': 'AAAAAAAA' },
    { removed: true, bytes: 4096 },
    {},
  ])
})

test('what no service uses is pruned, what one may use again is not, and nothing while nobody knows', async () => {
  const [a, b] = ['a', 'b'].map((name) => world.server.serve(`/${name}.gguf`, gguf(name)).url)
  await world.models.ensure(request(a ?? '', 'one'), staying())
  await world.models.ensure(request(b ?? '', 'two'), staying())
  users = undefined
  const unknown = await world.models.prune({ dryRun: false })
  users = [{ service: 'default/stopped', model: 'two', digest: wantedDigest({ source: b ?? '' }), isActive: false }]
  const dry = await world.models.prune({ dryRun: true })
  await world.models.prune({ dryRun: false })
  expect([unknown, dry, await filesBelow(world.store)]).toEqual([
    'Nothing is pruned: which services there are is not known yet, so every model in the store may be used by one.',
    '1 entry, which would free 4.1 kB: one: no service uses it.',
    { 'two/b.gguf': 'bbbbbbbb' },
  ])
})

test('the rest of a download is kept for a week and swept at a start after that', async () => {
  await hub.addRepo('org/slow', { 'x.gguf': gguf('A', 5_000_000) })
  hub.cdn.throttle = 100_000
  const leaving = new AbortController()
  const left = world.models.ensure(request('hf://org/slow'), { signal: leaving.signal }).catch(() => undefined)
  await eventually(() => (world.models.state().fetches[0]?.progress?.doneBytes ?? 0) >= 20_000)
  leaving.abort()
  await left
  await world.models.stop()
  const partials = async () => (await world.restarted().view()).models.filter(({ state }) => state === 'partial')
  world.restarted().start()
  const [kept] = await partials()
  const old = Date.now() / 1000 - 8 * 24 * 3600
  const folder = join(world.store, '.metalbar/partials')
  for (const name of await readdir(folder)) await utimes(join(folder, name), old, old)
  world.restarted().start()
  await eventually(async () => (await partials()).length === 0)
  expect(kept?.sizeBytes).toBeGreaterThan(0)
  expect([kept?.sizeBytes, await readdir(folder)]).toEqual([expect.any(Number), []])
})

test('a store that may not be written is a sentence, and works again by itself', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('A'))
  await writeFile(world.store, 'a file is in the way')
  const failed = await failure(world.models.ensure(request(url), staying()))
  const { problem } = await world.models.view()
  await rm(world.store)
  const model = await world.models.ensure(request(url), staying())
  expect([failed.kind, problem ?? failed.message, model.sizeBytes, world.models.state().problem]).toEqual([
    'transient',
    expect.stringContaining(world.store) as string,
    4096,
    undefined,
  ])
})
