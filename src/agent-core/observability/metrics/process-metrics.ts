import { monitorEventLoopDelay } from 'node:perf_hooks'
import { collectDefaultMetrics, Counter, Gauge, type Registry } from 'prom-client'

/**
 * Memory, processor time, garbage collections and event loop of the agent's own process. The observers of the last two wake the process
 * several times a second, so they begin with the first scrape: where nothing scrapes, nothing is observed.
 */
export class ProcessMetrics implements Disposable {
  readonly #registry: Registry
  readonly #eventLoop = monitorEventLoopDelay({ resolution: eventLoopSampleMs })
  #hasBegun = false

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** To be called with each scrape. */
  begin(): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    const { user, system } = process.cpuUsage()
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: neverSampleMs })
    // prom-client counts from now on, and Prometheus defines these as what the process has used since its start.
    this.#add('process_cpu_user_seconds_total', user)
    this.#add('process_cpu_system_seconds_total', system)
    this.#add('process_cpu_seconds_total', user + system)
    // Gauges under the names of counters, and the sums of what nodejs_active_resources says by type.
    for (const what of ['handles', 'requests', 'resources']) {
      this.#registry.removeSingleMetric(`nodejs_active_${what}_total`)
    }
    // Node.js 24 aborts when it is asked for its handles while one of them is garbage: a scrape would end the agent.
    for (const what of ['handles', 'requests']) this.#registry.removeSingleMetric(`nodejs_active_${what}`)
    this.#replaceEventLoopMetrics()
  }

  [Symbol.dispose](): void {
    this.#eventLoop.disable()
  }

  #add(name: string, microseconds: number): void {
    const counter = this.#registry.getSingleMetric(name)
    if (counter instanceof Counter) counter.inc(microseconds / 1e6)
  }

  /**
   * prom-client samples the event loop every 10 ms, which alone costs 0.45 % of a core, and counts the sampling
   * interval as delay. Ours costs a tenth of our idle budget; the figures are since the last scrape, so that the first has none.
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
        setDelay(this, eventLoop.count === 0 ? undefined : eventLoop.mean)
      },
    })
    new Gauge({
      name: 'nodejs_eventloop_lag_max_seconds',
      help: 'Longest delay of the event loop since the last scrape',
      registers,
      collect() {
        setDelay(this, eventLoop.count === 0 ? undefined : eventLoop.max)
        eventLoop.reset()
      },
    })
  }
}

/** Four samples a second see every block that a person would feel, at 0.02 % of a core. */
const eventLoopSampleMs = 250
/** prom-client's own sampler cannot be switched off; once a day is the next best thing. */
const neverSampleMs = 24 * 3_600 * 1_000

/** What is given is the time between two samples, so the interval itself is not delay; undefined: there was no sample. */
function setDelay(gauge: Gauge, nanoseconds: number | undefined): void {
  if (nanoseconds === undefined) gauge.remove()
  else gauge.set(Math.max(0, nanoseconds / 1e9 - eventLoopSampleMs / 1_000))
}
