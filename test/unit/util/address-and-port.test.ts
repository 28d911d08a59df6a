import { expect, test } from 'vitest'
import { parseAddressAndPort } from '../../../src/agent-core/util/address-and-port.ts'

test.each([
  ['192.168.1.20:9091', { host: '192.168.1.20', port: 9_091 }],
  ['0.0.0.0:1', { host: '0.0.0.0', port: 1 }],
  ['[::]:65535', { host: '::', port: 65_535 }],
  ['[fd00::1]:9091', { host: 'fd00::1', port: 9_091 }],
])('%j is an address and a port', (text, read) => {
  expect(parseAddressAndPort(text)).toEqual(read)
})

test.each([
  ...[
    '',
    ':9091',
    '9091',
    '0.0.0.0',
    '0.0.0.0:',
    '0.0.0.0:0',
    '0.0.0.0:65536',
    '0.0.0.0:9091 ',
    '0.0.0.0:9091/metrics',
  ],
  ...[
    'localhost:9091',
    '1.2.3:9091',
    '1.2.3.256:9091',
    '::1:9091',
    '[::1]',
    '[1.2.3.4]:9091',
    '[::g]:9091',
    '0.0.0.0:-1',
  ],
])('%j is none', (text) => {
  expect(parseAddressAndPort(text)).toBeUndefined()
})
