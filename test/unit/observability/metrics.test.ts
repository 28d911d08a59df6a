import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AgentMetrics } from '../../../src/agent-core/observability/agent-metrics.ts'
import { labelCombinations, type MetricRow, metricTable } from '../../../src/agent-core/observability/metric-table.ts'
import { exportedFigures } from '../../support/exported-figures.ts'
import { fillMetrics } from '../../support/filled-metrics.ts'
import { parsePrometheusText, seriesName } from '../../support/prometheus-text.ts'

let metrics: AgentMetrics
beforeEach(() => {
  metrics = new AgentMetrics()
})
afterEach(() => metrics[Symbol.dispose]())

const qwen = { namespace: 'default', name: 'qwen' }

const figures = (pattern?: RegExp) => exportedFigures(metrics, pattern)

/** Metrics without labels whose name matches, of those without the prefix. */
async function ofProcess(pattern: RegExp): Promise<Map<string, number>> {
  const { body } = await metrics.render()
  const samples = [...parsePrometheusText(body).values()].flatMap((family) => family.samples)
  return new Map(samples.filter(({ name }) => pattern.test(name)).map(({ name, value }) => [name, value]))
}

test('what can be counted is there from the start, at 0, and what is not known is not', async () => {
  const shown = await figures()
  expect(new Set(Object.values(shown))).toEqual(new Set([0]))
  const counters = Object.entries<MetricRow>(metricTable).filter(
    ([, { type, perService, startsAbsent }]) => type === 'counter' && !perService && !startsAbsent,
  )
  const series = counters.flatMap(([name, row]) =>
    labelCombinations(row).map((labels) => seriesName({ name, labels, value: 0 })),
  )
  expect(Object.keys(shown)).toEqual(expect.arrayContaining(series))
  expect(await figures(/bytes$|watts|joules|level/)).toEqual({})
})

/** Declared for dashboards of the Go agent: ours ends with no subsystem, so that nothing counts it. */
const neverCounted = ['fatal_exits_total']

test('every metric that is declared is written by the source, by the method of its type', async () => {
  const core = join(import.meta.dirname, '../../../src/agent-core')
  const names = (await readdir(core, { recursive: true })).filter((name) => name.endsWith('.ts'))
  const sources = await Promise.all(names.map((name) => readFile(join(core, name), 'utf8')))
  const written = new Set(
    sources.flatMap((text) =>
      [...text.matchAll(/\.(?:set|setTotal|setHistogram|add|observe)\(\s*'(\w+)'/g)].map(([, name]) => name),
    ),
  )
  const unwritten = Object.keys(metricTable).filter((name) => !written.has(name))
  expect(unwritten).toEqual(neverCounted)
})

test('a gauge that is not known any more has no series, rather than its last value', async () => {
  const pattern = /system_memory|process_rss|estimated/
  metrics.set('system_memory_available_bytes', 8e9)
  metrics.set('process_rss_bytes', 6e9, qwen)
  metrics.set('memory_estimated_bytes', 5e9, qwen)
  const known = await figures(pattern)
  metrics.set('system_memory_available_bytes', undefined)
  metrics.set('process_rss_bytes', undefined, qwen)
  metrics.set('memory_estimated_bytes', Number.NaN, qwen)
  expect([known, await figures(pattern)]).toEqual([
    {
      system_memory_available_bytes: 8e9,
      'process_rss_bytes{name="qwen",namespace="default"}': 6e9,
      'memory_estimated_bytes{name="qwen",namespace="default"}': 5e9,
    },
    {},
  ])
})

test('a service that is gone leaves no series of any metric behind, and the others keep theirs', async () => {
  const namesake = { namespace: 'other', name: 'qwen' }
  fillMetrics(metrics, [qwen, namesake])
  const before = await figures(/namespace="other"/)
  metrics.keepServices([namesake])
  const { body } = await metrics.render()
  expect(body).not.toContain('namespace="default"')
  expect(await figures(/namespace="other"/)).toEqual(before)
})

test('a cluster of any size gets a bounded number of series, and it is said how many services are left out', async () => {
  const services = Array.from({ length: 130 }, (_, index) => ({ namespace: 'default', name: `qwen-${index}` }))
  metrics.keepServices(services)
  for (const service of services) {
    metrics.set('process_healthy', 1, service)
    metrics.observe('health_check_duration_seconds', 0.02, service)
    metrics.add('process_restarts_total', 1, service)
  }
  const shown = await figures(/process_healthy|check_duration_seconds_count|restarts_total/)
  const leftOut = await figures(/left_out/)
  const fewer = services.slice(-40)
  metrics.keepServices(fewer)
  for (const service of fewer) metrics.set('process_healthy', 1, service)
  const healthy = Object.keys(await figures(/process_healthy/))
  expect([Object.keys(shown).length, leftOut, healthy.length, await figures(/left_out/)]).toEqual([
    300,
    { metrics_services_left_out: 30 },
    40,
    { metrics_services_left_out: 0 },
  ])
})

test('processor time counts from the start of the process, and the event loop is not watched', async () => {
  const { user, system } = process.cpuUsage()
  const shown = await ofProcess(/^(process_cpu_seconds_total|nodejs_eventloop_lag_(mean|max)_seconds)$/)
  expect([...shown.keys()]).toEqual(['process_cpu_seconds_total'])
  expect(shown.get('process_cpu_seconds_total')).toBeGreaterThanOrEqual((user + system) / 1e6)
})

test('a scrape never asks Node.js for its handles, which aborts while one of them is garbage', async () => {
  const named = process as unknown as Record<'_getActiveHandles' | '_getActiveRequests', () => unknown[]>
  const asked = [vi.spyOn(named, '_getActiveHandles'), vi.spyOn(named, '_getActiveRequests')]
  const shown = await ofProcess(/^nodejs_active_/)
  expect([shown.size > 0, ...asked.map((one) => one.mock.calls.length)]).toEqual([true, 0, 0])
  for (const one of asked) one.mockRestore()
})
