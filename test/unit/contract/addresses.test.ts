import { expect, test } from 'vitest'
import { addressAndPort } from '../../../src/contract/addresses.ts'
import { command } from '../../../src/contract/commands.ts'

test('an address that a person chooses is one of IPv4 or IPv6, and no name or zone', () => {
  const chosen = (address: string) => command.safeParse({ name: 'setHostAddress', address }).data
  expect(['192.168.1.20', 'FD00:0:0::0020', 'automatic'].map(chosen)).not.toContain(undefined)
  expect(['mac.local', 'fe80::1%en0', '[fd00::20]', ''].map(chosen)).toEqual(Array(4).fill(undefined))
})

test('an address of IPv6 stands in brackets before a port', () => {
  expect([addressAndPort('192.168.1.20', 80), addressAndPort('fd00::20', 80)]).toEqual([
    ...['192.168.1.20:80', '[fd00::20]:80'],
  ])
})
