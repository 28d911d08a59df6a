import { z } from 'zod'

/**
 * `installed`: sudo lets powermetrics run by the command lines of our rule and no other. `different`: it allows less, though our file is
 * there, or more. `unknown`: it cannot be asked. `notHere`: only macOS has powermetrics.
 */
export const powerRuleStates = ['installed', 'missing', 'different', 'unknown', 'notHere'] as const
export type PowerRuleState = (typeof powerRuleStates)[number]

/** The rule by which sudo lets the agent measure power. */
export const powerRuleView = z.object({
  state: z.enum(powerRuleStates),
  /** Where it belongs, and what it says. */
  file: z.string().max(1_000),
  rule: z.string().max(10_000),
  /** One sentence: what is different, or why it is not known. */
  message: z.string().max(1_000).optional(),
})
export type PowerRuleView = z.infer<typeof powerRuleView>
