import { request as ask } from 'undici'
import { z } from 'zod'
import type { AnswerPiece } from '../../contract/ask.ts'
import { sentence } from '../../contract/clean-text.ts'
import { LinkError, type Listener, type Unsubscribe } from '../../contract/client.ts'
import { parseJson } from '../util/files.ts'
import { linesOf } from '../util/lines.ts'
import { messageOf } from '../util/message-of.ts'

/** An answer that a person reads; a longer one is cut. */
const maxTokens = 1_024
const maxLineCharacters = 64 * 1_024
const maxRefusalBytes = 300

/** What of a chunk of `/v1/chat/completions` is shown, as OpenAI's reference describes it, and llama-server's own timings. */
const chunk = z.object({
  choices: z
    .array(
      z.object({
        delta: z.object({ content: z.string().nullish(), reasoning_content: z.string().nullish() }).default({}),
        finish_reason: z.string().nullish(),
      }),
    )
    .default([]),
  usage: z.object({ completion_tokens: z.int().nonnegative() }).nullish(),
  timings: z.object({ predicted_per_second: z.number().nonnegative() }).nullish(),
})

const refusal = z.object({
  error: z.union([z.string(), z.object({ message: z.string() }).transform((e) => e.message)]),
})

/** Asks a model as any program of this machine does. Leaving ends the request, and the model's work at it. */
export function askModel(url: string, question: string, listener: Listener<AnswerPiece>): Unsubscribe {
  const left = new AbortController()
  const { signal } = left
  const read = async (): Promise<void> => {
    for await (const piece of piecesOf(url, question, signal)) {
      if (signal.aborted) return
      listener.next(piece)
    }
  }
  read().catch((error: unknown) => {
    if (signal.aborted) return
    const why =
      error instanceof LinkError ? error : new LinkError('refused', `The answer broke off: ${messageOf(error)}.`)
    listener.end(why)
  })
  return () => left.abort()
}

async function* piecesOf(url: string, question: string, signal: AbortSignal): AsyncGenerator<AnswerPiece, void> {
  const { statusCode, body } = await ask(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [{ role: 'user', content: question }],
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
    }),
    signal,
    // A long question on a large model takes minutes before its first word; the person may stop it.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  if (statusCode !== 200) {
    const said = refusal.safeParse(parseJson(await headOf(body))).data
    const text = said ? sentence(said.error, maxRefusalBytes) : `The model's server answered with status ${statusCode}.`
    throw new LinkError('refused', text)
  }
  let tokens = 0
  let isCut = false
  let rate: number | undefined
  let firstAt: number | undefined
  for await (const event of eventsOf(body)) {
    const said = refusal.safeParse(event).data
    if (said) throw new LinkError('refused', sentence(said.error, maxRefusalBytes))
    const { choices, usage, timings } = chunk.parse(event)
    const [choice] = choices
    // A model that thinks says so in another field, or in its content.
    const text = `${choice?.delta.reasoning_content ?? ''}${choice?.delta.content ?? ''}`
    if (text !== '') {
      firstAt ??= performance.now()
      tokens += 1
      yield { text }
    }
    if (choice?.finish_reason === 'length') isCut = true
    if (usage) tokens = usage.completion_tokens
    rate = timings?.predicted_per_second ?? rate
  }
  const seconds = (performance.now() - (firstAt ?? performance.now())) / 1_000
  yield { text: '', end: { tokens, tokensPerSecond: rate ?? (seconds > 0 ? tokens / seconds : 0), isCut } }
}

type Body = Awaited<ReturnType<typeof ask>>['body']

/** The JSON of each `data:` line up to `[DONE]`; throws where the answer ends before it, or is no stream of events. */
async function* eventsOf(body: Body): AsyncGenerator<unknown, void> {
  for await (const line of linesOf(body, maxLineCharacters)) {
    if (!line.startsWith('data:')) continue
    const data = line.slice('data:'.length).trim()
    if (data === '[DONE]') return
    const event = parseJson(data)
    if (event === undefined) throw new Error('a line of it is no JSON')
    yield event
  }
  throw new Error('it has no end')
}

async function headOf(body: Body): Promise<string> {
  let text = ''
  body.setEncoding('utf8')
  for await (const piece of body as AsyncIterable<string>) {
    text += piece
    if (text.length > maxLineCharacters) break
  }
  return text
}
