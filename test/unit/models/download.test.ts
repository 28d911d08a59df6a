import { createHash } from 'node:crypto'
import { execa } from 'execa'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Progress } from '../../../src/contract/service.ts'
import { localRepairMs, remoteRepairMs } from '../../../src/agent-core/models/errors.ts'
import { sourceDigest } from '../../../src/agent-core/models/source.ts'
import { nextRate } from '../../../src/agent-core/models/download/progress.ts'
import { eventually } from '../../support/eventually.ts'
import type { ServeOptions } from '../../support/file-server.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from './world.ts'

const anyRate: unknown = expect.any(Number)

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

test('a file arrives byte for byte, with a record of its source', async () => {
  const content = gguf('A', 3_000_000)
  const { url } = world.server.serve('/x.gguf', content)
  const digest = sourceDigest(`${url}?token=secret`)
  const path = join(world.store, '@default', 'tiny', digest.slice(0, 16), 'x.gguf')
  const models = world.restarted({ now: () => Date.parse('2026-01-02T03:04:05Z') })
  const model = await models.ensure(request(`${url}?token=secret`), staying())
  const record: unknown = JSON.parse(await readFile(join(path, '../model.metalbar.json'), 'utf8'))
  expect({ model, same: content.equals(await readFile(path)), record }).toEqual({
    model: { path, files: [path], sizeBytes: 3_000_000, revision: expect.any(String) as string },
    same: true,
    record: {
      source: url,
      sourceSha256: digest,
      ...{ schema: 1, model: 'tiny', namespace: 'default' },
      files: [{ path: 'x.gguf', sizeBytes: 3_000_000, sha256: createHash('sha256').update(content).digest('hex') }],
      primary: 'x.gguf',
      completedAt: '2026-01-02T03:04:05.000Z',
      origin: 'downloaded',
    },
  })
})

test('a file that is declared as a page and is a GGUF file arrives whole', async () => {
  const content = gguf('A', 200_000)
  const { url } = world.server.serve('/x.gguf', content, { contentType: 'text/html' })
  const { path } = await world.models.ensure(request(url), staying())
  expect(content.equals(await readFile(path))).toBe(true)
})

describe('an answer that is no model is named, leaves nothing behind, and the next attempt works', () => {
  const soon = { kind: 'transient' }
  const later = { kind: 'transient', retryAfterMs: remoteRepairMs }
  const status = (code: number, headers: Record<string, string> = {}): ServeOptions => ({
    fault: { kind: 'status', status: code, headers, body: 'no' },
  })
  test.each<[string, ServeOptions, Record<string, unknown>]>([
    [
      'dropped connection',
      { fault: { kind: 'drop', afterBytes: 70_000 } },
      {
        ...soon,
        reason: 'Truncated',
        message: 'The download of URL ended after N of 200000 bytes: the agent tries again.',
      },
    ],
    [
      'fewer bytes than declared',
      { fault: { kind: 'wrong-length', declaredBytes: 200_001 } },
      {
        ...soon,
        reason: 'Truncated',
        message: 'The download of URL ended after N of 200001 bytes: the agent tries again.',
      },
    ],
    [
      'a page',
      { fault: { kind: 'html' } },
      {
        ...later,
        reason: 'NotAModel',
        message:
          'URL answered with a web page instead of a model: check spec.source, or whether the network asks for a login.',
      },
    ],
    [
      '401',
      status(401),
      {
        ...later,
        reason: 'AccessDenied',
        message:
          'URL answered 401 Unauthorized: the file needs a login or an accepted licence, so give an address that needs neither, or a local copy.',
      },
    ],
    [
      '403',
      status(403),
      {
        ...later,
        reason: 'AccessDenied',
        message:
          'URL answered 403 Forbidden: the file needs a login or an accepted licence, so give an address that needs neither, or a local copy.',
      },
    ],
    [
      '404',
      status(404),
      {
        ...later,
        reason: 'NotFound',
        message: 'URL answered 404 Not Found: correct spec.source or put the file there.',
      },
    ],
    [
      '206',
      status(206),
      {
        ...later,
        reason: 'HttpRefused',
        message: 'URL answered 206 Partial Content instead of the model file: check spec.source.',
      },
    ],
    [
      '429 with a wait in seconds',
      status(429, { 'retry-after': '7' }),
      {
        ...soon,
        reason: 'RateLimited',
        retryAfterMs: 7000,
        message:
          'URL answered 429 Too Many Requests: the server limits the rate of requests, so the agent waits and tries again.',
      },
    ],
    [
      '503 with an absurd wait',
      status(503, { 'retry-after': 'Fri, 31 Dec 2999 23:59:59 GMT' }),
      {
        ...soon,
        reason: 'ServerError',
        retryAfterMs: 3_600_000,
        message: 'URL answered 503 Service Unavailable: the server failed, so the agent tries again.',
      },
    ],
  ])('%s', async (_, options, expected) => {
    const { url } = world.server.serve('/x.gguf', gguf('A', 200_000), options)
    const failed = await failure(world.models.ensure(request(url), staying()))
    const left = await filesBelow(world.store)
    world.server.serve('/x.gguf', gguf('A', 200_000))
    const { sizeBytes } = await world.models.ensure(request(url), staying())
    const message = failed.message?.replace(url, 'URL').replace(/after \d+ of/, 'after N of')
    expect({ failed: { ...failed, message }, left, sizeBytes }).toEqual({
      failed: expected,
      left: {},
      sizeBytes: 200_000,
    })
  })
})

test('something else than a GGUF file under a .gguf name is refused, and the way to the file itself is shown', async () => {
  const { url } = world.server.serve('/org/repo/blob/main/x.gguf', Buffer.from('{"error":"no such file"}'))
  expect(await failure(world.models.ensure(request(url), staying()))).toMatchObject({
    reason: 'NotAModel',
    message: `${url} answered with something that is not a GGUF file although its name says so: check spec.source (/resolve/ in place of /blob/ gives the file itself).`,
  })
})

test('an empty file is no model', async () => {
  const { url } = world.server.serve('/x.gguf', Buffer.alloc(0))
  expect(await failure(world.models.ensure(request(url), staying()))).toMatchObject({ reason: 'EmptyFile' })
})

test('a server that nobody runs is named with the reason', async () => {
  const { url } = world.server.serve('/x.gguf', gguf('A'))
  await world.server[Symbol.asyncDispose]()
  expect(await failure(world.models.ensure(request(url), staying()))).toEqual({
    kind: 'transient',
    reason: 'Unreachable',
    message: `${url} cannot be reached (connection refused): check the address and the network; the agent tries again.`,
  })
})

test.each<[string, number]>([
  ['in the middle of the file', 70_000],
  ['right after its headers', 0],
])('a server that goes quiet %s is given up', async (_, afterBytes) => {
  const file = world.server.serve('/x.gguf', gguf('A', 200_000), { fault: { kind: 'stall', afterBytes } })
  const failed = await failure(world.restarted({ stallMs: 50 }).ensure(request(file.url), staying()))
  await eventually(() => file.openResponses === 0)
  expect({ reason: failed.reason, left: await filesBelow(world.store) }).toEqual({ reason: 'Stalled', left: {} })
})

test('progress tells bytes, length and a rate', async () => {
  const file = world.server.serve('/x.gguf', gguf('A', 200_000), { paced: true })
  const reports: Progress[] = []
  const arriving = world.models.ensure(request(file.url), {
    ...staying(),
    onProgress: (report) => reports.push(report),
  })
  file.allow(120_000)
  await eventually(() => reports.at(-1)?.doneBytes === 120_000)
  const during = world.models.state().fetches
  file.allow(80_000)
  await arriving
  const last = reports.findLast(({ phase }) => phase !== 'verifying')
  expect({ first: reports[0], during, last, after: world.models.state().fetches }).toEqual({
    first: { doneBytes: 0, totalBytes: 200_000, bytesPerSecond: 0 },
    during: [
      {
        model: 'tiny',
        source: file.url,
        callers: 1,
        progress: { doneBytes: 120_000, totalBytes: 200_000, bytesPerSecond: anyRate },
      },
    ],
    last: { doneBytes: 200_000, totalBytes: 200_000, bytesPerSecond: anyRate },
    after: [],
  })
})

test('a partial file that somebody else replaced is neither used nor removed', async () => {
  const file = world.server.serve('/x.gguf', gguf('A', 200_000), { paced: true })
  const folder = join(world.store, '.metalbar/partials')
  const attempt = failure(world.models.ensure(request(file.url), staying()))
  const begun = async () => (await readdir(folder).catch(() => [])).find((name) => /^url-[0-9a-f]{64}$/.test(name))
  await eventually(async () => (await begun()) !== undefined)
  const partial = join(folder, (await begun()) ?? '')
  await rm(partial)
  await writeFile(partial, gguf('B', 100))
  file.allow(200_000)
  expect([await attempt, (await readFile(partial)).equals(gguf('B', 100))]).toEqual([
    {
      kind: 'transient',
      reason: 'StoreUnusable',
      message: `${partial} was replaced during the download: let only one agent use this model store.`,
    },
    true,
  ])
})

test('the rate follows a change within seconds and falls while nothing comes', () => {
  const steady = nextRate(nextRate(undefined, 1000, 1000), 1000, 1000)
  const faster = Array.from({ length: 10 }).reduce<number>((rate) => nextRate(rate, 5000, 1000), steady)
  const stalled = Array.from({ length: 10 }).reduce<number>((rate) => nextRate(rate, 0, 1000), steady)
  expect([steady, Math.round(faster), Math.round(stalled)]).toEqual([1000, 4857, 36])
})

describe('a store on a small volume', () => {
  test('refuses what cannot fit before a byte is written, with what is needed and what is free', async (context) => {
    await using volume = await mountedVolume(context.skip)
    const { url } = world.server.serve('/x.gguf', gguf('A', 2_000_000))
    const failed = await failure(world.restarted({ directory: volume.path }).ensure(request(url), staying()))
    expect({ ...failed, left: await filesBelow(volume.path) }).toEqual({
      kind: 'transient',
      reason: 'DiskFull',
      message: `The model needs 2.0 MB and 10.5 kB stay in reserve, but the volume of ${volume.path} has 1.0 MB free: make room there or choose another --model-store.`,
      retryAfterMs: localRepairMs,
      left: {},
    })
  })

  test('that is read-only is named, and serves what lies in it to one source only', async (context) => {
    await using volume = await mountedVolume(context.skip)
    await volume.put(join('tiny', 'x.gguf'), gguf('A'))
    await volume.makeReadOnly()
    const models = world.restarted({ directory: volume.path })
    const { url } = world.server.serve('/x.gguf', gguf('B'))
    const { path } = await models.ensure(request('https://nowhere.invalid/x.gguf'), staying())
    expect({ path, other: await failure(models.ensure(request(url), staying())) }).toEqual({
      path: join(volume.path, 'tiny', 'x.gguf'),
      other: {
        kind: 'transient',
        reason: 'StoreReadOnly',
        message: `The model store ${volume.path} is on a read-only volume: mount it writable or choose another --model-store.`,
        retryAfterMs: localRepairMs,
      },
    })
  })

  interface Volume extends AsyncDisposable {
    path: string
    put(name: string, content: Buffer): Promise<void>
    makeReadOnly(): Promise<void>
  }

  async function mountedVolume(skip: (note: string) => never): Promise<Volume> {
    const path = join(world.folder, 'volume')
    await mkdir(path)
    const { failed } = await execa('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path], { reject: false })
    if (failed) skip('needs the right to mount a tmpfs')
    return {
      path,
      put: async (name, content) => {
        await mkdir(dirname(join(path, name)), { recursive: true })
        await writeFile(join(path, name), content)
      },
      makeReadOnly: async () => {
        await execa('mount', ['-o', 'remount,ro', path])
      },
      [Symbol.asyncDispose]: async () => {
        await execa('umount', [path])
      },
    }
  }
})
