import { z } from 'zod'

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
