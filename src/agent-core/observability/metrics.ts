import { monitorEventLoopDelay } from 'node:perf_hooks'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

export interface ServiceKey {
  readonly namespace: string
  readonly name: string
}

/** The subsystems whose end the Go agent counts; ours end nothing, so that these stay at 0 until a defect is found. */
export type FatalSubsystem = 'watcher' | 'health-server'

/** What the agent counts, under the names and labels of the Go agent, so that its dashboards and alerts keep working. */
export class AgentMetrics {
  readonly #registry = new Registry()
  readonly #eventLoop = monitorEventLoopDelay({ resolution: eventLoopSampleMs })
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

  constructor() {
    for (const subsystem of ['watcher', 'health-server']) this.#fatalExits.inc({ subsystem }, 0)
    this.#processes.set(0)
    this.#watchFailures.set(0)
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: neverSampleMs })
    this.#replaceEventLoopMetrics()
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

  /** A service that is gone leaves no series behind. */
  removeService(service: ServiceKey): void {
    for (const metric of [this.#healthy, this.#restarts, this.#healthChecks]) metric.remove(labelsOf(service))
  }

  async render(): Promise<{ contentType: string; body: string }> {
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() }
  }

  [Symbol.dispose](): void {
    this.#eventLoop.disable()
    this.#registry.clear()
  }

  #named(name: string, help: string) {
    return { name: `llmkube_metal_agent_${name}`, help, registers: [this.#registry] }
  }

  /**
   * prom-client samples the event loop every 10 ms, which alone costs 0.45 % of a core, and counts the sampling
   * interval as delay. Ours costs a tenth of our idle budget; the figures are since the last scrape.
   */
  #replaceEventLoopMetrics(): void {
    for (const suffix of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99']) {
      this.#registry.removeSingleMetric(`nodejs_eventloop_lag_${suffix}_seconds`)
    }
    const eventLoop = this.#eventLoop
    eventLoop.enable()
    const registers = [this.#registry]
    new Gauge({
      name: 'nodejs_eventloop_lag_mean_seconds',
      help: 'Mean delay of the event loop since the last scrape',
      registers,
      collect() {
        this.set(delaySeconds(eventLoop, 'mean'))
      },
    })
    new Gauge({
      name: 'nodejs_eventloop_lag_max_seconds',
      help: 'Longest delay of the event loop since the last scrape',
      registers,
      collect() {
        this.set(delaySeconds(eventLoop, 'max'))
        eventLoop.reset()
      },
    })
  }
}

const serviceLabels = ['name', 'namespace'] as const

const labelsOf = ({ namespace, name }: ServiceKey) => ({ name, namespace })

/** Four samples a second see every block that a person would feel, at 0.02 % of a core. */
const eventLoopSampleMs = 250
/** prom-client's own sampler cannot be switched off; once a day is the next best thing. */
const neverSampleMs = 24 * 3_600 * 1_000

/** What the histogram holds is the time between two samples, so the interval itself is not delay. */
function delaySeconds(histogram: ReturnType<typeof monitorEventLoopDelay>, figure: 'mean' | 'max'): number {
  if (histogram.count === 0) return 0
  return Math.max(0, histogram[figure] / 1e9 - eventLoopSampleMs / 1_000)
}
