import { expect, test } from 'vitest'
import type { Memory } from '../../../src/agent-core/memory/memory.ts'
import type { Servers } from '../../../src/agent-core/servers/servers.ts'
import type { ServerRole } from '../../../src/agent-core/servers/server-state.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { daemonMemoryOf } from '../../../src/agent-core/servers/served-model.ts'
import { countServers, followServers, measuredServers } from '../../../src/agent-core/reconcile/server-memory.ts'

type Found = Partial<Record<ServerRole, ServerState>>

const loading: ServerState = { kind: 'loading', since: 0, pid: 11, port: 1 }
const ready: ServerState = { kind: 'ready', since: 0, readySince: 0, pid: 12, port: 2, healthy: true }
const stopping: ServerState = { kind: 'stopping', since: 0, cause: 'stopped', pid: 13, port: 3 }
const exited: ServerState = {
  kind: 'exited',
  since: 0,
  code: 0,
  signal: null,
  cause: 'itself',
  outOf: 'serving',
  message: 'It ended.',
  tail: [],
  settled: true,
  failures: 1,
}

const needs: Record<ServerRole, number> = { retiring: 30, current: 20, successor: 10 }

function counted(found: Found) {
  const servers = {
    state: () => new Map(found.current && [['ns/a', found.current]]),
    get: () => found.current,
    successor: () => found.successor,
    retiring: () => found.retiring,
    needOf: (_: string, role: ServerRole = 'current') => needs[role],
    toldBytesOf: () => undefined,
    daemonMemoryOf: () => undefined,
    mappedBytesOf: (_: string, role: ServerRole) => (role === 'current' ? 15 : 0),
  }
  const told: Parameters<Memory['adopt']>[0][] = []
  countServers(servers, { adopt: (server) => void told.push(server) })
  expect(
    told.map(({ needBytes, mappedBytes }) => mappedBytes === (needBytes === needs.current ? 15 : 0)),
  ).not.toContain(false)
  expect(told.map(({ key, role }) => ({ key, role }))).toEqual(
    measuredServers(servers).map(({ key, role }) => ({ key, role })),
  )
  return told.map(({ role, needBytes, phase }) => ({ role, needBytes, phase }))
}

test('what was found running is counted by what it is: one that loads as one that still takes its memory', () => {
  expect(counted({ current: ready })).toEqual([{ role: 'current', needBytes: 20, phase: 'running' }])
  expect(counted({ current: loading })).toEqual([{ role: 'current', needBytes: 20, phase: 'starting' }])
})

test('of a swap that was under way both servers are counted, the elder as the current one', () => {
  expect(counted({ current: ready, successor: loading })).toEqual([
    { role: 'current', needBytes: 20, phase: 'running' },
    { role: 'beside', needBytes: 10, phase: 'starting' },
  ])
  expect(counted({ retiring: stopping, current: ready })).toEqual([
    { role: 'current', needBytes: 30, phase: 'running' },
    { role: 'beside', needBytes: 20, phase: 'running' },
  ])
})

test('models that were found in one daemon under one name share their memory', () => {
  const told: Parameters<Memory['adopt']>[0][] = []
  const engines = { 'ns/a': 'one', 'ns/b': 'one', 'ns/c': 'other', 'ns/d': undefined, 'ns/e': 'listed' }
  const servers = {
    state: () => new Map(Object.keys(engines).map((key) => [key, ready])),
    ...{ get: () => ready, successor: () => undefined, retiring: () => undefined },
    ...{ needOf: () => 20, mappedBytesOf: () => 0 },
    daemonMemoryOf: (key: string) => {
      const model = engines[key as keyof typeof engines]
      return model === undefined
        ? undefined
        : daemonMemoryOf({ host: '127.0.0.1', port: 7, model, isOurs: key !== 'ns/e' }, ['/weights'])
    },
  }
  countServers(servers, { adopt: (server) => void told.push(server) })
  expect(told.map(({ sharedAs, weightsAs }) => [sharedAs, weightsAs])).toEqual([
    ['127.0.0.1:7 one', '127.0.0.1:7 /weights'],
    ['127.0.0.1:7 one', '127.0.0.1:7 /weights'],
    ['127.0.0.1:7 other', '127.0.0.1:7 /weights'],
    [undefined, undefined],
    ['127.0.0.1:7 /weights', '127.0.0.1:7 /weights'],
  ])
})

test('what ended while it was taken over is not counted', () => {
  expect(counted({ current: exited })).toEqual([])
  expect(counted({ current: exited, successor: loading })).toEqual([
    { role: 'current', needBytes: 10, phase: 'starting' },
  ])
})

test('memory is given back when nothing of a server is left, of two servers that of the one that is gone', () => {
  let found: Found = {}
  let change: Parameters<Servers['onChange']>[0] | undefined
  const told: string[] = []
  const servers = {
    get: () => found.current,
    successor: () => found.successor,
    retiring: () => found.retiring,
    onChange: (listener: NonNullable<typeof change>) => {
      change = listener
      return () => undefined
    },
  }
  followServers(servers, {
    ready: (_, role) => void told.push(`ready ${role}`),
    gone: (_, what) => void told.push(`gone ${what}`),
  })
  const becomes = (role: ServerRole, state: ServerState, all: Found): string[] => {
    found = all
    told.length = 0
    change?.('ns/a', state, role)
    return [...told]
  }
  const ending: ServerState = { ...exited, settled: false }
  expect(becomes('current', ready, { current: ready })).toEqual(['ready current'])
  expect(becomes('current', ending, { current: ending })).toEqual([])
  expect(becomes('current', exited, { current: exited })).toEqual(['gone all'])
  expect(becomes('successor', ready, { current: ready, successor: ready })).toEqual(['ready beside'])
  expect(becomes('successor', exited, { current: ready, successor: exited })).toEqual(['gone beside'])
  expect(becomes('retiring', exited, { retiring: exited, current: ready })).toEqual(['gone replaced'])
})
