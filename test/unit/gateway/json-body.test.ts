import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { rulesOf } from '../../../src/gateway/body-rules.ts'
import { HeldPieces, maxBodyBytes } from '../../../src/gateway/held-pieces.ts'
import { JsonBody } from '../../../src/gateway/json-body.ts'
import { Refusal } from '../../../src/gateway/refusal.ts'
import { growsNoFaster, growth } from '../../support/processor-time.ts'

/** What an engine of this runtime is sent, in pieces of this many bytes; the code where the body is refused. */
function sent(body: string | Buffer, runtime: string, size = Infinity): string {
  const bytes = Buffer.from(body)
  try {
    const json = new JsonBody(rulesOf(runtime), 'served')
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length; at += size)
      pieces.push(json.push(Buffer.from(bytes.subarray(at, Math.min(bytes.length, at + size)))))
    json.end()
    const all = Buffer.concat(pieces)
    expect(all.length).toBe(bytes.length + json.addedBytes)
    return all.toString()
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw error
  }
}
const inAnyPieces = (body: string, runtime: string): string[] =>
  [Infinity, 1, 2, 7, 64].map((size) => sent(body, runtime, size))
const of = (body: unknown): string => JSON.stringify(body)
const inMessage = (part: object): string => of({ model: 'a', messages: [{ role: 'user', content: [part] }] })

describe('media that a server would fetch are refused', () => {
  test.each([
    inMessage({ type: 'image_url', image_url: { url: 'http://10.0.0.1/a.png' } }),
    inMessage({ type: 'image_url', image_url: { url: 'HTTPS://x' } }),
    inMessage({ type: 'image_url', image_url: { detail: 'low', url: 'file:///etc/passwd' } }),
    inMessage({ type: 'image_url', image_url: { url: '/etc/passwd' } }),
    inMessage({ type: 'image_url', image_url: 'http://x' }),
    inMessage({ type: 'image_url', image_url: ['http://x'] }),
    inMessage({ type: 'video_url', video_url: { url: ' ftp://x' } }),
    inMessage({ type: 'video_url', video_url: { data: 'http://x' } }),
    inMessage({ type: 'input_video', input_video: { data: 'http://x' } }),
    inMessage({ type: 'input_audio', input_audio: { data: 'http://x', format: 'wav' } }),
    inMessage({ type: 'input_audio', input_audio: { data: '../x.wav' } }),
    inMessage({ type: 'input_image', image_url: 'http://x' }),
    inMessage({ type: 'image', image: `${' '.repeat(100)}http://x` }),
    inMessage({ type: 'image', source: { type: 'url', url: 'http://x' } }),
    inMessage({ type: 'tool_result', content: [{ type: 'image', source: { type: 'url', url: 'http://x' } }] }),
    inMessage({ type: 'input_file', file_url: 'http://x' }),
    of({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'http://x' }] }] }),
    of({ prompt: { prompt_string: 'a', multimodal_data: ['http://x'] } }),
    of({ prompt: 'a', images: ['http://x'] }),
    of({ MESSAGES: [{ Images: ['http://x'] }] }),
    '{"messages":[{"image_url":{"url":"\\u0068ttp://x"}}]}',
    '{"messages":[{"input_audio":{"data":"\\u0068ttp\\u003a\\u002f\\u002fx"}}]}',
    '{"messages":[{"\\u0069mage_url":{"\\u0075rl":"http:\\/\\/x"}}]}',
    '{"messages":[{"image_url":{"url":"data:,a"},"image_url":{"url":"http://x"}}]}',
    '{"a":{"b":[1,{"c":"}"}]},"messages":[{"image_url":{"url":"http://x"}}]}',
  ])('%s', (body) => {
    expect(new Set(inAnyPieces(body, 'llama-server'))).toEqual(new Set(['address_refused']))
  })
})

describe('and nothing else is', () => {
  test.each([
    inMessage({ type: 'text', text: 'Look at http://10.0.0.1/a.png and {"image_url":{"url":"http://x"}}' }),
    inMessage({ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }),
    inMessage({ type: 'input_audio', input_audio: { data: '//uQxAAA', format: 'mp3' } }),
    String.raw`{"messages":[{"input_audio":{"data":"\/\/uQ\nxAA\u003d"}}]}`,
    inMessage({ type: 'tool_use', id: '1', name: 'add', input: { source: 'https://x', image: 'nginx:latest' } }),
    inMessage({ type: 'search_result', source: 'https://x', title: 'a', content: [{ type: 'text', text: 'b' }] }),
    inMessage({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'http://x is down' } }),
    inMessage({ type: 'image_url', image_url: { url: 'data:,a', detail: 'see: below' } }),
    of({ images: ['/9j/4AAQSkZJRg'], prompt: 'http://x' }),
    of({ input: ['http://x', 'file:///y'] }),
    of({ tools: [{ function: { parameters: { properties: { image_url: { default: 'http://x' } } } } }] }),
    of({ messages: [{ tool_calls: [{ function: { arguments: { image: 'http://x' } } }] }] }),
    of({ metadata: { url: 'http://x', source: 'http://x', image_url: 'http://x' }, user: 'http://x' }),
    of({ response_format: { json_schema: { schema: { properties: { image: { const: 'a:b' } } } } } }),
    of({ ['k'.repeat(300)]: 1, chat_template_kwargs: { enable_thinking: false, own: 'x' } }),
  ])('%s', (body) => {
    expect(new Set(inAnyPieces(body, 'llama-server'))).toEqual(new Set([body]))
  })
})

describe('what is no JSON object is refused before any engine reads it in its own way', () => {
  test.each([
    ...[
      '',
      ' ',
      '[]',
      'null',
      '"a"',
      'model=a',
      '{"model":',
      '{"a":1}}',
      '{"a":1} {"b":2}',
      '{"a":1,}',
      '{,}',
      '{"a"}',
    ],
    ...["{'a':1}", '{"a":1 "b":2}', '{"a":[1,]}', '{"a":[1}', '{a:1}', '{"a":"\n"}', String.raw`{"a":"\x"}`],
    ...[String.raw`{"a":"\u00g0"}`, '\uFEFF{}', '{"a":/**/1}', '{"a":1}x', '{\0"\0a\0"\0:\x001\0}\0'],
  ])('%j', (body) => {
    for (const runtime of ['llama-server', 'mlx-lm'])
      expect(new Set(inAnyPieces(body, runtime))).toEqual(new Set(['body_not_json']))
  })

  test.each([
    ['[', 100_000],
    ['{"a":', 100_000],
  ])('a body that nests without an end (%s) is, too', (open, times) => {
    expect(sent(`{"a":${open.repeat(times)}`, 'llama-server', 4_096)).toBe('body_too_deep')
  })
})

describe('for a runtime that loads what a request names', () => {
  const changed = (runtime: string, body: unknown, spaces = 0): unknown[] =>
    inAnyPieces(JSON.stringify(body, null, spaces), runtime).map((text): unknown => JSON.parse(text))
  const always = (value: unknown): unknown[] => Array.from({ length: 5 }, () => value)

  test('the model is what is served, and nothing else is loaded', () => {
    const asked = { model: '/etc', adapters: '/x', draft_model: { a: [1] }, prompt: 'a', chat_template: '{{' }
    expect(changed('mlx-lm', asked)).toEqual(always({ model: 'default_model', prompt: 'a' }))
    expect(changed('omlx', { messages: [] })).toEqual(always({ messages: [], model: 'served' }))
    expect(changed('omlx', { model: 'a' }, 2)).toEqual(always({ model: 'served' }))
    expect(changed('omlx', {}, 2)).toEqual(always({ model: 'served' }))
    const options = { num_ctx: 9, temperature: 0, num_gpu: 1 }
    expect(changed('ollama', { model: 'b', name: 'c', keep_alive: 0, options }, 1)).toEqual(
      always({ model: 'served', options: { temperature: 0 } }),
    )
  })

  test('also where a field is spelt as only a server in Go takes it, or comes twice', () => {
    const strange = { Model: 'x', '\u212aeep_alive': 0, OPTIONS: { Num_Ctx: 9, top_k: 1 }, prompt: 'a' }
    expect(changed('ollama', { model: 'b', ...strange })).toEqual(
      always({ OPTIONS: { top_k: 1 }, prompt: 'a', model: 'served' }),
    )
    expect(sent('{"model":"a","x":1,"model":"b"}', 'ollama')).toMatch(/^\{"model":"served" +,"x":1 +\}$/)
  })

  test('whatever stands beside it, in whatever pieces it comes', () => {
    const names = fc.constantFrom('model', 'name', 'keep_alive', 'options', 'num_ctx', 'a', 'b"\\', 'ü')
    const body = fc.dictionary(names, fc.oneof(fc.jsonValue(), fc.dictionary(names, fc.jsonValue())))
    fc.assert(
      fc.property(body, fc.integer({ min: 1, max: 30 }), fc.integer({ min: 0, max: 3 }), (value, size, spaces) => {
        const taken = new Set(['model', 'name', 'keep_alive'])
        const rest = Object.fromEntries(Object.entries(value).filter(([key]) => !taken.has(key)))
        if (rest['options'] !== null && typeof rest['options'] === 'object' && !Array.isArray(rest['options']))
          rest['options'] = Object.fromEntries(Object.entries(rest['options']).filter(([key]) => key !== 'num_ctx'))
        const text = sent(JSON.stringify(value, null, spaces), 'ollama', size)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify({ ...rest, model: 'served' })))
      }),
      { numRuns: 500, seed: 1 },
    )
  })

  test('and where nothing is known by which the engine calls it, nothing is asked', () => {
    expect(() => new JsonBody(rulesOf('ollama'), undefined)).toThrow(Refusal)
  })
})

test.each([
  ['mlx-lm', { chat_template: "{{ ('a' * 1000000000) | length }}" }, 'template_refused'],
  ['omlx', { enable_thinking: { a: 1 } }, 'template_refused'],
  ['llama-server', { any: ['a'] }, 'template_refused'],
  ['mlx-lm', { enable_thinking: false, reasoning_effort: 'low' }, undefined],
])('of the chat template of %s a client sets plain values alone: %j', (runtime, values, code) => {
  for (const body of inAnyPieces(of({ chat_template_kwargs: values }), runtime))
    if (code === undefined) expect(JSON.parse(body)).toMatchObject({ chat_template_kwargs: values })
    else expect(body).toBe(code)
})

test.each([
  ['ollama', 'web_search_20250305', 'tool_refused'],
  ['ollama', 'function', undefined],
  ['llama-server', 'web_search', undefined],
])('a tool that %s would carry out itself (%s) is refused', (runtime, type, code) => {
  for (const body of inAnyPieces(of({ tools: [{ type, name: 'a', input_schema: { type: 'web' } }] }), runtime))
    if (code === undefined) expect(JSON.parse(body)).toMatchObject({ tools: [{ type }] })
    else expect(body).toBe(code)
})

describe('the model that a request names', () => {
  function modelIn(body: string, size: number): string | undefined {
    const json = new JsonBody()
    for (let at = 0; at < body.length && json.model === undefined; at += size)
      json.push(Buffer.from(body.slice(at, at + size), 'latin1'))
    return json.model
  }

  test.each([
    ['{"model":"a"}', 'a'],
    ['\n{ "stream" : true , "model"\t:\n"a/b" }', 'a/b'],
    ['{"messages":[{"role":"user","content":"\\"model\\":\\"no\\" {"},{"model":"no"}],"model":"yes"}', 'yes'],
    ['{"tools":{"model":"no"},"x":"model","model":"yes"}', 'yes'],
    [String.raw`{"\u006dodel":"q\u00fc\"\\"}`, 'qü"\\'],
    ['{"model":"first","model":"last"}', 'first'],
    ['{"model":null,"prompt":"model"}', undefined],
    ['{"model":["a"]}', undefined],
    ['{"model":7,"stop":"b"}', undefined],
    [`{"model":"${'a'.repeat(5_000)}"}`, undefined],
    [`{"messages":["${'word '.repeat(100_000)}"],"model":"behind"}`, 'behind'],
  ])('in %.60j is %j, in whatever pieces it comes', (body, model) => {
    expect([1_000_000, 1, 7].map((size) => modelIn(body, size))).toEqual([model, model, model])
  })
})

test.each(['llama-server', 'mlx-lm'])(
  'bodies for %s are looked through in a time that grows as they do',
  async (runtime) => {
    const lookedOver = (times: number) => {
      const parts = ['1,[],{"b":1},', `"${'A'.repeat(20)}",`, String.raw`"\\\\\"",`].join('').repeat(times / 10)
      const body = Buffer.from(
        of({ messages: [{ image_url: { url: `data:image/png;base64,${'A'.repeat(times * 10)}` } }] }).replace(
          '{',
          `{"a":[${parts}0],`,
        ),
      )
      return () => expect(sent(body, runtime, 65_536)).not.toMatch(/^\w+$/)
    }
    expect(await growth(100_000, lookedOver)).toBeLessThan(growsNoFaster)
  },
)

test('of bodies that cannot go on yet, the one that holds most makes room for all others', () => {
  using large = new HeldPieces()
  large.add(Buffer.alloc(maxBodyBytes - 1))
  using small = new HeldPieces()
  small.add(Buffer.alloc(1_000))
  expect(() => large.next()).toThrow(Refusal)
  using next = new HeldPieces()
  next.add(Buffer.alloc(maxBodyBytes / 2))
  expect([small.next()?.length, next.next()?.length]).toEqual([1_000, maxBodyBytes / 2])
})
