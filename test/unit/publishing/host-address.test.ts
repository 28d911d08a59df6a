import { createServer } from 'node:net'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  chooseHostAddress,
  explicitHostAddress,
  hostAddress,
  type HostCandidate,
  localAddressTowards,
  PublishedAddress,
} from '../../../src/agent-core/publishing/host-address.ts'
import type { PersonSettings } from '../../../src/agent-core/settings/person-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

const lan = { name: 'en0', address: '192.168.1.20' }
const secondLan = { name: 'en7', address: '10.0.0.5' }
const tailscale = { name: 'utun4', address: '100.101.102.103' }
const docker = { name: 'docker0', address: '172.17.0.1' }
const lanOfSix = { name: 'en0', address: '2001:db8::20' }
const virtual: HostCandidate[] = [
  { name: 'bridge100', address: '192.168.139.3' },
  { name: 'utun3', address: '10.8.0.2' },
  { name: 'vmenet0', address: '192.168.64.1' },
]
const unusable: HostCandidate[] = [
  { name: 'lo0', address: '127.0.0.1' },
  { name: 'en5', address: '169.254.3.4' },
  { name: 'en0', address: 'fe80::1' },
  { name: 'en0', address: '::ffff:192.168.1.20' },
  { name: 'kube-ipvs0', address: '10.96.0.10' },
]

type Row = [title: string, candidates: HostCandidate[], preferred: string | undefined, address: string]

describe('choosing among the addresses of this host', () => {
  test.each<Row>([
    ['the one that leads to the API server', [lan, tailscale, secondLan], '10.0.0.5', '10.0.0.5'],
    ['the tailnet where it leads to the API server', [lan, tailscale], tailscale.address, tailscale.address],
    ['no tailnet where no route is known', [tailscale, lan], undefined, lan.address],
    ['no tailnet where the API server is on this host', [tailscale, lan], '127.0.0.1', lan.address],
    ['the tailnet where there is nothing else', [tailscale], '127.0.0.1', tailscale.address],
    ['a network of virtual machines before a tunnel', [tailscale, ...virtual], '127.0.0.1', '192.168.139.3'],
    ['a tunnel that leads to the API server', [lan, ...virtual], '10.8.0.2', '10.8.0.2'],
    ['the first local network else', [lan, secondLan], undefined, '192.168.1.20'],
    [
      'a real network before virtual ones where the API server is on this host',
      [...virtual, lan],
      '127.0.0.1',
      lan.address,
    ],
    ['a virtual network where there is no other', virtual, '127.0.0.1', '192.168.139.3'],
    ['a real network before the bridge that leads to the API server', [...virtual, lan], '192.168.64.1', lan.address],
    ['the bridge that leads to the API server where there is no other', virtual, '192.168.64.1', '192.168.64.1'],
    ['a local network after everything unusable', [...unusable, lan], '10.96.0.10', '192.168.1.20'],
    ...['172.17.4.20', '192.168.65.20', '10.100.2.3', '100.64.3.2'].flatMap((address): Row[] => [
      ['a network whose range others use for something else', [lan, { name: 'en1', address }], address, address],
      ['and without a route', [docker, { name: 'en1', address }], undefined, address],
    ]),
    ['Thunderbolt between two machines', [lan, { name: 'bridge0', address: '10.0.0.2' }], '10.0.0.2', '10.0.0.2'],
    ['a real network before the bridge of Docker', [docker, lan], docker.address, lan.address],
    ['an address outside private ranges', [{ name: 'en0', address: '203.0.113.9' }], undefined, '203.0.113.9'],
    ['IPv6 where there is no IPv4', [{ name: 'en5', address: '169.254.3.4' }, lanOfSix], undefined, lanOfSix.address],
    ['IPv4 also where IPv6 leads to the API server', [lanOfSix, lan], lanOfSix.address, lan.address],
    [
      'of IPv6 the one that leads to the API server',
      [lanOfSix, { name: 'en0', address: 'fd00:2::3' }],
      'fd00:2::3',
      'fd00:2::3',
    ],
    [
      'of IPv6 the local network before the tailnet',
      [{ name: 'utun4', address: 'fd7a:115c:a1e0::1' }, lanOfSix],
      undefined,
      lanOfSix.address,
    ],
  ])('%s', (_, candidates, preferred, address) => {
    expect(chooseHostAddress(candidates, preferred)).toMatchObject({ kind: 'chosen', address })
  })

  test('what was passed over is named with the reason', () => {
    const rejected = [
      { name: 'lo0', address: '127.0.0.1', reason: 'a loopback address' },
      { name: 'en5', address: '169.254.3.4', reason: 'a link-local address' },
      { name: 'en0', address: 'fe80::1', reason: 'a link-local address' },
      { name: 'en0', address: '::ffff:192.168.1.20', reason: 'an IPv4 address in the form of IPv6' },
      { name: 'kube-ipvs0', address: '10.96.0.10', reason: 'addresses of Services' },
    ]
    expect(chooseHostAddress([...unusable, lan], undefined)).toEqual({
      kind: 'chosen',
      address: '192.168.1.20',
      why: 'en0 is the first local network',
      rejected,
    })
  })

  test('without a candidate nothing is made up', () => {
    expect([
      chooseHostAddress([{ name: 'lo0', address: '127.0.0.1' }], undefined),
      chooseHostAddress([], undefined),
    ]).toMatchObject([
      {
        kind: 'none',
        message:
          "No address of this machine can be published (lo0 127.0.0.1: a loopback address); connect it to the cluster's network or give the address with --host-ip.",
      },
      { kind: 'none', message: expect.stringContaining('there is no network interface') as string },
    ])
  })
})

describe('--host-ip', () => {
  test('is taken as given', () => {
    const own = { name: 'en0', address: '192.0.2.1' }
    expect(explicitHostAddress({ by: 'flag', address: own.address }, [own])).toEqual({
      ...{ kind: 'chosen', address: own.address, rejected: [] },
      why: 'it was given with --host-ip, on en0',
    })
  })

  test.each(['flag', 'person'] as const)('of a %s that no interface has is published, with a warning', (by) => {
    expect(explicitHostAddress({ by, address: '192.168.1.50' }, [lan])).toMatchObject({
      ...{ kind: 'chosen', address: '192.168.1.50' },
      warning: '192.168.1.50 is on no interface of this machine: Pods reach it only if something forwards there.',
    })
  })

  test.each([
    'mac.local',
    '::1',
    'fe80::1%en0',
    '::',
    'ff02::1',
    '127.0.0.1',
    '169.254.1.1',
    '0.0.0.0',
    '224.0.0.1',
    '10.0.0.256',
    '010.0.0.1',
  ])('is refused in one sentence where the API server would refuse it: %s', (given) => {
    expect(explicitHostAddress({ by: 'flag', address: given }, [])).toMatchObject({
      kind: 'none',
      message: expect.stringMatching(
        `^--host-ip ${given} cannot be published \\(.+\\); give an address of this machine`,
      ) as string,
    })
  })

  test('wins over every interface', async () => {
    await expect(
      hostAddress({
        explicit: { by: 'flag', address: '192.0.2.1' },
        server: 'https://192.0.2.2:6443',
        interfaces: () => [lan],
      }),
    ).resolves.toMatchObject({ address: '192.0.2.1' })
  })
})

describe('the route to the API server', () => {
  test('is read from the routing table, with no packet sent', async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const bound = server.address()
    const port = typeof bound === 'object' && bound ? bound.port : 0
    await expect(localAddressTowards('127.0.0.1', port)).resolves.toBe('127.0.0.1')
    await expect(
      hostAddress({ explicit: undefined, server: `http://127.0.0.1:${port}`, interfaces: () => [lan, tailscale] }),
    ).resolves.toMatchObject({ address: lan.address })
    server.close()
  })

  test('is no preference where it cannot be told', async () => {
    await expect(localAddressTowards('127.0.0.1', 70_000)).resolves.toBeUndefined()
  })

  test('keeps the address from before where it cannot be told, while an interface has it', async () => {
    const server = 'https://no-such-host.invalid:6443'
    const before = chooseHostAddress([lan, tailscale], lan.address)
    const chosen = (candidates: HostCandidate[]) =>
      hostAddress({ explicit: undefined, server, interfaces: () => candidates, before })
    await expect(chosen([lan, tailscale])).resolves.toBe(before)
    await expect(chosen([tailscale])).resolves.toMatchObject({ address: tailscale.address })
  })
})

test('an address that a person chooses is published at once and stays, also where an automatic look still waits for a name server', async () => {
  let wanted: PersonSettings['hostAddress'] = { by: 'automatic' }
  const told: string[] = []
  using address = new PublishedAddress({
    interfaces: () => [lan, secondLan],
    wanted: () => wanted,
    server: () => 'https://no-such-host.invalid:6443',
    history: { add: ({ message }) => void told.push(message) },
    log: silentLog,
    onChange: () => undefined,
  })
  await address.check()
  expect(address.facts.ip).toBe(lan.address)
  const automatic = address.check()
  wanted = { by: 'person', address: secondLan.address }
  await address.check()
  expect(address.facts.ip).toBe(secondLan.address)
  await automatic
  expect(address.facts.ip).toBe(secondLan.address)
  expect(told).toEqual([`Pods are sent to ${secondLan.address}: it was chosen by hand, on ${secondLan.name}.`])
})

test('where the system does not tell its interfaces the agent runs on, and says so at each check', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const failures: string[] = []
  using address = new PublishedAddress({
    interfaces: () => {
      throw new Error('too many open files')
    },
    wanted: () => ({ by: 'automatic' }),
    server: () => 'https://192.0.2.1:6443',
    history: { add: () => undefined },
    log: { ...silentLog, error: (message) => void failures.push(message) },
    onChange: () => undefined,
  })
  address.watch()
  await vi.advanceTimersByTimeAsync(11_000)
  expect(new Set(failures)).toEqual(new Set(['host address not checked']))
  expect(failures.length).toBeGreaterThanOrEqual(2)
  expect(failures.length).toBeLessThanOrEqual(3)
})
