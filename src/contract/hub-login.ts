import { z } from 'zod'

/** What the Hub is asked with where a Model has no Secret of its own. */
export const tokenSources = ['none', 'environment', 'file', 'keychain'] as const

/** Where the token comes from, and never the token. */
export const hubLoginView = z.object({
  tokenSource: z.enum(tokenSources),
  /** The variable or the file. */
  where: z.string().max(1_000).optional(),
  /** One sentence: a token is meant and cannot be used. */
  problem: z.string().max(1_000).optional(),
})
export type HubLoginView = z.infer<typeof hubLoginView>
