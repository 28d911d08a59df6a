import { z } from 'zod'
import { formatSpan, formatWatts } from './format.ts'

/** How measuring power goes; absent in a snapshot while nobody asked for it. */
export const powerView = z.object({
  /** `unavailable`: not on this machine, or not as it is set. `idle`: nobody looks. `failed`: it is tried again. */
  state: z.enum(['unavailable', 'idle', 'starting', 'measuring', 'failed']),
  /** One sentence. */
  message: z.string(),
  /** What measures, by its name: powermetrics, macmon or a sample source; absent from an agent that knows one source only. */
  source: z.string().max(100).optional(),
})
export type PowerView = z.infer<typeof powerView>

const watts = z.number().nonnegative().optional()

/** What CPU, GPU and ANE draw, whoever uses them; combined is their sum. A figure that its source does not report, or that cannot be true, is absent. */
export const powerFigures = z.object({ combinedWatts: watts, cpuWatts: watts, gpuWatts: watts, aneWatts: watts })
export type PowerFigures = z.infer<typeof powerFigures>

/** Such as "12.3 W (CPU 4.0 W, GPU 8.3 W, ANE not reported), by powermetrics"; the sentence where there are no figures. */
export function powerLine({ message, source }: PowerView, figures: PowerFigures | undefined): string {
  if (!figures) return message
  const { combinedWatts, cpuWatts, gpuWatts, aneWatts } = figures
  return `${formatWatts(combinedWatts)} (CPU ${formatWatts(cpuWatts)}, GPU ${formatWatts(gpuWatts)}, ANE ${formatWatts(aneWatts)})${source === undefined ? '' : `, by ${source}`}`
}

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
  /** Energy of CPU, GPU and ANE together, other programs included, while power was measured; absent if it never was. */
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
    ? 'No figures are kept for this time.'
    : `Measured for ${formatSpan(measuredMs)} of ${formatSpan(Math.max(measuredMs, Date.parse(until) - Date.parse(from)))}.`

/** What the machine runs on, and what follows from it; absent in a snapshot where nothing of it matters. */
export const supplyView = z.object({
  /** Absent where the system does not say. */
  source: z.enum(['mains', 'battery']).optional(),
  /** From 0 to 1; absent without a battery. */
  charge: z.number().min(0).max(1).optional(),
  lowPowerMode: z.boolean(),
  /** Nothing is served until it is on mains again, as a person set it. */
  isPaused: z.boolean(),
  /** The system is kept from going to sleep, since models work. */
  isKeptAwake: z.boolean(),
})
export type SupplyView = z.infer<typeof supplyView>

/** Such as "on battery, 84 %, Low Power Mode". */
export const supplyLine = ({ source, charge, lowPowerMode, isPaused, isKeptAwake }: SupplyView): string =>
  [
    ...(source === undefined ? [] : [source === 'mains' ? 'on mains' : 'on battery']),
    ...(charge === undefined ? [] : [`${Math.round(100 * charge)} %`]),
    ...(lowPowerMode ? ['Low Power Mode'] : []),
    ...(isPaused ? ['paused until it is on mains'] : []),
    ...(isKeptAwake ? ['kept awake while models work'] : []),
  ].join(', ')

/** Whether it is worth a place where there is little: a battery that is charged is not. */
export const isSupplyNews = ({ source, lowPowerMode, isKeptAwake }: SupplyView): boolean =>
  source === 'battery' || lowPowerMode || isKeptAwake

/** Set while models start with care, since this machine ended in disorder while they ran. */
export const panicFuseView = z.object({
  /** `inTurn`: one after the other, the smallest first. `held`: those above half of the memory budget wait for a person as well. */
  state: z.enum(['inTurn', 'held']),
  since: z.iso.datetime(),
  /** How it ended, and what that means for models now. */
  message: z.string(),
})
export type PanicFuseView = z.infer<typeof panicFuseView>
