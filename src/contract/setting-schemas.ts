import { z } from 'zod'

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

export const number = (min: number, max: number, error: string) => z.number({ error }).min(min, error).max(max, error)
export const whole = (min: number, max: number, error: string) => z.int({ error }).min(min, error).max(max, error)

export const nonEmpty = z.string({ error: 'must not be empty' }).min(1, 'must not be empty')

const absoluteMessage = 'must be an absolute path'
export const absolutePath = z
  .string({ error: absoluteMessage })
  .startsWith('/', absoluteMessage)
  .max(1_000, 'must be at most 1000 characters')

/** For a flag of the Go agent that takes negative numbers. */
export const negativeMeansZero = {
  what: 'less than 0 means 0',
  why: 'the Go agent takes negative numbers',
  read: (given: number) => Math.max(0, given),
} as const

/** For a flag of the Go agent that takes any duration. */
export const zeroMeansDefault = {
  what: '0 or less means the default',
  why: 'the Go agent takes any duration',
  schema: z.number().positive('must be longer than nothing'),
  read: (ms: number) => (ms > 0 ? ms : undefined),
} as const
