import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseGigabytes } from './parse-gigabytes.ts'
import { largestBudget } from '../../../src/agent-core/memory/budget.ts'
import {
  type Evictable,
  fewestEvictions,
  fits,
  limitOf,
  priorityWeights,
  type Room,
  roomWithout,
} from '../../../src/agent-core/memory/room.ts'
import { type Misfit, type ServerChange, waysToFit, type WayToFit } from '../../../src/agent-core/memory/ways-to-fit.ts'

const gb = 1e9
const gib = 2 ** 30

/** 16 GB of weights and 1 MB of KV per token, as a 70B model in 3 bits has it. */
const current = { contextTokens: 16_384, slots: 4 }
function estimateAt({ contextTokens = current.contextTokens, kvType, slots = current.slots }: ServerChange): number {
  const share = kvType === undefined ? 1 : kvType === 'q8_0' ? 17 / 32 : 9 / 32
  return Math.ceil(16 * gb + slots * gb + contextTokens * 1e6 * share)
}

function server(name: string, sizeGb: number, more: Partial<Evictable> = {}): Misfit['servers'][number] {
  const bytes = sizeGb * gb
  const key = `ns/${name}`
  return {
    key,
    name,
    priority: 'normal',
    isProtected: false,
    committedBytes: bytes,
    residentBytes: bytes,
    promisedBytes: 0,
    ...more,
  }
}

const room: Room = { budgetBytes: 36 * gb, committedBytes: 0, availableBytes: 100 * gb, promisedBytes: 0 }

const misfit: Misfit = {
  needBytes: estimateAt({}),
  room,
  priority: 'normal',
  ...current,
  estimateAt,
  servers: [],
  apps: [],
  totalBytes: 48 * gib,
  platform: 'darwin',
}

function sentences(more: Partial<Misfit>): string[] {
  return waysToFit({ ...misfit, ...more }).map(({ sentence }) => sentence)
}

describe('ways to fit', () => {
  test('are none where it fits', () => {
    expect(waysToFit({ ...misfit, needBytes: 36 * gb })).toEqual([])
  })

  test('name the largest context, a smaller KV cache, fewer slots, and the budget', () => {
    expect(sentences({})).toEqual([
      'Use a context of 15,360 tokens: needs 35.4 GB',
      'Use a q8_0 KV cache: needs 28.7 GB',
      'Use 3 slots: needs 35.4 GB',
      'Raise the memory budget to 36.4 GB',
    ])
  })

  test('join a smaller context and q8_0 where q8_0 alone does not do', () => {
    expect(sentences({ room: { ...room, budgetBytes: 25 * gb } })).toEqual([
      'Use a context of 4,096 tokens: needs 24.1 GB',
      'Use a context of 9,216 tokens and a q8_0 KV cache: needs 24.9 GB',
      'Use a q4_0 KV cache: needs 24.6 GB',
      'Raise the memory budget to 36.4 GB',
    ])
  })

  test('name who would have to go: the fewest, of the lowest priority, never above its own, never protected', () => {
    const busy = { ...room, committedBytes: 30 * gb }
    const servers = [
      server('chat', 20),
      server('draft', 20, { priority: 'batch', isProtected: true }),
      server('small', 18, { priority: 'low' }),
      server('vip', 40, { priority: 'high' }),
      server('tiny', 13, { priority: 'low' }),
    ]
    const evictions = (needGb: number) =>
      waysToFit({ ...misfit, needBytes: needGb * gb, room: busy, servers }).filter(({ kind }) => kind === 'evict')
    expect(evictions(7)).toMatchObject([{ keys: ['ns/tiny'], sentence: 'Evict tiny: frees 13.0 GB' }])
    expect(evictions(20)).toMatchObject([{ keys: ['ns/small'] }])
    expect(evictions(26)).toMatchObject([{ keys: ['ns/chat'] }])
    expect(evictions(36)).toMatchObject([
      { keys: ['ns/small', 'ns/tiny'], sentence: 'Evict small and tiny: frees 31.0 GB' },
    ])
    expect(evictions(58)).toEqual([])
  })

  test('name many where it takes many, and none in vain', () => {
    const priorities = ['low', 'normal', 'batch', 'normal', 'batch', 'low'] as const
    const servers = priorities.map((priority, at) => server(`${at}`, 5, { priority }))
    const full = { ...room, committedBytes: 36 * gb }
    const [way] = waysToFit({ ...misfit, needBytes: 20 * gb, room: full, servers }).filter(
      ({ kind }) => kind === 'evict',
    )
    expect(way).toMatchObject({ keys: ['ns/2', 'ns/4', 'ns/0', 'ns/5'] })
  })

  test('count on the memory that a starting server was promised once it is gone', () => {
    const starting = server('starting', 20, { residentBytes: 0, promisedBytes: 20 * gb })
    const promised = { budgetBytes: 100 * gb, committedBytes: 20 * gb, availableBytes: 30 * gb, promisedBytes: 20 * gb }
    const asked = { ...misfit, room: promised, servers: [starting] }
    expect(waysToFit({ ...asked, needBytes: 30 * gb })).toContainEqual(
      expect.objectContaining({ kind: 'evict', keys: ['ns/starting'] }),
    )
    expect(waysToFit({ ...asked, needBytes: 30 * gb + 1 })).not.toContainEqual(
      expect.objectContaining({ kind: 'evict' }),
    )
  })

  test('name what to quit where only available memory is short: the smallest that does', () => {
    const short = { needBytes: 30 * gb, room: { ...room, availableBytes: 26 * gb } }
    const apps = [
      { name: 'Xcode', bytes: 9 * gb },
      { name: 'Safari', bytes: 5 * gb },
      { name: 'Slack', bytes: 2 * gb },
    ]
    const { estimateAt: _estimate, ...fixed } = misfit
    expect(waysToFit({ ...fixed, ...short, apps })).toMatchObject([
      { kind: 'quit', apps: ['Safari'], sentence: 'Quit Safari: frees up to 5.0 GB' },
    ])
    expect(
      waysToFit({ ...fixed, ...short, needBytes: 38 * gb, room: { ...short.room, budgetBytes: 40 * gb }, apps }),
    ).toMatchObject([{ kind: 'quit', apps: ['Xcode', 'Safari'] }])
    expect(waysToFit({ ...fixed, ...short, apps: [{ name: 'Slack', bytes: 2 * gb }] })).toEqual([])
  })

  test('join quitting and raising the budget where both are short', () => {
    const { estimateAt: _estimate, ...fixed } = misfit
    const ways = waysToFit({
      ...fixed,
      needBytes: 40 * gb,
      room: { ...room, availableBytes: 38 * gb },
      apps: [{ name: 'Safari', bytes: 5 * gb }],
    })
    expect(ways).toMatchObject([
      { kind: 'both', sentence: 'Raise the memory budget to 40.0 GB, and quit Safari: frees up to 5.0 GB' },
    ])
  })

  test('leave the system its share of memory, and give the command where the GPU may not hold so much', () => {
    const { estimateAt: _estimate, ...fixed } = misfit
    const ways = (needGib: number, more: Partial<Misfit> = {}) =>
      waysToFit({ ...fixed, needBytes: needGib * gib, ...more })
    expect(ways(43)).toMatchObject([{ kind: 'budget', of: 'machine' }])
    expect(ways(44)).toEqual([])
    expect(ways(40, { gpuLimitBytes: 36 * gib })).toMatchObject([
      {
        command: 'sudo sysctl iogpu.wired_limit_mb=41008',
        sentence:
          'Raise the memory budget to 43.0 GB, after sudo sysctl iogpu.wired_limit_mb=41008, which lasts until the Mac is restarted',
      },
    ])
    expect(ways(40, { gpuLimitBytes: 36 * gib, platform: 'linux' })).toEqual([])
  })

  test("raise the Model's own budget where that is what binds", () => {
    expect(sentences({ room: { ...room, budgetBytes: 40 * gb, ownBudgetBytes: 20 * gb } }).at(-1)).toBe(
      "Raise the Model's memoryBudget to 36.4 GB",
    )
  })
})

const bytes = (max: number): fc.Arbitrary<number> =>
  fc.integer({ min: 0, max: max * 10 }).map((tenths) => (tenths * gb) / 10 + 12_345)
const anyServer = fc.record({
  priority: fc.constantFrom('batch', 'low', 'normal', 'high', 'critical'),
  isProtected: fc.boolean(),
  committedBytes: bytes(30),
  residentBytes: bytes(30),
  promisedBytes: fc.oneof(fc.constant(0), bytes(10)),
})
const anyServers = fc
  .array(anyServer, { maxLength: 6 })
  .map((servers) => servers.map((one, at) => ({ ...one, key: `ns/${at}`, name: `${at}` })))
const anyRoom = fc.record(
  {
    budgetBytes: bytes(60),
    committedBytes: bytes(60),
    availableBytes: bytes(60),
    promisedBytes: bytes(20),
    ownBudgetBytes: bytes(60),
  },
  { requiredKeys: ['budgetBytes', 'committedBytes', 'promisedBytes'] },
) as fc.Arbitrary<Room>
const anyMisfit = fc.record({
  needBytes: bytes(60),
  room: anyRoom,
  priority: fc.constantFrom('batch', 'low', 'normal', 'high', 'critical'),
  servers: anyServers,
  apps: fc
    .array(bytes(20), { maxLength: 5 })
    .map((sizes) => sizes.map((size, at) => ({ name: `app ${at}`, bytes: size }))),
  weights: bytes(30),
  kvPerToken: fc.integer({ min: 1000, max: 3_000_000 }),
  contextTokens: fc.integer({ min: 128, max: 300_000 }),
  slots: fc.integer({ min: 1, max: 16 }),
  totalGib: fc.integer({ min: 8, max: 128 }),
})

test('every way named is true by the arithmetic of admission, and no larger context would do', () => {
  const kinds = new Set<string>()
  fc.assert(
    fc.property(anyMisfit, ({ weights, kvPerToken, totalGib, ...figures }) => {
      const { contextTokens, slots, room: given } = figures
      const estimate = (change: ServerChange): number =>
        Math.ceil(
          weights +
            (change.slots ?? slots) * gb +
            (change.contextTokens ?? contextTokens) *
              kvPerToken *
              (change.kvType === undefined ? 1 : change.kvType === 'q8_0' ? 0.53125 : 0.28125),
        )
      const asked: Misfit = { ...figures, estimateAt: estimate, totalBytes: totalGib * gib, platform: 'darwin' }
      for (const way of waysToFit(asked)) {
        kinds.add(way.kind)
        expect(isTrue(way, asked), way.sentence).toBe(true)
        if (way.kind === 'change' && way.change.contextTokens !== undefined) {
          const more = way.change.contextTokens + 1024
          expect(more >= contextTokens || !fits(estimate({ ...way.change, contextTokens: more }), given)).toBe(true)
        }
      }
    }),
    { numRuns: 3000 },
  )
  expect([...kinds].sort()).toEqual(['both', 'budget', 'change', 'evict', 'quit'])
})

/** The room after a person has done what the sentence says, by the figures in it where there are any. */
function isTrue(way: WayToFit, asked: Misfit): boolean {
  const { needBytes, room: before } = asked
  if (way.kind === 'change') return asked.estimateAt?.(way.change) === way.needBytes && fits(way.needBytes, before)
  return fits(needBytes, after(way, asked))
}

function after(way: WayToFit, asked: Misfit): Room {
  const { room: before, priority } = asked
  switch (way.kind) {
    case 'evict': {
      const gone = asked.servers.filter(({ key }) => way.keys.includes(key))
      expect(gone.every((one) => !one.isProtected && priorityWeights[one.priority] <= priorityWeights[priority])).toBe(
        true,
      )
      return roomWithout(before, gone)
    }
    case 'quit': {
      const freed = asked.apps.filter(({ name }) => way.apps.includes(name))
      return {
        ...before,
        availableBytes: (before.availableBytes ?? 0) + freed.reduce((sum, app) => sum + app.bytes, 0),
      }
    }
    case 'budget': {
      const told = parseGigabytes(way.sentence)
      expect(told).toBeLessThanOrEqual(largestBudget(asked.totalBytes))
      expect(told).toBeGreaterThan(way.of === 'model' ? (before.ownBudgetBytes ?? 0) : limitOf(before))
      return { ...before, ...(way.of === 'model' ? { ownBudgetBytes: told } : { budgetBytes: told }) }
    }
    case 'both':
      return way.ways.reduce((room, one) => after(one, { ...asked, room }), before)
    case 'change':
      return before
  }
}

test('evictions free enough, none in vain, and only one of the lowest priority where one is enough', () => {
  fc.assert(
    fc.property(bytes(60), anyRoom, anyServers, (needBytes, given, servers) => {
      fc.pre(!fits(needBytes, given))
      const suffices = (some: readonly Evictable[]) => fits(needBytes, roomWithout(given, some))
      const free = servers.filter(({ isProtected }) => !isProtected)
      const gone = fewestEvictions(needBytes, given, servers)
      expect(gone !== undefined).toBe(suffices(free))
      if (gone === undefined) return
      expect(suffices(gone)).toBe(true)
      expect(gone.filter((one) => suffices(gone.filter((other) => other !== one)))).toEqual([])
      const singles = free.filter((one) => suffices([one])).map(({ priority }) => priorityWeights[priority])
      const named = gone.map(({ priority }) => priorityWeights[priority])
      if (singles.length > 0) expect(named).toEqual([Math.min(...singles)])
    }),
    { numRuns: 1000 },
  )
})
