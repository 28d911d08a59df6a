import { networkInterfaces } from 'node:os'
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

/** Of this machine, since the gateway listens at it for what Ollama serves; the API server refuses one of loopback. */
export const hostAddress =
  Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? ''
