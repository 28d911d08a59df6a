import type { PowerFigures } from '../../../contract/power.ts'
import type { AgentMetrics } from './agent-metrics.ts'

/** What is not reported has no figure; undefined: nothing is measured now. */
export function setPower(metrics: AgentMetrics, figures: PowerFigures | undefined): void {
  metrics.set('apple_power_combined_watts', figures?.combinedWatts)
  metrics.set('apple_power_gpu_watts', figures?.gpuWatts)
  metrics.set('apple_power_cpu_watts', figures?.cpuWatts)
  metrics.set('apple_power_ane_watts', figures?.aneWatts)
}
