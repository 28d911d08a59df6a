import { z } from 'zod'
import type { GenAiOperation } from '../contract/gateway.ts'

/** What an engine says of the tokens of one request; what it does not say is absent. */
export interface Usage {
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly secondsPerOutputToken?: number | undefined
}

/** What a request asks of a model, by OpenTelemetry's names; undefined where its answer counts no tokens. */
export const operationOf = (path: string): GenAiOperation | undefined => operations.get(path)

const operations: ReadonlyMap<string, GenAiOperation> = new Map([
  ...['/v1/chat/completions', '/v1/responses', '/v1/messages', '/api/chat'].map((path) => [path, 'chat'] as const),
  ...['/v1/completions', '/completions', '/completion', '/infill', '/api/generate'].map(
    (path) => [path, 'text_completion'] as const,
  ),
  ...['/v1/embeddings', '/embeddings', '/embedding', '/api/embed', '/api/embeddings'].map(
    (path) => [path, 'embeddings'] as const,
  ),
])

/** Embeddings and Anthropic's streams say their input first. */
const headBytes = 1_024
/** The last event of a stream, with the figures of llama-server in it, is much shorter. */
const tailBytes = 8_192

/**
 * The beginning and the end of an answer as it passes by, which is all that is kept of it until it has ended: there engines say how many tokens
 * it took. In a text that a model writes quotation marks are escaped, so that none is taken for a figure.
 */
export class AnswerEnds {
  readonly #head = Buffer.allocUnsafe(headBytes)
  /** A ring. */
  readonly #tail = Buffer.allocUnsafe(tailBytes)
  #bytes = 0

  push(piece: Buffer): void {
    if (this.#bytes < headBytes) piece.copy(this.#head, this.#bytes)
    const last = piece.subarray(-tailBytes)
    const at = (this.#bytes + piece.length - last.length) % tailBytes
    const copied = last.copy(this.#tail, at)
    last.copy(this.#tail, 0, copied)
    this.#bytes += piece.length
  }

  /** Undefined if the answer does not report its usage. */
  usage(): Usage | undefined {
    const head = this.#head.toString('latin1', 0, Math.min(this.#bytes, headBytes))
    const at = this.#bytes % tailBytes
    const tail = this.#tail.toString('latin1', 0, Math.min(this.#bytes, tailBytes))
    const ordered = this.#bytes > tailBytes ? tail.slice(at) + tail.slice(0, at) : tail
    const first = figuresAt(head, head.indexOf(usageKey), usageKey, tokenCounts)
    const last = figuresAt(ordered, ordered.lastIndexOf(usageKey), usageKey, tokenCounts)
    const timings = figuresAt(ordered, ordered.lastIndexOf(timingsKey), timingsKey, llamaTimings)
    const { prompt_tokens, input_tokens, completion_tokens, output_tokens } = { ...first, ...last }
    const usage = {
      input: prompt_tokens ?? input_tokens ?? (timings && (timings.prompt_n ?? 0) + (timings.cache_n ?? 0)),
      output: completion_tokens ?? output_tokens ?? timings?.predicted_n,
      ...(timings?.predicted_per_token_ms !== undefined && {
        secondsPerOutputToken: timings.predicted_per_token_ms / 1_000,
      }),
    }
    return usage.input === undefined && usage.output === undefined ? undefined : usage
  }
}

const usageKey = '"usage"'
const timingsKey = '"timings"'
const count = z.int().nonnegative().optional().catch(undefined)
const tokenCounts = z.object({
  ...{ prompt_tokens: count, completion_tokens: count },
  ...{ input_tokens: count, output_tokens: count },
})
const llamaTimings = z.object({
  ...{ prompt_n: count, cache_n: count, predicted_n: count },
  predicted_per_token_ms: z.number().nonnegative().optional().catch(undefined),
})

/** The object that follows a key. Undefined if there is none, or if the text ends before it does. */
function figuresAt<T>(text: string, at: number, key: string, schema: z.ZodType<T>): T | undefined {
  const from = text.indexOf('{', at)
  if (at === -1 || from === -1 || text.slice(at + key.length, from).trim() !== ':') return undefined
  let depth = 0
  for (let index = from; index < text.length; index += 1) {
    if (text[index] === '{') depth += 1
    else if (text[index] === '}' && --depth === 0) return parsed(text.slice(from, index + 1), schema)
  }
  return undefined
}

function parsed<T>(text: string, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
