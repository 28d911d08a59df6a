import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AnswerEnds, operationOf, type Usage } from '../../../src/gateway/usage.ts'

function usageOf(text: string, pieceBytes = 1_000): Usage | undefined {
  const ends = new AnswerEnds()
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += pieceBytes) ends.push(bytes.subarray(at, at + pieceBytes))
  return ends.usage()
}

const json = (value: object): string => JSON.stringify(value)
const event = (value: object | string): string => `data: ${typeof value === 'string' ? value : json(value)}\n\n`
const long = 'x'.repeat(50_000)

describe('the tokens of an answer are read', () => {
  test('where usage stands at its end, behind a long text', () => {
    const answer = { choices: [{ message: { content: long } }], usage: { prompt_tokens: 7, completion_tokens: 11 } }
    expect(usageOf(json(answer))).toEqual({ input: 7, output: 11 })
    expect(usageOf(JSON.stringify(answer, null, 2))).toEqual({ input: 7, output: 11 })
  })

  test('where usage stands before what is long, as with embeddings', () => {
    const answer = { object: 'list', usage: { prompt_tokens: 7, total_tokens: 7 }, data: [{ embedding: long }] }
    expect(usageOf(json(answer))).toEqual({ input: 7, output: undefined })
  })

  test('of the last event of a stream that has one', () => {
    const begin = { choices: [{ delta: { content: 'a' } }], usage: null }
    const end = { choices: [], usage: { prompt_tokens: 7, completion_tokens: 11, details: { cached_tokens: 3 } } }
    const stream = event(begin).repeat(500) + event(end) + event('[DONE]')
    for (const pieceBytes of [1, 7, 4_096, 100_000])
      expect(usageOf(stream, pieceBytes)).toEqual({ input: 7, output: 11 })
  })

  test("from Anthropic's events, the first of which has the input and the last the output", () => {
    const begin = { type: 'message_start', message: { usage: { input_tokens: 7, output_tokens: 0 } } }
    const stream = event(begin) + event({ delta: long }) + event({ usage: { output_tokens: 11 } })
    expect(usageOf(stream)).toEqual({ input: 7, output: 11 })
  })

  test("from llama-server's timings, where it says nothing else", () => {
    const timings = { cache_n: 5, prompt_n: 2, predicted_n: 11, predicted_per_token_ms: 20 }
    const stream = event({ choices: [{ delta: {} }], timings }) + event('[DONE]')
    expect(usageOf(stream)).toEqual({ input: 7, output: 11, secondsPerOutputToken: 0.02 })
  })
})

describe('nothing is read', () => {
  test.each([
    ['a model that writes of usage', json({ choices: [{ message: { content: '{"usage":{"prompt_tokens":99}}' } }] })],
    ['an answer without it', event({ choices: [] })],
    ['usage that is no object', json({ usage: 'much' })],
    ['figures that are none', json({ usage: { prompt_tokens: -1, completion_tokens: 'many' } })],
    ['an object that breaks off', '{"usage":{"prompt_tokens":7'],
    ['what is no JSON', '"usage":{prompt_tokens: 7}'],
    ['nothing', ''],
  ])('from %s', (_what, text) => {
    expect(usageOf(text)).toBeUndefined()
  })
})

test('pieces of any size make no difference', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(sizes, fc.integer({ min: 0, max: 30_000 }), (pieces, filling) => {
      const bytes = Buffer.from(
        `${'{"x":"y"}'.repeat(filling / 9)}${json({ usage: { prompt_tokens: 7, completion_tokens: 11 } })}`,
      )
      const ends = new AnswerEnds()
      for (let at = 0, index = 0; at < bytes.length; index += 1) {
        const size = pieces[index % pieces.length] ?? 1
        ends.push(bytes.subarray(at, at + size))
        at += size
      }
      expect(ends.usage()).toEqual({ input: 7, output: 11 })
    }),
    { numRuns: 100 },
  )
})

test('operations have the names of OpenTelemetry, and what counts no tokens has none', () => {
  const paths = ['/v1/chat/completions', '/completion', '/v1/embeddings', '/tokenize', '/v1/models']
  expect(paths.map(operationOf)).toEqual(['chat', 'text_completion', 'embeddings', undefined, undefined])
})
