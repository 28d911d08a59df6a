import { describe, expect, test } from 'vitest'
import { type Fetch, HubClient, type HubClientOptions } from '../../../../src/agent-core/models/hub/client.ts'
import { startFakeHub, type FakeHub } from '../../../support/fake-hub.ts'
import { shareOfThisThread } from '../../../support/processor-time.ts'
import { refusalOf } from './hub-world.ts'

const client = ({ endpoint }: FakeHub, options: Partial<HubClientOptions> = {}) =>
  new HubClient({ endpoint, fetch, token: undefined, signal: new AbortController().signal, ...options })

const saying =
  (answer: string): Fetch =>
  () =>
    Promise.resolve(new Response(answer))

/** Every answer of the Hub, changed. */
const changed =
  (change: (answer: Response, url: string) => Response): Fetch =>
  async (input, init) => {
    const { url } = new Request(input)
    return change(await fetch(input, init), url)
  }

describe('an answer of the Hub is bounded', () => {
  test('in pages', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') })
    const endless = changed(({ body }, url) => new Response(body, { headers: { link: `<${url}>; rel="next"` } }))
    expect(await refusalOf(client(hub, { fetch: endless }).list('org/repo', 'main'), hub)).toEqual([
      'transient',
      'BadAnswer',
      "The Hub's answer about org/repo cannot be used (its listing has more than 100 pages): check HF_ENDPOINT, and whether the network asks for a login.",
    ])
    expect(hub.requests).toHaveLength(100)
  })

  test('in files', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') })
    hub.listings.push(Array.from({ length: 20_001 }, (_, at) => ({ type: 'file', path: `${at}.txt`, size: 1 })))
    expect(await refusalOf(client(hub).list('org/repo', 'main'), hub)).toEqual([
      'terminal',
      'Ambiguous',
      'org/repo has more than 20000 files or 2 MiB of names, too many to choose from: name the file in spec.source, as hf://org/repo/file.gguf.',
    ])
  })

  test('in the length of a path, which no file system could keep', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') })
    hub.listings.push([500, 501].map((length) => ({ type: 'file', path: 'x'.repeat(length), size: 1 })))
    expect((await client(hub).list('org/repo', 'main')).map(({ path }) => path.length)).toEqual([500])
  })

  test('in bytes', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') })
    hub.listings.push([{ type: 'file', path: 'x'.repeat(17 * 1024 * 1024), size: 1 }])
    expect(await refusalOf(client(hub).list('org/repo', 'main'), hub)).toEqual([
      'transient',
      'BadAnswer',
      expect.stringContaining('(it has more than 16777216 bytes)'),
    ])
  })

  test('in the time that reading it takes of everything else', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') })
    const slow = Array.from({ length: 200_000 }, (_, at) => `"${(46_656 + at).toString(36)}":1`).join()
    const listing = `[{"type":"file","path":"M.gguf","size":1,"oid":"a","unknown":{${slow}}}]`
    const listed = client(hub, { fetch: saying(listing) })
    const share = await shareOfThisThread(async () => {
      expect(await listed.list('org/repo', 'main')).toEqual([{ path: 'M.gguf', sizeBytes: 1, blob: 'a' }])
    })
    expect(share).toBeLessThan(0.5)
  })

  test('in time', async () => {
    await using hub = await startFakeHub()
    const silent: Fetch = async (_, init) => {
      const { promise, reject } = Promise.withResolvers<never>()
      init?.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'TimeoutError')))
      return promise
    }
    expect(await refusalOf(client(hub, { fetch: silent, timeoutMs: 20 }).state('org/repo'), hub)).toEqual([
      'transient',
      'Unreachable',
      'HUB/org/repo did not answer within 0.02 s: check the network; the agent tries again.',
    ])
  })
})

test('a login page in place of an answer is said', async () => {
  await using hub = await startFakeHub()
  await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') })
  const page = changed(() => new Response('<!doctype html><title>Log in</title>'))
  expect(await refusalOf(client(hub, { fetch: page }).state('org/repo'), hub)).toEqual([
    'transient',
    'BadAnswer',
    expect.stringMatching(/^The Hub's answer about org\/repo cannot be used \(.*JSON.*\): .* asks for a login\.$/s),
  ])
})

test('a Hub that cannot be reached is named', async () => {
  const hub = await startFakeHub()
  await hub[Symbol.asyncDispose]()
  expect(await refusalOf(client(hub).state('org/repo'), hub)).toEqual([
    'transient',
    'Unreachable',
    'HUB/org/repo cannot be reached (connection refused): check the address and the network; the agent tries again.',
  ])
})

test('a token that is not in the usual form is sent all the same, for mirrors have their own', async () => {
  await using hub = await startFakeHub({ tokens: ['company-token'] })
  await hub.addRepo('org/repo', { 'M.gguf': Buffer.from('GGUF') }, { private: true, grantedTo: ['company-token'] })
  const token = { value: 'company-token', from: 'HF_TOKEN' }
  const state = await client(hub, { token, allowInsecureLoopback: true }).state('org/repo')
  expect(state).toEqual({ commit: expect.stringMatching(/^[0-9a-f]{40}$/) as string, isPublic: false })
})
