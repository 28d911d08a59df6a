import { z } from 'zod'
import { formatSpan } from './format.ts'

const amount = z.number().nonnegative()
const count = amount.optional()

/** The share of a service is an estimate: no source tells the power of a process. What is not known is absent, never 0. */
export const serviceEnergy = z.object({
  /** Both empty: services of long ago, and those beyond the number that is kept apart. */
  namespace: z.string(),
  name: z.string(),
  joules: amount,
  promptTokens: count,
  generatedTokens: count,
  requests: count,
  joulesPerGeneratedToken: count,
  cost: count,
})
export type ServiceEnergy = z.infer<typeof serviceEnergy>

/** An hour or a day. */
export const energySpan = z.object({
  /** Its beginning. */
  from: z.iso.datetime(),
  measuredMs: amount,
  /** As in the whole. */
  joules: count,
  cost: count,
  services: z.array(serviceEnergy),
})
export type EnergySpan = z.infer<typeof energySpan>

export const energyView = z.object({
  /** Beginning of the first hour or day that is counted; absent where nothing is kept of the time. */
  from: z.iso.datetime().optional(),
  until: z.iso.datetime(),
  /** How much of the time power was measured. */
  measuredMs: amount,
  /** Of CPU, GPU and ANE together, other programs included, while it was measured; absent where it never was. */
  joules: count,
  /** The part that no service has a share of. */
  ownJoules: count,
  cost: count,
  /** What the costs are in; absent where it is not set. */
  currency: z.string().optional(),
  /** The largest share first. */
  services: z.array(serviceEnergy),
  /** Where they are asked for: each one of the time, in order, also those of which nothing is kept. */
  spans: z.array(energySpan).optional(),
  /** How energy is measured now, and what to turn on for more: one sentence or two. */
  message: z.string(),
})
export type EnergyView = z.infer<typeof energyView>

/** "Measured in 3 h 20 min of 24 h." */
export const coverageLine = ({ measuredMs, from, until }: EnergyView): string =>
  from === undefined
    ? 'Nothing is kept of this time.'
    : `Measured in ${formatSpan(measuredMs)} of ${formatSpan(Math.max(measuredMs, Date.parse(until) - Date.parse(from)))}.`
