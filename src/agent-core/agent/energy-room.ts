import { join } from 'node:path'
import type { PowerView } from '../../contract/power.ts'
import { Energy } from '../power/energy/energy.ts'
import type { SpendingMetrics } from '../observability/metrics/energy-metrics.ts'
import type { RoomContext } from './room-context.ts'
import { energySettings } from '../api/room-settings.ts'
import type { RuntimeFigures } from '../servers/figures/runtime-figures.ts'

export interface EnergySources {
  readonly power: () => PowerView | undefined
  readonly spending: SpendingMetrics
  readonly figures: () => Pick<RuntimeFigures, 'totals' | 'refresh'>
}

/** To be begun before power and the figures, so that it ends after them and counts what was done last. */
export function energyRoom(
  { options, ends, settings }: RoomContext,
  { power, figures, spending }: EnergySources,
): Energy {
  const energy = new Energy({
    file: join(options.settings.stateDir, 'energy.json'),
    log: options.log,
    settings: () => energySettings(settings()),
    power,
    totals: () => figures().totals(),
    countWork: () => figures().refresh(),
    onSpending: (spent) => spending.count(spent),
    ...options.energyTrial,
  })
  return ends.use(energy)
}
