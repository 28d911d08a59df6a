import { expect, test } from 'vitest'
import {
  countEstablished,
  isGone,
  parseListeningInodes,
  parseMeminfo,
  parseStat,
} from '../../../src/agent-core/platform/proc-files.ts'

test('a command name with spaces and parentheses does not shift the fields', () => {
  const after = 'S 1 4242 4242 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 5 0 987654 1000000 300 18446744073709551615'
  expect(parseStat(`4242 (a) b (c) ${after}\n`)).toEqual({
    state: 'S',
    groupId: 4242,
    threads: 5,
    cpuTicks: 3,
    startTicks: '987654',
  })
})

test('only sockets that have exactly this port as their own count, IPv4 and IPv6 alike', () => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    '   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1 0 100 0 0 10 0',
    '   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1002 1 0 20 4 30 10 -1',
    '   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1003 1 0 100 0 0 10 0',
    '   3: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 1005 1 0 20 4 30 10 -1',
    '   4: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 1004 1 0 100 0 0 10 0',
    '',
  ].join('\n')
  expect([parseListeningInodes(table, 8080), countEstablished(table, 8080)]).toEqual([['1001', '1004'], 1])
})

test('meminfo without the figures is no answer', () => {
  expect(parseMeminfo('MemTotal:       16384 kB\nMemAvailable:    8192 kB\n')).toEqual({
    totalBytes: 16 * 1024 ** 2,
    availableBytes: 8 * 1024 ** 2,
  })
  expect(parseMeminfo('MemTotal:       16384 kB\n')).toBeUndefined()
})

test('a zombie counts as gone once its last thread is', () => {
  const stat = { groupId: 1, cpuTicks: 0, startTicks: '1' }
  expect(
    [
      { ...stat, state: 'Z', threads: 1 },
      { ...stat, state: 'Z', threads: 9 },
      { ...stat, state: 'X', threads: 1 },
      { ...stat, state: 'D', threads: 1 },
    ].map(isGone),
  ).toEqual([true, false, true, false])
})

test.each(['', '42 (a) S', '42 (a) S x x x', '42 (a) Sleeping 1 4242 4242 0 -1 0 0 0 0 0 1 2 0 0 20 0 5 0 9 0'])(
  'what does not read like a process is none: %j',
  (text) => {
    expect(() => parseStat(text)).toThrow('not what /proc/PID/stat holds')
  },
)
