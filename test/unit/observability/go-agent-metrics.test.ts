import { spawnSync } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AgentMetrics } from '../../../src/agent-core/observability/agent-metrics.ts'
import { metricPrefix, type MetricRow, metricTable } from '../../../src/agent-core/observability/metric-table.ts'
import { onPath } from '../../../tasks/setup/tools.ts'
import { fillMetrics } from '../../support/filled-metrics.ts'
import { parsePrometheusText, type MetricFamily } from '../../support/prometheus-text.ts'
import { skipWhen } from '../../support/skip.ts'

interface GoMetric {
  readonly name: string
  readonly type: MetricRow['type']
  readonly labels: readonly string[]
  /** What its one label may say. */
  readonly values?: readonly string[]
}

const service = ['name', 'namespace']

/** What the Go agent exports, after the prefix, without what its ingress adds. */
const goAgentMetrics: readonly GoMetric[] = [
  { name: 'managed_processes', type: 'gauge', labels: [] },
  { name: 'process_healthy', type: 'gauge', labels: service },
  { name: 'process_restarts_total', type: 'counter', labels: service },
  { name: 'health_check_duration_seconds', type: 'histogram', labels: service },
  { name: 'memory_budget_bytes', type: 'gauge', labels: [] },
  { name: 'memory_estimated_bytes', type: 'gauge', labels: service },
  { name: 'system_memory_available_bytes', type: 'gauge', labels: [] },
  { name: 'system_memory_wired_bytes', type: 'gauge', labels: [] },
  // The Go agent has `name` alone, so that two services of one name are one series.
  { name: 'process_rss_bytes', type: 'gauge', labels: service },
  { name: 'memory_pressure_level', type: 'gauge', labels: [] },
  { name: 'evictions_total', type: 'counter', labels: [] },
  {
    name: 'evictions_skipped_total',
    type: 'counter',
    labels: ['reason'],
    values: ['disabled', 'below_guard', 'floor', 'all_protected', 'runtime_ineligible', 'empty'],
  },
  { name: 'watch_consecutive_failures', type: 'gauge', labels: [] },
  { name: 'fatal_exits_total', type: 'counter', labels: ['subsystem'], values: ['watcher', 'health-server'] },
  { name: 'apple_power_combined_watts', type: 'gauge', labels: [] },
  { name: 'apple_power_gpu_watts', type: 'gauge', labels: [] },
  { name: 'apple_power_cpu_watts', type: 'gauge', labels: [] },
  { name: 'apple_power_ane_watts', type: 'gauge', labels: [] },
  {
    name: 'client_proxy_requests_total',
    type: 'counter',
    labels: ['outcome'],
    values: ['no_backend', '2xx', '3xx', '4xx', '5xx', 'other', 'bad_host', 'path_forbidden'],
  },
  { name: 'ingress_requests_total', type: 'counter', labels: ['code'] },
]

const goHealthCheckBuckets = ['0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '+Inf']

let metrics: AgentMetrics
let text: string
let families: Map<string, MetricFamily>

beforeEach(async () => {
  metrics = new AgentMetrics()
  fillMetrics(metrics, [{ namespace: 'default', name: 'qwen' }])
  text = (await metrics.render()).body
  families = parsePrometheusText(text)
})
afterEach(() => metrics[Symbol.dispose]())

const family = (name: string): MetricFamily => {
  const found = families.get(`${metricPrefix}${name}`)
  if (!found) throw new Error(`There is no ${name}.`)
  return found
}

test.each(goAgentMetrics)('$name has the name, type and labels of the Go agent', ({ name, type, labels, values }) => {
  const { type: ourType, samples } = family(name)
  const ours = samples.map((sample) => Object.keys(sample.labels).filter((label) => label !== 'le'))
  expect([ourType, ...new Set(ours.map((names) => names.sort().join()))]).toEqual([type, labels.join()])
  const [label] = labels
  if (values && label !== undefined) expect(samples.map((sample) => sample.labels[label])).toEqual(values)
})

test('health checks have the buckets of the Go agent', () => {
  const bounds = family('health_check_duration_seconds').samples.map(({ labels }) => labels['le'])
  expect(bounds.filter((bound) => bound !== undefined)).toEqual(goHealthCheckBuckets)
})

test('what the table calls the Go agent’s is that and no more', () => {
  const go = Object.entries<MetricRow>(metricTable).filter(([, { origin }]) => origin === 'go')
  expect(go.map(([name]) => name)).toEqual(goAgentMetrics.map(({ name }) => name))
})

test('everything exported is in the table, or a figure of this process', () => {
  const named = Object.keys(metricTable).map((name) => `${metricPrefix}${name}`)
  const others = [...families.keys()].filter((name) => !/^(nodejs|process)_/.test(name))
  expect(others).toEqual(named)
})

test.each(Object.entries<MetricRow>(metricTable))('%s says its unit and type in its name', (name, row) => {
  const unit = row.unit === undefined ? '' : `_${row.unit}`
  expect(name.endsWith(row.type === 'counter' ? `${unit}_total` : unit)).toBe(true)
  if (row.type !== 'counter') expect(name).not.toMatch(/_total$/)
  expect(row.help).toMatch(/^[A-Z].*[^.]$/)
})

describe('with promtool', () => {
  const promtool = onPath('promtool')
  skipWhen(promtool === undefined ? 'promtool (of Prometheus) is not on the PATH' : undefined)

  test('promtool check metrics has nothing against what is exported', () => {
    const { stdout, stderr, status } = spawnSync(promtool ?? '', ['check', 'metrics'], {
      input: text,
      encoding: 'utf8',
    })
    expect({ status, said: `${stdout}${stderr}` }).toEqual({ status: 0, said: '' })
  })
})
