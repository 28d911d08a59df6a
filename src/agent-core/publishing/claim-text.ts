import { z } from 'zod'
import { parseJson } from '../support/files.ts'

const claim = z.object({
  /** The random id of an agent's state folder. */
  node: z.string().min(1),
  /** Rises by one with every take-over. */
  epoch: z.number().int().min(0),
  /** The slice's heartbeat as it was written together with this claim. */
  heartbeat: z.string(),
  /** How people call that machine. */
  displayName: z.string().optional(),
})
export type Claim = z.infer<typeof claim>

const released = z.strictObject({})

/** The value of the annotation `metalbar.dev/claim`. */
export const claimText = (held: Claim | undefined): string => JSON.stringify(held ?? {})

/** What the annotation says; text that is no claim counts as none, since whoever wrote it knows no claims. */
export function parseClaim(text: string | undefined): Claim | 'released' | undefined {
  if (text === undefined) return undefined
  const json = parseJson(text)
  return claim.safeParse(json).data ?? (released.safeParse(json).success ? 'released' : undefined)
}
