import { z } from 'zod'

/** A program that serves models, as it is found on the agent's machine now. */
export const runtimeView = z.object({
  name: z.string(),
  /** Absent where it is not found; `message` says what to do. */
  path: z.string().optional(),
  /** As the program tells it; absent where it does not. */
  version: z.string().optional(),
  message: z.string().optional(),
})
export type RuntimeView = z.infer<typeof runtimeView>
