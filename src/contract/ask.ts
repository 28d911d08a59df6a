import { z } from 'zod'
import { serviceRef } from './commands.ts'
import type { ServiceView } from './service.ts'

/** In characters: a person writes it. */
export const maxQuestion = 8_000

/** One question to the model of a service, without what was asked before. Leaving ends the model's work at it. */
export const askStream = z.object({
  name: z.literal('ask'),
  service: serviceRef,
  question: z.string().trim().min(1, 'must not be empty').max(maxQuestion, 'must be at most 8,000 characters'),
})

const answerEnd = z.object({
  tokens: z.int().nonnegative(),
  tokensPerSecond: z.number().nonnegative(),
  /** The model had more to say than the agent asked for. */
  isCut: z.boolean(),
})
export type AnswerEnd = z.infer<typeof answerEnd>

export const answerPiece = z.object({
  /** What the model says next. */
  text: z.string(),
  /** With the last piece. */
  end: answerEnd.optional(),
})
export type AnswerPiece = z.infer<typeof answerPiece>

/** Where programs of this machine reach a service: the client proxy, or the server itself where there is none; undefined while no server runs. */
export const localUrl = ({ namespace, name, port }: ServiceView, clientProxy: string | undefined) =>
  port === undefined
    ? undefined
    : clientProxy === undefined
      ? `http://127.0.0.1:${port}`
      : `${clientProxy}/${namespace}/${name}`
