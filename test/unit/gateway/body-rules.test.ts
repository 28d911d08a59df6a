import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AddressScan, rewritten, rulesOf } from '../../../src/gateway/body-rules.ts'
import { Refusal } from '../../../src/gateway/refusal.ts'
import { growsNoFaster, growth } from '../../support/processor-time.ts'

/** In pieces of this many bytes. */
function isRefused(body: string, size = Infinity): boolean {
  const bytes = Buffer.from(body)
  const scan = new AddressScan()
  try {
    for (let at = 0; at < bytes.length; at += size) scan.push(bytes.subarray(at, Math.min(bytes.length, at + size)))
    return false
  } catch (error) {
    if (error instanceof Refusal) return true
    throw error
  }
}

const inMessage = (part: object): string =>
  JSON.stringify({ model: 'a', messages: [{ role: 'user', content: [part] }] })

describe('media that a server would fetch are refused', () => {
  test.each([
    inMessage({ type: 'image_url', image_url: { url: 'http://10.0.0.1/a.png' } }),
    inMessage({ type: 'image_url', image_url: { url: 'HTTPS://x' } }),
    inMessage({ type: 'image_url', image_url: { detail: 'low', url: 'file:///etc/passwd' } }),
    inMessage({ type: 'image_url', image_url: { url: '/etc/passwd' } }),
    inMessage({ type: 'image_url', image_url: 'http://x' }),
    inMessage({ type: 'video_url', video_url: { url: ' ftp://x' } }),
    inMessage({ type: 'input_image', image_url: 'http://x' }),
    inMessage({ type: 'image', source: { type: 'url', url: 'http://x' } }),
    inMessage({ type: 'input_file', file_url: 'http://x' }),
    JSON.stringify({ prompt: 'a', images: ['http://x'] }),
    JSON.stringify({ prompt: 'a', images: [{ url: 'http://x' }] }),
    '{"image_url":{"url":"\\u0068ttp://x"}}',
    '{"\\u0069mage_url":{"\\u0075rl":"http:\\/\\/x"}}',
    '{"image_url":{"url":"data:,a"},"image_url":{"url":"http://x"}}',
    '{"a":{"b":[1,{"c":"}"}]},"image_url":{"url":"http://x"}}',
  ])('%s', (body) => {
    for (const size of [Infinity, 1, 7]) expect(isRefused(body, size)).toBe(true)
  })
})

describe('and nothing else is', () => {
  test.each([
    inMessage({ type: 'text', text: 'Look at http://10.0.0.1/a.png and {"image_url":{"url":"http://x"}}' }),
    inMessage({ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }),
    inMessage({ type: 'input_audio', input_audio: { data: '//uQxAAA', format: 'mp3' } }),
    JSON.stringify({ images: ['/9j/4AAQSkZJRg'], prompt: 'http://x' }),
    JSON.stringify({ tools: [{ function: { parameters: { properties: { url: { default: 'http://x' } } } } }] }),
    JSON.stringify({ metadata: { url: 'http://x' }, user: 'http://x' }),
    '{"image_url":',
    'http://x',
    '',
  ])('%s', (body) => {
    for (const size of [Infinity, 1, 7]) expect(isRefused(body, size)).toBe(false)
  })

  test('however it is made of texts, lists and objects, in pieces as in one', () => {
    const anywhere = fc.jsonValue({ maxDepth: 4 })
    fc.assert(
      fc.property(anywhere, fc.integer({ min: 1, max: 9 }), (value, size) => {
        const inside = JSON.stringify({ a: value, messages: [value, { image_url: { z: value, url: 'http://x' } }] })
        expect([isRefused(JSON.stringify(value), size), isRefused(inside, size)]).toEqual([false, true])
      }),
      { numRuns: 300, seed: 1 },
    )
  })
})

test('a picture is looked over in a time that grows as it does', async () => {
  const lookedOver = (bytes: number) => {
    const body = inMessage({ image_url: { url: `data:image/png;base64,${'A'.repeat(bytes)}` } })
    return () => expect(isRefused(body, 65_536)).toBe(false)
  }
  expect(await growth(4_000_000, lookedOver)).toBeLessThan(growsNoFaster)
})

test('a body that nests without an end is refused', () => {
  expect(isRefused('['.repeat(100_000))).toBe(true)
})

describe('for a runtime that loads what a request names', () => {
  const changed = (runtime: string, body: unknown): unknown =>
    JSON.parse(rewritten(Buffer.from(JSON.stringify(body)), rulesOf(runtime), 'served').toString())

  test('the model is what is served, and nothing else is loaded', () => {
    expect(changed('mlx-lm', { model: '/etc', adapters: '/x', draft_model: 'y', prompt: 'a' })).toEqual({
      ...{ model: 'default_model', prompt: 'a' },
    })
    expect(changed('omlx', { messages: [] })).toEqual({ model: 'served', messages: [] })
    expect(
      changed('ollama', { model: 'b', name: 'c', keep_alive: 0, options: { num_ctx: 9, temperature: 0 } }),
    ).toEqual({ model: 'served', options: { temperature: 0 } })
  })

  test('also where a field is spelt as only a server in Go takes it', () => {
    const strange = { Model: 'x', '\u212aeep_alive': 0, OPTIONS: { Num_Ctx: 9, top_k: 1 }, prompt: 'a' }
    expect(changed('ollama', { model: 'b', ...strange })).toEqual({
      OPTIONS: { top_k: 1 },
      prompt: 'a',
      model: 'served',
    })
  })

  test('and where nothing is known by which the engine calls it, nothing is asked', () => {
    expect(() => rewritten(Buffer.from('{"model":"any"}'), rulesOf('ollama'), undefined)).toThrow(Refusal)
  })

  test.each(['[]', 'null', '"a"', '{"model":', ''])('what is no JSON object is refused: %j', (body) => {
    expect(() => rewritten(Buffer.from(body), rulesOf('mlx-lm'), 'served')).toThrow(Refusal)
  })
})
