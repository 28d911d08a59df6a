import { describe, expect, test } from 'vitest'
import type { GatewayRoute } from '../../../src/contract/gateway.ts'
import { targetOf, type Target } from '../../../src/gateway/paths.ts'
import { RouteTable } from '../../../src/gateway/routing.ts'

const route = (namespace: string, name: string, ...names: string[]): GatewayRoute => ({
  ...{ namespace, name, names, runtime: 'llama-server', port: 1 },
})
const chat = route('default', 'chat', 'qwen', 'qwen.gguf', 'same')
const code = route('default', 'code', 'coder', 'same')
const otherChat = route('team', 'chat', 'qwen')
const routes = [chat, code, otherChat]
const table = new RouteTable(routes)
const target = (url: string): Target => targetOf(url) ?? { sent: '', path: '', query: '' }

describe('the model of a request names', () => {
  test.each([
    ['a service', 'code', code],
    ['namespace and service', 'team/chat', otherChat],
    ['an alias', 'coder', code],
    ['a file', 'qwen.gguf', chat],
  ])('%s', (_what, model, found) => {
    expect(table.routeOf(model)).toBe(found)
  })

  test.each([
    [
      'same',
      400,
      'Several services here answer to the model "same": name one as namespace/name. Available: chat, code, team/chat.',
    ],
    ['gpt-4', 404, 'No service here answers to the model "gpt-4". Available: chat, code, team/chat.'],
    ['x'.repeat(10_000), 404, `No service here answers to the model "${'x'.repeat(200)}…"`],
    [undefined, 400, 'give it a "model", or name the service in the path, such as /default/chat/v1/chat/completions.'],
    ['', 400, 'The request names no model'],
  ])('nothing for sure: %j', (model, status, message) => {
    expect(() => table.routeOf(model)).toThrow(
      expect.objectContaining({ status, message: expect.stringContaining(message) as string }) as Error,
    )
  })

  test('nothing, or several services of which one serves', () => {
    const waiting = { ...otherChat, port: undefined }
    expect(new RouteTable([waiting, code]).routeOf(undefined)).toBe(code)
    expect(new RouteTable([{ ...code, name: 'other', port: undefined }, chat]).routeOf('same')).toBe(chat)
    expect(new RouteTable([waiting]).routeOf(undefined)).toBe(waiting)
    const others = new RouteTable([waiting, { ...code, port: undefined }])
    expect(() => others.routeOf(undefined)).toThrow('No model is serving at the moment: GET / says why.')
  })

  test('a service before an alias of another one of its namespace, unless only the other one serves', () => {
    const shadow = route('default', 'qwen')
    expect(new RouteTable([chat, shadow]).routeOf('qwen')).toBe(shadow)
    expect(new RouteTable([chat, { ...shadow, port: undefined }]).routeOf('qwen')).toBe(chat)
  })

  test('what the first namespace has that is called so, also while that does not serve', () => {
    const stranger = route('evil', 'qwen', 'chat')
    expect([new RouteTable([chat, stranger]).routeOf('qwen'), table.routeOf('qwen'), table.routeOf('chat')]).toEqual([
      ...[chat, chat, chat],
    ])
    const waiting = { ...chat, port: undefined }
    const others = new RouteTable([waiting, stranger, otherChat])
    expect([others.routeOf('qwen'), others.routeOf('chat'), others.routeOf('evil/qwen')]).toEqual([
      ...[waiting, waiting, stranger],
    ])
    expect([others.idOf(waiting), others.idOf(stranger)]).toEqual(['chat', 'evil/qwen'])
  })
})

describe('a path', () => {
  test('names a service, and the engine sees the rest as it was sent', () => {
    expect(table.directionOf(target('/team/chat/v1/models/a%2Eb?x=1'))).toEqual({
      kind: 'service',
      route: otherChat,
      target: { path: '/v1/models/a.b', sent: '/v1/models/a%2Eb', query: '?x=1' },
    })
  })

  test('of engines names none, also where a service is called so', () => {
    const named = route('v1', 'chat')
    expect(new RouteTable([named]).directionOf(target('/v1/chat/completions'))).toMatchObject({ kind: 'model' })
  })

  test('of a service that is not here says which are', () => {
    expect(() => table.directionOf(target('/default/gone/health'))).toThrow(
      'There is no service default/gone on this machine. Available: chat, code, team/chat.',
    )
  })
})

test('of many services the first twenty are named, and how many more there are', () => {
  const many = Array.from({ length: 23 }, (_, index) => route('default', `s${index}`))
  expect(() => new RouteTable(many).routeOf('other')).toThrow('s18, s19 and 3 more (GET /v1/models).')
})

test('an id is as short as it can be', () => {
  expect(routes.map((one) => table.idOf(one))).toEqual(['chat', 'code', 'team/chat'])
})
