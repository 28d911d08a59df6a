import { expect, test } from 'vitest'
import type { Memory } from '../../../src/agent-core/memory/memory.ts'
import type { Servers } from '../../../src/agent-core/servers/servers.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { countServers, followServers, measuredServers } from '../../../src/agent-core/reconcile/server-memory.ts'

const loading: ServerState = { kind: 'loading', since: 0, pid: 11, port: 1 }
const ready: ServerState = { kind: 'ready', since: 0, readySince: 0, pid: 12, port: 2, healthy: true }
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

const facts = { digest: '', host: '127.0.0.1', needBytes: 20, mappedBytes: 0, files: undefined }

function counted(state: ServerState) {
  const servers = {
    state: () => new Map([['ns/a', state]]),
    toldBytesOf: () => undefined,
    factsOf: () => ({ ...facts, mappedBytes: 15 }),
  }
  const told: Parameters<Memory['adopt']>[0][] = []
  countServers(servers, { adopt: (server) => void told.push(server) })
  expect(told.map(({ key }) => key)).toEqual(measuredServers(servers).map(({ key }) => key))
  return told.map(({ needBytes, mappedBytes, phase }) => ({ needBytes, mappedBytes, phase }))
}

test('what was found running is counted by what it is: one that loads as one that still takes its memory', () => {
  expect(counted(ready)).toEqual([{ needBytes: 20, mappedBytes: 15, phase: 'running' }])
  expect(counted(loading)).toEqual([{ needBytes: 20, mappedBytes: 15, phase: 'starting' }])
})

test('models that were found in one daemon under one name share their memory', () => {
  const told: Parameters<Memory['adopt']>[0][] = []
  const engines = { 'ns/a': 'one', 'ns/b': 'one', 'ns/c': 'other', 'ns/d': undefined, 'ns/e': 'listed' }
  const servers = {
    state: () => new Map(Object.keys(engines).map((key) => [key, ready])),
    factsOf: (key: string) => {
      const model = engines[key as keyof typeof engines]
      const engine = model === undefined ? undefined : { host: '127.0.0.1', port: 7, model, isOurs: key !== 'ns/e' }
      return { ...facts, engine, files: ['/weights'] }
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
  expect(counted(exited)).toEqual([])
})

test('memory is given back when nothing of a server is left', () => {
  let change: Parameters<Servers['onChange']>[0] | undefined
  const told: string[] = []
  const servers = {
    onChange: (listener: NonNullable<typeof change>) => {
      change = listener
      return () => undefined
    },
  }
  followServers(servers, {
    book: { ready: (key) => void told.push(`ready ${key}`) },
    gone: (key) => void told.push(`gone ${key}`),
  })
  for (const state of [loading, ready, { ...exited, settled: false }, exited]) change?.('ns/a', state)
  expect(told).toEqual(['ready ns/a', 'gone ns/a'])
})
