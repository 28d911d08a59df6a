import { readFile } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ModelError } from '../../src/agent-core/models/errors.ts'
import { secretMissing } from '../../src/agent-core/models/source-secret.ts'
import { defaultDownloadSettings, type ModelRequest } from '../../src/agent-core/models/models.ts'
import { startFakeHub, type FakeHub } from '../support/fake-hub.ts'
import { failure, gguf, request, startWorld, staying, type World } from '../unit/models/world.ts'

const mine = 'hf_ofThePerson'
const theirs = 'hf_ofTheSecret'
const source = 'hf://org/model'

let usual: FakeHub
let other: FakeHub
let world: World
beforeEach(async () => {
  usual = await startFakeHub({ tokens: [mine, theirs] })
  other = await startFakeHub({ tokens: [mine, theirs] })
  world = await startWorld({
    env: { HF_ENDPOINT: usual.endpoint, HF_TOKEN: mine },
    allowInsecureLoopback: true,
    settings: () => ({ ...defaultDownloadSettings, hubLoginNamespaces: ['a'] }),
  })
})
afterEach(async () => {
  await world[Symbol.asyncDispose]()
  await usual[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
})

const withSecret = (name: string, values: Record<string, string>, namespace = 'a'): ModelRequest => ({
  ...request(source, name, namespace),
  secret: () => Promise.resolve({ namespace, name: 'hub', values }),
})

const labelOf = async (wanted: ModelRequest): Promise<string> =>
  (await readFile((await world.models.ensure(wanted, staying())).path, 'latin1')).slice(5, 10)

const loginsAt = (hub: FakeHub) => [...new Set(hub.requests.map(({ headers }) => headers.authorization ?? 'none'))]

describe('a Hub that a Secret names', () => {
  test('is asked for its Model alone, so that two Models of one source and one namespace do not mix', async () => {
    await usual.addRepo('org/model', { 'm.gguf': gguf('usual') })
    await other.addRepo('org/model', { 'm.gguf': gguf('other') })
    const named = { HF_ENDPOINT: other.endpoint, HF_TOKEN: theirs }
    const wanted = [request(source, 'one', 'a'), withSecret('two', named), withSecret('three', { HF_TOKEN: theirs })]
    expect([await Promise.all(wanted.map(labelOf)), await labelOf(withSecret('four', named))]).toEqual([
      ['usual', 'other', 'usual'],
      'other',
    ])
    expect(await labelOf(request(source, 'five', 'a'))).toBe('usual')
  })

  test('gets the token of that Secret and no other, also in a namespace that has the login of this machine', async () => {
    await usual.addRepo('org/model', { 'm.gguf': gguf('usual') }, { private: true, grantedTo: [mine] })
    await other.addRepo('org/model', { 'm.gguf': gguf('other') })
    await labelOf(request(source, 'one', 'a'))
    await labelOf(withSecret('two', { HF_ENDPOINT: other.endpoint }))
    const without = loginsAt(other)
    await labelOf(withSecret('three', { HF_ENDPOINT: other.endpoint, HF_TOKEN: theirs }))
    expect([loginsAt(usual), without, loginsAt(other)]).toEqual([
      [`Bearer ${mine}`, 'none'],
      ['none'],
      ['none', `Bearer ${theirs}`],
    ])
  })

  test('whose repository needs a token says that the Secret is the place for it', async () => {
    await other.addRepo('org/model', { 'm.gguf': gguf('other') }, { private: true, grantedTo: [theirs] })
    const refused = await failure(labelOf(withSecret('m', { HF_ENDPOINT: other.endpoint })))
    expect([refused.reason, refused.message]).toEqual([
      'NotFound',
      expect.stringMatching(/if it is private put a token into the Secret of spec\.sourceSecretRef\.$/) as string,
    ])
  })

  test('opens nothing that another namespace fetched by stating its digest', async () => {
    const content = gguf('usual')
    await usual.addRepo('org/model', { 'm.gguf': content }, { private: true, grantedTo: [mine] })
    await other.addRepo('org/model', { 'm.gguf': content })
    await labelOf(request(source, 'm', 'a'))
    await labelOf(withSecret('m', { HF_ENDPOINT: other.endpoint }, 'b'))
    expect(other.requests.filter(({ server, method }) => server === 'cdn' && method === 'GET')).toHaveLength(1)
  })

  test('gives nothing to other namespaces by saying that it is public', async () => {
    await usual.addRepo('org/model', { 'm.gguf': gguf('usual') })
    await other.addRepo('org/model', { 'm.gguf': gguf('other') })
    const named = withSecret('m', { HF_ENDPOINT: other.endpoint }, 'b')
    expect([await labelOf(named), await labelOf(request(source, 'm', 'c')), await labelOf(named)]).toEqual([
      'other',
      'usual',
      'other',
    ])
  })

  test('is asked only where it may be: a public address, or one that a person allowed', async () => {
    const models = world.restarted({ allowedDownloadHosts: [] })
    const endpoint = other.endpoint.replace('127.0.0.1', 'localhost')
    const refused = await failure(models.ensure(withSecret('m', { HF_ENDPOINT: endpoint }), staying()))
    expect([refused.reason, other.requests]).toEqual(['DownloadHostNotAllowed', []])
  })

  test('may be the usual one without a token, which then gets no other login', async () => {
    await usual.addRepo('org/model', { 'm.gguf': gguf('usual') })
    expect([await labelOf(withSecret('m', { HF_ENDPOINT: usual.endpoint })), loginsAt(usual)]).toEqual([
      'usual',
      ['none'],
    ])
  })

  test('cannot be known while its Secret cannot be read, which keeps no Model from a copy that everybody may have', async () => {
    await usual.addRepo('org/model', { 'm.gguf': gguf('usual') })
    await usual.addRepo('org/closed', { 'm.gguf': gguf('closed') }, { private: true, grantedTo: [mine] })
    const secret = () => Promise.reject(secretMissing('a', 'hub', source))
    await labelOf(request(source, 'one', 'a'))
    await labelOf(request('hf://org/closed', 'three', 'a'))
    const refused = await failure(labelOf({ ...request('hf://org/closed', 'four', 'a'), secret }))
    expect([await labelOf({ ...request(source, 'two', 'b'), secret }), refused.reason]).toEqual([
      'usual',
      'SecretMissing',
    ])
  })

  test('is no reason to refuse an address of no Hub where the Secret cannot be read', async () => {
    const { url } = world.server.serve('/x.gguf', gguf('plain'))
    const secret = () => Promise.reject(secretMissing('a', 'hub', source))
    const refused = await failure(labelOf({ ...request(source, 'm', 'a'), secret }))
    const unread = () => Promise.reject(ModelError.passing('SecretUnread', 'The cluster is away.'))
    const waits = await failure(labelOf({ ...request(url, 'y', 'b'), secret: unread }))
    expect([await labelOf({ ...request(url, 'x', 'a'), secret }), refused.reason]).toEqual(['plain', 'SecretMissing'])
    expect(waits.reason).toBe('SecretUnread')
  })
})
