import { describe, expect, test } from 'vitest'
import { changesSince, Routes, type KnownService, type RoutesOptions } from '../../../src/agent-core/gateway/routes.ts'
import type { ServerFacts } from '../../../src/agent-core/servers/served-model.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { maxRoutes, toGateway, type GatewayRoute, type RelayAccess } from '../../../src/contract/gateway.ts'

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

const facts = (host: string, engine?: ServerFacts['engine']): ServerFacts => ({
  ...{ digest: '', host, needBytes: undefined, mappedBytes: 0, files: undefined, engine },
})

/** Of servers that listen everywhere, unless the test says otherwise. */
function routes(
  states: Record<string, ServerState> | Map<string, ServerState>,
  argv?: readonly string[],
  more: Partial<RoutesOptions> = {},
) {
  const all = states instanceof Map ? states : new Map(Object.entries(states))
  const none = (): undefined => undefined
  const servers = {
    ...{ state: () => all, get: (key: string) => all.get(key) },
    ...{ factsOf: () => facts('0.0.0.0'), commandOf: () => argv, runtimeOf: () => 'llama-server' as const },
    apiKeyOf: none,
  }
  return new Routes({ servers, published: none, ...more })
}

function routesOf(states: Record<string, ServerState>, known: readonly KnownService[] = [], argv?: readonly string[]) {
  return routes(states, argv).now(known)
}

const waiting = (key: string, message = 'It waits for memory.', ...names: string[]): KnownService => ({
  ...{ key, message, names },
})

test('a server that serves is reached by its port, its aliases and the file of its model', () => {
  expect(routesOf({ 'default/one': ready }, [], command)).toEqual([
    {
      ...{ namespace: 'default', name: 'one', runtime: 'llama-server', port: 4_000 },
      names: ['qwen', 'small', 'q', 'Qwen.GGUF', 'Qwen'],
    },
  ])
  expect(routesOf({ 'default/one': { ...ready, healthy: false, trouble: 'silent' } })).toMatchObject([
    { port: 4_000, names: [] },
  ])
})

test('vllm-swift is told the name that it serves its model by', () => {
  const argv = ['/bin/vllm-swift', 'serve', '/models/qwen', '--port', '4000', '--served-model-name', 'qwen']
  expect(routesOf({ 'default/one': ready }, [], argv)).toMatchObject([{ names: ['qwen'] }])
})

test('tensorfold is told it, too', () => {
  const argv = ['/bin/tensorfold', 'serve', '/models/qwen', '--port', '4000', '--name', 'qwen']
  expect(routesOf({ 'default/one': ready }, [], argv)).toMatchObject([{ names: ['qwen'] }])
})

test('one that an earlier agent left serves on before it was asked', () => {
  const found: ServerState = { kind: 'starting', since: 0, pid: 1, port: 4_000, unasked: true }
  const own: ServerState = { kind: 'starting', since: 0, pid: 1, port: 4_000 }
  expect(routesOf({ 'default/found': found, 'default/own': own }).map(({ port }) => port)).toEqual([4_000, undefined])
})

test('what serves comes first, and what does not says why', () => {
  const states = {
    'default/known': crashed,
    'default/loading': { kind: 'loading', since: 0, pid: 1, port: 1 },
    'default/leaving': { kind: 'stopping', since: 0, cause: 'stopped', pid: 1, port: 1 },
    'default/stopped': { ...crashed, cause: 'stopped' },
    'default/serving': ready,
  } as const
  const known = [
    waiting('default/never'),
    waiting('default/known', 'It crashed.'),
    waiting('default/serving', 'Serves.'),
  ]
  expect(routesOf(states, known).map(({ name, port, message }) => [name, port, message])).toEqual([
    ['serving', 4_000, undefined],
    ['never', undefined, 'It waits for memory.'],
    ['known', undefined, 'It crashed.'],
    ['loading', undefined, 'its server does not serve yet.'],
    ['leaving', undefined, 'its server does not serve yet.'],
  ])
})

test('a model that waits has the names that it will have', () => {
  expect(routesOf({}, [waiting('default/one', 'It waits.', 'qwen', 'Qwen.GGUF', '')])[0]?.names).toEqual([
    ...['qwen', 'Qwen.GGUF', 'Qwen'],
  ])
})

test('of more services than the gateway knows those that serve are kept', () => {
  const known = Array.from({ length: maxRoutes + 5 }, (_, index) => waiting(`default/s${index}`))
  const routes = routesOf({ 'default/one': ready }, known)
  expect([routes.length, routes[0]?.name, routes.at(-1)?.name]).toEqual([maxRoutes, 'one', `s${maxRoutes - 2}`])
  expect(toGateway.safeParse({ type: 'routes', port: 1, routes }).success).toBe(true)
})

describe('the gateway is told', () => {
  const route = (name: string, more: Partial<GatewayRoute> = {}): GatewayRoute => ({
    ...{ namespace: 'default', name, runtime: 'llama-server', names: [] },
    ...more,
  })
  const told = (...routes: GatewayRoute[]) => new Map(routes.map((one) => [`default/${one.name}`, one]))

  test('what is new, other than it was, or gone', () => {
    const before = told(route('same', { port: 1 }), route('moved', { port: 2 }), route('gone', { port: 3 }))
    const now = [route('same', { port: 1 }), route('moved', { port: 4 }), route('new', { message: 'It waits.' })]
    expect(changesSince(before, now)).toEqual({ routes: now.slice(1), gone: ['default/gone'], isAll: true })
  })

  test('at once of what begins or ceases to serve, and of a thousand reasons by and by', () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `s${index}`)
    const before = told(...names.map((name) => route(name, { message: 'It waits.' })), route('ceases', { port: 1 }))
    const now = [
      ...names.map((name) => route(name, { message: 'It still waits.' })),
      ...[route('ceases', { message: 'It crashed.' }), route('begins', { port: 2 })],
    ]
    const { routes, isAll } = changesSince(before, now)
    expect([routes[0]?.name, routes[1]?.name, routes.length, isAll]).toEqual(['ceases', 'begins', 102, false])
  })

  test('nothing of what has not changed, which is not made again', () => {
    const all = routes({})
    const [first] = all.now([waiting('default/one')])
    expect(all.now([waiting('default/one')])[0]).toBe(first)
    expect(all.now([waiting('default/one', 'It fetches.')])[0]).not.toBe(first)
    expect(all.now([waiting('default/one', 'It fetches.', 'qwen')])[0]?.names).toEqual(['qwen'])
  })
})

describe('where no other machine reaches an engine, the gateway is to listen', () => {
  const access = { servicePorts: [8080], key: 'none' as const }
  const behind = { published: () => ({ address: '10.0.0.1', access }) }
  const servers = (host: string, state: ServerState): RoutesOptions['servers'] => ({
    ...{ state: () => new Map([['ns/a', state]]), get: () => state, factsOf: () => facts(host) },
    ...{ commandOf: () => undefined, runtimeOf: () => 'mlx-lm', apiKeyOf: () => undefined },
  })

  test.each<[string, ServerState, served: number | undefined]>([
    ['while it serves', ready, 4_000],
    ['before it serves', { kind: 'loading', since: 0, pid: 2, port: 4_000 }, undefined],
    ['while it finishes', { kind: 'stopping', since: 0, cause: 'stopped', pid: 3, port: 4_000 }, undefined],
  ])('at its port, %s', (_what, state, served) => {
    const [route] = new Routes({ servers: servers('127.0.0.1', state), ...behind }).now([waiting('ns/a', 'It loads.')])
    expect(route?.port).toBe(served)
    expect(route?.published).toEqual({
      address: '10.0.0.1',
      engine: { port: 4_000, runtime: 'mlx-lm' },
      access,
    })
  })

  test('a daemon asks for a key, which goes with its engine', () => {
    const daemon = { host: '127.0.0.1', port: 8_000, model: 'apples', isOurs: false }
    const [route] = new Routes({
      servers: {
        ...servers('127.0.0.1', { ...ready, load: 1 }),
        factsOf: () => facts('127.0.0.1', daemon),
        apiKeyOf: () => 'secret',
      },
      ...behind,
    }).now([])
    expect(route).toMatchObject({ port: 8_000, engineKey: 'secret', names: ['apples'] })
    expect(route?.published?.engine).toEqual({
      ...{ port: 4_000, runtime: 'mlx-lm', at: 8_000, model: 'apples', engineKey: 'secret' },
    })
    expect(toGateway.parse({ type: 'changes', routes: [route], gone: [] })).toMatchObject({ routes: [route] })
  })

  test('and nowhere else', () => {
    const [route] = new Routes({ servers: servers('10.0.0.1', ready), ...behind }).now([])
    expect(route).toMatchObject({ port: 4_000, host: '10.0.0.1' })
    expect(route?.published).toBeUndefined()
    expect(routes({ 'ns/a': ready }, undefined, behind).now([])[0]?.published).toBeUndefined()
  })

  test('it is told at once of where to listen, also for what does not serve yet', () => {
    const reasons = Array.from({ length: 200 }, (_, index) => ({ ...splitOf(`ns/s${index}`), message: 'It waits.' }))
    const loads = {
      ...splitOf('ns/z'),
      message: 'It loads.',
      published: { engine: { port: 1, runtime: 'llama-server' } },
    }
    expect(changesSince(new Map(), [...reasons, loads]).routes[0]).toBe(loads)
  })
})

describe('of how relays reach a service the gateway is told', () => {
  const how: Record<string, RelayAccess['is'] | undefined> = {
    'ns/one': 'alone',
    'ns/two': 'beside',
    'ns/new': 'unchanged',
  }
  const access = { servicePorts: [80], key: 'none' as const }
  const more = { relayed: (key: string) => how[key], published: () => ({ address: '10.0.0.1', access }) }
  const relayOf = (all: readonly GatewayRoute[]) => Object.fromEntries(all.map(({ name, relay }) => [name, relay]))

  test('whether they do, and whether its server answers', () => {
    const hung: ServerState = { ...ready, healthy: false, trouble: 'silent' }
    const states = { 'ns/one': ready, 'ns/two': hung, 'ns/new': ready, 'ns/direct': ready }
    expect(relayOf(routes(states, [], more).now([]))).toEqual({
      one: { is: 'alone', isHealthy: true },
      two: { is: 'beside', isHealthy: false },
      new: { is: 'unchanged', isHealthy: true },
      direct: undefined,
    })
    expect(relayOf(routes({}, [], more).now([waiting('ns/one'), waiting('ns/direct')]))).toEqual({
      one: { is: 'alone', isHealthy: false },
      direct: undefined,
    })
  })

  test('and the API key that it asks for, also where its engine listens by itself', () => {
    const told = routes({ 'ns/one': ready, 'ns/new': ready, 'ns/direct': ready }, [], more).now([])
    expect(Object.fromEntries(told.map(({ name, published }) => [name, published]))).toEqual({
      one: { address: '10.0.0.1', access },
      new: undefined,
      direct: undefined,
    })
  })

  test('anew where only that has changed, of a service that waits too', () => {
    const room = routes({}, [], more)
    const [before] = room.now([waiting('ns/one')])
    how['ns/one'] = undefined
    const [after] = room.now([waiting('ns/one')])
    how['ns/one'] = 'alone'
    expect([before?.relay?.is, after?.relay]).toEqual(['alone', undefined])
  })
})

describe('requests that no process ends are to be cut by the gateway', () => {
  const stopping = (more: Partial<ServerState> = {}) =>
    ({ kind: 'stopping', since: 0, cause: 'stopped', load: 1, port: 4_001, ...more }) as ServerState
  const cutOf = (state: ServerState, model: string | undefined) => {
    const servers: RoutesOptions['servers'] = {
      ...{ state: () => new Map([['ns/a', state]]), get: () => state },
      ...{ commandOf: () => undefined, runtimeOf: () => 'ollama' as const },
      apiKeyOf: () => undefined,
      factsOf: () =>
        facts('127.0.0.1', model === undefined ? undefined : { host: '127.0.0.1', port: 7, model, isOurs: true }),
    }
    const all = new Routes({ servers, published: () => undefined })
    const [route] = all.now([])
    expect(changesSince(new Map([['ns/a', { ...splitOf('ns/a') }]]), route ? [route] : []).routes).toEqual([route])
    return route?.cut
  }

  test.each<[string, ServerState, model: string | undefined, cut: string[] | undefined]>([
    ['of a model that is stopped without further waiting', stopping({ isCut: true }), 'a', ['a']],
    ['not while they may finish', stopping(), 'a', undefined],
    ['not of a process', stopping({ isCut: true }), undefined, undefined],
  ])('%s', (_what, state, model, cut) => {
    expect(cutOf(state, model)).toEqual(cut)
  })
})

const splitOf = (key: string) => {
  const [namespace = '', name = ''] = key.split('/')
  return { namespace, name, runtime: 'llama-server', names: [] }
}

test('while a server loads its clients are told how long it took last time, and nothing where waiting does not help', () => {
  const all = new Map<string, ServerState>()
  const room = routes(all)
  const toldIn = (state: ServerState) => {
    all.set('ns/a', state)
    return room.now([waiting('ns/a', state.kind)])[0]?.retryAfterS
  }
  expect(toldIn({ kind: 'starting', since: 0 })).toBe(5)
  expect(toldIn({ kind: 'loading', since: 900, pid: 2, port: 4_000 })).toBe(5)
  expect(toldIn({ ...ready, since: 41_200, readySince: 41_200 })).toBeUndefined()
  expect(toldIn(crashed)).toBeUndefined()
  expect(toldIn({ kind: 'loading', since: 90_000, pid: 3, port: 4_000 })).toBe(42)
})
