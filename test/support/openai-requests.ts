import { execa } from 'execa'
import OpenAI from 'openai'
import { expect } from 'vitest'
import { eventually } from './eventually.ts'
import { sayNow } from './gguf-writer.ts'

/** Puts tools and calls into the prompt as the templates of real models do. */
const chatTemplate = [
  '{%- for tool in tools %}Call as <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>: {{ tool | tojson }}\n{% endfor -%}',
  '{%- for message in messages %}{{ message.role }}: {{ message.content }}',
  '{%- for call in message.tool_calls %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}',
  `\n{% endfor -%}{%- if add_generation_prompt %}${sayNow}{% endif -%}`,
].join('')

/** Of the tiny model that is asked: it calls a tool whatever it is asked, and is slow enough to be cancelled while it works. */
export const slowModel = {
  ...{ vocabulary: 32_000, embedding: 256, blocks: 4, context: 4096 },
  says: ['<tool_call>', '{"name": "weather", ', '"arguments": {', '"city": "Paris"', '}}', '</tool_call>'],
  metadata: { 'tokenizer.chat_template': chatTemplate },
}

export interface OpenAiDoor {
  /** The door of a service with that model, up to and with `/v1`, and what requests call it. */
  readonly chat: { readonly url: string; readonly model: string }
  /** The same of a service that has `--embeddings --pooling mean`. */
  readonly vectors: { readonly url: string; readonly model: string }
  /** Of the server behind the first one, on this machine. */
  readonly enginePort: number | undefined
  readonly apiKey?: string
}

const messages = [{ role: 'user' as const, content: 'hello' }]
const short = { messages, max_completion_tokens: 16, ignore_eos: true }

/**
 * What programs do with a real llama-server by OpenAI's own client and curl: whole, streamed, many at once, with calls of tools, embeddings, and
 * cancelled. Each must be answered through the door as the server answers it.
 */
export async function askAsProgramsDo({ chat, vectors, enginePort, apiKey = 'none' }: OpenAiDoor): Promise<void> {
  const { completions } = clientOf(chat.url, apiKey).chat
  const { model } = chat
  const body = JSON.stringify({ model, max_tokens: 16, ignore_eos: true, prompt: 'hello' })
  const curl = await execa('curl', [
    '-sS',
    `${chat.url}/completions`,
    '-H',
    `Authorization: Bearer ${apiKey}`,
    '-d',
    body,
  ])
  expect(JSON.parse(curl.stdout)).toMatchObject({ usage: { completion_tokens: 16 } })

  const usage = { stream_options: { include_usage: true } }
  let tokens: number | undefined
  for await (const piece of await completions.create({ ...short, model, stream: true, ...usage }))
    tokens = piece.usage?.completion_tokens
  expect(tokens).toBe(16)

  const many = await Promise.all(Array.from({ length: 8 }, () => completions.create({ ...short, model })))
  expect(many.map((answer) => answer.usage?.completion_tokens)).toEqual(Array.from({ length: 8 }, () => 16))

  const parameters = { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] } }, required: ['city'] }
  const withTools = {
    ...{ model, messages, tool_choice: 'required' as const },
    tools: [{ type: 'function' as const, function: { name: 'weather', parameters } }],
  }
  const call = { name: 'weather', arguments: expect.stringMatching(/^\{\s*"city":\s*"Paris"\s*\}$/) as string }
  const [choice] = (await completions.create(withTools)).choices
  expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { tool_calls: [{ function: call }] } })
  const streamed = await completions.stream(withTools).finalMessage()
  expect(streamed.tool_calls).toMatchObject([{ function: call }])

  const { data } = await clientOf(vectors.url, apiKey).embeddings.create({
    model: vectors.model,
    input: ['one', 'two'],
  })
  expect(data.map(({ embedding }) => embedding.length)).toEqual([256, 256])

  const long = await completions.create({ ...short, model, stream: true, max_completion_tokens: 3_000 })
  for await (const _ of long) break
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${enginePort}/metrics`)).text()
    return /^llamacpp:requests_processing 0$/m.test(metrics)
  })
}

export const clientOf = (baseURL: string, apiKey = 'none'): OpenAI => new OpenAI({ baseURL, apiKey, maxRetries: 0 })
