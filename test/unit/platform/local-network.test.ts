import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { DarwinPlatform } from '../../../src/agent-core/platform/darwin.ts'
import { LinuxPlatform } from '../../../src/agent-core/platform/linux.ts'
import { attemptAt, isOnLink, type Attempt } from '../../../src/agent-core/platform/local-network.ts'
import type { HostInterface } from '../../../src/agent-core/platform/platform.ts'
import { freePort } from '../../support/free-port.ts'

const routes = readFileSync(new URL('after-sources/netstat-routes.txt', import.meta.url), 'utf8')
const routerRow = /^192\.168\.1\.1 .*$/m

const lan = { name: 'en0', address: '192.168.1.20', netmask: '255.255.255.0', family: 'IPv4', internal: false } as const
const six = { ...lan, address: 'fd00::20', netmask: 'ffff:ffff:ffff:ffff::', family: 'IPv6' } as const
const tunnel = { ...lan, name: 'utun4', address: '100.64.0.10', netmask: '255.192.0.0' } as const
const loopback = { ...lan, name: 'lo0', address: '127.0.0.1', netmask: '255.0.0.0', internal: true } as const

const atOnce: Attempt = { code: 'EHOSTUNREACH', ms: 0.3 }

const failure = (address: string, code = 'EHOSTUNREACH') =>
  Object.assign(new Error(`connect ${code} ${address}:6443`), { code, address, port: 6443 })

interface Mac {
  readonly attempt?: Attempt
  readonly routes?: string
  readonly userId?: number
  readonly session?: string
  readonly error?: unknown
}

/** What a Mac of this network says of why connecting failed. */
function whyOn({ attempt = atOnce, error = failure('192.168.1.10'), userId = 501, ...mac }: Mac) {
  const answers = new Map([
    ['/usr/sbin/netstat -rn', mac.routes ?? routes],
    ['/bin/launchctl managername', mac.session ?? 'Aqua'],
  ])
  const platform = new DarwinPlatform({
    run: (command, args) => {
      const stdout = answers.get([command, ...args].join(' '))
      return stdout === undefined ? Promise.reject(new Error(command)) : Promise.resolve({ exitCode: 0, stdout })
    },
    attempt: () => Promise.resolve(attempt),
    interfaces: () => [loopback, lan, six, tunnel],
    userId,
  })
  return platform.whyUnreachable(error)
}

const sentence = (address: string) =>
  `macOS does not let Metalbar reach your local network (${address}): allow it in System Settings → Privacy & Security → Local Network.`

describe('macOS keeps a program from the local network', () => {
  test.each<[string, Mac, address: string]>([
    ['a machine of the same network is refused at once, and the router is there', {}, '192.168.1.10'],
    [
      'by the address behind the name that was asked for',
      { error: new Error('asked', { cause: failure('192.168.1.10') }) },
      '192.168.1.10',
    ],
    [
      'by the first of several addresses that has no way to it',
      { error: new AggregateError([failure('192.168.1.9', 'ECONNREFUSED'), failure('192.168.1.10')]) },
      '192.168.1.10',
    ],
    ['over IPv6', { error: failure('fd00::9') }, 'fd00::9'],
  ])('where %s', async (_why, mac, address) => {
    expect(await whyOn(mac)).toBe(sentence(address))
  })

  test.each<[string, Mac]>([
    ['by root, of whom it does not ask', { userId: 0 }],
    ['by a daemon of launchd, of which it does not ask either', { session: 'System\n' }],
    ['at a machine behind a router', { error: failure('10.0.0.1') }],
    ['through a tunnel', { error: failure('100.64.3.4') }],
    ['at this machine itself', { error: failure('192.168.1.20') }],
    ['at a name', { error: failure('lab.local') }],
    ['at a machine that is switched off', { error: failure('192.168.1.10', 'EHOSTDOWN') }],
    ['at a machine that refuses', { error: failure('192.168.1.10', 'ECONNREFUSED') }],
    ['where it is seen only after a second', { attempt: { code: 'EHOSTUNREACH', ms: 1_004 } }],
    ['where it can be reached again', { attempt: { code: undefined, ms: 2 } }],
    [
      'where no router has told its hardware address',
      { routes: routes.replace(routerRow, '192.168.1.1 link#11 UHLWIir en0 !') },
    ],
    ['where the router does not answer', { routes: routes.replace('UHLWIir', 'UHRLWIir') }],
    ['without a router', { routes: routes.replace(/^default.*$/gm, '') }],
  ])('is not said of a failure %s', async (_why, mac) => {
    expect(await whyOn(mac)).toBeUndefined()
  })

  test('is never said on Linux', () => {
    expect('whyUnreachable' in new LinuxPlatform()).toBe(false)
  })
})

test('what lies in the network of an interface is reached without a router', () => {
  const wide: HostInterface = { ...lan, address: '10.1.2.3', netmask: '255.255.240.0' }
  expect(
    ['10.1.0.1', '10.1.15.254', '10.1.16.1', '::ffff:10.1.3.4', 'fe80::1%en0', ''].map((address) =>
      isOnLink(address, [wide]),
    ),
  ).toEqual([true, true, false, true, false, false])
})

test('one attempt tells how a connection fails, and how soon', async () => {
  const refused = await attemptAt({ address: '127.0.0.1', port: await freePort() })
  expect([refused.code, refused.ms < 250]).toEqual(['ECONNREFUSED', true])
})
