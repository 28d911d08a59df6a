import { z } from 'zod'

const bootId = z.string().max(200)
const time = z.iso.datetime()

/** The machine ended while models ran, and nobody had asked the agent to end before. */
const disorderlyEnd = z.object({
  /** Of the boot that ended. */
  bootId,
  noticedAt: time,
  /** No longer than half an hour after a model was started. */
  isSoon: z.boolean(),
  /** The system wrote a report of a panic. */
  hasReport: z.boolean(),
})

export const fuseFile = z.object({
  schema: z.literal(1),
  /** The boot in which the agent was asked to end while models ran, as an orderly shutdown does; null = it was not. */
  leftIn: bootId.nullable(),
  /** The machine outlived every start of a model up to then by half an hour; null = none yet. */
  outlivedUpTo: time.nullable(),
  /** Since it last outlived one, the oldest first. */
  ends: z.array(disorderlyEnd).max(100),
  /** Since when large models wait for a person; null = they do not. */
  heldSince: time.nullable(),
})
export type FuseState = z.infer<typeof fuseFile>

export const nothingEnded: FuseState = { schema: 1, leftIn: null, outlivedUpTo: null, ends: [], heldSince: null }
