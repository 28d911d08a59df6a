import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { powerFigures, type PowerFigures } from '../../contract/power.ts'
import { ProcessMetrics } from './process-metrics.ts'

export interface ServiceKey {
  readonly namespace: string
  readonly name: string
}

/** The subsystems whose end the Go agent counts; ours end nothing, so that these stay at 0 until a defect is found. */
export type FatalSubsystem = 'watcher' | 'health-server'

export type MemoryLevel = 'normal' | 'warning' | 'critical' | 'unknown'

/** Reasons of the Go agent for evicting nothing at critical pressure, in its words. */
export const evictionSkipReasons = [
  'disabled',
  'below_guard',
  'floor',
  'all_protected',
  'runtime_ineligible',
  'empty',
] as const

/** What the agent counts, under the names and labels of the Go agent, so that its dashboards and alerts keep working. */
export class AgentMetrics {
  readonly #registry = new Registry()
  #refresh: (() => Promise<void>) | undefined
  readonly #process = new ProcessMetrics(this.#registry)
  readonly #processes = new Gauge({
    ...this.#named('managed_processes', 'Model server processes that the agent manages'),
  })
  readonly #healthy = new Gauge({
    ...this.#named('process_healthy', 'Whether the model server of a service answers (1) or not (0)'),
    labelNames: serviceLabels,
  })
  readonly #restarts = new Counter({
    ...this.#named('process_restarts_total', 'Restarts of a model server after it ended or stopped answering'),
    labelNames: serviceLabels,
  })
  readonly #healthChecks = new Histogram({
    ...this.#named('health_check_duration_seconds', 'Time a health check of a model server took'),
    labelNames: serviceLabels,
  })
  readonly #watchFailures = new Gauge({
    ...this.#named('watch_consecutive_failures', 'Failures of watching the cluster since it last succeeded'),
  })
  readonly #fatalExits = new Counter({
    ...this.#named('fatal_exits_total', 'Ends of a subsystem that ended the agent'),
    labelNames: ['subsystem'],
  })
  readonly #memoryBudget = new Gauge({ ...this.#named('memory_budget_bytes', 'Memory that models may have together') })
  readonly #memoryEstimated = new Gauge({
    ...this.#named('memory_estimated_bytes', 'Memory that the model of a service is expected to need'),
    labelNames: serviceLabels,
  })
  readonly #memoryAvailable = new Gauge({
    ...this.#named('system_memory_available_bytes', 'Memory that a new process could take'),
  })
  readonly #memoryWired = new Gauge({
    ...this.#named('system_memory_wired_bytes', 'Memory that can neither be compressed nor swapped'),
  })
  readonly #processMemory = new Gauge({
    ...this.#named(
      'process_rss_bytes',
      'Memory of the processes of a service: physical footprint on macOS, proportional set size on Linux',
    ),
    labelNames: serviceLabels,
  })
  readonly #pressureLevel = new Gauge({
    ...this.#named('memory_pressure_level', 'Memory pressure: 0 normal, 1 warning, 2 critical; absent while unknown'),
  })
  readonly #pressureChanges = new Counter({
    ...this.#named('memory_pressure_transitions_total', 'Changes of the memory pressure level, by the new level'),
    labelNames: ['to'],
  })
  readonly #evictions = new Counter({ ...this.#named('evictions_total', 'Models evicted for want of memory') })
  readonly #evictionsSkipped = new Counter({
    ...this.#named('evictions_skipped_total', 'Looks at critically short memory after which nothing was evicted'),
    labelNames: ['reason'],
  })
  readonly #power = {
    combinedWatts: new Gauge(this.#named('apple_power_combined_watts', 'Power of CPU, GPU and ANE together')),
    gpuWatts: new Gauge(this.#named('apple_power_gpu_watts', 'Power of the GPU')),
    cpuWatts: new Gauge(this.#named('apple_power_cpu_watts', 'Power of the CPU')),
    aneWatts: new Gauge(this.#named('apple_power_ane_watts', 'Power of the Apple Neural Engine')),
  }

  constructor() {
    this.setPower(undefined)
    const unknown = [this.#memoryBudget, this.#memoryAvailable, this.#memoryWired, this.#pressureLevel]
    for (const gauge of unknown) gauge.remove()
    for (const to of [...Object.keys(pressureNumbers), 'unknown']) this.#pressureChanges.inc({ to }, 0)
    for (const reason of evictionSkipReasons) this.#evictionsSkipped.inc({ reason }, 0)
    for (const subsystem of ['watcher', 'health-server']) this.#fatalExits.inc({ subsystem }, 0)
    this.#processes.set(0)
    this.#watchFailures.set(0)
  }

  setManagedProcesses(count: number): void {
    this.#processes.set(count)
  }

  setWatchFailures(consecutive: number): void {
    this.#watchFailures.set(consecutive)
  }

  /** Also starts the restart counter of a service at 0, which `rate()` needs to see the first restart. */
  setHealthy(service: ServiceKey, healthy: boolean): void {
    this.#restarts.inc(labelsOf(service), 0)
    this.#healthy.set(labelsOf(service), healthy ? 1 : 0)
  }

  countRestart(service: ServiceKey): void {
    this.#restarts.inc(labelsOf(service))
  }

  observeHealthCheck(service: ServiceKey, seconds: number): void {
    this.#healthChecks.observe(labelsOf(service), seconds)
  }

  countFatalExit(subsystem: FatalSubsystem): void {
    this.#fatalExits.inc({ subsystem })
  }

  setMemoryBudget(bytes: number): void {
    this.#memoryBudget.set(bytes)
  }

  setMemoryEstimate(service: ServiceKey, bytes: number): void {
    this.#memoryEstimated.set(labelsOf(service), bytes)
  }

  /** Undefined where memory cannot be read: then there are no figures, rather than old ones. */
  setSystemMemory(figures: { availableBytes: number; wiredBytes?: number } | undefined): void {
    if (figures === undefined) {
      this.#memoryAvailable.remove()
      this.#memoryWired.remove()
      return
    }
    const { availableBytes, wiredBytes } = figures
    this.#memoryAvailable.set(availableBytes)
    if (wiredBytes !== undefined) this.#memoryWired.set(wiredBytes)
  }

  /** Undefined: the service has no process now, so that it has no series either. */
  setProcessMemory(service: ServiceKey, bytes: number | undefined): void {
    if (bytes === undefined) this.#processMemory.remove(labelsOf(service))
    else this.#processMemory.set(labelsOf(service), bytes)
  }

  setPressureLevel(level: MemoryLevel): void {
    if (level === 'unknown') this.#pressureLevel.remove()
    else this.#pressureLevel.set(pressureNumbers[level])
  }

  countPressureChange(to: MemoryLevel): void {
    this.#pressureChanges.inc({ to })
  }

  countEviction(): void {
    this.#evictions.inc()
  }

  countEvictionSkipped(reason: (typeof evictionSkipReasons)[number]): void {
    this.#evictionsSkipped.inc({ reason })
  }

  /** What is not reported has no figure; undefined: nothing is measured now. */
  setPower(figures: PowerFigures | undefined): void {
    for (const name of powerFigures.keyof().options) {
      const watts = figures?.[name]
      if (watts === undefined) this.#power[name].remove()
      else this.#power[name].set(watts)
    }
  }

  /** A service that is gone leaves no series behind. */
  removeService(service: ServiceKey): void {
    const series = [this.#healthy, this.#restarts, this.#healthChecks, this.#memoryEstimated, this.#processMemory]
    for (const metric of series) metric.remove(labelsOf(service))
  }

  /** For figures that are brought up to date only when they are read. */
  beforeRender(refresh: () => Promise<void>): void {
    this.#refresh = refresh
  }

  async render(): Promise<{ contentType: string; body: string }> {
    await this.#refresh?.()
    this.#process.begin()
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() }
  }

  [Symbol.dispose](): void {
    this.#process[Symbol.dispose]()
    this.#registry.clear()
  }

  #named(name: string, help: string) {
    return { name: `llmkube_metal_agent_${name}`, help, registers: [this.#registry] }
  }
}

const serviceLabels = ['name', 'namespace'] as const

const pressureNumbers = { normal: 0, warning: 1, critical: 2 }

const labelsOf = ({ namespace, name }: ServiceKey) => ({ name, namespace })
