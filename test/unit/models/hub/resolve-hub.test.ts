import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ModelError } from '../../../../src/agent-core/models/errors.ts'
import { startFakeHub } from '../../../support/fake-hub.ts'
import { givenToken, refusalOf, resolving } from './hub-world.ts'

const gguf = (text: string): Buffer => Buffer.from(`GGUF${text}`)
const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

describe('a repository of the Hub', () => {
  test('becomes the chosen file, pinned to a commit, with size and checksum', async () => {
    await using hub = await startFakeHub()
    const repo = await hub.addRepo('org/repo', { 'M-Q8_0.gguf': gguf('eight'), 'sub/M-Q4_K_M.gguf': gguf('four') })
    const commit = await repo.commit({ 'M-Q8_0.gguf': gguf('eight'), 'sub/M-Q4_K_M.gguf': gguf('new four') })
    const resolve = resolving(hub)
    expect(await resolve({ source: 'hf://org/repo', quantization: 'q4_k_m' })).toEqual({
      files: [
        {
          url: `${hub.endpoint}/org/repo/resolve/${commit}/sub/M-Q4_K_M.gguf`,
          fileName: 'M-Q4_K_M.gguf',
          path: 'M-Q4_K_M.gguf',
          role: 'weights',
          sizeBytes: 12,
          sha256: sha256(gguf('new four')),
          blob: sha256(gguf('new four')),
          hub: { repo: 'org/repo', path: 'sub/M-Q4_K_M.gguf' },
        },
      ],
      primary: 'M-Q4_K_M.gguf',
      isSaidToBeOpen: true,
      notes: [],
      choices: [
        { path: 'M-Q8_0.gguf', source: 'hf://org/repo/M-Q8_0.gguf', sizeBytes: 9, quantization: 'Q8_0', parts: 1 },
        {
          path: 'sub/M-Q4_K_M.gguf',
          source: 'hf://org/repo/sub/M-Q4_K_M.gguf',
          sizeBytes: 12,
          quantization: 'Q4_K_M',
          parts: 1,
        },
      ],
    })
  })

  test('of several models names each as a source of its own, which means it and nothing else', async () => {
    await using hub = await startFakeHub()
    const repo = await hub.addRepo('org/repo', {
      'A-00001-of-00002.gguf': gguf('1'),
      'A-00002-of-00002.gguf': gguf('22'),
      'b@c.gguf': gguf('333333333'),
    })
    repo.name('v1', await repo.commit({ 'x.gguf': gguf('old'), 'y.gguf': gguf('older') }))
    await repo.commit({
      'A-00001-of-00002.gguf': gguf('1'),
      'A-00002-of-00002.gguf': gguf('22'),
      'b@c.gguf': gguf('333333333'),
    })
    const resolve = resolving(hub)
    const choicesOf = (source: string) =>
      resolve(source).then(
        () => [],
        (error: unknown) => (error instanceof ModelError ? error.choices : []),
      )
    const choices = await choicesOf('hf://org/repo')
    expect(choices).toEqual([
      { path: 'A-00001-of-00002.gguf', source: 'hf://org/repo/A-00001-of-00002.gguf', sizeBytes: 11, parts: 2 },
      { path: 'b@c.gguf', source: 'hf://org/repo@main/b@c.gguf', sizeBytes: 13, parts: 1 },
    ])
    const meant = await Promise.all(choices.map(({ source }) => resolve(source)))
    expect(meant.map(({ files }) => files.length)).toEqual([2, 1])
    const [old] = await choicesOf('hf://org/repo@v1')
    expect(old?.source).toBe('hf://org/repo@v1/x.gguf')
  })

  test('is read at a tag, and in full however many pages its listing has', async () => {
    await using hub = await startFakeHub()
    hub.pageSize = 2
    const many = Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`file-${at}.txt`, Buffer.from('x')]))
    const repo = await hub.addRepo('org/repo', { ...many, 'old-Q8_0.gguf': gguf('old') })
    const old = await repo.commit({ ...many, 'z-Q8_0.gguf': gguf('tagged') })
    repo.name('v1', old)
    await repo.commit({ 'new-Q8_0.gguf': gguf('new') })
    const resolved = await resolving(hub)('hf://org/repo@v1')
    expect(resolved).toMatchObject({
      primary: 'z-Q8_0.gguf',
      files: [{ url: `${hub.endpoint}/org/repo/resolve/${old}/z-Q8_0.gguf` }],
    })
  })

  test('that holds a split model and a projector brings all of them', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', {
      'Q8_0/M-00001-of-00002.gguf': gguf('1'),
      'Q8_0/M-00002-of-00002.gguf': gguf('2'),
      'mmproj-F16.gguf': gguf('p'),
      'other-F16.gguf': gguf('o'),
    })
    const resolve = resolving(hub)
    const expected = {
      primary: 'M-00001-of-00002.gguf',
      mmproj: 'mmproj-F16.gguf',
      files: [
        { path: 'M-00001-of-00002.gguf', role: 'weights' },
        { path: 'M-00002-of-00002.gguf', role: 'weights' },
        { path: 'mmproj-F16.gguf', role: 'mmproj' },
      ],
    }
    const mmproj = 'mmproj-F16.gguf'
    expect(await resolve({ source: 'org/repo', quantization: 'Q8_0', mmproj })).toMatchObject(expected)
    hub.listings.push([]) // a file that is named needs no listing
    expect(await resolve({ source: 'org/repo/Q8_0/M-00002-of-00002.gguf', mmproj })).toMatchObject(expected)
    expect(hub.listings).toHaveLength(1)
  })

  test('in MLX format brings a folder', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/mlx', {
      'README.md': Buffer.from('#'),
      'config.json': Buffer.from('{}'),
      'model.safetensors': Buffer.from('weights'),
      'tokenizer.json': Buffer.from('{"a":1}'),
    })
    const resolved = await resolving(hub)({ source: 'org/mlx', format: 'mlx' })
    expect(resolved).toMatchObject({
      primary: '',
      files: [
        { path: 'config.json', role: 'other', sizeBytes: 2 },
        { path: 'model.safetensors', role: 'weights', sha256: sha256(Buffer.from('weights')) },
        { path: 'tokenizer.json', role: 'other', sizeBytes: 7 },
      ],
    })
    expect(resolved.files[0]?.sha256).toBe(undefined)
  })

  test('of 4,000 files in MLX format brings those of the model alone, and no code and no pickle', async () => {
    await using hub = await startFakeHub()
    const endings = ['py', 'pkl', 'bin', 'pt', 'so', 'md', 'png', 'safetensors.bak']
    const others = Array.from({ length: 4_000 }, (_, at) => `model_${at}.${endings[at % endings.length]}`)
    const model = ['config.json', 'model.safetensors', 'tokenizer.json']
    const files = Object.fromEntries([...others, ...model].map((name) => [name, Buffer.from('{}')]))
    await hub.addRepo('org/mlx', { ...files, 'original/model.safetensors': Buffer.from('w') })
    const resolved = await resolving(hub)({ source: 'org/mlx', format: 'mlx' })
    expect(resolved.files.map(({ path }) => path).sort()).toEqual(model)
  })

  test('of 4,000 files that could all be of one MLX model is refused with what to do', async () => {
    await using hub = await startFakeHub()
    const names = Array.from({ length: 4_000 }, (_, at) => `model-${at}.safetensors`)
    await hub.addRepo('org/mlx', Object.fromEntries(['config.json', ...names].map((name) => [name, Buffer.from('{}')])))
    expect(await refusalOf(resolving(hub)({ source: 'org/mlx', format: 'mlx' }), hub)).toEqual([
      'terminal',
      'Ambiguous',
      'spec.source and spec.files mean 4001 files of org/mlx, more than the 2000 that a model may have: name those of one model.',
    ])
  })

  test('in MLX format that lacks a part of its weights is refused before anything is fetched', async () => {
    await using hub = await startFakeHub()
    const names = ['config.json', 'model-00001-of-000003.safetensors', 'model-00003-of-000003.safetensors']
    await hub.addRepo('org/mlx', Object.fromEntries(names.map((name) => [name, Buffer.from('{}')])))
    expect(await refusalOf(resolving(hub)({ source: 'org/mlx', format: 'mlx' }), hub)).toEqual([
      'transient',
      'ShardMissing',
      'model-00001-of-000003.safetensors is one of 3 parts and org/mlx lacks 1 of them: put them there or give another source.',
    ])
    expect(hub.requests.filter(({ server }) => server === 'cdn')).toEqual([])
  })

  test('whose file has another checksum than the Model says is refused before anything is fetched', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    const asked = resolving(hub)({ source: 'hf://org/repo/M.gguf', sha256: 'A'.repeat(64) })
    expect(await refusalOf(asked, hub)).toEqual([
      'terminal',
      'WrongChecksum',
      `spec.sha256 is ${'a'.repeat(64)}, but the Hub's M.gguf of org/repo has ${sha256(gguf('x'))}: correct spec.sha256, or name the revision that is meant as hf://org/repo/M.gguf@COMMIT.`,
    ])
  })

  test('is not asked where HF_HUB_OFFLINE says so', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    expect(await refusalOf(resolving(hub, { offline: true })('org/repo'), hub)).toEqual([
      'transient',
      'Offline',
      'HF_HUB_OFFLINE is set, so the Hub is not asked for org/repo: unset it, put the files into the model store, or give an absolute path.',
    ])
    expect(hub.requests).toEqual([])
  })
})

describe("an address of the Hub's own", () => {
  test.each(['resolve', 'blob'])('with /%s/ is a file of the Hub, with its checksum', async (verb) => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'a b/M.gguf': gguf('x') })
    const resolved = await resolving(hub)(`${hub.endpoint}/org/repo/${verb}/main/a%20b/M.gguf?download=true`)
    expect(resolved).toMatchObject({ primary: 'M.gguf', files: [{ sha256: sha256(gguf('x')) }] })
    const notes = resolved.notes.map((note) => note.replace(hub.endpoint, 'HUB'))
    const page = 'HUB/org/repo/blob/main/a%20b/M.gguf is the page of a file, so the file itself (/resolve/) was taken.'
    expect(notes).toEqual(verb === 'blob' ? [page] : [])
  })

  test('of huggingface.co is asked at the mirror that HF_ENDPOINT names', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    const resolved = await resolving(hub)('https://huggingface.co/org/repo/resolve/main/M.gguf')
    expect(resolved.files.map(({ url }) => new URL(url).origin)).toEqual([hub.endpoint])
  })

  test('at a mirror that has no API is fetched like any other', async () => {
    await using hub = await startFakeHub()
    hub.outage = { status: 404 }
    const source = `${hub.endpoint}/org/repo/resolve/main/M.gguf`
    expect(await resolving(hub)(source)).toEqual({
      files: [{ url: source, fileName: 'M.gguf', path: 'M.gguf', role: 'weights' }],
      primary: 'M.gguf',
      notes: [
        `${hub.endpoint} gives files but no information about them, so ${source} is fetched without the Hub's checksum.`,
      ],
    })
  })
})

describe('a gated repository', () => {
  const gated = { gated: true, grantedTo: ['hf_good'] }

  test.each([
    [
      'without a token',
      {},
      'org/gated is gated: accept its licence at HUB/org/gated and put a token into the Secret of spec.sourceSecretRef, the setting hubTokenFile or HF_TOKEN.',
    ],
    [
      'with the token of somebody without access',
      givenToken('hf_other'),
      'org/gated is gated and the account of the token from HF_TOKEN has no access: accept its licence at HUB/org/gated with that account, or give another token.',
    ],
    [
      'with a token that is none',
      givenToken('hf_stale'),
      'HUB does not accept the Hugging Face token from HF_TOKEN for org/gated (401): it is wrong, expired or lacks the right to read, so replace it.',
    ],
    [
      'over http with a token, which stays here',
      { ...givenToken('hf_good'), allowInsecureLoopback: false },
      'org/gated is gated: accept its licence at HUB/org/gated and the token from HF_TOKEN was not sent because HUB is not asked over https, so set HF_ENDPOINT to an https:// address.',
    ],
  ])('is refused %s', async (_, context, message) => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/gated', { 'M.gguf': gguf('x') }, gated)
    expect(await refusalOf(resolving(hub, context)('org/gated'), hub)).toEqual(['transient', 'AccessDenied', message])
    expect(hub.requests.filter(({ server }) => server === 'cdn')).toEqual([])
  })

  test('is resolved with a token that has access, which the download uses too', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/gated', { 'M.gguf': gguf('x') }, gated)
    const resolved = await resolving(hub, givenToken('hf_good'))('org/gated')
    expect(resolved).toMatchObject({
      files: [{ credentials: { token: 'hf_good', hosts: [new URL(hub.endpoint).host] } }],
    })
    expect(hub.requests.map(({ headers }) => headers.authorization)).toEqual(Array(3).fill('Bearer hf_good'))
  })
})

describe('what is not there is said', () => {
  test.each([
    [
      'a repository, without a token',
      'org/none',
      {},
      'HUB has no public repository org/none: correct spec.source, or if it is private put a token into the Secret of spec.sourceSecretRef, the setting hubTokenFile or HF_TOKEN.',
    ],
    [
      'a repository that is private to others',
      'org/private',
      givenToken('hf_other'),
      'HUB has no repository org/private that the token from HF_TOKEN may see: correct spec.source, or give a token of an account with access.',
    ],
    ['a revision', 'hf://org/repo@v2', {}, 'org/repo has no revision v2: correct what follows the @ in spec.source.'],
  ])('%s', async (_, source, context, message) => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    await hub.addRepo('org/private', { 'M.gguf': gguf('x') }, { private: true, grantedTo: ['hf_good'] })
    expect(await refusalOf(resolving(hub, context)(source), hub)).toEqual([
      'transient',
      source.includes('@') ? 'NoSuchRevision' : 'NotFound',
      message,
    ])
  })

  test('a file, with the files there are', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    expect(await refusalOf(resolving(hub)('org/repo/N.gguf'), hub)).toEqual([
      'transient',
      'NoSuchFile',
      'org/repo has no file "N.gguf", which spec.source names: it has M.gguf (5 B).',
    ])
  })
})

describe('an answer that a Hub does not give', () => {
  const entry = { type: 'file', oid: 'a'.repeat(40), size: 5 }

  test.each([
    ['no list', { error: 'x' }],
    ['an entry without a path', [{ type: 'file', size: 1 }]],
    ['a size below zero', [{ ...entry, path: 'x.gguf', size: -1 }]],
    ['a checksum that is none', [{ ...entry, path: 'x.gguf', lfs: { oid: '../../x', size: 1 } }]],
  ])('%s is refused', async (_, listing) => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    hub.listings.push(listing)
    expect(await refusalOf(resolving(hub)('org/repo'), hub)).toEqual([
      'transient',
      'BadAnswer',
      expect.stringMatching(/^The Hub's answer about org\/repo cannot be used \(.+\): check HF_ENDPOINT, and .+\.$/),
    ])
  })

  test.each([
    '../../../x.gguf',
    '/etc/x.gguf',
    'a\\..\\x.gguf',
    'x\0.gguf',
    'x\n.gguf',
    'x.metalbar.gguf',
    `${'n'.repeat(300)}.gguf`,
    './x.gguf',
    'a//x.gguf',
  ])('a name that could leave the folder, or be taken for ours, is refused (%j)', async (path) => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    hub.listings.push([{ ...entry, path }])
    expect(await refusalOf(resolving(hub)('org/repo'), hub)).toEqual([
      'terminal',
      'UnsafeName',
      expect.stringMatching(/^The file name ".+" cannot be kept safely in the model store: give another source\.$/),
    ])
  })

  test.each([
    ['model\0.safetensors', 'UnsafeName'],
    ['a\\..\\model.safetensors', 'UnsafeName'],
    ['x\\..\\config.json', 'UnsafeName'],
    ['../model.safetensors', 'NoSuchFile'],
    ['/etc/model.safetensors', 'NoSuchFile'],
    ['x/../../model.safetensors', 'NoSuchFile'],
  ])('of a model in MLX format the file %j is not fetched', async (path, reason) => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/mlx', { 'config.json': Buffer.from('{}') })
    const weights = reason === 'UnsafeName' ? [{ ...entry, path: 'model.safetensors' }] : []
    hub.listings.push([{ ...entry, path: 'config.json' }, ...weights, { ...entry, path }])
    expect(await refusalOf(resolving(hub)({ source: 'org/mlx', format: 'mlx' }), hub)).toEqual([
      reason === 'UnsafeName' ? 'terminal' : 'transient',
      reason,
      expect.stringMatching(/^[^\0\n]+\.$/),
    ])
  })

  test('names that a Mac cannot tell apart are refused', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/mlx', {
      'config.json': Buffer.from('{}'),
      'model.safetensors': Buffer.from('w'),
      'Model.safetensors': Buffer.from('v'),
    })
    expect(await refusalOf(resolving(hub)({ source: 'org/mlx', format: 'mlx' }), hub)).toEqual([
      'terminal',
      'UnsafeName',
      `The files "Model.safetensors" and "model.safetensors" differ only in case, which a Mac's disk does not tell apart: give another source.`,
    ])
  })

  test('trouble of the server is tried again', async () => {
    await using hub = await startFakeHub()
    hub.outage = { status: 429, headers: { 'retry-after': '7' } }
    await expect(resolving(hub)('org/repo')).rejects.toMatchObject({ reason: 'RateLimited', retryAfterMs: 7000 })
  })

  test('a listing that leads to another host is not followed', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': gguf('x') })
    const elsewhere: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init)
      if (!new Request(input).url.includes('/tree/')) return answer
      return new Response(answer.body, { headers: { link: `<${hub.cdnOrigin}/next>; rel="next"` } })
    }
    const context = { ...givenToken('hf_good'), transport: { fetch: elsewhere } }
    // But a mirror hands on what the Hub says, where the next page is the Hub's.
    const mirrored: typeof fetch = async (input, init) => {
      const { url } = new Request(input)
      const answer = await fetch(input, init)
      if (!url.includes('/tree/') || url.includes('next')) return answer
      const next = `https://huggingface.co${new URL(url).pathname}?recursive=true&next=1`
      return new Response('[]', { headers: { link: `<${next}>; rel="next"` } })
    }
    const { files } = await resolving(hub, { transport: { fetch: mirrored } })('org/repo')
    expect(files.map(({ path }) => path)).toEqual(['M.gguf'])
    expect(await refusalOf(resolving(hub, context)('org/repo'), hub)).toEqual([
      'transient',
      'BadAnswer',
      expect.stringContaining('it leads to another host, localhost:'),
    ])
    expect(hub.requests.filter(({ server }) => server === 'cdn')).toEqual([])
  })
})

test('an abort ends a request that is not answered', async () => {
  await using hub = await startFakeHub()
  const ending = new AbortController()
  const never: typeof fetch = (_, init) => {
    const { promise, reject } = Promise.withResolvers<never>()
    init?.signal?.addEventListener('abort', () => reject(new Error('aborted by the signal')))
    ending.abort(new Error('nobody wants it'))
    return promise
  }
  const asked = resolving(hub, { signal: ending.signal, transport: { fetch: never } })('org/repo')
  await expect(asked).rejects.toThrow('nobody wants it')
})
