import { describe, expect, test } from 'vitest'
import { isAllowed, isPathOfEngines, modelInPath, targetOf } from '../../../src/gateway/paths.ts'

describe('a target whose path could be read in two ways is none', () => {
  test.each([
    ...['', 'v1/models', 'http://127.0.0.1/v1/models', '*', '//v1/models', '/v1//models', '/v1/models/', '/.', '/..'],
    ...['/v1/./models', '/v1/../metrics', '/v1/%2e%2e/metrics', '/%2e/health', '/v1%2fmodels', '/v1%2Fmodels'],
    ...['/v1/models/a%252Fb', '/v1/models/a%00', '/v1/models/a%0ab', '/v1/models/a\\b', '/v1/models/a%5cb', '/a%'],
    ...['/v1/models/%ff', '/v1/models#x', '/v1/models/a%23b', '/v1/models/a%3Fb', '/health/'],
  ])('%j', (url) => {
    expect(targetOf(url)).toBeUndefined()
  })

  test('and what is left is kept as it was sent', () => {
    expect(targetOf('/v1/models/abc%2Edef?a=%2F&b')).toEqual({
      sent: '/v1/models/abc%2Edef',
      path: '/v1/models/abc.def',
      query: '?a=%2F&b',
    })
    expect(targetOf('/')).toEqual({ sent: '/', path: '/', query: '' })
  })
})

test('methods and paths are matched exactly, case included', () => {
  const asked = [
    ['llama-server', 'POST', '/v1/chat/completions', true],
    ['llamacpp', 'POST', '/infill', true],
    ['llama-server', 'GET', '/v1/models/qwen', true],
    ['llama-server', 'GET', '/v1/models/a;b', false],
    ['llama-server', 'GET', '/v1/models/a/b', false],
    ['llama-server', 'HEAD', '/health', false],
    ['llama-server', 'OPTIONS', '/v1/chat/completions', false],
    ['llama-server', 'GET', '/v1/chat/completions', false],
    ['llama-server', 'POST', '/V1/chat/completions', false],
    ['llama-server', 'POST', '/slots/0', false],
    ['llama-server', 'GET', '/slots', false],
    ['llama-server', 'POST', '/lora-adapters', false],
    ['llama-server', 'POST', '/api/chat', false],
    ['mlx-server', 'POST', '/tokenize', false],
    ['mlx-server', 'POST', '/v1/embeddings', true],
    ['vllm-swift', 'POST', '/v2/rerank', true],
    ['ollama', 'POST', '/api/pull', false],
    ['ollama', 'DELETE', '/api/delete', false],
    ['ollama', 'GET', '/api/tags', false],
    ['ollama', 'GET', '/v1/models', false],
    ['ollama', 'POST', '/api/chat', true],
    ['omlx', 'GET', '/health', true],
    ['omlx', 'POST', '/v1/messages', true],
    ['omlx', 'GET', '/v1/models', false],
    ['omlx', 'GET', '/v1/models/status', false],
    ['omlx', 'GET', '/api/status', false],
    ['omlx', 'POST', '/v1/models/apples/load', false],
    ['omlx', 'POST', '/v1/models/apples/unload', false],
    ['omlx', 'POST', '/v1/mcp/execute', false],
    ['omlx', 'GET', '/admin/api/stats', false],
    ['omlx', 'POST', '/admin/api/setup-api-key', false],
    ['unknown', 'GET', '/health', false],
    ['unknown', 'POST', '/v1/chat/completions', false],
  ] as const
  expect(asked.map(([runtime, method, path]) => isAllowed(runtime, method, path))).toEqual(asked.map((one) => one[3]))
})

test('a path that engines have names no service', () => {
  expect(['/v1/chat/completions', '/v1/models/x', '/api/pull', '/default/quick/health'].map(isPathOfEngines)).toEqual([
    ...[true, true, false, false],
  ])
  expect(modelInPath('/v1/models/x.gguf')).toBe('x.gguf')
})
