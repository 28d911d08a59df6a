import { expect, test } from 'vitest'
import type { GrownServer } from '../../../src/agent-core/memory/growth.ts'
import type { MemoryListener } from '../../../src/agent-core/memory/memory.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import type { UnloadReason } from '../../../src/agent-core/reconcile/unload-reasons.ts'
import { MemoryGuard } from '../../../src/agent-core/reconcile/memory-guard.ts'
import { Recorder } from '../../support/running-agent.ts'

const gib = 1024 ** 3

/** One server that is 5 GiB past a need of 4, in a budget of 16, on a machine of 24. */
function guarded() {
  let now = 0
  let listener: MemoryListener = {}
  let state: ServerState = { kind: 'ready', since: 0, readySince: 0, pid: 7, port: 1, healthy: true }
  const room = {
    level: 'normal' as 'normal' | 'critical',
    budgetBytes: 16 * gib,
    ended: [] as string[],
    held: [] as UnloadReason[],
    generation: 1,
    looks: 0,
    /** As after a look at memory as a whole. */
    sample: () => listener.onSample?.({} as never),
    grow: () => listener.onGrowth?.(),
    advance: (ms: number) => (now += ms),
    /** The server is there again as another process. */
    restart: (pid: number) => (state = { ...state, pid, readySince: now } as ServerState),
    guard: undefined as unknown as MemoryGuard,
  }
  const grown: Omit<GrownServer, 'isEnding'> = {
    ...{ key: 'ns/a', role: 'current', needBytes: 4 * gib, committedBytes: 9 * gib },
    ...{ excessBytes: 5 * gib, possibleExcessBytes: 5 * gib },
  }
  const metadata = () => ({ generation: room.generation })
  room.guard = new MemoryGuard({
    memory: {
      growth: () => ({
        servers: [grown as never],
        budgetBytes: room.budgetBytes,
        level: room.level,
        available: { bytes: gib, criticalBelowBytes: 2.4 * gib },
      }),
      listen: (given) => {
        listener = given
        return () => undefined
      },
      look: () => {
        room.looks += 1
        return Promise.resolve({} as never)
      },
      watchGrowth: () => undefined,
      now: () => now,
    },
    servers: {
      state: () => new Map([['ns/a', state]]),
      get: () => state,
      successor: () => undefined,
      retiring: () => undefined,
      toldBytesOf: () => undefined,
      endForMemory: (key, pid, why) => void room.ended.push(`${key} ${pid}: ${why}`),
    },
    unloadReasons: { unload: (_target, unloadReason) => void room.held.push(unloadReason) },
    session: () => ({
      reconciler: {
        enqueue: () => undefined,
        report: () =>
          ({ uid: 'u', namespace: 'ns', name: 'a', service: { metadata: metadata() }, model: undefined }) as never,
      },
      clusterUrl: 'https://c',
    }),
    marginBytes: () => undefined,
    log: new Recorder(),
    onEnded: () => undefined,
    now: () => now,
  })
  return room
}

test('a server past its need within the budget is told of and left alone, and where it grew memory is looked at', () => {
  const room = guarded()
  room.grow()
  room.sample()
  expect([room.ended, room.looks]).toEqual([[], 1])
  expect(room.guard.notice('ns/a')).toMatch(/^It takes 5\.4 GB more than the 4\.3 GB that it was admitted with/)
})

test('critically short memory ends it on a fresh look only, and once: what it held has to come back first', () => {
  const room = guarded()
  room.level = 'critical'
  room.grow()
  expect(room.ended).toEqual([])
  room.sample()
  room.sample()
  room.advance(6_000)
  room.sample()
  expect(room.ended).toHaveLength(1)
  expect(room.ended[0]).toMatch(/^ns\/a 7: It took 5\.4 GB more .* memory is critically short/)
})

test('three ends in a row hold its service; another spec, or a server that served for long, starts over', () => {
  const room = guarded()
  room.budgetBytes = 8 * gib
  const endOf = (pid: number) => {
    room.restart(pid)
    room.advance(6_000)
    room.grow()
  }
  for (const pid of [1, 2]) endOf(pid)
  room.generation = 2
  for (const pid of [3, 4]) endOf(pid)
  expect([room.ended.length, room.held]).toEqual([4, []])
  room.restart(5)
  room.advance(11 * 60_000)
  room.grow()
  endOf(6)
  expect(room.held).toEqual([])
  endOf(7)
  expect(room.held).toEqual([expect.objectContaining({ kind: 'held', cause: 'evicted', exceededBy: '2  ' })])
  expect(room.ended.at(-1)).toMatch(
    /^ns\/a 7: Held, because its server was stopped 3 times in a row for taking too much memory\./,
  )
})
