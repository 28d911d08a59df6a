import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createTransport } from '../../../../src/agent-core/models/download/transport.ts'
import type { Behaviour } from '../../../support/model-server/behaviour.ts'
import { startModelServer, startProxy, type ModelServer } from '../../../support/model-server/model-server.ts'
import { downloadRoom, failureOf, type DownloadRoom } from './room.ts'

const plain: Behaviour = { sizeBytes: 5000, seed: 'a', etag: '"a"' }

let room: DownloadRoom
beforeEach(async () => {
  room = await downloadRoom()
})
afterEach(async () => room[Symbol.asyncDispose]())

describe('through a proxy', () => {
  test.each<[string, (proxy: string) => Record<string, string>]>([
    ['HTTP_PROXY', (proxy) => ({ HTTP_PROXY: proxy })],
    ['http_proxy in small letters, which wins', (proxy) => ({ HTTP_PROXY: 'http://127.0.0.1:9', http_proxy: proxy })],
    ['ALL_PROXY', (proxy) => ({ ALL_PROXY: proxy })],
  ])('that %s names', async (_, env) => {
    await using server = await startModelServer()
    await using proxy = await startProxy()
    await using transport = await createTransport({ env: env(`http://127.0.0.1:${proxy.port}`) })
    const { url } = await server.serve('/x.gguf', plain)
    await room.fetch({ url }, { transport })
    expect(await proxy.seen()).toEqual([`GET ${url}`])
  })

  test('with a login, which nobody is told', async () => {
    await using server = await startModelServer()
    await using proxy = await startProxy({ login: 'me:pa55word' })
    const { url } = await server.serve('/x.gguf', plain)
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
    await using server = await startModelServer()
    await using transport = await createTransport({ env: { HTTP_PROXY: 'http://127.0.0.1:9', NO_PROXY: '127.0.0.1' } })
    const { url } = await server.serve('/x.gguf', plain)
    expect((await room.fetch({ url }, { transport })).sizeBytes).toBe(5000)
  })

  test('that is not there, which is named', async () => {
    await using transport = await createTransport({ env: { HTTP_PROXY: 'http://127.0.0.1:9' } })
    const failed = await failureOf(room.fetch({ url: 'http://models.invalid/x.gguf' }, { transport, attempts: 1 }))
    expect(failed.message).toBe(
      'http://models.invalid/x.gguf cannot be reached through the proxy http://127.0.0.1:9 (connection refused): check the address and the network; the agent tries again.',
    )
  })

  test('whose address makes no sense is refused with the name of the variable', async () => {
    expect((await failureOf(createTransport({ env: { HTTPS_PROXY: 'ftp://me:secret@x' } }))).message).toBe(
      'HTTPS_PROXY is not the address of a proxy: write it as http://host:port.',
    )
  })
})

describe('over TLS', () => {
  test('from a server of a private authority that the setting names, also through a proxy', async ({ skip }) => {
    const made = await certificate(skip, ['-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1'])
    await using server = await startModelServer(made)
    await using proxy = await startProxy()
    const { url } = await server.serve('/x.gguf', plain)
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
    const made = await certificate(skip, ['-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1'])
    await using server = await startModelServer(made)
    await using proxy = await startProxy({ refuses: 403 })
    await using transport = await createTransport({ env: { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` } })
    const { url } = await server.serve('/x.gguf', plain)
    expect(await failureOf(room.fetch({ url }, { transport }))).toMatchObject({
      reason: 'ProxyFailed',
      message: `The proxy http://127.0.0.1:${proxy.port} answered 403 Forbidden when asked for ${url}: allow the address there, or name its host in NO_PROXY.`,
    })
  })

  test.for<[string, string[], boolean, string]>([
    [
      'a self-signed certificate',
      ['-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1'],
      false,
      'the certificate is self-signed',
    ],
    [
      'a certificate for another host',
      ['-days', '2', '-addext', 'subjectAltName=DNS:other.invalid'],
      true,
      'the certificate is for another host name',
    ],
  ])('%s is named, and asked for once', async ([, options, trusted, why], { skip }) => {
    const made = await certificate(skip, options)
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
    const made = await expired(skip)
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

  /** Only `openssl ca` makes certificates of the past. */
  async function expired(skip: (note: string) => never): Promise<{ keyFile: string; certificateFile: string }> {
    const made = await certificate(skip, ['-days', '2'])
    const [config, request] = [join(room.dir, 'ca.cnf'), join(room.dir, 'request.pem')]
    await writeFile(join(room.dir, 'index.txt'), '')
    await writeFile(
      config,
      [
        '[ca]\ndefault_ca = own\n[own]',
        `database = ${room.dir}/index.txt`,
        `new_certs_dir = ${room.dir}`,
        'rand_serial = yes\ndefault_md = sha256\npolicy = any\nx509_extensions = names',
        '[any]\ncommonName = supplied\n[names]\nsubjectAltName = IP:127.0.0.1\n',
      ].join('\n'),
    )
    const run = promisify(execFile)
    await run('openssl', ['req', '-new', '-key', made.keyFile, '-subj', '/CN=model-server', '-out', request])
    await run('openssl', [
      ...['ca', '-batch', '-selfsign', '-config', config, '-keyfile', made.keyFile, '-in', request],
      ...['-startdate', '20200101000000Z', '-enddate', '20200102000000Z', '-out', made.certificateFile, '-notext'],
    ])
    return made
  }

  async function certificate(
    skip: (note: string) => never,
    options: string[],
  ): Promise<{ keyFile: string; certificateFile: string }> {
    const [keyFile, certificateFile] = [join(room.dir, 'key.pem'), join(room.dir, 'certificate.pem')]
    try {
      await promisify(execFile)('openssl', [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-subj', '/CN=model-server', '-keyout', keyFile, '-out', certificateFile, ...options],
      ])
    } catch (error) {
      skip(`needs openssl: ${String(error)}`)
    }
    return { keyFile, certificateFile }
  }
})
