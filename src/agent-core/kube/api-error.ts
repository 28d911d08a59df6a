import { z } from 'zod'
import { parseJson } from '../util/files.ts'

const status = z.object({ reason: z.string().optional(), message: z.string().optional() })

/** A proxy that asks for an hour must not keep a Mac out of its cluster for so long. */
const maxRetryAfterSeconds = 60

/** The reason of the error for an answer that is larger than anything we ask for. */
export const answerTooLarge = 'AnswerTooLarge'
/** The reason of the error for a list that exceeds its bounds. */
export const listTooLong = 'ListTooLong'

/** A request the API server refused, or that never reached it (`code` undefined). */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  /** HTTP status; undefined when there was no answer. */
  readonly code: number | undefined
  /** Kubernetes' machine-readable reason, such as `AlreadyExists`, `Conflict` or `Forbidden`. */
  readonly reason: string
  readonly retryAfterSeconds: number | undefined
  /** The message without the request, for a sentence that says by itself what was asked for. */
  readonly detail: string

  constructor(
    message: string,
    facts: { code?: number | undefined; reason?: string; retryAfterSeconds?: number | undefined; cause?: unknown },
  ) {
    super(message, { cause: facts.cause })
    this.code = facts.code
    this.reason = facts.reason ?? ''
    this.retryAfterSeconds = facts.retryAfterSeconds
    this.detail = message.replace(/^(?:[A-Z]+ \S+|watch): /, '')
  }

  /** Kubernetes' words where the body is a Status, else the HTTP status. */
  static fromResponse(
    what: string,
    code: number,
    body: string,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): ApiError {
    const parsed = status.safeParse(parseJson(body)).data
    const retryAfter = Math.min(maxRetryAfterSeconds, Number(headers['retry-after']))
    return new ApiError(`${what}: ${parsed?.message ?? `HTTP ${code}`}`, {
      code,
      reason: parsed?.reason ?? '',
      retryAfterSeconds: Number.isFinite(retryAfter) ? retryAfter : undefined,
    })
  }
}

export const isApiError = (error: unknown, ...codes: readonly number[]): error is ApiError =>
  error instanceof ApiError && (codes.length === 0 || (error.code !== undefined && codes.includes(error.code)))

/** Answers that say nothing about the request itself: credentials expired, timed out, in conflict with another write, too many requests. */
const passingCodes: readonly number[] = [401, 408, 409, 429]

/** Whether the API server has decided about the request. All else is an outage: what is known stays, and nothing is taken for gone or forbidden. */
export const isDecision = (error: unknown): error is ApiError =>
  isApiError(error) && Math.floor((error.code ?? 0) / 100) === 4 && !isApiError(error, ...passingCodes)

/** Node.js adds this advice to some TLS errors; a person cannot follow it, since the agent's launcher starts Node.js. */
const hintOfNode = /; if the root CA is installed locally, try running Node\.js with --use-system-ca$/

/** The innermost cause says what happened ("connect ECONNREFUSED …"); fetch's own message only says "fetch failed". */
export function rootMessage(error: unknown): string {
  let current: unknown = error
  while (current instanceof Error && current.cause instanceof Error) current = current.cause
  if (current instanceof AggregateError && current.errors.length > 0) return rootMessage(current.errors[0])
  return current instanceof Error ? current.message.replace(hintOfNode, '') || current.name : String(current)
}
