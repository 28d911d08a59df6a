import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createTransport } from '../../../../src/agent-core/models/download/transport.ts'
import type { Behaviour } from '../../../support/model-server/behaviour.ts'
import { startModelServer, type ModelServer } from '../../../support/model-server/model-server.ts'
import { certificate } from './certificates.ts'
import { downloadRoom, failureOf, type DownloadRoom } from './room.ts'

const token = 'hf_verySecretToken'
const plain: Behaviour = { sizeBytes: 5000, seed: 'a', etag: '"a"' }

let server: ModelServer
let elsewhere: ModelServer
let room: DownloadRoom
/** How many requests a server has had before this test. */
let earlier: Map<ModelServer, number>
beforeAll(async () => {
  ;[server, elsewhere] = await Promise.all([startModelServer(), startModelServer()])
})
afterAll(async () => {
  await Promise.all([server, elsewhere].map((one) => one[Symbol.asyncDispose]()))
})
beforeEach(async () => {
  room = await downloadRoom()
  earlier = new Map()
  for (const one of [server, elsewhere]) earlier.set(one, (await one.requests()).length)
})
afterEach(async () => room[Symbol.asyncDispose]())

function credentials(allowInsecureLoopback = true): { token: string; hosts: string[]; allowInsecureLoopback: boolean } {
  return { token, hosts: [new URL(server.origin).host], allowInsecureLoopback }
}

async function given(to: ModelServer): Promise<(string | undefined)[]> {
  return (await to.requests()).slice(earlier.get(to)).map(({ authorization }) => authorization)
}

test('the token goes to the host it is for', async () => {
  const { url } = await server.serve('/x.gguf', { ...plain, authorization: `Bearer ${token}` })
  await room.fetch({ url, credentials: credentials() })
  expect(await given(server)).toEqual([`Bearer ${token}`])
})

test('the token does not follow a redirect to another host, nor a redirect back', async () => {
  const back = await server.serve('/back.gguf', plain)
  const away = await elsewhere.serve('/away.gguf', { ...plain, redirect: back.url })
  const { url } = await server.serve('/x.gguf', { ...plain, redirect: away.url })
  await room.fetch({ url, credentials: credentials() })
  expect([await given(server), await given(elsewhere)]).toEqual([[`Bearer ${token}`, undefined], [undefined]])
})

test('a host that is not named never gets the token, also not after it sends us to one that is', async () => {
  const target = await server.serve('/x.gguf', plain)
  const { url } = await elsewhere.serve('/x.gguf', { ...plain, redirect: target.url })
  await room.fetch({ url, credentials: credentials() })
  expect([await given(elsewhere), await given(server)]).toEqual([[undefined], [undefined]])
})

test('the token does not travel without encryption', async () => {
  const { url } = await server.serve('/x.gguf', plain)
  await room.fetch({ url, credentials: credentials(false) })
  expect(await given(server)).toEqual([undefined])
})

test('with a login, a redirect from https to http is not followed; without one it is', async ({ skip }) => {
  const made = await certificate(room.dir, skip, ['-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1'])
  await using secure = await startModelServer(made)
  await using transport = await createTransport({ env: {}, caFile: made.certificateFile })
  const target = await server.serve('/x.gguf', plain)
  const { url } = await secure.serve('/x.gguf', { ...plain, redirect: target.url })
  const hosts = [new URL(secure.origin).host]
  const withToken = await failureOf(room.fetch({ url, credentials: { token, hosts } }, { transport }))
  const withBasic = await failureOf(room.fetch({ url: url.replace('://', '://me:pass@') }, { transport }))
  const refused = [await given(secure), await given(server)]
  await room.fetch({ url }, { transport })
  const why = `${url} redirects from https to http, which the agent does not follow with a login: give the address of the file itself.`
  expect([withToken.message, withBasic.message, refused, await given(server)]).toEqual([
    why,
    why,
    [[`Bearer ${token}`, `Basic ${btoa('me:pass')}`], []],
    [undefined],
  ])
})

test('a login in the address goes to its host and stays behind at a redirect to another', async () => {
  const away = await elsewhere.serve('/away.gguf', plain)
  const { url } = await server.serve('/x.gguf', { ...plain, redirect: away.url })
  await room.fetch({ url: url.replace('://', '://me:p%40ss@') })
  expect([await given(server), await given(elsewhere)]).toEqual([[`Basic ${btoa('me:p@ss')}`], [undefined]])
})

test('a login in the address is not sent again after a redirect back to its host', async () => {
  const back = await server.serve('/back.gguf', plain)
  const away = await elsewhere.serve('/away.gguf', { ...plain, redirect: back.url })
  const { url } = await server.serve('/x.gguf', { ...plain, redirect: away.url })
  await room.fetch({ url: url.replace('://', '://me:pass@') })
  expect([await given(server), await given(elsewhere)]).toEqual([[`Basic ${btoa('me:pass')}`, undefined], [undefined]])
})

test('neither token nor login nor query is in any log, notice, progress or error', async () => {
  const { url } = await server.serve('/x.gguf', {
    ...plain,
    sizeBytes: 3_000_000,
    drop: { afterBytes: 1_000_000, times: 2 },
    later: { afterRequests: 1, seed: 'b', etag: '"b"' },
  })
  const refusing = await server.serve('/no.gguf', { ...plain, status: { code: 403, times: 9 } })
  const secretly = (address: string): string => `${address.replace('://', '://me:passw0rd@')}?X-Amz-Signature=s1gned`
  await room.fetch({ url: secretly(url), credentials: credentials() })
  const refused = await failureOf(room.fetch({ url: secretly(refusing.url), credentials: credentials() }))
  const wrong = await failureOf(room.fetch({ url: secretly(url), credentials: credentials(), sha256: 'ab'.repeat(32) }))
  const everything = JSON.stringify([room.logged, room.notices, room.reports, refused, wrong])
  expect({
    said: everything.length > 1000,
    secrets: [token, 'passw0rd', 's1gned', btoa('me:passw0rd')].filter((secret) => everything.includes(secret)),
  }).toEqual({ said: true, secrets: [] })
})

test('redirects without end are refused', async () => {
  const { url } = await server.serve('/x.gguf', { ...plain, redirect: '/x.gguf' })
  expect(await failureOf(room.fetch({ url }))).toMatchObject({
    reason: 'HttpRefused',
    message: `${url} redirects more than 10 times: check spec.source.`,
  })
})
