import { parsePositiveInteger } from './darwin-output.ts'

/** Cores of the same kind: performance or efficiency cores. */
export interface CoreLevel {
  /** The system's name of the level; empty if it has none. */
  readonly name: string
  readonly cores: number | undefined
}

/** Three are known, by the names below, as programs that read them on chips up to M5 have them (2026-11); many more are no levels. */
const mostLevels = 8

const knownLevels: readonly string[] = ['Super', 'Performance', 'Standard', 'Efficiency']

/** The levels, fastest first. `sysctl` answers what `sysctl -n` prints for a name. */
export async function coreLevels(sysctl: (name: string) => Promise<string>): Promise<readonly CoreLevel[]> {
  const count = Math.min(parsePositiveInteger(await sysctl('hw.nperflevels')) ?? 0, mostLevels)
  const levels = Array.from({ length: count }, async (_, level) => ({
    name: (await sysctl(`hw.perflevel${level}.name`)).trim(),
    cores: parsePositiveInteger(await sysctl(`hw.perflevel${level}.physicalcpu`)),
  }))
  return Promise.all(levels)
}

/**
 * All cores but those that are slow to save power: a chip has one, two or three levels (Super, Performance, Efficiency).
 * A level of unknown name is judged by its place, since the last of several levels is the slowest. Undefined where one is missing.
 */
export function performanceCoresIn(levels: readonly CoreLevel[]): number | undefined {
  const isEfficient = ({ name }: CoreLevel, index: number) =>
    knownLevels.includes(name) ? name === 'Efficiency' : index > 0 && index === levels.length - 1
  const fast = levels.filter((level, index) => !isEfficient(level, index))
  const sum = fast.reduce((total, { cores = Number.NaN }) => total + cores, 0)
  return sum > 0 ? sum : undefined
}
