import { z } from 'zod'
import { formatWatts } from './format.ts'

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
