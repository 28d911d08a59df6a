import { execFile } from 'node:child_process'
import type { LookupAddress } from 'node:dns'
import type { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { HostGuard } from '../../src/agent-core/models/download/host-guard.ts'
import type { ModelsOptions } from '../../src/agent-core/models/models.ts'
import { eventually } from '../support/eventually.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { startFileServer } from '../support/file-server.ts'
import { freePort } from '../support/free-port.ts'
import { createNetworkNamespace } from '../support/network-namespace.ts'
import { missingNetworkNamespaces, skipWhen } from '../support/skip.ts'
import { failure, gguf, request, startWorld, staying, type World } from '../unit/models/world.ts'

let world: World
let port: string
beforeEach(async () => {
  world = await startWorld({ allowedDownloadHosts: [] })
  world.server.serve('/m.gguf', gguf('private'))
  port = new URL(world.server.origin).port
})
afterEach(async () => world[Symbol.asyncDispose]())

const ensure = (source: string, options: Partial<ModelsOptions> = {}, name = 'tiny') =>
  world.restarted(options).ensure(request(source, name), staying())

/** A resolver that gives the addresses of each question in turn, and of the last from then on. */
function resolver(...answers: readonly (readonly string[])[]) {
  const asked: string[] = []
  const resolveHost: NonNullable<ModelsOptions['resolveHost']> = (hostname, _, callback) => {
    const addresses = answers[Math.min(asked.push(hostname), answers.length) - 1] ?? []
    const found = addresses.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 }))
    callback(null, found)
  }
  return { asked, resolveHost }
}

describe('whoever may write a Model reaches no service of this machine or its network', () => {
  test.each([
    ...[
      '127.0.0.1',
      'localhost',
      'LOCALHOST.',
      'a.localhost',
      '2130706433',
      '0x7f.1',
      '127.1',
      '0.0.0.0',
      '[::1]',
      '[::]',
    ],
    ...['10.0.0.1', '172.16.0.1', '192.168.0.1', '169.254.169.254', '100.64.0.1', '224.0.0.1', '255.255.255.255'],
    ...['192.0.0.1', '198.18.0.1', '[fc00::1]', '[fe80::1]', '[ff02::1]', '[::ffff:127.0.0.1]', '[::127.0.0.1]'],
    ...[
      '[::2]',
      '[4000::1]',
      '[64:ff9b::7f00:1]',
      '[64:ff9b:1::1]',
      '[64:ff9b:1:a00:0:100:808:808]',
      '[2002:7f00:1::]',
      '[2001::1]',
    ],
  ])('by the address %s', async (host) => {
    const failed = await failure(ensure(`http://${host}:${port}/m.gguf`))
    expect(failed).toMatchObject({
      kind: 'transient',
      reason: 'DownloadHostNotAllowed',
      message: expect.stringContaining('--allowed-download-hosts') as string,
    })
    expect(world.server.requests).toEqual([])
  })

  test.each([
    { kind: 'one of whose addresses is local', addresses: ['1.1.1.1', '127.0.0.1'] },
    { kind: 'that DNS64 translates to a private address', addresses: ['64:ff9b::a00:1'] },
  ])('by a name $kind', async ({ addresses }) => {
    const { asked, resolveHost } = resolver(addresses)
    const failed = await failure(ensure(`http://models.example:${port}/m.gguf`, { resolveHost }))
    expect([failed.reason, asked, world.server.requests]).toEqual(['DownloadHostNotAllowed', ['models.example'], []])
    expect(failed.message).toContain('models.example')
    expect(failed.message).not.toMatch(/127\.0\.0\.1|64:ff9b/)
  })

  test('by a name that changes its address between the check and the connection, or the next one', async () => {
    const { asked, resolveHost } = resolver(['192.0.2.1'], ['127.0.0.1'])
    const options = { resolveHost, allowedDownloadHosts: ['192.0.2.1'], attempts: 1 }
    const source = `http://rebind.example:${port}/m.gguf`
    const leaving = new AbortController()
    const first = world.restarted(options).ensure(request(source), { signal: leaving.signal })
    first.catch(() => undefined)
    await eventually(() => asked.length > 0)
    leaving.abort()
    await first.catch(() => undefined)
    const second = await failure(ensure(source, options))
    expect([second.reason, world.server.requests]).toEqual(['DownloadHostNotAllowed', []])
  })

  test('by a redirect of a server that is allowed', async () => {
    await using other = await startFileServer()
    const { url } = world.server.serve('/there.gguf', Buffer.alloc(0), {
      fault: { kind: 'redirect', location: `http://localhost:${new URL(other.origin).port}/m.gguf` },
    })
    const failed = await failure(ensure(url, { allowedDownloadHosts: ['127.0.0.1'] }))
    expect([failed.reason, other.requests]).toEqual(['DownloadHostNotAllowed', []])
  })

  test('nor does a refusal tell an open port from a closed one', async () => {
    const closed = await freePort()
    const failures = await Promise.all(
      [port, closed].map((one) => failure(ensure(`http://127.0.0.1:${one}/m.gguf`, {}, `m${one}`))),
    )
    expect(failures[0]).toEqual(failures[1])
  })

  test('by the address itself where a proxy does the rest', async () => {
    const env = { HTTP_PROXY: world.server.origin }
    const failed = await failure(ensure('http://192.168.0.1/m.gguf', { env }))
    expect([failed.reason, world.server.requests]).toEqual(['DownloadHostNotAllowed', []])
    expect(await ensure('http://models.example/m.gguf', { env })).toMatchObject({ sizeBytes: 4096 })
  })

  test('by the Hub that a person chose, whose own host counts as listed', async () => {
    await using hub = await startFakeHub()
    await hub.addRepo('org/model', { 'm.gguf': gguf('hub') })
    const failed = await failure(ensure('hf://org/model', { env: { HF_ENDPOINT: hub.endpoint } }))
    expect(failed.reason).toBe('DownloadHostNotAllowed')
    expect(failed.message).toContain('from localhost,')
    expect(hub.requests.filter(({ server }) => server === 'hub').length).toBeGreaterThan(0)
    expect(hub.requests.filter(({ server }) => server === 'cdn')).toEqual([])
  })
})

test.each([
  ['2002:808:808::1', []],
  ['64:ff9b::808:808', []],
  ['2002:a00:1::1', ['10.0.0.1']],
  ['2002:a00:1::1', ['10.0.0.0/8']],
])('%s is judged as the IPv4 address that it stands for, with %s listed', (address, listed) => {
  const judged = (allowed: readonly string[]) => () =>
    new HostGuard({ allowed: () => allowed }).requireHost(`[${address}]`)
  expect(judged(listed)).not.toThrow()
  if (listed.length > 0) expect(judged([])).toThrow('--allowed-download-hosts')
})

describe('nor one of its own network, where that has public addresses', () => {
  skipWhen(missingNetworkNamespaces())

  test('in the same words whether it is open, closed, filtered or wants a login, and as the network is when it is asked', async () => {
    await using elsewhere = await createNetworkNamespace()
    const script = join(import.meta.dirname, 'own-network.ts')
    const [command, ...args] = elsewhere.enter([process.execPath, script])
    const { stdout } = await promisify(execFile)(command, args)
    const { refused, askedMeanwhile, others } = z
      .object({
        refused: z.array(z.object({ source: z.string(), reason: z.string(), message: z.string() })),
        askedMeanwhile: z.array(z.string()),
        others: z.array(z.string()),
      })
      .parse(JSON.parse(stdout))
    expect(refused.filter(({ reason }) => reason !== 'DownloadHostNotAllowed')).toEqual([])
    expect(refused).toHaveLength(13)
    expect(new Set(refused.map(({ message }) => message)).size).toBe(1)
    expect(askedMeanwhile).toEqual([])
    // Two that a person listed, and one that only a careless interface calls its own.
    expect(others).toEqual(['fetched', 'fetched', 'Unreachable'])
  })
})

test.each([
  ['2a00:1:2:3::/64', '2a00:1:2:3:ffff::9', false],
  ['2a00:1:2:3::/64', '2a00:1:2:4::9', true],
  ['2a00:1:2:3::7/128', '2a00:1:2:3::9', false],
  ['2a00:1:2:3::7/0', '2a00:1:2:ffff::9', false],
  ['2a00:1:2:3::7/0', '2a00:1:3::9', true],
  ['81.2.69.142/28', '81.2.69.129', false],
  ['81.2.69.142/28', '81.2.69.145', true],
  ['81.2.69.142/32', '81.2.69.141', false],
  ['81.2.69.142/32', '81.2.69.144', true],
  ['81.2.69.142/0', '81.2.70.1', false],
  ['81.2.69.142/0', '8.8.8.8', true],
  ['81.2.69.142/28', '::ffff:81.2.69.129', false],
  ['81.2.69.142/28', '64:ff9b::81.2.69.129', false],
  ['81.2.69.142/28', '2002:5102:4581::1', false],
  ['2002:5102:458e::1/16', '2002:5102:458e:7::1', false],
  ['2002:5102:458e::1/16', '2002:808:808::1', true],
  ['2a00:1:2:3::7/64', '2a00:1:2:3::9%en0', false],
])('a machine at %s and %s: fetched from: %s', (cidr, address, isFetchedFrom) => {
  const [own = ''] = cidr.split('/')
  const family = own.includes(':') ? 'IPv6' : 'IPv4'
  const interfaces = (): ReturnType<typeof networkInterfaces> => ({
    en0: [{ address: own, cidr, family, netmask: '', mac: '', internal: false, scopeid: 0 }],
  })
  const guard = new HostGuard({
    allowed: () => [],
    interfaces,
    resolve: (_, __, callback) => callback(null, [{ address, family: address.includes(':') ? 6 : 4 }]),
  })
  const refusals: unknown[] = []
  guard.lookup('models.example', { all: true }, (error) => refusals.push(error))
  expect(refusals).toEqual([isFetchedFrom ? null : expect.objectContaining({ reason: 'DownloadHostNotAllowed' })])
})

test('what cannot be judged is not dialled', () => {
  const interfaces = () => {
    throw new Error('uv_interface_addresses failed')
  }
  const resolve: NonNullable<ModelsOptions['resolveHost']> = (_, __, callback) =>
    callback(null, [{ address: '8.8.8.8', family: 4 }])
  const told: unknown[] = []
  new HostGuard({ allowed: () => [], interfaces, resolve }).lookup('models.example', { all: true }, (error) =>
    told.push(error?.message),
  )
  expect(told).toEqual(['uv_interface_addresses failed'])
})

test.each(['127.0.0.1', '127.0.0.0/8', '::ffff:127.0.0.1'])('a person may list %s', async (entry) => {
  expect(await ensure(`${world.server.origin}/m.gguf`, { allowedDownloadHosts: [entry] })).toMatchObject({
    sizeBytes: 4096,
  })
})

test('a person may list a name, in any case, whatever its addresses are', async () => {
  const { resolveHost } = resolver(['127.0.0.1'])
  const options = { resolveHost, allowedDownloadHosts: ['NAS.lan'] }
  expect(await ensure(`http://nas.lan:${port}/m.gguf`, options)).toMatchObject({ sizeBytes: 4096 })
})
