import { z } from 'zod'
import { parseJson } from '../util/files.ts'

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

const released = z.strictObject({
  /** The slice's heartbeat when the claim was given up; slices of earlier builds do not say it. */
  heartbeat: z.string().optional(),
  /** The node id of the agent that gave it up, by which an uninstall knows its own; slices of earlier builds do not say it. */
  releasedBy: z.string().min(1).optional(),
})
export type Released = z.infer<typeof released>

/** The value of the annotation `metalbar.dev/claim`. */
export const claimText = (claim: Claim | Released): string => JSON.stringify(claim)

/** What the annotation says; text that is no claim counts as none: an agent that knows no claims wrote it. */
export function parseClaim(text: string | undefined): Claim | Released | undefined {
  if (text === undefined) return undefined
  const json = parseJson(text)
  return claim.safeParse(json).data ?? released.safeParse(json).data
}

export const isClaim = (found: Claim | Released): found is Claim => 'node' in found

/** The node id of the agent that holds the claim. */
export function holderOf(text: string | undefined): string | undefined {
  const found = parseClaim(text)
  return found && isClaim(found) ? found.node : undefined
}
