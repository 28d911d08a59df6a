import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { defaultDownloadSettings } from '../../../src/agent-core/models/models.ts'
import { startFakeHub } from '../../support/fake-hub.ts'
import { failure, gguf, request, staying, startWorld, type World } from './world.ts'

let world: World
beforeEach(async () => {
  world = await startWorld({ allowInsecureLoopback: true })
})
afterEach(() => world[Symbol.asyncDispose]())

const digestOf = (content: Buffer): string => `sha256:${createHash('sha256').update(content).digest('hex')}`
const kind = (name: string) => `application/vnd.ollama.image.${name}`

/** A tag of a registry, with its layers. Returns the source. */
function publish(layers: Readonly<Record<string, Buffer>>, name = 'tiny', fault?: Buffer): string {
  const described = Object.entries(layers).map(([layer, content]) => {
    const digest = digestOf(content)
    world.server.serve(`/v2/library/${name}/blobs/${digest}`, fault ?? content)
    return { mediaType: kind(layer), digest, size: content.length }
  })
  const manifest = { schemaVersion: 2, config: {}, layers: described }
  world.server.serve(`/v2/library/${name}/manifests/latest`, Buffer.from(JSON.stringify(manifest)))
  return `ollama://${new URL(world.server.origin).host}/library/${name}`
}

test('a tag of Ollama’s library is its GGUF file, its projector beside it, each of the content that the registry states', async () => {
  const [model, projector] = [gguf('model'), gguf('eye')]
  const template = Buffer.from('{{ .Prompt }}')
  const source = publish({ model, projector, template, license: Buffer.from('x') })
  const local = await world.models.ensure(request(source), staying())
  expect([await readFile(local.path), await readFile(local.mmproj ?? '')]).toEqual([model, projector])
  expect(local.path).toMatch(/tiny-latest\.gguf$/)
  expect(await readFile(join(local.path, '../template.ollama'))).toEqual(template)
  expect(local.files).toHaveLength(3)
  const asked = world.server.requests.length
  expect(await world.models.ensure(request(source), staying())).toEqual(local)
  expect(world.server.requests.length).toBe(asked)
})

test('where the registry gives the tag another content it is fetched beside the old one, and else nothing is', async () => {
  const source = publish({ model: gguf('old') })
  const old = await world.models.ensure(request(source), staying())
  expect(await world.models.refresh(request(source), old, staying())).toBeUndefined()
  publish({ model: gguf('new') })
  const next = await world.models.refresh(request(source), old, staying())
  expect(await readFile(next?.path ?? '')).toEqual(gguf('new'))
})

test('a registry that merely states a digest is given no file of it: not from what an Ollama of this person has, nor from the store', async () => {
  const secret = gguf('weights of another')
  const blobs = join(world.folder, '.ollama', 'models', 'blobs')
  await mkdir(blobs, { recursive: true })
  await writeFile(join(blobs, digestOf(secret).replace(':', '-')), secret)
  await using hub = await startFakeHub({ tokens: ['hf_one'] })
  await hub.addRepo('one/secret', { 'w.gguf': secret }, { private: true, grantedTo: ['hf_one'] })
  const settings = () => ({ ...defaultDownloadSettings, hubEndpoint: hub.endpoint })
  const models = world.restarted({ homeDir: world.folder, settings })
  const login = { namespace: 'one', name: 'login', values: { HF_TOKEN: 'hf_one' } }
  const theirs = { ...request('hf://one/secret/w.gguf', 'theirs'), namespace: 'one' }
  await models.ensure({ ...theirs, secret: () => Promise.resolve(login) }, staying())
  const evil = { mediaType: kind('model'), digest: digestOf(secret), size: secret.length }
  world.server.serve('/v2/library/evil/manifests/latest', Buffer.from(JSON.stringify({ layers: [evil] })))
  const source = `ollama://${new URL(world.server.origin).host}/library/evil`
  const asked = models.ensure({ ...request(source, 'evil'), namespace: 'two' }, staying())
  expect(await failure(asked)).toMatchObject({ reason: 'NotFound' })
})

test.each([
  ['has another content than it states', () => publish({ model: gguf('a') }, 'tiny', gguf('b')), 'ChecksumMismatch'],
  ['is answered elsewhere', () => publish({ license: Buffer.from('x') }), 'NotAModel'],
  ['has an adapter', () => publish({ model: gguf('a'), adapter: gguf('b') }), 'NotAModel'],
  ['is not there', () => `ollama://${new URL(world.server.origin).host}/library/none`, 'NotFound'],
  ['is a page', () => page('<html>'), 'BadAnswer'],
  ['is no manifest', () => page('{"layers":[{"mediaType":1}]}'), 'BadAnswer'],
  [
    'names a path as its digest',
    () => page(JSON.stringify({ layers: [{ mediaType: kind('model'), digest: '../x', size: 1 }] })),
    'BadAnswer',
  ],
  ['is longer than any manifest', () => page(' '.repeat(2 ** 20 + 1)), 'BadAnswer'],
])('a tag that %s is refused', async (_what, source, reason) => {
  expect(await failure(world.models.ensure(request(source()), staying()))).toMatchObject({ reason })
})

function page(text: string): string {
  world.server.serve('/v2/library/page/manifests/latest', Buffer.from(text))
  return `ollama://${new URL(world.server.origin).host}/library/page`
}

test('a registry that goes quiet in the middle of a layer is given up, and the rest is fetched the next time', async () => {
  const model = gguf('A', 200_000)
  const source = publish({ model })
  const blob = `/v2/library/tiny/blobs/${digestOf(model)}`
  const etag = () => '"the layer"'
  world.server.serve(blob, model, { etag, fault: { kind: 'stall', afterBytes: 70_000 } })
  const impatient = world.restarted({ stallMs: 50 })
  expect(await failure(impatient.ensure(request(source), staying()))).toMatchObject({ reason: 'Stalled' })
  const whole = world.server.serve(blob, model, { etag })
  const local = await impatient.ensure(request(source), staying())
  expect(await readFile(local.path)).toEqual(model)
  expect(whole.requests[0]?.headers.range).toBe('bytes=70000-199999')
})

test('a registry in a private network is as closed as any other address there, and spec.sha256 counts', async () => {
  const source = publish({ model: gguf('model') })
  const closed = world.restarted({ allowedDownloadHosts: [] })
  expect(await failure(closed.ensure(request(source, 'closed'), staying()))).toMatchObject({
    reason: 'DownloadHostNotAllowed',
  })
  const stated = { ...request(source), sha256: 'ab'.repeat(32) }
  expect(await failure(world.models.ensure(stated, staying()))).toMatchObject({ reason: 'WrongChecksum' })
})
