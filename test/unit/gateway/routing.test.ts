import { describe, expect, test } from 'vitest'
import type { GatewayRoute } from '../../../src/contract/gateway.ts'
import { targetOf, type Target } from '../../../src/gateway/paths.ts'
import { RouteTable } from '../../../src/gateway/routing.ts'

const route = (namespace: string, name: string, ...names: string[]): GatewayRoute => ({
  ...{ namespace, name, names, runtime: 'llama-server', port: 1 },
})
const chat = route('default', 'chat', 'qwen', 'qwen.gguf')
const code = route('default', 'code', 'coder')
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
      'chat',
      400,
      'Several services here answer to the model "chat": name one as namespace/name. Available: default/chat, code, team/chat.',
    ],
    ['qwen', 400, 'Several services here answer to the model "qwen"'],
    ['gpt-4', 404, 'No service here answers to the model "gpt-4". Available: default/chat, code, team/chat.'],
    ['x'.repeat(10_000), 404, `No service here answers to the model "${'x'.repeat(200)}…"`],
    [undefined, 400, 'put "model" first, or name the service in the path, such as /default/chat/v1/chat/completions.'],
    ['', 400, 'The request names no model'],
  ])('nothing for sure: %j', (model, status, message) => {
    expect(() => table.routeOf(model)).toThrow(
      expect.objectContaining({ status, message: expect.stringContaining(message) as string }) as Error,
    )
  })

  test('nothing, or several services of which one serves', () => {
    const waiting = { ...otherChat, port: undefined }
    expect(new RouteTable([waiting, code]).routeOf(undefined)).toBe(code)
    expect(new RouteTable([waiting, chat, code]).routeOf('chat')).toBe(chat)
    expect(new RouteTable([waiting, chat, code]).routeOf('qwen')).toBe(chat)
    expect(new RouteTable([waiting]).routeOf(undefined)).toBe(waiting)
    const others = new RouteTable([waiting, { ...code, port: undefined }])
    expect(() => others.routeOf(undefined)).toThrow('No model is serving at the moment: GET / says why.')
  })

  test('a service before an alias of another one', () => {
    const shadow = route('default', 'qwen')
    expect(new RouteTable([shadow, chat]).routeOf('qwen')).toBe(shadow)
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
      'There is no service default/gone on this machine. Available: default/chat, code, team/chat.',
    )
  })
})

test('of many services the first twenty are named, and how many more there are', () => {
  const many = Array.from({ length: 23 }, (_, index) => route('default', `s${index}`))
  expect(() => new RouteTable(many).routeOf('other')).toThrow('s18, s19 and 3 more (GET /v1/models).')
})

test('an id is as short as it can be', () => {
  expect(routes.map((one) => table.idOf(one))).toEqual(['default/chat', 'code', 'team/chat'])
})
