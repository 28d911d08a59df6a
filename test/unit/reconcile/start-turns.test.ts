import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { StartTurns } from '../../../src/agent-core/reconcile/start-turns.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import type { ServerListener } from '../../../src/agent-core/servers/servers.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const ready: ServerState = { kind: 'ready', since: 0, readySince: 0, healthy: true, pid: 1, port: 1 }
const failed: ServerState = { kind: 'failedToSpawn', since: 0, message: '', failures: 1 }

/** Turns after an unclean boot. */
function trial() {
  let hear: ServerListener = () => undefined
  const onChange = (listener: ServerListener) => {
    hear = listener
    return () => undefined
  }
  const asked: string[] = []
  const turns = new StartTurns({
    servers: { onChange },
    enqueue: (key) => void asked.push(key),
    onChange: () => undefined,
  })
  turns.begin()
  return {
    turns,
    /** Who was told to ask again, since the last look. */
    awake: () => asked.splice(0),
    becomes: (key: string, state: ServerState) => hear(key, state),
    seconds: (count: number) => void vi.advanceTimersByTime(count * 1_000),
    [Symbol.dispose]: () => turns[Symbol.dispose](),
  }
}

const waits = (message: string) => ({ reason: 'StartsInTurn', message: expect.stringContaining(message) as string })

test('models start one at a time, the smallest first, each when the one before has served for a minute', () => {
  using it = trial()
  const all = [
    ['a/large', 50],
    ['a/unknown', undefined],
    ['a/small', 1],
  ] as const
  const askAll = () => all.map(([key, bytes]) => it.turns.ask(key, 'd', bytes))
  expect(askAll()).toEqual(Array(3).fill(waits('which is the smallest')))
  it.seconds(11)
  expect(it.awake()).toEqual(['a/large', 'a/unknown', 'a/small'])
  expect(askAll()).toEqual([waits('a/small goes first'), waits('a/small goes first'), undefined])
  it.becomes('a/small', ready)
  // A pass that finds it serving takes nothing away.
  it.turns.forget('a/small')
  it.seconds(59)
  expect([it.awake(), it.turns.obstacleOf('a/large', 'd')]).toEqual([[], waits('a/small goes first')])
  it.seconds(2)
  expect(it.awake()).toEqual(['a/large', 'a/unknown'])
  expect(it.turns.ask('a/unknown', 'd')).toEqual(waits('a/large goes first'))
  expect(it.turns.ask('a/large', 'd', 50)).toBeUndefined()
})

test('when the last has served, models start as usual again', () => {
  using it = trial()
  it.turns.ask('a/b', 'd', 1)
  it.seconds(11)
  it.turns.ask('a/b', 'd', 1)
  it.becomes('a/b', ready)
  const during = [it.turns.notice, it.turns.ask('a/c', 'd', 1)]
  it.seconds(61)
  it.turns.ask('a/c', 'd', 1)
  it.becomes('a/c', ready)
  const inTurn = it.turns.ask('a/d', 'd', 1)
  it.turns.forget('a/d')
  it.seconds(61)
  expect(during).toEqual([expect.stringMatching(/^This machine went down without a clean/), waits('a/b goes first')])
  expect([inTurn, it.turns.notice, it.turns.ask('a/d', 'd', 1)]).toEqual([
    waits('a/c goes first'),
    undefined,
    undefined,
  ])
})

test('a model that ends, or is not to start any more, holds up no other', () => {
  using it = trial()
  for (const [index, key] of ['a/1', 'a/2', 'a/3', 'a/4'].entries()) it.turns.ask(key, 'd', index)
  it.seconds(11)
  it.turns.ask('a/1', 'd', 0)
  it.becomes('a/1', failed)
  expect(it.turns.ask('a/2', 'd', 1)).toBeUndefined()
  it.turns.forget('a/2')
  it.turns.forgetWhere((key) => key === 'a/3')
  expect(it.turns.ask('a/4', 'd', 3)).toBeUndefined()
})

test('a start with another spec may be smaller, so it asks anew', () => {
  using it = trial()
  it.turns.ask('a/b', 'd', 1)
  const obstacles = [
    it.turns.obstacleOf('a/b', 'd'),
    it.turns.obstacleOf('a/b', 'e'),
    it.turns.obstacleOf('a/other', undefined),
  ]
  expect(obstacles).toEqual([waits('which is the smallest'), undefined, undefined])
})

test('after a clean boot nothing waits', () => {
  using turns = new StartTurns({
    servers: { onChange: () => () => undefined },
    enqueue: () => undefined,
    onChange: () => undefined,
  })
  expect([turns.notice, turns.ask('a/b', 'd', 1), turns.ask('a/c', 'd', 1)]).toEqual([undefined, undefined, undefined])
})
