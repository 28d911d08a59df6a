import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hasCode } from '../util/files.ts'
import type { PowerSupply } from './power-supply.ts'

export interface PowerFiles {
  /** One folder for each supply. */
  readonly supplies: string
  readonly profile: string
}

export const powerFiles: PowerFiles = {
  supplies: '/sys/class/power_supply',
  profile: '/sys/firmware/acpi/platform_profile',
}

/** Undefined where the machine says nothing of its supplies, as most servers and containers do. */
export function powerSupply({ supplies, profile }: PowerFiles): PowerSupply | undefined {
  const found = foldersIn(supplies).map((name) => {
    const read = (file: string) => textOf(join(supplies, name, file))
    return {
      type: read('type'),
      scope: read('scope'),
      online: read('online'),
      status: read('status'),
      capacity: read('capacity'),
    }
  })
  // A mouse has a battery too.
  const batteries = found.filter(({ type, scope }) => type === 'Battery' && scope !== 'Device')
  const feeds = found.filter(({ type }) => type === 'Mains' || type === 'USB')
  if (batteries.length === 0 && feeds.length === 0) return undefined
  const isFed = feeds.some(({ online }) => online === '1')
  const isDrawn = batteries.some(({ status }) => status === 'Discharging')
  const percents = batteries.map(({ capacity }) => Number(capacity)).filter((percent) => percent >= 0 && percent <= 100)
  return {
    source: isDrawn && !isFed ? 'battery' : 'mains',
    ...(percents.length > 0 && { charge: percents.reduce((sum, percent) => sum + percent, 0) / percents.length / 100 }),
    lowPowerMode: textOf(profile) === 'low-power',
  }
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'EACCES')) return []
    throw error
  }
}

/** A driver that has no answer for the moment says so by an error. */
function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined
    throw error
  }
}
