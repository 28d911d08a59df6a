import { z } from 'zod'

/** The variable that names the file of an agent's surroundings. */
export const surroundingsVariable = 'SOAK_SURROUNDINGS'

/** What an agent of the soak is made to believe of its machine. */
export const surroundings = z.object({
  clockOffsetMs: z.number(),
  availableMiB: z.number(),
  hasAddress: z.boolean(),
})
export type Surroundings = z.infer<typeof surroundings>

export const totalMiB = 4 * 1024

export const undisturbed: Surroundings = { clockOffsetMs: 0, availableMiB: totalMiB - 256, hasAddress: true }

/** Of the documentation network: the API server accepts it and no client can connect to it. */
export const hostAddress = '192.0.2.10'
