import type { PowerFigures } from '../../contract/power.ts'
import type { PowerSample } from './power-source.ts'

/** More than any Mac can draw from its socket. */
const mostMilliwatts = 1_000_000
/** Each figure is rounded, and they are not read at one instant. */
const slackMilliwatts = 50

/**
 * The figures of a sample that can be true; what cannot be is left out, rather than shown as a figure. A CPU that runs this agent never
 * draws nothing: macOS 27 prints 0 for it where it does not measure it, and the sum then lacks it too. No part draws more than the whole,
 * and nothing more than the system.
 */
export function plausibleWatts({ combined, cpu, gpu, ane, system = mostMilliwatts }: PowerSample): PowerFigures {
  const ceiling = Math.min(mostMilliwatts, system + slackMilliwatts)
  const knowsCpu = cpu !== undefined && cpu > 0
  const rest = (gpu ?? 0) + (ane ?? 0)
  const lacksCpu = cpu === 0 && combined <= rest + slackMilliwatts
  const isPossible = (part: number | undefined): part is number =>
    part !== undefined && part <= ceiling && part <= combined + slackMilliwatts
  return {
    ...(combined > 0 && combined <= ceiling && !lacksCpu && { combinedWatts: combined / 1_000 }),
    ...(knowsCpu && isPossible(cpu) && { cpuWatts: cpu / 1_000 }),
    ...(isPossible(gpu) && { gpuWatts: gpu / 1_000 }),
    ...(isPossible(ane) && { aneWatts: ane / 1_000 }),
  }
}
