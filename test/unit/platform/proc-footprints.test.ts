import { expect, test } from 'vitest'
import { ProcFootprints } from '../../../src/agent-core/platform/proc-footprints.ts'

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

test('once a minute a process is read closely whether it has changed or not', async () => {
  const { set, look, wait } = machine()
  set(1, '10 pages', 1_000)
  await look(1)
  set(1, '10 pages', 1_500)
  wait(59_999)
  expect(await look(1)).toEqual({ found: { 1: 1_000 }, read: [] })
  wait(1)
  expect(await look(1)).toEqual({ found: { 1: 1_500 }, read: [1] })
})
