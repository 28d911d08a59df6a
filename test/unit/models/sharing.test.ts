import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Progress } from '../../../src/contract/service.ts'
import type { LocalModel } from '../../../src/agent-core/models/models.ts'
import type { LoadedFiles, ModelUser } from '../../../src/agent-core/models/store/inventory.ts'
import { selectionDigest } from '../../../src/agent-core/models/selection.ts'
import { eventually } from '../../support/eventually.ts'
import { startFakeHub, type FakeHub } from '../../support/fake-hub.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from './world.ts'

let world: World
let hub: FakeHub
let users: readonly ModelUser[] | undefined
let loaded: LoadedFiles[]
beforeEach(async () => {
  hub = await startFakeHub()
  users = []
  loaded = []
  world = await startWorld({
    env: { HF_ENDPOINT: hub.endpoint },
    homeDir: '/nowhere',
    users: () => users,
    filesInUse: () => loaded,
  })
})
afterEach(async () => {
  await world[Symbol.asyncDispose]()
  await hub[Symbol.asyncDispose]()
})

const userOf = (name: string, source: string): ModelUser => ({
  ...{ service: `default/${name}`, model: name, digest: selectionDigest({ source }), isActive: true },
  ...(source.startsWith('/') && { path: source }),
})
const inode = async (path = ''): Promise<number> => (await stat(path)).ino
const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

test('two Models of one source, at the same time, are one download and one content on the disk', async () => {
  const file = world.server.serve('/x.gguf', gguf('A', 50_000), { paced: true })
  const both = ['one', 'two'].map((name) => world.models.ensure(request(file.url, name), staying()))
  await eventually(() => world.models.state().fetches.length === 2 && file.openResponses === 1)
  file.allow(1_000_000)
  const [one, two] = await Promise.all(both)
  expect([file.requests.length, one, Object.values(await filesBelow(world.store))]).toEqual([1, two, ['AAAAAAAA']])
})

test('the same content under two addresses is fetched once where its checksum is known', async () => {
  const content = gguf('A', 50_000)
  await hub.addRepo('a/one', { 'x.gguf': content })
  await hub.addRepo('b/two', { 'y.gguf': content })
  const one = await world.models.ensure(request('hf://a/one', 'one'), staying())
  const two = await world.models.ensure(request('hf://b/two', 'two'), staying())
  const downloads = hub.requests.filter(({ server }) => server === 'cdn').length
  expect([downloads, await inode(one.path)]).toEqual([1, await inode(two.path)])
})

test('one model asked for by two names of what is wanted is kept whole, whether one waits or both come at once', async () => {
  const content = gguf('A', 50_000)
  const wanted = request('hf://a/one', 'one')
  const asked = [
    wanted,
    { ...wanted, format: 'gguf' },
    { ...wanted, sha256: sha256(content) },
    { ...wanted, format: 'gguf', sha256: sha256(content).toUpperCase() },
  ]
  await hub.addRepo('a/one', { 'x.gguf': content })
  for (const atOnce of [1, 4]) {
    hub.cdn.throttle = 200_000
    const before = hub.requests.filter(({ server }) => server === 'cdn').length
    const models = world.restarted({ downloadsAtOnce: atOnce })
    const all = Promise.all(asked.map((each) => models.ensure(each, staying())))
    await eventually(() => models.state().fetches.length === 2)
    const [first] = await all
    const downloads = hub.requests.filter(({ server }) => server === 'cdn').length - before
    expect([await all, downloads, (await readFile(first?.path ?? '')).equals(content)]).toEqual([
      asked.map(() => first),
      1,
      true,
    ])
    // The one that waited finds it.
    if (atOnce === 1) expect(world.logged.filter((message) => message === 'downloaded model')).toHaveLength(1)
    await rm(world.store, { recursive: true })
  }
})

test('all files of a split model and its projector arrive with one progress, and are found again without a request', async () => {
  await hub.addRepo('org/split', {
    'm-Q8_0-00001-of-00002.gguf': gguf('A'),
    'm-Q8_0-00002-of-00002.gguf': gguf('B'),
    'mmproj-m.gguf': gguf('P'),
  })
  const wanted = { ...request('hf://org/split'), mmproj: 'mmproj-m.gguf' }
  const reports: Progress[] = []
  const onProgress = (progress: Progress) => void reports.push(progress)
  const model = await world.models.ensure(wanted, { ...staying(), onProgress })
  const totals = new Set(reports.map(({ totalBytes }) => totalBytes))
  expect([Math.max(...reports.map(({ doneBytes }) => doneBytes)), [...totals]]).toEqual([3 * 4096, [3 * 4096]])
  const asked = hub.requests.length
  const again = await world.restarted().ensure(wanted, staying())
  expect([again, await filesBelow(world.store), hub.requests.length - asked, model]).toEqual([
    model,
    {
      '@/tiny/m-Q8_0-00001-of-00002.gguf': 'AAAAAAAA',
      '@/tiny/m-Q8_0-00002-of-00002.gguf': 'BBBBBBBB',
      '@/tiny/mmproj-m.gguf': 'PPPPPPPP',
    },
    0,
    {
      files: ['m-Q8_0-00001-of-00002.gguf', 'm-Q8_0-00002-of-00002.gguf', 'mmproj-m.gguf'].map((name) =>
        join(model.path, '..', name),
      ),
      path: expect.stringMatching(/\/m-Q8_0-00001-of-00002\.gguf$/) as string,
      mmproj: join(model.path, '../mmproj-m.gguf'),
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
  await eventually(() => said[2]?.includes('Waiting for other downloads.') === true)
  const fourth = begin('d', 3)
  await eventually(() => said[3]?.includes('Waiting for other downloads.') === true)
  running[0]?.file.allow(1_000_000)
  await eventually(() => third.file.openResponses === 1)
  const asked = fourth.file.requests.length
  for (const { file } of [...running, third, fourth]) file.allow(1_000_000)
  const models = await Promise.all([...running, third, fourth].map(({ model }) => model))
  expect([asked, models.length, fourth.file.requests.length]).toEqual([0, 4, 1])
})

test('a file that lay in the store and is not what spec.sha256 says stays for others, and the right one is fetched beside it', async () => {
  const right = gguf('R')
  const { url, requests } = world.server.serve('/x.gguf', right)
  await mkdir(join(world.store, 'tiny'), { recursive: true })
  await writeFile(join(world.store, 'tiny/x.gguf'), gguf('W'))
  const stated = { ...request(url), sha256: sha256(right).toUpperCase() }
  const model = await world.models.ensure(stated, staying())
  const again = await world.restarted().ensure(stated, staying())
  const other = await world.models.ensure(request(url, 'tiny', 'other'), staying())
  expect([await label(model), again, requests.length]).toEqual(['RR', model, 1])
  expect(Object.values(await filesBelow(world.store)).sort()).toEqual(['RRRRRRRR', 'WWWWWWWW'])
  expect(await label(other)).toBe('RR')
})

test('a spec.sha256 with a typo leaves the model that arrived before in its place', async () => {
  const { url, requests } = world.server.serve('/x.gguf', gguf('R'))
  const good = await world.models.ensure(request(url), staying())
  const failed = await failure(world.models.ensure({ ...request(url), sha256: sha256(gguf('W')) }, staying()))
  const asked = requests.length
  const again = await world.models.ensure({ ...request(url), sha256: sha256(gguf('R')) }, staying())
  expect([failed.reason, again, requests.length, await filesBelow(world.store)]).toEqual([
    'ChecksumMismatch',
    good,
    asked,
    { '@/tiny/x.gguf': 'RRRRRRRR' },
  ])
})

test('a new spec.sha256 replaces what arrived before once its content serves, and keeps what is the same', async () => {
  const [one, two] = ['m-Q8_0-00001-of-00002.gguf', 'm-Q8_0-00002-of-00002.gguf']
  const repo = await hub.addRepo('org/split', { [one]: gguf('A'), [two]: gguf('B') })
  const wanted = request('hf://org/split')
  const before = await world.models.ensure(wanted, staying())
  await repo.commit({ [one]: gguf('C'), [two]: gguf('B') })
  const kept = await inode(before.files[1])
  const next = { ...wanted, sha256: sha256(gguf('C')) }
  const { path, files } = await world.models.ensure(next, staying())
  await world.models.markUsed(next, { path, files, sizeBytes: 0, revision: '' })
  const { models } = await world.models.view()
  expect([
    Object.values(await filesBelow(world.store)),
    await inode(files[1]),
    models.map(({ state }) => state),
  ]).toEqual([['CCCCCCCC', 'BBBBBBBB'], kept, ['complete']])
})

test('what a server has loaded is not replaced by a new spec.sha256, is found again when that goes back, and goes once unused', async () => {
  const [one, two] = ['m-Q8_0-00001-of-00002.gguf', 'm-Q8_0-00002-of-00002.gguf']
  const repo = await hub.addRepo('org/split', { [one]: gguf('A'), [two]: gguf('B') })
  const wanted = request('hf://org/split')
  const [first, next] = ['A', 'C'].map((label) => ({ ...wanted, sha256: sha256(gguf(label)) }))
  if (!first || !next) throw new Error('No requests.')
  const serving = await world.models.ensure(first, staying())
  loaded = [{ service: 'default/tiny', files: [serving.path] }]
  await repo.commit({ [one]: gguf('C'), [two]: gguf('B') })
  const fresh = await world.models.ensure(next, staying())
  const asked = hub.requests.length
  const back = await world.models.ensure(first, staying())
  const forth = await world.models.ensure(next, staying())
  await world.models.markUsed(next, forth)
  const kept = await Promise.all([serving, fresh].map(({ path }) => readFile(path)))
  loaded = [{ service: 'default/tiny', files: [forth.path] }]
  await world.models.markUsed(next, forth)
  expect([back, forth, hub.requests.length - asked, kept.map((content) => content.equals(gguf('A')))]).toEqual([
    serving,
    fresh,
    0,
    [true, false],
  ])
  expect(Object.values(await filesBelow(world.store)).sort()).toEqual(['BBBBBBBB', 'CCCCCCCC'])
})

test('a stored model that was damaged since is found out, and fetched again', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('A'))
  const model = await world.models.ensure(request(url), staying())
  const before = await world.models.isIntact(model)
  await writeFile(model.path, gguf('B'))
  const found = [before, await world.models.isIntact(model), await world.models.ensure(request(url), staying())]
  expect([found, await readFile(model.path)]).toEqual([[true, false, model], gguf('A')])
})

test('a download that is not what spec.sha256 says is never served, nor kept', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('W'))
  const failed = await failure(world.models.ensure({ ...request(url), sha256: sha256(gguf('R')) }, staying()))
  expect([
    failed.reason,
    (await world.models.view()).models,
    await readdir(join(world.store, '.metalbar/partials')),
  ]).toEqual(['ChecksumMismatch', [], []])
})

test('a Model whose format contradicts its file is refused for good, with both named', async () => {
  const path = join(world.folder, 'x.gguf')
  await writeFile(path, gguf('A'))
  const wrong = await failure(world.models.ensure({ ...request(path), format: 'pytorch' }, staying()))
  expect([wrong]).toEqual([
    expect.objectContaining({ kind: 'terminal', message: expect.stringMatching(/pytorch/) as string }),
  ])
})

/** Weights of the format that is no GGUF. */
function safetensors(sizeBytes: number): Buffer {
  const weights = Buffer.alloc(sizeBytes)
  weights.writeBigUInt64LE(22n)
  weights.write('{"a":{"dtype":"F32"}}', 8)
  return weights
}

const isMismatch = expect.objectContaining({
  kind: 'terminal',
  reason: 'FormatMismatch',
  message: expect.stringMatching(/^spec\.format says gguf, but the file is a safetensors file: /) as string,
}) as unknown

test('a format that contradicts the first bytes of the download ends it there, whatever the name and the token', async () => {
  const weights = safetensors(3_000_000)
  await hub.addRepo('org/m', { 'model.safetensors': weights }, { private: true, grantedTo: ['hf_good'] })
  const gated = { secret: () => Promise.resolve({ namespace: 'a', name: 'hub', values: { HF_TOKEN: 'hf_good' } }) }
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
    isMismatch,
  ])
  const asked = hub.requests.filter(({ server }) => server === 'cdn').map(({ headers }) => headers.range)
  expect([asked, plain.requests, await filesBelow(world.store)]).toEqual([['bytes=0-67108863'], [], {}])
  expect(await readdir(join(world.store, '.metalbar/partials'))).toEqual([])
})

test('a checksum that a Model states gets nothing from the cache of the Hub that the Hub does not vouch for', async () => {
  const ofPerson = gguf('P')
  await hub.addRepo('org/m', { 'x.weights': gguf('H') })
  const blobs = join(world.folder, 'home/.cache/huggingface/hub/models--org--m/blobs')
  await mkdir(blobs, { recursive: true })
  await writeFile(join(blobs, sha256(ofPerson)), ofPerson)
  const models = world.restarted({ allowInsecureLoopback: true, homeDir: join(world.folder, 'home') })
  const wanted = { ...request('hf://org/m/x.weights'), format: 'custom', sha256: sha256(ofPerson) }
  expect(await failure(models.ensure(wanted, staying()))).toMatchObject({ reason: 'ChecksumMismatch' })
})

test('who wants another format of what is being downloaded waits for it and is refused, and the others get it', async () => {
  const file = world.server.serve('/x.bin', safetensors(200_000), { paced: true })
  const custom = world.models.ensure({ ...request(file.url, 'one'), format: 'custom' }, staying())
  await eventually(() => file.openResponses === 1)
  const early = failure(world.models.ensure(request(file.url, 'two'), staying()))
  file.allow(200_000)
  const failures = [await early, await failure(world.models.ensure(request(file.url, 'three'), staying()))]
  expect([failures, await custom, file.requests.length]).toMatchObject([
    [isMismatch, isMismatch],
    { sizeBytes: 200_000 },
    1,
  ])
})

test('the format of what has arrived earlier is checked before more of it is asked for, and of what is complete here', async () => {
  const weights = safetensors(200_000)
  const file = world.server.serve('/x.bin', weights, { paced: true })
  const wanted = { ...request(file.url), sha256: sha256(weights) }
  const leaving = new AbortController()
  let seen = 0
  const onProgress = ({ doneBytes }: { doneBytes: number }): void => void (seen = doneBytes)
  const options = { signal: leaving.signal, onProgress }
  const left = world.models.ensure({ ...wanted, format: 'custom' }, options).catch((error: unknown) => error)
  file.allow(100_000)
  await eventually(() => seen === 100_000)
  leaving.abort(new Error('left'))
  await left
  await eventually(() => world.models.state().fetches.length === 0)
  expect([await failure(world.models.ensure(wanted, staying())), file.requests.length]).toEqual([isMismatch, 1])
  await hub.addRepo('org/m', { 'x.bin': weights })
  const hubbed = request('hf://org/m/x.bin', 'complete')
  await world.models.ensure({ ...hubbed, format: 'custom' }, staying())
  expect([await failure(world.models.ensure({ ...hubbed, name: 'other' }, staying()))]).toEqual([isMismatch])
  expect(Object.keys(await filesBelow(world.store))).toEqual(['@/complete/x.bin'])
})

test('another quantization of a repository is another content, also by the address of its page', async () => {
  await hub.addRepo('org/m', { 'm-Q4_K_M.gguf': gguf('A'), 'm-Q8_0.gguf': gguf('B') })
  for (const source of ['hf://org/m', `${hub.endpoint}/org/m`, `${hub.endpoint}/org/m/tree/main`]) {
    const name = `m${selectionDigest({ source }).slice(0, 8)}`
    const of = async (quantization: string) =>
      (await world.models.ensure({ ...request(source, name), quantization }, staying())).path.split('/').at(-1)
    expect([await of('Q4_K_M'), await of('Q8_0'), await of('Q4_K_M')]).toEqual([
      'm-Q4_K_M.gguf',
      'm-Q8_0.gguf',
      'm-Q4_K_M.gguf',
    ])
  }
  const file = 'https://huggingface.co/org/m/resolve/main/m-Q8_0.gguf'
  expect(selectionDigest({ source: file, quantization: 'Q8_0' })).toBe(selectionDigest({ source: file }))
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
  ]).toEqual([undefined, expect.arrayContaining(['AAAAAAAA', 'BBBBBBBB']), { '@/tiny/x.gguf': 'BBBBBBBB' }, fresh])
})

/** Serves a content that tells itself from others by its ETag. */
const serve = (content: string) => world.server.serve('/x.gguf', gguf(content), { etag: () => `"${content}"` })
const gets = ({ requests }: { requests: readonly { method: string }[] }): number =>
  requests.filter(({ method }) => method === 'GET').length
const label = async ({ path }: { path: string }): Promise<string> => (await readFile(path, 'latin1')).slice(4, 6)

test('a clock that was ahead at the first download makes no later content the older one', async () => {
  let now = Date.parse('2027-06-01T00:00:00Z')
  const models = world.restarted({ now: () => now })
  const wanted = request(serve('v1').url)
  const old = await models.ensure(wanted, staying())
  now = Date.parse('2026-11-23T00:00:00Z')
  const changed = serve('v2')
  const fresh = await models.refresh(wanted, old, staying())
  const again = fresh && (await models.refresh(wanted, fresh, staying()))
  const next = await world.restarted({ now: () => now }).ensure(wanted, staying())
  await models.markUsed(wanted, fresh ?? old)
  expect([again, gets(changed), await label(next), await filesBelow(world.store)]).toEqual([
    undefined,
    1,
    'v2',
    { '@/tiny/x.gguf': 'v2v2v2v2' },
  ])
})

test('a source that goes back to a content that is still here is served with that, without a download', async () => {
  const wanted = request(serve('v1').url)
  const first = await world.models.ensure(wanted, staying())
  loaded = [{ service: 'default/chat', files: [first.path] }]
  serve('v2')
  const second = await world.models.refresh(wanted, first, staying())
  const restored = serve('v1')
  const third = await world.models.refresh(wanted, second ?? first, staying())
  const next = await world.restarted().ensure(wanted, staying())
  expect([third?.path, next.path, gets(restored)]).toEqual([first.path, first.path, 0])
})

test('of contents that never serve only the newest stays, and what runs stays as long as it runs', async () => {
  const wanted = request(serve('v1').url)
  const first = await world.models.ensure(wanted, staying())
  loaded = [{ service: 'default/chat', files: [first.path] }]
  let newest = first
  for (const content of ['v2', 'v3', 'v4', 'v5']) {
    serve(content)
    newest = (await world.models.refresh(wanted, newest, staying())) ?? newest
  }
  await world.models.refresh(wanted, newest, staying())
  const whileItRuns = Object.values(await filesBelow(world.store)).sort()
  loaded = [{ service: 'default/chat', files: undefined }]
  users = [{ service: 'default/chat', model: 'tiny', digest: selectionDigest(wanted), isActive: true }]
  await world.models.markUsed(wanted, newest)
  const whileUnknown = Object.values(await filesBelow(world.store)).length
  loaded = [{ service: 'default/chat', files: [newest.path] }]
  await world.models.markUsed(wanted, newest)
  expect([whileItRuns, whileUnknown, Object.values(await filesBelow(world.store))]).toEqual([
    ['v1v1v1v1', 'v5v5v5v5'],
    2,
    ['v5v5v5v5'],
  ])
})

test('of a plain server a changed ETag or length is a changed content', async () => {
  const wanted = request(world.server.serve('/x.gguf', gguf('A')).url)
  const old = await world.models.ensure(wanted, staying())
  const same = await world.models.refresh(wanted, old, staying())
  world.server.serve('/x.gguf', gguf('B', 8192))
  expect([same, await world.models.refresh(wanted, old, staying())]).toMatchObject([undefined, { sizeBytes: 8192 }])
})

test('a server that calls a file differently in answers without and with its content is believed after one download', async () => {
  const named = (of: string) => ({ etag: (method: string) => `"${of} ${method}"` })
  const file = world.server.serve('/x.gguf', gguf('A'), named('1'))
  const wanted = request(file.url)
  const old = await world.models.ensure(wanted, staying())
  const news = [
    await world.models.refresh(wanted, old, staying()),
    await world.models.refresh(wanted, old, staying()),
    await world.models.refresh(wanted, old, staying()),
  ]
  const downloads = file.requests.filter(({ method }) => method === 'GET').length
  world.server.serve('/x.gguf', gguf('B'), named('2'))
  const fresh = await world.models.refresh(wanted, old, staying())
  expect([news, downloads, fresh?.sizeBytes]).toEqual([[undefined, undefined, undefined], 2, 4096])
})

test('what is here under one name is not asked for again under another', async () => {
  const { url, requests } = world.server.serve('/x.gguf', gguf('A'))
  const both = [
    await world.models.ensure(request(url, 'a'), staying()),
    await world.models.ensure(request(url, 'b', 'another'), staying()),
  ]
  expect([requests.length, both[1], await filesBelow(world.store)]).toEqual([1, both[0], { '@/a/x.gguf': 'AAAAAAAA' }])
})

test.each<[what: string, use: (file: string, source: string) => void]>([
  ['a Model names its source', (_file, source) => (users = [userOf('a', source)])],
  ['a Model names a file by its second name', () => (users = [userOf('z', join(world.folder, 'b/x.gguf'))])],
  ['a server of a Model that is gone runs it', (path) => (loaded = [{ service: 'default/z', files: [path] }])],
])('what is in use, since %s, is neither pruned nor removed', async (_what, use) => {
  const { url } = world.server.serve('/x.gguf', gguf('A'))
  const { path } = await world.models.ensure(request(url, 'a'), staying())
  await symlink(dirname(path), join(world.folder, 'b'))
  use(path, url)
  const { models } = await world.models.view()
  const pruned = await world.models.prune({ dryRun: false })
  const { removed } = await world.models.remove('a')
  const [service] = [...(users ?? []), ...loaded].map((one) => one.service)
  expect([models.map(({ name, usedBy }) => [name, usedBy]), pruned, removed]).toEqual([
    [['a', [service]]],
    'There is nothing to prune: every model in the store is used by a service.',
    false,
  ])
  expect(await label({ path })).toBe('AA')
})

test('a dry run deletes nothing, and what a service uses is not removed', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('A'))
  await world.models.ensure(request(url, 'a'), staying())
  const before = await filesBelow(world.store)
  const dry = await world.models.prune({ dryRun: true })
  users = [{ service: 'default/chat', model: 'a', digest: selectionDigest({ source: url }), isActive: true }]
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
    { '@/a/x.gguf': 'AAAAAAAA' },
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
  users = [{ service: 'default/stopped', model: 'two', digest: selectionDigest({ source: b ?? '' }), isActive: false }]
  const dry = await world.models.prune({ dryRun: true })
  await world.models.prune({ dryRun: false })
  expect([unknown, dry, await filesBelow(world.store)]).toEqual([
    'Nothing is pruned: the agent does not know yet which services there are, so every model in the store may be used by one.',
    '1 entry, which would free 4.1 kB: one: no service uses it.',
    { '@/two/b.gguf': 'bbbbbbbb' },
  ])
})

test('a partial download is kept for a week and swept at a start after that', async () => {
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

test.each([
  { kept: 'a person pulled', isPulled: true },
  { kept: 'another agent left', isPulled: false },
])(
  'what $kept, or the Model of another namespace may want, stays when a newer content serves',
  async ({ isPulled }) => {
    const { url } = serve('v1')
    const ask = (namespace: string) => request(url, 'm', namespace)
    if (!isPulled) {
      await mkdir(join(world.store, 'm'), { recursive: true })
      await writeFile(join(world.store, 'm/x.gguf'), gguf('v1', 8192))
    }
    const first = await world.models.ensure(ask(''), staying())
    const refreshed = async (content: string): Promise<LocalModel> => {
      serve(content)
      const fresh = await world.models.refresh(ask('a'), first, staying())
      if (!fresh) throw new Error('nothing new')
      await world.models.markUsed(ask('a'), fresh)
      return fresh
    }
    await refreshed('v2')
    users = [{ service: 'b/chat', model: 'm', digest: selectionDigest({ source: url }), isActive: false }]
    await refreshed('v3')
    const whileWanted = Object.values(await filesBelow(world.store)).sort()
    users = []
    await refreshed('v4')
    expect([whileWanted, Object.values(await filesBelow(world.store)).sort()]).toEqual([
      ['v1v1v1v1', 'v2v2v2v2', 'v3v3v3v3'],
      ['v1v1v1v1', 'v4v4v4v4'],
    ])
    expect(await label(first)).toBe('v1')
  },
)

test("a person's pull is not replaced by a Model of its name that states another checksum", async () => {
  const { url } = world.server.serve('/x.gguf', gguf('v1'))
  const pulled = await world.models.ensure(request(url, 'm', ''), staying())
  const next = gguf('v2')
  world.server.serve('/x.gguf', next)
  const model = await world.models.ensure({ ...request(url, 'm', 'a'), sha256: sha256(next) }, staying())
  expect(model.path).not.toBe(pulled.path)
  expect(Object.values(await filesBelow(world.store))).toEqual(['v2v2v2v2', 'v1v1v1v1'])
})
