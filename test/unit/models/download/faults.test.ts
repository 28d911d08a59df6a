import { writeFile } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { remoteRepairMs } from '../../../../src/agent-core/models/errors.ts'
import type { Behaviour } from '../../../support/model-server/behaviour.ts'
import { startModelServer, type ModelServer } from '../../../support/model-server/model-server.ts'
import { downloadRoom, failureOf, type DownloadRoom } from './room.ts'

const MiB = 1024 * 1024
const plain: Behaviour = { sizeBytes: 3 * MiB + 17, seed: 'a', etag: '"a"' }
/** Long enough for several connections. */
const long: Behaviour = { ...plain, sizeBytes: 128 * MiB + 5 }

let server: ModelServer
let room: DownloadRoom
let paths = 0
beforeAll(async () => {
  server = await startModelServer()
})
afterAll(async () => server[Symbol.asyncDispose]())
beforeEach(async () => {
  room = await downloadRoom()
})
afterEach(async () => room[Symbol.asyncDispose]())

async function served(behaviour: Behaviour): Promise<{ url: string; path: string; sha256: string }> {
  const path = `/${++paths}/x.gguf`
  const { url, content } = await server.serve(path, behaviour)
  return { url, path, sha256: content.sha256() }
}

async function requestsFor(path: string): Promise<{ range?: string; ifRange?: string; status: number }[]> {
  const all = await server.requests()
  return all
    .filter((seen) => seen.path === path)
    .map(({ range, ifRange, status }) => ({
      ...(range === undefined ? {} : { range }),
      ...(ifRange === undefined ? {} : { ifRange }),
      status,
    }))
}

describe('a file arrives byte for byte, with its SHA-256,', () => {
  test.each<[string, Behaviour]>([
    ['in one answer', plain],
    ['from a server without ranges', { ...plain, ranges: false }],
    ['from a server that refuses ranges', { ...plain, rangeStatus: 416 }],
    ['from a server that serves one connection only', { ...long, maxConnections: 1 }],
    ['when the connection breaks again and again', { ...plain, drop: { afterBytes: 300_000, times: 11 } }],
    ['after 503 and a wait', { ...plain, status: { code: 503, headers: { 'retry-after': '0' }, times: 2 } }],
    ['after 429', { ...plain, status: { code: 429, times: 2 } }],
    ['although its length is not said', { ...plain, chunked: true, ranges: false }],
    ['although more is declared than sent', { ...plain, chunked: true, declaredBytes: 9, ranges: false }],
  ])('%s', async (_, behaviour) => {
    const { url, sha256 } = await served(behaviour)
    const file = await room.fetch({ url, sha256 })
    expect({ file, onDisk: await room.sha256() }).toMatchObject({
      file: { sizeBytes: behaviour.sizeBytes, sha256 },
      onDisk: sha256,
    })
  })
})

test('an address that a server gave for a while is asked for again once it has expired', async () => {
  const cdn = await served({ ...plain, status: { code: 403, times: 1 } })
  const hub = await served({ ...plain, redirect: cdn.url })
  await room.fetch({ url: hub.url, sha256: cdn.sha256 })
  const gone = await served({ ...plain, status: { code: 403, times: 9 } })
  const failed = await failureOf(
    room.fetch({ url: (await served({ ...plain, redirect: gone.url })).url }, { attempts: 2 }),
  )
  expect([(await requestsFor(hub.path)).length, (await requestsFor(gone.path)).length, failed]).toEqual([
    2,
    2,
    expect.objectContaining({
      message: expect.stringMatching(/ leads to 127\.0\.0\.1:\d+, which answered 403 Forbidden: /) as string,
    }),
  ])
})

test('a redirect is followed in letters that its server did not encode', async () => {
  const { content } = await server.serve(`/${encodeURIComponent('модель Q4.gguf')}`, plain)
  const { url } = await served({ ...plain, redirect: Buffer.from('/модель Q4.gguf').toString('latin1') })
  expect(await room.fetch({ url })).toMatchObject({ sha256: content.sha256() })
})

test('what arrived before a break is not asked for again, and the rest only of the same content', async () => {
  const { url, path } = await served({ ...plain, drop: { afterBytes: 2 * MiB, times: 1 } })
  await room.fetch({ url })
  const [first, second] = await requestsFor(path)
  expect({ first, second }).toEqual({
    first: { range: 'bytes=0-67108863', status: 206 },
    second: { range: expect.stringMatching(/^bytes=2097152-/) as unknown, ifRange: '"a"', status: 206 },
  })
})

test.each([
  ['a date, if it has no ETag', { lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }, 'Wed, 01 Jan 2025 00:00:00 GMT'],
  [
    'a date, if its ETag is a weak one',
    { etag: 'W/"a"', lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' },
    'Wed, 01 Jan 2025 00:00:00 GMT',
  ],
  [
    'a date that is one second older than the answer',
    { lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT', date: 'Wed, 01 Jan 2025 00:00:01 GMT' },
    'Wed, 01 Jan 2025 00:00:00 GMT',
  ],
])('the content is the same by %s', async (_, validators, ifRange) => {
  const { url, path, sha256 } = await served({
    sizeBytes: plain.sizeBytes,
    seed: 'a',
    ...validators,
    drop: { afterBytes: 2 * MiB, times: 1 },
  })
  await failureOf(room.fetch({ url }, { attempts: 1 }))
  const file = await room.fetch({ url })
  expect([file.sha256, (await requestsFor(path)).at(-1)]).toEqual([
    sha256,
    { range: expect.stringMatching(/^bytes=2097152-/) as unknown, ifRange, status: 206 },
  ])
})

test.each([
  ['nothing', {}],
  ['a weak ETag only', { etag: 'W/"a"' }],
  ['a date that is later than the answer', { lastModified: 'Fri, 01 Jan 2100 00:00:00 GMT' }],
  [
    'a date of the same second as the answer',
    { lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT', date: 'Wed, 01 Jan 2025 00:00:00 GMT' },
  ],
])(
  'a partial file of a server that tells by %s whether it is the same starts over, unless the checksum is known',
  async (_, validators) => {
    const behaviour = { sizeBytes: plain.sizeBytes, seed: 'a', ...validators, drop: { afterBytes: 2 * MiB, times: 1 } }
    const [unknown, known] = [await served(behaviour), await served(behaviour)]
    await room.fetch({ url: unknown.url })
    await failureOf(
      room.fetch({ url: known.url, sha256: known.sha256 }, { attempts: 1, partialPath: `${room.partialPath}.2` }),
    )
    await room.fetch({ url: known.url, sha256: known.sha256 }, { partialPath: `${room.partialPath}.2` })
    expect([(await requestsFor(unknown.path)).at(-1), (await requestsFor(known.path)).at(-1)]).toEqual([
      { range: 'bytes=0-67108863', status: 206 },
      { range: expect.stringMatching(/^bytes=2097152-/) as unknown, status: 206 },
    ])
  },
)

test('a long file is fetched in parts of 64 MiB', async () => {
  const { url, path, sha256 } = await served(long)
  const file = await room.fetch({ url })
  const ranges = (await requestsFor(path)).map(({ range }) => range)
  expect([file.sha256, ranges.toSorted()]).toEqual([
    sha256,
    ['bytes=0-67108863', 'bytes=134217728-134217732', 'bytes=67108864-134217727'],
  ])
})

test('one connection of several that breaks ends none of the others, and only what it did not bring is asked for again', async () => {
  const { url, path, sha256 } = await served({ ...long, drop: { afterBytes: 5 * MiB, times: 1 } })
  const file = await room.fetch({ url })
  const ranges = (await requestsFor(path)).map(({ range }) => range)
  expect({ sha256: file.sha256, ranges: ranges.toSorted(), waits: room.reports.map(({ phase }) => phase) }).toEqual({
    sha256,
    ranges: ['bytes=0-67108863', 'bytes=134217728-134217732', `bytes=${5 * MiB}-67108863`, 'bytes=67108864-134217727'],
    waits: expect.not.arrayContaining(['waiting']) as unknown,
  })
})

test('a file that changes on the server in between starts over, and that is said', async () => {
  const behaviour: Behaviour = {
    ...plain,
    drop: { afterBytes: 2 * MiB, times: 1 },
    later: { afterRequests: 1, seed: 'b', etag: '"b"' },
  }
  const { url } = await served(behaviour)
  const changed = await served({ ...plain, seed: 'b' })
  const file = await room.fetch({ url })
  expect({ file, onDisk: await room.sha256(), said: room.notices.at(-1), log: room.logged.join('\n') }).toEqual({
    file: { sizeBytes: plain.sizeBytes, sha256: changed.sha256, etag: '"b"' },
    onDisk: changed.sha256,
    said: `${url} changed on the server: the download starts over.`,
    log: expect.stringMatching(/the file changed on the server, download starts over/) as unknown,
  })
})

test('a file that became shorter than what is here (416) starts over', async () => {
  const { url, path } = await served({ ...plain, drop: { afterBytes: 3 * MiB, times: 100 } })
  await failureOf(room.fetch({ url }, { attempts: 1 }))
  const { content } = await server.serve(path, { ...plain, sizeBytes: MiB, seed: 'b', etag: '"b"' })
  const file = await room.fetch({ url })
  expect(file.sha256).toBe(content.sha256())
})

describe('a partial file is continued by the next call', () => {
  const broken: Behaviour = { ...plain, drop: { afterBytes: 2 * MiB, times: 1 } }

  test.each<[string, () => Promise<void>]>([
    ['has a broken record', async () => breakRecords('{"version":1')],
    ['has a record of another version', async () => breakRecords('{"version":2}')],
  ])('unless it %s: then it starts over', async (_, damage) => {
    const { url, sha256, path } = await served(broken)
    await failureOf(room.fetch({ url }, { attempts: 1 }))
    await damage()
    const file = await room.fetch({ url })
    expect({ sha256: file.sha256, onDisk: await room.sha256(), ranges: await requestsFor(path) }).toMatchObject({
      sha256,
      onDisk: sha256,
      ranges: [{}, { range: 'bytes=0-67108863' }],
    })
  })

  test('and where it was damaged meanwhile, the checksum tells, and it is fetched once more in one piece', async () => {
    const { url, sha256, path } = await served(broken)
    await failureOf(room.fetch({ url, sha256 }, { attempts: 1 }))
    await writeFile(room.partialPath, Buffer.alloc(1000, 'x'), { flag: 'r+' })
    await room.fetch({ url, sha256 })
    expect([await room.sha256(), (await requestsFor(path)).map(({ range }) => range)]).toEqual([
      sha256,
      ['bytes=0-67108863', expect.stringMatching(/^bytes=2097152-/) as unknown, undefined],
    ])
  })

  test('whatever its ETag is by now, if there is a checksum', async () => {
    const { url, sha256, path } = await served({ ...broken, later: { afterRequests: 1, seed: 'a', etag: '"b"' } })
    await failureOf(room.fetch({ url, sha256 }, { attempts: 1 }))
    await room.fetch({ url, sha256 })
    expect((await requestsFor(path)).slice(1)).toEqual([
      { range: expect.stringMatching(/^bytes=2097152-/) as unknown, status: 206 },
    ])
  })

  test('from another address, if the checksum says that it is the same content', async () => {
    const { url, sha256 } = await served(broken)
    await failureOf(room.fetch({ url, sha256 }, { attempts: 1 }))
    const other = await served({ ...plain, etag: '"another"' })
    await room.fetch({ url: other.url, sha256 })
    expect(await requestsFor(other.path)).toEqual([
      { range: expect.stringMatching(/^bytes=2097152-/) as unknown, status: 206 },
    ])
  })

  test('not from another address without a checksum', async () => {
    const { url } = await served(broken)
    await failureOf(room.fetch({ url }, { attempts: 1 }))
    const other = await served(plain)
    await room.fetch({ url: other.url })
    expect(await requestsFor(other.path)).toEqual([{ range: 'bytes=0-67108863', status: 206 }])
  })

  test('and survives a login page in between', async () => {
    const { url, path, sha256 } = await served(broken)
    await failureOf(room.fetch({ url }, { attempts: 1 }))
    await server.serve(path, { ...plain, html: true })
    const page = await failureOf(room.fetch({ url }))
    await server.serve(path, plain)
    const file = await room.fetch({ url })
    expect([page.reason, file.sha256, (await requestsFor(path)).at(-1)]).toEqual([
      'NotAModel',
      sha256,
      { range: expect.stringMatching(/^bytes=2097152-/) as unknown, ifRange: '"a"', status: 206 },
    ])
  })

  test('also where all of it is there, after the server was asked whether it is still the same', async () => {
    const { url, path, sha256 } = await served(plain)
    await room.fetch({ url })
    const again = await room.fetch({ url })
    const { content } = await server.serve(path, { ...plain, seed: 'b', etag: '"b"' })
    const changed = await room.fetch({ url })
    const last = plain.sizeBytes - 1
    expect([again.sha256, changed.sha256, await room.sha256(), (await requestsFor(path)).slice(1, 3)]).toEqual([
      sha256,
      content.sha256(),
      content.sha256(),
      [
        { range: `bytes=${last}-${last}`, ifRange: '"a"', status: 206 },
        { range: `bytes=${last}-${last}`, ifRange: '"a"', status: 200 },
      ],
    ])
  })

  async function breakRecords(text: string): Promise<void> {
    for (const name of await room.files()) {
      if (name.endsWith('.json')) await writeFile(`${room.dir}/${name}`, text)
    }
  }
})

describe('what only a person can repair is refused at once', () => {
  test.each<[string, Behaviour, string]>([
    ['410', { ...plain, status: { code: 410, times: 9 } }, 'NotFound'],
    ['a compression that nobody asked for', { ...plain, encoding: 'gzip' }, 'HttpRefused'],
  ])('%s', async (_, behaviour, reason) => {
    const { url } = await served(behaviour)
    const failed = await failureOf(room.fetch({ url }))
    expect({ ...failed, message: undefined, files: await room.files(), notices: room.notices }).toEqual({
      kind: 'transient',
      reason,
      message: undefined,
      retryAfterMs: remoteRepairMs,
      files: [],
      notices: [],
    })
  })

  test('416 to the whole file as well', async () => {
    const { url, path } = await served({ ...plain, status: { code: 416, times: 9 } })
    const failed = await failureOf(room.fetch({ url }))
    expect([failed.reason, await requestsFor(path)]).toEqual([
      'HttpRefused',
      [{ range: 'bytes=0-67108863', status: 416 }, { status: 416 }],
    ])
  })
})

test('a server that stays in trouble is given up after so many attempts, with waits that grow and are told', async () => {
  const { url, path } = await served({ ...plain, status: { code: 503, times: 99 } })
  const failed = await failureOf(room.fetch({ url }, { attempts: 3 }))
  expect([
    failed.reason,
    (await requestsFor(path)).length,
    room.reports.filter((one) => one.phase === 'waiting')[0],
  ]).toEqual([
    'ServerError',
    3,
    {
      doneBytes: 0,
      bytesPerSecond: 0,
      phase: 'waiting',
      message: `${url} answered 503 Service Unavailable: the server failed, so the agent tries again. Next attempt in 0 s.`,
    },
  ])
})

test('a wait of an hour that a server asks for is left to the caller', async () => {
  const { url, path } = await served({ ...plain, status: { code: 429, headers: { 'retry-after': '3600' }, times: 99 } })
  const failed = await failureOf(room.fetch({ url }))
  expect([failed.reason, failed.retryAfterMs, (await requestsFor(path)).length]).toEqual(['RateLimited', 3_600_000, 1])
})

test('a server that sends a byte now and then is given up as one that is silent', async () => {
  const { url } = await served({ ...plain, drip: { afterBytes: 0, everyMs: 40, times: 99 } })
  const failed = await failureOf(room.fetch({ url }, { stallMs: 400, attempts: 1 }))
  expect(failed).toMatchObject({
    reason: 'Stalled',
    message: expect.stringMatching(/sent only \d+ bytes for 0 s: the agent tries again\.$/) as unknown,
  })
})

test('a drip that ends is overcome', async () => {
  const { url, sha256 } = await served({ ...plain, drip: { afterBytes: MiB, everyMs: 40, times: 1 } })
  const file = await room.fetch({ url }, { stallMs: 400 })
  expect(file.sha256).toBe(sha256)
})

describe('a file that is not what was announced is deleted', () => {
  const wrong = 'ab'.repeat(32)

  test('by its checksum', async () => {
    const { url, sha256 } = await served(plain)
    const failed = await failureOf(room.fetch({ url, sha256: wrong }))
    expect({ ...failed, files: await room.files() }).toEqual({
      kind: 'transient',
      reason: 'ChecksumMismatch',
      message: `${url} is not the file that was announced: its SHA-256 is ${sha256} and should be ${wrong}; correct spec.sha256 or the file there.`,
      retryAfterMs: 3_600_000,
      files: [],
    })
  })

  test('after it was fetched once more in one piece, if it came in parts', async () => {
    const { url, path } = await served({ ...plain, drop: { afterBytes: MiB, times: 1 } })
    const failed = await failureOf(room.fetch({ url, sha256: wrong }))
    expect([failed.reason, (await requestsFor(path)).map(({ range }) => range)]).toEqual([
      'ChecksumMismatch',
      ['bytes=0-67108863', expect.stringMatching(/^bytes=1048576-/) as unknown, undefined],
    ])
  })

  test('by its length, at the end where the server did not say it', async () => {
    const { url } = await served({ ...plain, chunked: true, ranges: false })
    const failed = await failureOf(room.fetch({ url, sizeBytes: 1000 }))
    expect([failed.reason, await room.files()]).toEqual(['WrongLength', []])
  })

  test('by its length, before a byte is fetched where the server says it', async () => {
    const { url } = await served(plain)
    const failed = await failureOf(room.fetch({ url, sizeBytes: 1000 }))
    expect({ ...failed, files: await room.files() }).toMatchObject({
      reason: 'WrongLength',
      message: `${url} has ${plain.sizeBytes} bytes where 1000 were announced: check spec.source, or whether the file is being replaced there.`,
      files: [],
    })
  })
})

test('an abort keeps what arrived, and says nothing else than its reason', async () => {
  const { url, path } = await served({ ...plain, drip: { afterBytes: 2 * MiB, everyMs: 20, times: 1 } })
  const leaving = new AbortController()
  const left = room.fetch(
    { url },
    {
      signal: leaving.signal,
      onProgress: ({ doneBytes }) => {
        if (doneBytes >= 2 * MiB) leaving.abort(new Error('gone'))
      },
    },
  )
  await expect(left).rejects.toThrow('gone')
  await room.fetch({ url })
  expect((await requestsFor(path)).at(-1)?.range).toMatch(/^bytes=209\d{4}-/)
})

test('a complete partial file with a known checksum needs no server, whatever its address', async () => {
  const { url, sha256, path } = await served(plain)
  await room.fetch({ url, sha256 })
  const again = await room.fetch({ url: 'http://127.0.0.1:9/x.gguf', sha256 })
  expect([again.sha256, (await requestsFor(path)).length]).toEqual([sha256, 1])
})

test('a complete partial file that is wrong is fetched anew before anybody is told to correct the checksum', async () => {
  const { url, sha256 } = await served(plain)
  await room.fetch({ url, sha256 })
  await writeFile(room.partialPath, Buffer.alloc(1000, 'x'), { flag: 'r+' })
  expect((await room.fetch({ url, sha256 })).sha256).toBe(sha256)
})
