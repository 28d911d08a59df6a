import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ModelRequest } from '../../src/agent-core/models/models.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import type { Progress } from '../../src/contract/service.ts'
import { safetensors } from '../support/mlx-writer.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from '../unit/models/world.ts'

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

async function served(answer: RequestListener): Promise<AsyncDisposable & { url: string }> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  return {
    url: `http://127.0.0.1:${port}/m.gguf`,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

const content = gguf('model', 100)

test.each([
  { range: 'bytes 0-99/50', length: 100 },
  { range: 'bytes 99-0/100', length: 100 },
  { range: 'bytes 0-199/200', length: 100 },
  { range: 'bytes 0-49/100', length: 100 },
])('an answer that says $range and a length of $length ends at once, though the server goes on', async (stated) => {
  await using server = await served((_, response) => {
    response.writeHead(206, { 'content-range': stated.range, 'content-length': stated.length })
    // All but the last byte, and then silence.
    response.write(content.subarray(0, 99))
  })
  const failed = await failure(world.models.ensure(request(server.url), staying()))
  expect(failed).toMatchObject({ reason: 'HttpRefused', message: expect.stringContaining(stated.range) as string })
})

test('several downloads together leave the reserve alone', async () => {
  const { bavail, bsize } = await statfs(world.folder)
  const free = bavail * bsize
  await using server = await served((_, response) => {
    response.writeHead(200, { 'content-length': Math.floor(free / 3) })
    // The beginning, by which a model is known, and then silence.
    response.write(Buffer.concat([content, Buffer.alloc(4_096)]))
  })
  const models = world.restarted({ reserveBytes: Math.floor(free / 2) })
  const begin = async (name: string) => {
    const leave = new AbortController()
    const { promise: begun, resolve } = Promise.withResolvers<undefined>()
    const onProgress = ({ doneBytes }: Progress): void => (doneBytes > 0 ? resolve(undefined) : undefined)
    const ended: Promise<unknown> = models
      .ensure(request(`${server.url}?${name}`, name), { signal: leave.signal, onProgress })
      .catch((error: unknown) => error)
    const why = await Promise.race([begun, ended])
    return { why, leave: () => leave.abort(), ended }
  }
  const first = await begin('first')
  expect((await begin('second')).why).toMatchObject({ reason: 'DiskFull' })
  first.leave()
  await first.ended
  const third = await begin('third')
  expect(third.why).toBeUndefined()
  third.leave()
  await third.ended
})

test.each(['custom', 'gguf'])(
  'what is no model is not kept, whatever it is called (spec.format %s)',
  async (format) => {
    const { url } = world.server.serve('/payload.so', Buffer.concat([Buffer.from('\x7fELF'), Buffer.alloc(4096)]))
    expect(await failure(world.models.ensure({ ...request(url), format }, staying()))).toMatchObject({
      reason: 'NotAModel',
    })
    expect(await readdir(join(world.store, 'tiny')).catch(() => [])).toEqual([])
  },
)

const program = Buffer.concat([Buffer.from('\x7fELF'), Buffer.alloc(4096)])

test.each<{ what: string; wanted: Partial<ModelRequest> }>([
  { what: 'further files', wanted: { files: ['m.gguf', 'payload.so'] } },
  { what: 'a projector', wanted: { mmproj: 'payload.so' } },
  { what: 'further files of a custom model', wanted: { files: ['m.gguf', 'payload.so'], format: 'custom' } },
  { what: 'files of a folder', wanted: { files: ['config.json', 'payload.so'], format: 'mlx' } },
])('a program is not kept as one of the $what', async ({ wanted }) => {
  const { url } = world.server.serve('/m.gguf', gguf('model'))
  world.server.serve('/config.json', Buffer.from('{}'))
  world.server.serve('/payload.so', program)
  expect(await failure(world.models.ensure({ ...request(url), ...wanted }, staying()))).toMatchObject({
    reason: 'NotAModel',
    message: expect.stringContaining('/payload.so') as string,
  })
  expect(await filesBelow(world.store)).toEqual({})
})

test.each([
  ['code', 'modeling_own.py', 'import os'],
  ['a pickle', 'pytorch_model.bin', '\x80\x02cos\nsystem\n'],
  ['a pickle under another name', 'tokenizer.json', '\x80\x02cos\nsystem\n'],
  ['an archive of pickles for weights', 'more.safetensors', 'PK\x03\x04'],
])('of an MLX model on the Hub %s is not kept, though the Model names it', async (_what, name, content) => {
  await using hub = await startFakeHub()
  const files = { 'config.json': Buffer.from('{}'), 'model.safetensors': safetensors([['a', [1]]]) }
  await hub.addRepo('org/mlx', { ...files, [name]: Buffer.from(content, 'latin1') })
  const models = world.restarted({ env: { HF_ENDPOINT: hub.endpoint } })
  const wanted = { ...request('hf://org/mlx'), format: 'mlx' }
  const named = { ...wanted, files: [...Object.keys(files), name] }
  expect(await failure(models.ensure(named, staying()))).toMatchObject({
    reason: 'NotAModel',
    message: expect.stringContaining(
      `/${name} answered with something that is neither a model nor what belongs`,
    ) as string,
  })
  expect(await filesBelow(world.store)).toEqual({})
  await models.ensure({ ...wanted, files: Object.keys(files) }, staying())
  expect(Object.keys(await filesBelow(world.store))).toEqual(['@/tiny/config.json', '@/tiny/model.safetensors'])
})

test('a template and a vocabulary may lie beside a model', async () => {
  const { url } = world.server.serve('/m.gguf', gguf('model'))
  world.server.serve('/chat.jinja', Buffer.from('{{ messages }}'))
  world.server.serve('/tokenizer.model', Buffer.from([0x0a, 0x0e, 0x0a, 0x05, 0x00, 0xff]))
  await world.models.ensure({ ...request(url), files: ['m.gguf', 'chat.jinja', 'tokenizer.model'] }, staying())
  expect(Object.keys(await filesBelow(world.store))).toEqual([
    '@/tiny/chat.jinja',
    '@/tiny/m.gguf',
    '@/tiny/tokenizer.model',
  ])
})

test('a copy from another volume leaves the reserve alone too', async ({ skip }) => {
  const other = await mkdtemp('/dev/shm/cache-').catch(() => undefined)
  if (other === undefined || (await stat(other)).dev === (await stat(world.folder)).dev) return skip('one volume')
  try {
    await using hub = await startFakeHub()
    const cached = gguf('cached')
    await hub.addRepo('org/cached', { 'm.gguf': cached })
    const blobs = join(other, 'models--org--cached', 'blobs')
    await mkdir(blobs, { recursive: true })
    await writeFile(join(blobs, createHash('sha256').update(cached).digest('hex')), cached)
    const { bavail, bsize } = await statfs(world.folder)
    const reserve = { reserveBytes: bavail * bsize * 2 }
    const env = { HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: other }
    const models = world.restarted({ env, ...reserve })
    expect(await failure(models.ensure(request('hf://org/cached'), staying()))).toMatchObject({ reason: 'DiskFull' })
    expect(await filesBelow(world.store)).toEqual({})
    // The first bytes alone, which show that this request may have the file.
    const ofContent = hub.requests.filter(({ server }) => server === 'cdn').map(({ headers }) => headers.range)
    expect(ofContent).toEqual(['bytes=0-511'])
  } finally {
    await rm(other, { recursive: true })
  }
})
