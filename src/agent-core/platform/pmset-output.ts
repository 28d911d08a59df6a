import type { PowerSupply } from './power-supply.ts'

/** From `pmset -g batt`: a UPS in use is a battery too. Undefined where it does not say. */
export function parseBattery(text: string): Pick<PowerSupply, 'source' | 'charge'> | undefined {
  const source = /^Now drawing from '(AC|Battery|UPS) Power'/m.exec(text)?.[1]
  if (source === undefined) return undefined
  const percent = Number(/\t(\d{1,3})%;/.exec(text)?.[1])
  return { source: source === 'AC' ? 'mains' : 'battery', ...(percent <= 100 && { charge: percent / 100 }) }
}

/** From `pmset -g`: newer systems have `powermode`, of which 1 is low, in place of `lowpowermode`. */
export const parseLowPowerMode = (text: string): boolean => /^ *(lowpowermode|powermode) +1\b/m.test(text)

/** From `pmset -g`: minutes without use after which the system goes to sleep by itself, 0 = never. Undefined where it does not say. */
export function parseSleepMinutes(text: string): number | undefined {
  const minutes = /^ *sleep +(\d{1,6})\b/m.exec(text)?.[1]
  return minutes === undefined ? undefined : Number(minutes)
}
