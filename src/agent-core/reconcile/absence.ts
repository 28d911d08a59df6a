import { z } from 'zod'
import { holdCauses, type Hold } from '../../contract/service.ts'

const why = {
  since: z.iso.datetime(),
  /** One sentence. */
  message: z.string(),
}

/** A person keeps it off this machine: another machine may take it. */
const held = z.object({
  kind: z.literal('held'),
  cause: z.enum(holdCauses),
  ...why,
  /** The spec of a service that is held since its servers took more than they were admitted with: another spec is tried; see `specsOf`. */
  exceededBy: z.string().optional(),
})
/** Memory was critically short: another machine may take it, and it comes back by itself. */
const evicted = z.object({ kind: z.literal('evicted'), ...why })
/** No request came for as long as its annotation says: it would be as idle elsewhere, so the claim stays. */
const idle = z.object({ kind: z.literal('idle'), ...why })

/** What outlives the agent. */
export const keptAbsence = z.discriminatedUnion('kind', [held, evicted, idle])
export type KeptAbsence = z.infer<typeof keptAbsence>

/** It gives way to a service of higher priority, and keeps its claim, since it asks for memory again right after that one. */
export interface Displaced {
  readonly kind: 'displaced'
  readonly since: string
  readonly message: string
  /** The key of the service it gives way to. */
  readonly winner: string
  /** Memory was looked at after all of it had ended, so that the winner can be answered truly. */
  readonly isFreed: boolean
}

/** Why a service is out of memory on this machine although the cluster wants it. */
export type Absence = KeptAbsence | Displaced

/** As people and clients are told of it: only of what another machine may take meanwhile. */
export function holdOf(absence: Absence | undefined): Hold | undefined {
  if (absence?.kind === 'held') {
    const { cause, since, message, exceededBy } = absence
    return { cause, since, message, by: exceededBy === undefined ? 'person' : 'growth' }
  }
  if (absence?.kind === 'evicted') {
    const { since, message } = absence
    return { cause: 'evicted', since, message, by: 'pressure' }
  }
  return undefined
}

/** Memory is short, so its requests get less time to finish. */
export const isShedding = (absence: Absence | undefined): boolean =>
  absence?.kind === 'evicted' || absence?.kind === 'displaced'
