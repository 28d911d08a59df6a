import { z } from 'zod'

/** Set while models start with care, since this machine ended in disorder while they ran. */
export const panicFuseView = z.object({
  /** `inTurn`: one after the other, the smallest first. `held`: those above half of the memory budget wait for a person as well. */
  state: z.enum(['inTurn', 'held']),
  since: z.iso.datetime(),
  /** How it ended, and what that means for models now. */
  message: z.string(),
})
export type PanicFuseView = z.infer<typeof panicFuseView>
