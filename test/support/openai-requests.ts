import { execa } from 'execa'
import OpenAI from 'openai'
import { expect } from 'vitest'
import { eventually } from './eventually.ts'

/** ChatML, as SmolLM2 speaks it, with the calls of tools that its own template has no words for. */
const chatTemplate = [
  '{%- if tools %}<|im_start|>system\nCall as <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>: {{ tools | tojson }}<|im_end|>\n{% endif -%}',
  '{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}',
  '{%- for call in message.tool_calls %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}',
  '<|im_end|>\n{% endfor -%}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif -%}',
].join('')

/** Of services that serve SmolLM2 by llama-server. A second thread would wait for a core that another test has. */
const oneThread = ['--threads', '1']
export const askedService = { contextSize: 2048, extraArgs: [...oneThread, '--chat-template', chatTemplate] }
export const vectorsService = { extraArgs: [...oneThread, '--embeddings', '--pooling', 'mean'] }

export interface OpenAiDoor {
  /** The door of an `askedService`, up to and with `/v1`, and what requests call it. */
  readonly chat: { readonly url: string; readonly model: string }
  /** The same of a `vectorsService`. */
  readonly vectors: { readonly url: string; readonly model: string }
  /** Of the server behind the first one, on this machine. */
  readonly enginePort: number | undefined
  readonly apiKey?: string
}

const asked = (content: string) => ({ role: 'user' as const, content })
const short = { messages: [asked('hello')], max_completion_tokens: 4, ignore_eos: true }

/** Without the cache, equal requests are computed alike to the last bit. */
const question = {
  ...{ messages: [asked('What is a GPU good for? Answer in one sentence.')], temperature: 0, cache_prompt: false },
  max_completion_tokens: 100,
}

const weatherIn = (city: string) => asked(`What is the weather in ${city}?`)
const calls = (id: string, city: string) => ({
  ...{ role: 'assistant' as const, content: '' },
  tool_calls: [{ id, type: 'function' as const, function: { name: 'weather', arguments: JSON.stringify({ city }) } }],
})
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
/** A model of this size calls a tool where it has seen how. */
const withTools = {
  ...{ temperature: 0, max_completion_tokens: 100 },
  tools: [{ type: 'function' as const, function: { name: 'weather', parameters } }],
  messages: [weatherIn('Paris'), calls('1', 'Paris'), weatherIn('Berlin'), calls('2', 'Berlin'), weatherIn('Rome')],
}

/**
 * What programs do with a real llama-server and a real small model by OpenAI's own client and curl: whole, streamed, up to a word, past the end
 * of the context, many at once, with calls of tools, embeddings, and cancelled. Each must be answered through the door as the server answers it.
 */
export async function askAsProgramsDo({ chat, vectors, enginePort, apiKey = 'none' }: OpenAiDoor): Promise<void> {
  const { completions } = clientOf(chat.url, apiKey).chat
  const { model } = chat
  const body = JSON.stringify({ model, max_tokens: 4, ignore_eos: true, prompt: 'hello' })
  const curl = await execa('curl', [
    '-sS',
    `${chat.url}/completions`,
    '-H',
    `Authorization: Bearer ${apiKey}`,
    '-d',
    body,
  ])
  expect(JSON.parse(curl.stdout)).toMatchObject({ usage: { completion_tokens: 4 } })

  const whole = await completions.create({ ...question, model })
  const words = whole.choices[0]?.message.content ?? ''
  expect([words, whole.choices[0]?.finish_reason]).toEqual([expect.stringContaining('Graphics'), 'stop'])

  const pieces: string[] = []
  let usage: object | null | undefined
  const inPieces = { ...question, model, stream: true as const, stream_options: { include_usage: true } }
  for await (const piece of await completions.create(inPieces)) {
    pieces.push(piece.choices[0]?.delta.content ?? '')
    usage = piece.usage
  }
  expect([pieces.join(''), usage]).toEqual([words, whole.usage])
  expect(pieces.length).toBeGreaterThan(5)

  const [stopped] = (await completions.create({ ...question, model, stop: ['Graphics'] })).choices
  expect(stopped).toMatchObject({ finish_reason: 'stop', message: { content: words.split('Graphics')[0] } })

  const tooLong = completions.create({ model, messages: [asked('word '.repeat(3_000))] })
  await expect(tooLong).rejects.toMatchObject({
    ...{ status: 400, type: 'exceed_context_size_error', error: { n_ctx: 2048 } },
    message: expect.stringContaining('exceeds the available context size (2048 tokens)') as string,
  })

  const many = await Promise.all(Array.from({ length: 8 }, () => completions.create({ ...short, model })))
  expect(many.map((answer) => answer.usage?.completion_tokens)).toEqual(Array.from({ length: 8 }, () => 4))

  const call = { name: 'weather', arguments: expect.stringMatching(/^\{\s*"city":\s*"Rome"\s*\}$/) as string }
  const [choice] = (await completions.create({ ...withTools, model })).choices
  expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { tool_calls: [{ function: call }] } })
  const streamed = await completions.stream({ ...withTools, model }).finalMessage()
  expect(streamed.tool_calls).toMatchObject([{ function: call }])

  const { data } = await clientOf(vectors.url, apiKey).embeddings.create({
    model: vectors.model,
    input: ['one', 'two'],
  })
  expect(data.map(({ embedding }) => embedding.length)).toEqual([576, 576])

  const long = await completions.create({ ...short, model, stream: true, max_completion_tokens: 1_500 })
  for await (const _ of long) break
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${enginePort}/metrics`)).text()
    return /^llamacpp:requests_processing 0$/m.test(metrics)
  })
}

export const clientOf = (baseURL: string, apiKey = 'none'): OpenAI => new OpenAI({ baseURL, apiKey, maxRetries: 0 })
