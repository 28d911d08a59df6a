import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { mkdir, readdir, readFile, rename, rm, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ModelError } from '../../../src/agent-core/models/errors.ts'
import { modelFileName, sourceDigest } from '../../../src/agent-core/models/source.ts'
import { Store, type StoredModel } from '../../../src/agent-core/models/store/store.ts'
import { sameBytes, type WithRoom } from '../../../src/agent-core/models/store/files.ts'
import { silentLog } from '../../support/silent-log.ts'
import { failure, filesBelow, gguf, place, request, startWorld, staying, type World } from './world.ts'
import { eventually } from '../../support/eventually.ts'

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

/** The path within the store that a source ends up at. */
async function placed(
  source: string,
  { models = world.models, name = 'tiny', namespace = 'default' } = {},
): Promise<string> {
  const { path } = await models.ensure(request(source, name, namespace), staying())
  return place(relative(world.store, path))
}

async function put(path: string, content: Buffer | string): Promise<void> {
  await mkdir(dirname(join(world.store, path)), { recursive: true })
  await writeFile(join(world.store, path), content)
}

const digestOf = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

const anyRoom: WithRoom = (_, work) => work()

test('what was fetched is used without a request, also after a restart', async () => {
  const { url, requests } = world.server.serve('/x.gguf', gguf('A'))
  const places = [await placed(url), await placed(url), await placed(url, { models: world.restarted() })]
  expect([places, requests.length]).toEqual([['@/tiny/x.gguf', '@/tiny/x.gguf', '@/tiny/x.gguf'], 1])
})

const wanted = { namespace: 'a', model: 'tiny', source: 'hf://a/b', digest: sourceDigest('hf://a/b'), owners: [] }

/** Puts a model of two files into the store, each with its label; `same` = the file that this model of the store has there. */
async function arrive(into: Store, labels: readonly [string, string], owner = '', same?: StoredModel) {
  const files = ['1.gguf', '2.gguf'].map((path, at) => {
    const label = labels[at] ?? ''
    const from = label === 'same' ? join(same?.folder ?? '', path) : join(world.folder, `${label}.gguf`)
    return { path, label, from, sizeBytes: 4096, sha256: digestOf(Buffer.from(label)) }
  })
  for (const { label, from } of files) if (label !== 'same') await writeFile(from, gguf(label))
  return into.add(wanted, {
    ...{ owner, primary: '1.gguf', mmproj: undefined },
    files: files.map(({ from, ...file }) => ({ ...file, moveTo: (to: string) => sameBytes(from, to, anyRoom) })),
  })
}

test('what was removed and came anew is not removed by who still means the old one', async () => {
  let time = Date.parse('2026-01-02T03:04:05Z')
  const store = new Store({ directory: world.store, log: silentLog, now: () => (time += 1000) })
  const old = await arrive(store, ['A', 'A'])
  await store.remove(old)
  await arrive(store, ['B', 'B'])
  await store.remove(old)
  expect(await filesBelow(world.store)).toEqual({ '@/tiny/1.gguf': 'BBBBBBBB', '@/tiny/2.gguf': 'BBBBBBBB' })
})

test('a content in the folder of an owner is open by its path to that owner and a person, and goes with its folder', async () => {
  const store = new Store({ directory: world.store, log: silentLog })
  const isOpen = (path: string, namespace: string) => store.isOpen(path, namespace)
  const ofModel = await arrive(store, ['A', 'B'], 'team+tiny')
  const { path } = await arrive(store, ['A', 'B'], 'team')
  const open = (to: string) => Promise.all([path, ofModel.path].map((one) => isOpen(one, to)))
  expect([await open('team'), await open('tea'), await open('team-b'), await open('')]).toEqual([
    [true, true],
    [false, false],
    [false, false],
    [true, true],
  ])
  for (const one of await store.list()) await store.remove(one)
  expect(await readdir(world.store)).toEqual([])
})

test('a model is removed with all that lies in its folder, and what a kill left of one that was being put there at the next start', async () => {
  const models = world.restarted({ users: () => [] })
  const { path } = await models.ensure(request(world.server.serve('/x.gguf', gguf('A')).url), staying())
  await writeFile(join(dirname(path), 'model.metalbar.json.1234567'), '{"sche')
  await put('@/tiny/0123456789abcdef.new/x.gguf', gguf('A'))
  const { models: listed } = await world.restarted({ users: () => [] }).view()
  await models.remove('tiny')
  expect([listed.length, await readdir(world.store)]).toEqual([1, ['.metalbar']])
})

test('a content that shares a file with an older one is put beside it, and stays when that is removed', async () => {
  const store = new Store({ directory: world.store, log: silentLog })
  const old = await arrive(store, ['A', 'B'])
  await arrive(store, ['C', 'same'], '', old)
  await store.remove(old)
  expect(await filesBelow(world.store)).toEqual({ '@/tiny/1.gguf': 'CCCCCCCC', '@/tiny/2.gguf': 'BBBBBBBB' })
})

describe('different sources never share a file', () => {
  test('two namespaces with the same Model name, one after the other, and each keeps its own', async () => {
    const a = world.server.serve('/a/x.gguf', gguf('A')).url
    const b = world.server.serve('/b/x.gguf', gguf('B')).url
    const first = [await placed(a, { namespace: 'one' }), await placed(b, { namespace: 'two' })]
    const models = world.restarted()
    const again = [await placed(a, { models }), await placed(b, { models })]
    const files = Object.values(await filesBelow(world.store)).sort()
    expect({ first, again, files, requests: world.server.requests.length }).toEqual({
      first: ['@/tiny/x.gguf', '@/tiny/x.gguf'],
      again: first,
      files: ['AAAAAAAA', 'BBBBBBBB'],
      requests: 2,
    })
  })

  test('two at the same time, and the second keeps its place when the first fails', async () => {
    const first = world.server.serve('/a/x.gguf', gguf('A'), { fault: { kind: 'drop', afterBytes: 10 }, paced: true })
    const b = world.server.serve('/b/x.gguf', gguf('B')).url
    const failing = failure(world.models.ensure(request(first.url), staying()))
    await eventually(() => first.openResponses === 1)
    const second = await placed(b)
    first.allow(1_000_000)
    const failed = await failing
    const after = await placed(b)
    expect([failed.reason, second, after, await filesBelow(world.store)]).toEqual([
      'Truncated',
      '@/tiny/x.gguf',
      second,
      { [second]: 'BBBBBBBB' },
    ])
  })

  test('an edited source', async () => {
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    expect([await placed(`${url}?v=1`), await placed(`${url}?v=2`), await placed(url)]).toEqual([
      '@default/tiny/x.gguf',
      '@default/tiny/x.gguf',
      '@/tiny/x.gguf',
    ])
  })
})

test('one source in two namespaces is one file', async () => {
  const { url, requests } = world.server.serve('/x.gguf', gguf('A'))
  const places = [await placed(url, { namespace: 'one' }), await placed(url, { namespace: 'two' })]
  expect([places, requests.length]).toEqual([['@/tiny/x.gguf', '@/tiny/x.gguf'], 1])
})

describe('a store filled by the Go agent', () => {
  test('is used as it is, whatever the scheme, without a request', async () => {
    await put('tiny/x.gguf', gguf('A'))
    await put('quantized/x.gguf?download=true', gguf('A'))
    await put('hub/repo', 'weights')
    expect([
      await placed('https://nowhere.invalid/x.gguf'),
      await placed('https://nowhere.invalid/x.gguf?download=true', { name: 'quantized' }),
      await placed('hf://org/repo', { name: 'hub' }),
    ]).toEqual(['tiny/x.gguf', 'quantized/x.gguf?download=true', 'hub/repo'])
  })

  test('gives each file to the first source that asks, for good, and has nothing written beside it', async () => {
    await put('tiny/x.gguf', gguf('G'))
    const other = world.server.serve('/x.gguf', gguf('B')).url
    const first = 'https://nowhere.invalid/x.gguf'
    const places = [await placed(first), await placed(other, { models: world.restarted() })]
    expect([places, await filesBelow(world.store)]).toEqual([
      ['tiny/x.gguf', '@/tiny/x.gguf'],
      { '@/tiny/x.gguf': 'BBBBBBBB', 'tiny/x.gguf': 'GGGGGGGG' },
    ])
    expect(await readdir(join(world.store, 'tiny'))).toEqual(['x.gguf'])
  })

  test('does not give a file to a source that the Go agent would keep under another name', async () => {
    await put('tiny/x.gguf', gguf('G'))
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    expect([await placed(`${url}?v=2`), await filesBelow(world.store)]).toEqual([
      '@default/tiny/x.gguf',
      { 'tiny/x.gguf': 'GGGGGGGG', '@default/tiny/x.gguf': 'AAAAAAAA' },
    ])
  })

  test('has empty files and web pages left where they are', async () => {
    await put('empty/x.gguf', '')
    await put('page/x.gguf', '<!doctype html>')
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    expect([await placed(url, { name: 'empty' }), await placed(url, { name: 'page' })]).toEqual([
      '@/empty/x.gguf',
      '@/empty/x.gguf',
    ])
  })

  test('keeps a file that its owner replaced', async () => {
    await put('tiny/x.gguf', gguf('G'))
    await placed('https://nowhere.invalid/x.gguf')
    await put('tiny/x.gguf', gguf('H', 8192))
    expect(await world.models.ensure(request('https://nowhere.invalid/x.gguf'), staying())).toMatchObject({
      sizeBytes: 8192,
    })
  })

  describe('reads a file whole again that its owner replaced after it was hashed', () => {
    const source = 'https://nowhere.invalid/x.gguf'
    const stating = (content: Buffer, name?: string) => ({ ...request(source, name), sha256: digestOf(content) })
    const [before, after] = [gguf('G'), gguf('H')]
    const file = () => join(world.store, 'tiny/x.gguf')
    const ways: Record<string, () => Promise<void>> = {
      'by writing to it': async () => {
        await put('tiny/x.gguf', after)
        await utimes(file(), 1_000_000_000, 1_000_000_000)
      },
      'by another of the same length and time': async () => {
        const { atime, mtime } = await stat(file())
        await put('tiny/new', after)
        await utimes(join(world.store, 'tiny/new'), atime, mtime)
        await rename(join(world.store, 'tiny/new'), file())
      },
    }

    test.each(Object.entries(ways))('%s', async (_, replace) => {
      await put('tiny/x.gguf', before)
      await utimes(file(), 900_000_000, 900_000_000)
      const first = await world.models.ensure(stating(before), staying())
      await replace()
      const models = world.restarted()
      expect(await failure(models.ensure(stating(before, 'other'), staying()))).toMatchObject({ reason: 'Unreachable' })
      const second = await models.ensure(stating(after), staying())
      expect([second.path, await filesBelow(world.store)]).toEqual([first.path, { 'tiny/x.gguf': 'HHHHHHHH' }])
      expect(second.revision).not.toBe(first.revision)
      expect(await world.restarted().ensure(stating(after), staying())).toEqual(second)
    })
  })

  test('has a file hashed once, also where Models of two names use it', async () => {
    const content = gguf('G')
    const { url } = world.server.serve('/x.gguf', content)
    const stated = { ...request(url), sha256: digestOf(content) }
    await put('tiny/x.gguf', content)
    const first = await world.models.ensure(stated, staying())
    const [name = ''] = await readdir(join(world.store, '.metalbar/found'))
    const record = () => readFile(join(world.store, '.metalbar/found', name), 'utf8')
    const before = await record()
    const other = await world.models.ensure({ ...stated, name: 'other' }, staying())
    const last = await world.restarted().ensure(stated, staying())
    expect([last, other]).toEqual([first, first])
    expect([await record(), before.includes(stated.sha256)]).toEqual([before, true])
  })
})

describe('what cannot be trusted is fetched again', () => {
  test('a file shorter than its record says', async () => {
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    await truncate((await world.models.ensure(request(url), staying())).path, 100)
    const { sizeBytes } = await world.models.ensure(request(url), staying())
    expect([sizeBytes, world.logged.includes('model file has not the recorded size, fetching it again')]).toEqual([
      4096,
      true,
    ])
  })

  test('a record without its file, as a crash at the end of a download leaves it', async () => {
    const { url, requests } = world.server.serve('/x.gguf', gguf('A'))
    await rm((await world.models.ensure(request(url), staying())).path)
    expect([await placed(url), requests.length]).toEqual(['@/tiny/x.gguf', 2])
  })

  test.each([
    ['not JSON', '{"source":'],
    ['of another version', '{"schema":2}'],
    ['far too long', ' '.repeat(5_000_000)],
  ])('a folder whose record is %s: it is left where it is, and said in the log', async (_, record) => {
    const { url, requests } = world.server.serve('/x.gguf', gguf('A'))
    const { path } = await world.models.ensure(request(url), staying())
    await writeFile(join(dirname(path), 'model.metalbar.json'), record)
    const again = await world.restarted().ensure(request(url), staying())
    expect([again.path === path, await readFile(path), requests.length]).toEqual([false, gguf('A'), 2])
    expect(world.logged).toContain('folder of a model has no record that can be read')
  })
})

describe('nothing leaves the store', () => {
  test('a folder of a model that is a link to elsewhere is refused', async () => {
    await mkdir(world.store)
    await mkdir(join(world.folder, 'elsewhere'))
    await writeFile(join(world.folder, 'elsewhere/x.gguf'), gguf('E'))
    await symlink(join(world.folder, 'elsewhere'), join(world.store, 'tiny'))
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    const failed = await failure(world.models.ensure(request(url), staying()))
    expect([failed.reason, await filesBelow(join(world.folder, 'elsewhere'))]).toEqual([
      'StoreEscape',
      { 'x.gguf': 'EEEEEEEE' },
    ])
  })

  test('a link to a file elsewhere is not used', async () => {
    const elsewhere = join(world.folder, 'elsewhere')
    await mkdir(join(world.store, 'tiny'), { recursive: true })
    await writeFile(elsewhere, gguf('E'))
    await symlink(elsewhere, join(world.store, 'tiny/x.gguf'))
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    expect([await placed(url), await readFile(elsewhere)]).toEqual(['@/tiny/x.gguf', gguf('E')])
  })

  test('a record that is a link is not believed, even if it says the right thing', async () => {
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    const { path } = await world.models.ensure(request(url), staying())
    const [record, elsewhere] = [join(dirname(path), 'model.metalbar.json'), join(world.folder, 'record.json')]
    await rename(record, elsewhere)
    await symlink(elsewhere, record)
    expect((await world.restarted().ensure(request(url), staying())).path).not.toBe(path)
  })

  test('a link to a file inside the store is used', async () => {
    await put('shared/weights.gguf', gguf('S'))
    await mkdir(join(world.store, 'tiny'))
    await symlink('../shared/weights.gguf', join(world.store, 'tiny/x.gguf'))
    expect(await placed('https://nowhere.invalid/x.gguf')).toBe('tiny/x.gguf')
  })

  test('a store that is itself a link, to a bigger volume say, works', async () => {
    await mkdir(join(world.folder, 'volume'))
    await symlink(join(world.folder, 'volume'), world.store)
    const { url } = world.server.serve('/x.gguf', gguf('A'))
    await placed(url)
    expect(await filesBelow(join(world.folder, 'volume'))).toEqual({ '@/tiny/x.gguf': 'AAAAAAAA' })
  })

  test('whatever Model and source are called', async () => {
    const store = new Store({ directory: world.store, log: silentLog })
    const element = fc.oneof(
      fc.constantFrom(
        '..',
        '.',
        '',
        '~',
        'x.gguf',
        'x.gguf.partial',
        'X.GGUF.metalbar.json',
        '%2e%2e',
        '..%2f',
        'a\\b',
        '\0',
        '\ud800',
        'n'.repeat(300),
      ),
      fc.string({ unit: 'binary', maxLength: 300 }),
    )
    const path = fc.array(element, { maxLength: 4 }).map((elements) => elements.join('/'))
    const scheme = fc.constantFrom('https://host/', 'https://', 'hf://', 'file://', '', '/')
    const model = fc.oneof(fc.constant('tiny'), fc.constantFrom('a.b', '..', 'a/../..', '.a', 'A', 'a\n', ''), path)
    const takenBy = new Map<string, string>()
    await fc.assert(
      fc.asyncProperty(model, scheme, path, async (name, prefix, rest) => {
        const source = prefix + rest
        const file = modelFileName(source)
        const from = join(world.folder, 'from')
        await writeFile(from, gguf('A'))
        const asked = { namespace: 'default', model: name, source, digest: sourceDigest(source), owners: [] }
        const moveTo = (to: string) => rename(from, to)
        const sha256 = digestOf(Buffer.from(`${name} ${source}`))
        const stored = await store
          .add(asked, {
            ...{ owner: '', primary: file, mmproj: undefined },
            files: [{ path: file, sizeBytes: 4096, sha256, moveTo }],
          })
          .catch((error: unknown) => error)
        if (stored instanceof ModelError) return stored.reason === 'BadModelName'
        if (stored instanceof Error) throw stored
        const { path } = stored as StoredModel
        expect(place(relative(world.store, path))).toBe(`@/${name}/${file}`)
        const key = path.normalize('NFC').toLowerCase()
        const digest = sourceDigest(source)
        expect(takenBy.get(key) ?? digest).toBe(digest)
        takenBy.set(key, digest)
        return true
      }),
      { numRuns: 120 },
    )
  })
})
