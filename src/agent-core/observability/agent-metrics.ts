import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import {
  labelCombinations,
  labelNames,
  type LabelsOf,
  type MetricName,
  type MetricNameOf,
  metricPrefix,
  type MetricRow,
  metricTable,
  type ServiceKey,
} from './metric-table.ts'
import { keyOf } from '../util/object-key.ts'
import type { HistogramCounts } from '../../contract/gateway.ts'

/** Each has some fifty series; a Mac serves a handful, and a cluster may name any number. */
const seriesForServices = 100

/** The values of a metric's labels. */
type Series = Readonly<Record<string, string>>

const rows = Object.entries(metricTable) as [MetricName, MetricRow][]

/** What the agent counts and measures, as the table of metrics says. A figure that is not known has no series, rather than 0 or an old one. */
export class AgentMetrics {
  readonly #registry = new Registry()
  readonly #gauges = new Map<string, Gauge>()
  readonly #counters = new Map<string, Counter>()
  readonly #histograms = new Map<string, Histogram>()
  readonly #wholeHistograms = new Map<string, WholeHistogram>()
  readonly #refreshers: (() => void | Promise<void>)[] = []
  /** By key, those that have series. */
  readonly #services = new Map<string, ServiceKey>()
  readonly #process = new ProcessMetrics(this.#registry)

  constructor() {
    for (const [name, row] of rows) this.#define(name, row)
    this.set('managed_processes', 0)
    this.set('watch_consecutive_failures', 0)
    this.set('metrics_services_left_out', 0)
  }

  /** Undefined: not known now, so that it has no series. */
  set<N extends MetricNameOf<'gauge'>>(name: N, value: number | undefined, ...[labels]: LabelsOf<N>): void {
    const series = seriesOf(name, labels)
    if (value === undefined || !Number.isFinite(value)) this.#gauges.get(name)?.remove(series)
    else if (this.#isKept(name, series)) this.#gauges.get(name)?.set(series, value)
  }

  add<N extends MetricNameOf<'counter'>>(name: N, more: number, ...[labels]: LabelsOf<N>): void {
    const series = seriesOf(name, labels)
    if (this.#isKept(name, series)) this.#counters.get(name)?.inc(series, more)
  }

  /** For what is counted elsewhere: the whole count, rather than what came since. Undefined: nothing is counted. */
  setTotal<N extends MetricNameOf<'counter'>>(name: N, total: number | undefined, ...[labels]: LabelsOf<N>): void {
    const series = seriesOf(name, labels)
    this.#counters.get(name)?.remove(series)
    if (total !== undefined && this.#isKept(name, series)) this.#counters.get(name)?.inc(series, total)
  }

  observe<N extends MetricNameOf<'histogram'>>(name: N, value: number, ...[labels]: LabelsOf<N>): void {
    const series = seriesOf(name, labels)
    if (this.#isKept(name, series)) this.#histograms.get(name)?.observe(series, value)
  }

  /** As {@link setTotal}; undefined: nothing is counted. */
  setHistogram<N extends MetricNameOf<'histogram'>>(
    name: N,
    whole: HistogramCounts | undefined,
    ...[labels]: LabelsOf<N>
  ): void {
    const series = seriesOf(name, labels)
    if (whole === undefined) this.#wholeHistograms.get(name)?.remove(series)
    else if (this.#isKept(name, series)) this.#wholeHistograms.get(name)?.set(series, whole)
  }

  /** For figures that are brought up to date only when they are read. Must not reject. */
  beforeRender(refresh: () => void | Promise<void>): void {
    this.#refreshers.push(refresh)
  }

  /** The services that there are: the others lose their series, and those that there is no room for are said to be left out. */
  keepServices(services: readonly ServiceKey[]): void {
    const kept = new Set(services.map(({ namespace, name }) => keyOf(namespace, name)))
    for (const [key, service] of this.#services) {
      if (kept.has(key)) continue
      this.#services.delete(key)
      this.#removeSeries(service)
    }
    const leftOut = services.filter((service) => !this.#makeRoom(service))
    this.set('metrics_services_left_out', leftOut.length)
  }

  async render(): Promise<{ contentType: string; body: string }> {
    for (const refresh of this.#refreshers) await refresh()
    this.#process.begin()
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() }
  }

  [Symbol.dispose](): void {
    this.#registry.clear()
  }

  #define(name: MetricName, row: MetricRow): void {
    const { type, help, buckets } = row
    const base = { name: `${metricPrefix}${name}`, help, labelNames: labelNames(row), registers: [this.#registry] }
    if (row.isCountedElsewhere) {
      const histogram = new WholeHistogram(base.name, help, buckets ?? [])
      this.#wholeHistograms.set(name, histogram)
      histogram.register(this.#registry)
    } else if (type === 'histogram') {
      this.#histograms.set(name, new Histogram({ ...base, ...(buckets && { buckets: [...buckets] }) }))
    } else if (type === 'counter') {
      const counter = new Counter(base)
      counter.remove({})
      this.#counters.set(name, counter)
      if (!row.perService && !row.startsAbsent) this.#startCounting(name, row)
    } else {
      const gauge = new Gauge(base)
      gauge.remove({})
      this.#gauges.set(name, gauge)
    }
  }

  /** At 0, which `rate()` needs to see the first of something. */
  #startCounting(name: MetricName, row: MetricRow, service?: ServiceKey): void {
    const counter = this.#counters.get(name)
    for (const labels of labelCombinations(row)) counter?.inc({ ...labels, ...service }, 0)
  }

  #isKept(metric: MetricName, { namespace = '', name = '' }: Series): boolean {
    const { perService }: MetricRow = metricTable[metric]
    return !perService || this.#makeRoom({ namespace, name })
  }

  #makeRoom({ namespace, name }: ServiceKey): boolean {
    const key = keyOf(namespace, name)
    if (this.#services.has(key)) return true
    if (this.#services.size >= seriesForServices) return false
    const service = { namespace, name }
    this.#services.set(key, service)
    for (const [metric, row] of rows) {
      if (row.type === 'counter' && row.perService && !row.startsAbsent) this.#startCounting(metric, row, service)
    }
    return true
  }

  #removeSeries({ namespace, name }: ServiceKey): void {
    for (const [metric, row] of rows) {
      if (!row.perService) continue
      const owner =
        this.#gauges.get(metric) ??
        this.#counters.get(metric) ??
        this.#histograms.get(metric) ??
        this.#wholeHistograms.get(metric)
      for (const labels of labelCombinations(row)) owner?.remove(seriesOf(metric, { ...labels, namespace, name }))
    }
  }
}

/** A histogram that is set as a whole: prom-client's own takes one value after the other. */
class WholeHistogram {
  readonly #name: string
  readonly #help: string
  readonly #bounds: readonly number[]
  readonly #series = new Map<string, { readonly labels: Series; readonly whole: HistogramCounts }>()

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.#name = name
    this.#help = help
    this.#bounds = bounds
  }

  set(labels: Series, whole: HistogramCounts): void {
    this.#series.set(JSON.stringify(labels), { labels, whole })
  }

  remove(labels: Series): void {
    this.#series.delete(JSON.stringify(labels))
  }

  /** A registry asks no more of a metric than its name and `get`. */
  register(registry: Registry): void {
    const metric = { name: this.#name, get: () => Promise.resolve(this.#get()) }
    registry.registerMetric(metric as unknown as Histogram)
  }

  #get(): object {
    const name = this.#name
    const values = [...this.#series.values()].flatMap(({ labels, whole }) => {
      let below = 0
      const buckets = whole.counts.map((count, index) => {
        below += count
        const le = this.#bounds[index] ?? '+Inf'
        return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: below }
      })
      const sum = { metricName: `${name}_sum`, labels, value: whole.sum }
      return [...buckets, sum, { metricName: `${name}_count`, labels, value: below }]
    })
    return { name, help: this.#help, type: 'histogram', values }
  }
}

/** Only the labels of the metric, of whatever else the object of a service has. */
function seriesOf(metric: MetricName, labels: object = {}): Series {
  const values = new Map<string, unknown>(Object.entries(labels))
  return Object.fromEntries(labelNames(metricTable[metric]).map((label) => [label, String(values.get(label))]))
}

/**
 * Memory, processor time and garbage collections of the agent's own process. The observer of the last wakes the process several times a
 * second, so it begins with the first scrape: where nothing scrapes, nothing is observed.
 */
class ProcessMetrics {
  readonly #registry: Registry
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
    for (const name of unwanted) this.#registry.removeSingleMetric(name)
  }

  #add(name: string, microseconds: number): void {
    const counter = this.#registry.getSingleMetric(name)
    if (counter instanceof Counter) counter.inc(microseconds / 1e6)
  }
}

/** prom-client's sampler of the event loop costs 0.45 % of a core and cannot be switched off; once a day is the next best thing. */
const neverSampleMs = 24 * 3_600 * 1_000

const unwanted = [
  // Without samples they say nothing.
  ...['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map((what) => `nodejs_eventloop_lag_${what}_seconds`),
  // Gauges under the names of counters, and the sums of what nodejs_active_resources says by type.
  ...['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`),
  // Node.js 24 aborts when it is asked for its handles while one of them is garbage: a scrape would end the agent.
  ...['nodejs_active_handles', 'nodejs_active_requests'],
]
