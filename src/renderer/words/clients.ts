import { shellWord } from '../../contract/shell.ts'

/** A service as programs of this machine reach it, and what they call its model. */
export interface ClientOf {
  /** Without `/v1` at its end. */
  readonly url: string
  readonly model: string
}

/** What is asked in the texts. */
const hello = 'Hello'
/** Clients want a key; a service that checks keys wants its own in its place. */
const key = 'none'

/**
 * What a person pastes to use a model from a program. `openai`, `anthropic`, `litellm` and curl are run in a test as they stand here; the others are
 * as their documentation has them, looked up on 2026-11-28: Open WebUI (docs.openwebui.com, Environment Variables), Claude Code
 * (code.claude.com/docs, LLM gateway configuration), opencode (opencode.ai/docs/providers, llama.cpp).
 */
export const clientTexts = {
  curl: ({ url }: ClientOf) =>
    `curl ${shellWord(`${url}/v1/chat/completions`)} -H 'content-type: application/json' \\\n  -d '{"messages":[{"role":"user","content":"${hello}"}],"max_tokens":64}'`,
  'OpenAI, Python': ({ url, model }: ClientOf) =>
    [
      'from openai import OpenAI',
      '',
      `client = OpenAI(base_url=${quoted(`${url}/v1`)}, api_key="${key}")`,
      'answer = client.chat.completions.create(',
      `    model=${quoted(model)}, messages=[{"role": "user", "content": "${hello}"}], max_tokens=64`,
      ')',
      'print(answer.choices[0].message.content)',
    ].join('\n'),
  'OpenAI, JavaScript': ({ url, model }: ClientOf) =>
    [
      "import OpenAI from 'openai'",
      '',
      `const client = new OpenAI({ baseURL: ${quoted(`${url}/v1`)}, apiKey: '${key}' })`,
      'const answer = await client.chat.completions.create({',
      `  model: ${quoted(model)}, messages: [{ role: 'user', content: '${hello}' }], max_tokens: 64,`,
      '})',
      'console.log(answer.choices[0].message.content)',
    ].join('\n'),
  'Anthropic, Python': ({ url, model }: ClientOf) =>
    [
      'from anthropic import Anthropic',
      '',
      `client = Anthropic(base_url=${quoted(url)}, api_key="${key}")`,
      'answer = client.messages.create(',
      `    model=${quoted(model)}, messages=[{"role": "user", "content": "${hello}"}], max_tokens=64`,
      ')',
      'print(answer.content[-1].text)',
    ].join('\n'),
  LiteLLM: ({ url, model }: ClientOf) =>
    [
      'from litellm import completion',
      '',
      'answer = completion(',
      `    model=${quoted(`openai/${model}`)}, api_base=${quoted(`${url}/v1`)}, api_key="${key}",`,
      `    messages=[{"role": "user", "content": "${hello}"}], max_tokens=64,`,
      ')',
      'print(answer.choices[0].message.content)',
    ].join('\n'),
  'Open WebUI': ({ url }: ClientOf) =>
    `OPENAI_API_BASE_URL=${shellWord(`${url}/v1`)} OPENAI_API_KEY=${key} open-webui serve`,
  'Claude Code': ({ url, model }: ClientOf) =>
    `ANTHROPIC_BASE_URL=${shellWord(url)} ANTHROPIC_AUTH_TOKEN=${key} claude --model ${shellWord(model)}`,
  opencode: ({ url, model }: ClientOf) =>
    JSON.stringify(
      {
        provider: {
          metalbar: {
            npm: '@ai-sdk/openai-compatible',
            name: 'Metalbar',
            options: { baseURL: `${url}/v1` },
            models: { [model]: {} },
          },
        },
      },
      null,
      2,
    ),
} as const
export type ClientName = keyof typeof clientTexts
export const clientNames = Object.fromEntries(Object.keys(clientTexts).map((name) => [name, name])) as Record<
  ClientName,
  string
>

/** A string literal in both Python and JavaScript. */
const quoted = (text: string): string => JSON.stringify(text)
