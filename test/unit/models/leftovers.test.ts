import { mkdir, open, readdir, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { defaultDownloadSettings } from '../../../src/agent-core/models/models.ts'
import { selectionDigest } from '../../../src/agent-core/models/selection.ts'
import type { ModelUser } from '../../../src/agent-core/models/store/inventory.ts'
import { eventually } from '../../support/eventually.ts'
import { failure, gguf, request, startWorld, staying, type World } from './world.ts'

let world: World
let users: readonly ModelUser[] | undefined
beforeEach(async () => {
  users = []
  world = await startWorld({ users: () => users })
})
afterEach(async () => world[Symbol.asyncDispose]())

const GiB = 1024 ** 3
const own = (path: string): string => join(world.store, '.metalbar', path)
const key = (digit: string): string => `sha-${digit.repeat(64)}`
const partials = async (): Promise<string[]> =>
  (await readdir(own('partials'))).filter((name) => !/json(\.new)?$/.test(name))

/** A file of that length that takes no room on the disk. */
async function rest(path: string, sizeBytes: number, hoursOld: number, note: { path: string; content: object }) {
  await mkdir(dirname(own(path)), { recursive: true })
  await using file = await open(own(path), 'w')
  await file.truncate(sizeBytes)
  await writeFile(own(note.path), JSON.stringify(note.content))
  await age(path, hoursOld)
  await age(note.path, hoursOld)
}

const age = (path: string, hours: number): Promise<void> =>
  utimes(own(path), Date.now() / 1000 - hours * 3600, Date.now() / 1000 - hours * 3600)

const partial = (name: string, model: string, sizeBytes: number, hoursOld: number): Promise<void> =>
  rest(`partials/${name}`, sizeBytes, hoursOld, {
    path: `partials/${name}.json`,
    content: {
      ...{ version: 1, source: 'https://models.example/x.gguf', model, urlSha256: '0'.repeat(64) },
      ...{ wanted: {}, remote: {}, segments: [] },
    },
  })

const removed = 'partial downloads removed, since they took too much of the disk'

test('of leftovers that take more than 64 GiB the oldest go, and never one that is wanted or being fetched', async () => {
  const slow = world.server.serve('/slow.gguf', gguf('S', 50_000), { paced: true })
  const fetched = world.models.ensure(request(slow.url, 'slow'), staying())
  await eventually(() => slow.openResponses === 1)
  for (const name of await readdir(own('partials'))) await age(`partials/${name}`, 9)
  users = [{ service: 'default/chat', model: 'wanted', digest: '0'.repeat(64), isActive: true }]
  await partial(key('a'), 'wanted', 70 * GiB, 8)
  await partial(key('b'), 'nobodys', 40 * GiB, 7)
  await partial(key('c'), 'nobodys', 30 * GiB, 5)
  await partial(key('d'), 'nobodys', 30 * GiB, 4)
  world.models.start()
  await eventually(() => world.logged.includes(removed))
  const left = await partials()
  slow.allow(50_000)
  expect([left.sort(), (await fetched).sizeBytes]).toEqual([
    [key('a'), key('c'), key('d'), expect.stringMatching(/^url-[0-9a-f]{64}$/) as string],
    50_000,
  ])
})

test('a partial download that a service still wants is kept however old it is, and so are all while services are unknown', async () => {
  users = undefined
  await partial(key('a'), 'wanted', 4096, 9 * 24)
  await partial(key('b'), 'nobodys', 4096, 9 * 24)
  await writeFile(own(`partials/${key('b')}.json.new`), '{"sour')
  await age(`partials/${key('b')}.json.new`, 9 * 24)
  const life = world.restarted()
  life.start()
  await life.stop()
  await life.prune({ dryRun: false })
  const unknown = await partials()
  users = [{ service: 'default/chat', model: 'wanted', digest: '0'.repeat(64), isActive: true }]
  const next = world.restarted()
  next.start()
  await next.stop()
  expect([unknown, await readdir(own('partials')), await next.prune({ dryRun: true })]).toEqual([
    [key('a'), key('b')],
    [key('a'), `${key('a')}.json`],
    'There is nothing to prune: every model in the store is used by a service.',
  ])
})

test('a namespace has no more models and bytes than it may, which a person does not count among and may exceed', async () => {
  const settings = () => ({ ...defaultDownloadSettings, bytesPerNamespace: 6_000 })
  const models = world.restarted({ settings })
  const source = (name: string) => world.server.serve(`/${name}.gguf`, gguf(name)).url
  await models.ensure(request(source('p'), 'p', ''), staying())
  for (const name of ['a', 'b']) await models.ensure(request(source(name), name, 'team'), staying())
  expect(await failure(models.ensure(request(source('c'), 'c', 'team'), staying()))).toMatchObject({
    reason: 'NamespaceFull',
    message: expect.stringMatching(
      /^Namespace team has 2 models of 8\.2 kB .* raise --namespace-model-limit\.$/,
    ) as string,
  })
  await models.ensure(request(source('c'), 'c', 'others'), staying())
  await models.ensure(request(source('d'), 'd', ''), staying())
})

test('what a deleted Model left goes when no service has used it for a month, and what a person pulled stays', async () => {
  let now = Date.parse('2026-01-01T00:00:00Z')
  const sources = ['used', 'left', 'pulled'].map((name) => world.server.serve(`/${name}.gguf`, gguf(name)).url)
  const models = world.restarted({ now: () => now })
  for (const [at, namespace] of ['a', 'a', ''].entries())
    await models.ensure(request(sources[at] ?? '', `m${at}`, namespace), staying())
  const digest = selectionDigest({ source: sources[0] ?? '' })
  users = [{ service: 'a/chat', model: 'm0', digest, isActive: false }]
  const sweptAfter = async (days: number) => {
    now += days * 24 * 3_600_000
    const life = world.restarted({ now: () => now })
    life.start()
    await life.stop()
    return (await life.view()).models.map(({ name }) => name)
  }
  const kept = await sweptAfter(29)
  const gone = await sweptAfter(2)
  users = []
  // It was in use until now.
  expect([kept, gone, await sweptAfter(1)]).toEqual([
    ['m0', 'm1', 'm2'],
    ['m0', 'm2'],
    ['m0', 'm2'],
  ])
})
