import { describe, expect, test } from 'vitest'
import {
  countEstablished,
  isGone,
  parseListeningInodes,
  parseStat,
} from '../../../src/agent-core/platform/proc-files.ts'
import { ProcFootprints } from '../../../src/agent-core/platform/proc-footprints.ts'

describe('proc files', () => {
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

  test('of those that listen, only who gets what is sent to an address counts, where one is named', () => {
    const line = (local: string, inode: number) =>
      `   0: ${local}:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 ${inode} 1 0 100 0 0 10 0`
    const mapped = '0000000000000000FFFF00000100007F'
    const table = ['  sl', line('0100007F', 1), line('0201A8C0', 2), line('00000000', 3), line(mapped, 4)].join('\n')
    expect(['0.0.0.0', '127.0.0.1', '192.168.1.2'].map((host) => parseListeningInodes(table, 8080, host))).toEqual([
      ...[
        ['1', '2', '3', '4'],
        ['1', '3', '4'],
        ['2', '3'],
      ],
    ])
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
})

describe('proc footprints', () => {
  /** A machine of processes with marks and sizes, which counts what is read closely. */
  function machine() {
    const marks = new Map<number, string>()
    const sizes = new Map<number, number>()
    const read: number[] = []
    let time = 0
    const footprints = new ProcFootprints({
      mark: (pid) => marks.get(pid),
      bytes: (pid) => {
        read.push(pid)
        return Promise.resolve(sizes.get(pid))
      },
      now: () => time,
    })
    return {
      set: (pid: number, mark: string, size: number) => {
        marks.set(pid, mark)
        sizes.set(pid, size)
      },
      end: (pid: number) => marks.delete(pid),
      wait: (ms: number) => (time += ms),
      /** What is found, and which were read closely for it. */
      look: async (...pids: number[]) => {
        read.length = 0
        return { found: Object.fromEntries(await footprints.of(pids)), read: [...read] }
      },
    }
  }

  test('a process is read closely again when its resident memory has changed, and no other', async () => {
    const { set, look, wait } = machine()
    set(1, '10 pages', 1_000)
    set(2, '20 pages', 2_000)
    expect(await look(1, 2)).toEqual({ found: { 1: 1_000, 2: 2_000 }, read: [1, 2] })
    wait(2_000)
    expect(await look(1, 2)).toEqual({ found: { 1: 1_000, 2: 2_000 }, read: [] })
    set(2, '21 pages', 2_100)
    expect(await look(1, 2)).toEqual({ found: { 1: 1_000, 2: 2_100 }, read: [2] })
  })

  test('all are read closely after one came or went, which shares its memory with them', async () => {
    const { set, look, end } = machine()
    for (const pid of [1, 2, 3]) set(pid, 'the same', 500)
    await look(1, 2)
    expect((await look(1, 2, 3)).read).toEqual([1, 2, 3])
    end(3)
    set(1, 'the same', 750)
    set(2, 'the same', 750)
    expect(await look(1, 2, 3)).toEqual({ found: { 1: 500, 2: 500 }, read: [] })
    expect(await look(1, 2)).toEqual({ found: { 1: 750, 2: 750 }, read: [1, 2] })
  })
})
