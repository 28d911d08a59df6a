import { z } from 'zod'
import { formatWatts } from './format.ts'

/** How measuring power goes; absent in a snapshot while nobody asked for it. */
export const powerView = z.object({
  /** `unavailable`: not on this machine, or not as it is set. `failed`: it is tried again. */
  state: z.enum(['unavailable', 'starting', 'measuring', 'failed']),
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

/** What the machine runs on, and what follows from it; absent in a snapshot where nothing of it matters. */
export const supplyView = z.object({
  /** Absent where the system does not say. */
  source: z.enum(['mains', 'battery']).optional(),
  /** From 0 to 1; absent without a battery. */
  charge: z.number().min(0).max(1).optional(),
  lowPowerMode: z.boolean(),
  /** The system is kept from going to sleep, since models work. */
  isKeptAwake: z.boolean(),
})
export type SupplyView = z.infer<typeof supplyView>

/** Such as "on battery, 84 %, Low Power Mode". */
export const supplyLine = ({ source, charge, lowPowerMode, isKeptAwake }: SupplyView): string =>
  [
    ...(source === undefined ? [] : [source === 'mains' ? 'on mains' : 'on battery']),
    ...(charge === undefined ? [] : [`${Math.round(100 * charge)} %`]),
    ...(lowPowerMode ? ['Low Power Mode'] : []),
    ...(isKeptAwake ? ['kept awake while models work'] : []),
  ].join(', ')

/** Whether it is worth a place where there is little: a battery that is charged is not. */
export const isSupplyNews = ({ source, lowPowerMode, isKeptAwake }: SupplyView): boolean =>
  source === 'battery' || lowPowerMode || isKeptAwake
