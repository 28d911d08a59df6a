import { expect, test } from 'vitest'
import { gatewayRoutes } from '../../../src/agent-core/gateway/routes.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'

const ready: ServerState = { kind: 'ready', since: 0, readySince: 0, pid: 1, port: 4_000, healthy: true }
const exited = {
  kind: 'exited',
  since: 0,
  code: 1,
  signal: null,
  outOf: 'serving',
  settled: true,
  failures: 1,
} as const
const crashed: ServerState = { ...exited, cause: 'itself', message: 'It crashed.', tail: [] }
const command = ['/bin/llama-server', '--model', '/models/Qwen.GGUF', '--port', '4000', '--alias=qwen,small', '-a', 'q']

function routesOf(states: Record<string, ServerState>, { argv }: { argv?: readonly string[] } = { argv: command }) {
  const servers = { state: () => new Map(Object.entries(states)), commandOf: () => argv }
  return gatewayRoutes(servers, (key) => (key === 'default/known' ? 'It waits for memory.' : undefined))
}

test('a server that serves is reached by its port, its aliases and the file of its model', () => {
  expect(routesOf({ 'default/one': ready })).toEqual([
    {
      ...{ namespace: 'default', name: 'one', runtime: 'llama-server', port: 4_000 },
      names: ['qwen', 'small', 'q', 'Qwen.GGUF', 'Qwen'],
    },
  ])
  expect(routesOf({ 'default/one': { ...ready, healthy: false, trouble: 'silent' } }, {})).toMatchObject([
    { port: 4_000, names: [] },
  ])
})

test('one that an earlier agent left serves on before it was asked', () => {
  const found: ServerState = { kind: 'starting', since: 0, pid: 1, port: 4_000, unasked: true }
  const own: ServerState = { kind: 'starting', since: 0, pid: 1, port: 4_000 }
  expect(routesOf({ 'default/found': found, 'default/own': own }).map(({ port }) => port)).toEqual([4_000, undefined])
})

test('one that does not serve says why, and one that was stopped is none', () => {
  const states = {
    'default/known': crashed,
    'default/loading': { kind: 'loading', since: 0, pid: 1, port: 1 },
    'default/leaving': { kind: 'stopping', since: 0, cause: 'stopped', pid: 1, port: 1 },
    'default/stopped': { ...crashed, cause: 'stopped' },
  } as const
  expect(routesOf(states).map(({ name, port, message }) => [name, port, message])).toEqual([
    ['known', undefined, 'It waits for memory.'],
    ['loading', undefined, 'its server does not serve yet.'],
    ['leaving', undefined, 'its server does not serve yet.'],
  ])
})
