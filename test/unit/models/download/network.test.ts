import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTransport } from '../../../../src/agent-core/models/download/transport.ts'
import type { Behaviour } from '../../../support/model-server/behaviour.ts'
import { startModelServer, startProxy, type ModelServer } from '../../../support/model-server/model-server.ts'
import { certificate, expiredCertificate } from './certificates.ts'
import { downloadRoom, failureOf, type DownloadRoom } from './room.ts'

const plain: Behaviour = { sizeBytes: 5000, seed: 'a', etag: '"a"' }
const forLoopback = ['-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1,IP:0.0.0.0']
/** An address of the same server that is asked for through proxies, as loopback is not. */
const beyond = ({ url }: { url: string }): string => url.replace('//127.0.0.1:', '//0.0.0.0:')

let server: ModelServer
let room: DownloadRoom
beforeAll(async () => {
  server = await startModelServer()
})
afterAll(async () => server[Symbol.asyncDispose]())
beforeEach(async () => {
  room = await downloadRoom()
})
afterEach(async () => room[Symbol.asyncDispose]())

describe('through a proxy', () => {
  test.each<[string, (proxy: string) => Record<string, string>]>([
    ['http_proxy in small letters, which wins', (proxy) => ({ HTTP_PROXY: 'http://127.0.0.1:9', http_proxy: proxy })],
    ['ALL_PROXY', (proxy) => ({ ALL_PROXY: proxy })],
  ])('that %s names', async (_, env) => {
    await using proxy = await startProxy()
    await using transport = await createTransport({ env: env(`http://127.0.0.1:${proxy.port}`) })
    const url = beyond(await server.serve('/x.gguf', plain))
    await room.fetch({ url }, { transport })
    expect(await proxy.seen()).toEqual([`GET ${url}`])
  })

  test('with a login, which nobody is told', async () => {
    await using proxy = await startProxy({ login: 'me:pa55word' })
    const url = beyond(await server.serve('/x.gguf', plain))
    const address = `127.0.0.1:${proxy.port}`
    await using known = await createTransport({ env: { HTTP_PROXY: `http://me:pa55word@${address}` } })
    await using unknown = await createTransport({ env: { HTTP_PROXY: `http://me:wrong1@${address}` } })
    const file = await room.fetch({ url }, { transport: known, partialPath: `${room.partialPath}.2` })
    const failed = await failureOf(room.fetch({ url }, { transport: unknown }))
    expect([file.sizeBytes, failed.reason, failed.message]).toEqual([
      5000,
      'ProxyFailed',
      `The proxy http://${address} answered 407 Proxy Authentication Required when asked for ${url}: give it a login in HTTPS_PROXY (http://user:password@host:port).`,
    ])
  })

  test('not to hosts that NO_PROXY names', async () => {
    await using transport = await createTransport({ env: { HTTP_PROXY: 'http://127.0.0.1:9', NO_PROXY: '0.0.0.0/8' } })
    const url = beyond(await server.serve('/x.gguf', plain))
    expect((await room.fetch({ url }, { transport })).sizeBytes).toBe(5000)
  })

  test('that is not there, which is named', async () => {
    await using transport = await createTransport({ env: { HTTP_PROXY: 'http://127.0.0.1:9' } })
    const failed = await failureOf(room.fetch({ url: 'http://models.invalid/x.gguf' }, { transport, attempts: 1 }))
    expect(failed.message).toBe(
      'http://models.invalid/x.gguf cannot be reached through the proxy http://127.0.0.1:9 (connection refused): check the address and the network; the agent tries again.',
    )
  })

  test('that is spoken to over TLS, to servers with and without it', async ({ skip }) => {
    const made = await certificate(room.dir, skip, forLoopback)
    await using tlsServer = await startModelServer(made)
    await using proxy = await startProxy({ tls: made })
    const address = `https://127.0.0.1:${proxy.port}`
    await using transport = await createTransport({ env: { ALL_PROXY: address }, caFile: made.certificateFile })
    const urls = [await server.serve('/x.gguf', plain), await tlsServer.serve('/x.gguf', plain)].map(beyond)
    for (const [index, url] of urls.entries()) {
      await room.fetch({ url }, { transport, partialPath: `${room.partialPath}.${index}` })
    }
    expect(await proxy.seen()).toEqual([`GET ${urls[0]}`, `CONNECT ${new URL(urls[1] ?? '').host}`])
  })

  test.each([
    ...['ftp://me:secret@x', 'http://me:a6%6q@x', 'http://me:a#b@x'].map((address) => [
      address,
      'HTTPS_PROXY is no address of a proxy: write http://host:port, % as %25 and # as %23.',
    ]),
    [
      'socks5h://me:secret@x:1080',
      'The proxy socks5h://x:1080 speaks SOCKS, but models are fetched through HTTP proxies only: give one in HTTPS_PROXY and HTTP_PROXY as http://host:port, or none.',
    ],
  ])('that cannot be used (%s) is refused without its login', async (address, why) => {
    await using transport = await createTransport({ env: { HTTPS_PROXY: address } })
    const failed = await failureOf(room.fetch({ url: 'https://models.invalid/x.gguf' }, { transport }))
    expect([failed.reason, failed.message]).toEqual(['BadProxy', why])
  })

  test('that is SOCKS harms nobody where HTTP proxies are named as well', async () => {
    await using proxy = await startProxy()
    const http = `http://127.0.0.1:${proxy.port}`
    const env = { ALL_PROXY: 'socks5://127.0.0.1:9', HTTP_PROXY: http, HTTPS_PROXY: http }
    await using transport = await createTransport({ env })
    const url = beyond(await server.serve('/x.gguf', plain))
    await room.fetch({ url }, { transport })
    expect(await proxy.seen()).toEqual([`GET ${url}`])
  })
})

describe('over TLS', () => {
  test('from a server of a private authority that the setting names, also through a proxy', async ({ skip }) => {
    const made = await certificate(room.dir, skip, forLoopback)
    await using server = await startModelServer(made)
    await using proxy = await startProxy()
    const url = beyond(await server.serve('/x.gguf', plain))
    await using straight = await createTransport({ env: {}, caFile: made.certificateFile })
    await using around = await createTransport({
      env: { HTTPS_PROXY: `127.0.0.1:${proxy.port}` },
      caFile: made.certificateFile,
    })
    const [one, other] = [
      await room.fetch({ url }, { transport: straight, partialPath: `${room.partialPath}.1` }),
      await room.fetch({ url }, { transport: around, partialPath: `${room.partialPath}.2` }),
    ]
    expect([one.sha256 === other.sha256, await proxy.seen()]).toEqual([true, [`CONNECT ${new URL(url).host}`]])
  })

  test('a proxy that refuses the connection is named', async ({ skip }) => {
    const made = await certificate(room.dir, skip, forLoopback)
    await using server = await startModelServer(made)
    await using proxy = await startProxy({ refuses: 403 })
    await using transport = await createTransport({ env: { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` } })
    const url = beyond(await server.serve('/x.gguf', plain))
    expect(await failureOf(room.fetch({ url }, { transport }))).toMatchObject({
      reason: 'ProxyFailed',
      message: `The proxy http://127.0.0.1:${proxy.port} answered 403 Forbidden when asked for ${url}: allow the address there, or name its host in NO_PROXY.`,
    })
  })

  test.for<[string, string[], boolean, string]>([
    ['a self-signed certificate', forLoopback, false, 'the certificate is self-signed'],
    [
      'a certificate for another host',
      ['-days', '2', '-addext', 'subjectAltName=DNS:other.invalid'],
      true,
      'the certificate is for another host name',
    ],
  ])('%s is named, and asked for once', async ([, options, trusted, why], { skip }) => {
    const made = await certificate(room.dir, skip, options)
    await using server = await startModelServer(made)
    await using transport = await createTransport({ env: {}, ...(trusted ? { caFile: made.certificateFile } : {}) })
    const { url } = await server.serve('/x.gguf', plain)
    expect({ ...(await failureOf(room.fetch({ url }, { transport }))), notices: room.notices }).toMatchObject({
      reason: 'TlsFailed',
      message: `${url} has no TLS certificate this machine trusts (${why}): repair the server's certificate or trust its authority.`,
      notices: [],
    })
  })

  test('an expired certificate is named', async ({ skip }) => {
    const made = await expiredCertificate(room.dir, skip)
    await using server = await startModelServer(made)
    await using transport = await createTransport({ env: {}, caFile: made.certificateFile })
    const { url } = await server.serve('/x.gguf', plain)
    expect((await failureOf(room.fetch({ url }, { transport }))).message).toBe(
      `${url} has no TLS certificate this machine trusts (the certificate has expired): repair the server's certificate or trust its authority.`,
    )
  })

  test.each<[string, string | undefined]>([
    ['does not exist', undefined],
    ['holds no certificate', 'hello'],
  ])('a file of authorities that %s is refused with its name', async (_, text) => {
    const caFile = join(room.dir, 'ca.pem')
    if (text !== undefined) await writeFile(caFile, text)
    expect(await failureOf(createTransport({ env: {}, caFile }))).toMatchObject({
      reason: 'BadAuthorityFile',
      message: expect.stringMatching(
        /^The certificate authorities in .*ca\.pem cannot be used \(.+\): give a file/,
      ) as unknown,
    })
  })
})
