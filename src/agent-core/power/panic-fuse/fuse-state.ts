import { z } from 'zod'

const bootId = z.string().max(200)
const time = z.iso.datetime()

/** The machine ended while models ran, and the agent had not been asked to end before. */
const disorderlyEnd = z.object({
  /** Of the boot that ended. */
  bootId,
  noticedAt: time,
  /** No longer than half an hour after a model was started. */
  isSoon: z.boolean(),
  /** The system wrote a report of a panic. */
  hasReport: z.boolean(),
})

const hold = z.object({
  since: time,
  /** It outlives the ends that led to it. */
  because: z.enum(['panic', 'soonEnds']),
})

const fuseState = z.object({
  schema: z.literal(1),
  /** The boot in which the agent was asked to end while models ran, as an orderly shutdown does; null = it was not. */
  leftIn: bootId.nullable(),
  /** The machine outlived every start of a model up to then by half an hour; null = none yet. */
  outlivedUpTo: time.nullable(),
  /** In this boot; null = a build before did not note it, or the system does not say. */
  outlivedIn: bootId.nullable().default(null),
  /** Since it last outlived one, the oldest first. */
  ends: z.array(disorderlyEnd).max(100),
  /** Large models wait for a person; null = they do not. */
  held: hold.nullable(),
  /** Services, as namespace/name, whose hold was told in the cluster since then. */
  told: z.array(z.string().max(600)).max(1_000).default([]),
})
export type FuseState = z.infer<typeof fuseState>

/** As it was written before the cause was kept with the hold. */
const withoutCause = fuseState
  .omit({ held: true })
  .extend({ heldSince: time.nullable() })
  .transform(({ heldSince, ...state }): FuseState => {
    const because = state.ends.some(({ hasReport }) => hasReport) ? 'panic' : 'soonEnds'
    return { ...state, held: heldSince === null ? null : { since: heldSince, because } }
  })

export const fuseFile = z.union([fuseState, withoutCause])

export const nothingEnded: FuseState = {
  ...{ schema: 1, leftIn: null, outlivedUpTo: null, outlivedIn: null },
  ...{ ends: [], held: null, told: [] },
}
