import { afterEach, beforeEach, expect, test } from 'vitest'
import { AgentMetrics } from '../../../src/agent-core/observability/agent-metrics.ts'
import {
  gatewayMetricsFeed,
  runtimeMetricsFeed,
  serviceMetricsFeed,
  sessionCounters,
  countEnergy,
  startMetricsFeed,
} from '../../../src/agent-core/observability/metric-feeds.ts'
import { durationBounds, type GatewayCounts } from '../../../src/contract/gateway.ts'
import type { RuntimeFigures, ServiceState } from '../../../src/contract/service.ts'
import { exportedFigures } from '../../support/exported-figures.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

let metrics: AgentMetrics
beforeEach(() => {
  metrics = new AgentMetrics()
})
afterEach(() => metrics[Symbol.dispose]())

const qwen = { namespace: 'default', name: 'qwen' }
const labels = '{name="qwen",namespace="default"}'
const figures = (pattern: RegExp) => exportedFigures(metrics, pattern)

test('requests to the API server are counted by the class of their answer, and passes by their length', async () => {
  const { onApiAnswer, onPass } = sessionCounters(metrics)
  for (const code of [200, 201, 304, 404, 409, 500, undefined]) onApiAnswer(code)
  onPass(0.5)
  expect(await figures(/^(api_|reconcile_)/)).toEqual({
    'api_requests_total{code="2xx"}': 2,
    'api_requests_total{code="3xx"}': 1,
    'api_requests_total{code="4xx"}': 2,
    'api_requests_total{code="5xx"}': 1,
    'api_requests_total{code="none"}': 1,
    reconcile_duration_seconds_sum: 0.5,
    reconcile_duration_seconds_count: 1,
  })
})

test('a start is measured from its beginning until the server is ready, once, and not for one that was found', async () => {
  const feed = startMetricsFeed(metrics)
  const starts = async () => {
    const shown = await figures(/server_start/)
    return [shown[`server_start_duration_seconds_count${labels}`], shown[`server_start_duration_seconds_sum${labels}`]]
  }
  const ready = (pid: number, since: number) =>
    ({ kind: 'ready', since, readySince: since, pid, port: 1, healthy: true }) as const
  feed('default/qwen', ready(7, 1_000))
  feed('default/qwen', { kind: 'starting', since: 2_000, pid: 7, port: 1 })
  feed('default/qwen', ready(7, 9_000))
  feed('default/qwen', { kind: 'failedToSpawn', since: 9_000, message: '', failures: 1 })
  feed('default/qwen', { kind: 'starting', since: 9_100, pid: 7, port: 1, unasked: true })
  feed('default/qwen', ready(7, 9_200))
  const found = await starts()
  feed('default/qwen', { kind: 'starting', since: 10_000 })
  feed('default/qwen', { kind: 'starting', since: 11_000, pid: 8, port: 2 })
  feed('default/qwen', { kind: 'loading', since: 12_000, pid: 8, port: 2 })
  feed('default/qwen', ready(8, 15_000))
  feed('default/qwen', ready(8, 16_000))
  feed('default/qwen', { kind: 'starting', since: 20_000 })
  feed('default/qwen', ready(9, 22_500))
  expect([found, await starts()]).toEqual([
    [undefined, undefined],
    [2, 7.5],
  ])
})

test('energy of the machine and of each service adds up, and a service that is gone has none until it draws some again', async () => {
  let present = [qwen]
  metrics.beforeRender(() => metrics.keepServices(present))
  const seen = () => figures(/joules/)
  const spend = (joules: number) =>
    countEnergy(metrics, { measured: { joules: 9 }, services: new Map([['default/qwen', joules]]) })
  const before = await seen()
  spend(5)
  spend(0)
  spend(2)
  const there = await seen()
  present = []
  await seen()
  spend(0)
  present = [qwen]
  const gone = await seen()
  spend(3)
  expect([before, there, gone, await seen()]).toEqual([
    {},
    { energy_joules_total: 27, [`service_energy_joules_total${labels}`]: 7 },
    { energy_joules_total: 36 },
    { energy_joules_total: 45, [`service_energy_joules_total${labels}`]: 3 },
  ])
})

test('a service is healthy or not while a server of it is to answer, and neither where none is to run', async () => {
  const states = ['starting', 'ready', 'unready', 'crash-looping', 'stopped', 'waiting', 'foreign'] as const
  const shown = async (state: ServiceState) => {
    serviceMetricsFeed(metrics)(sampleSnapshot({ services: [sampleService({ ...qwen, state })] }))
    return Object.values(await figures(/process_healthy/))
  }
  const seen: number[][] = []
  for (const state of states) seen.push(await shown(state))
  expect(seen).toEqual([[0], [1], [0], [0], [], [], []])
})

test('a scrape asks the runtimes; tokens go on counting while rates are absent, not frozen, when nothing is reported', async () => {
  const reported: RuntimeFigures = {
    state: 'reported',
    promptTokensPerSecond: 300,
    generatedTokensPerSecond: 25,
    requestsRunning: 1,
    requestsWaiting: 0,
  }
  let view: RuntimeFigures | undefined = reported
  let asked = 0
  const feed = runtimeMetricsFeed(metrics, {
    refresh: () => {
      asked += 1
      return Promise.resolve()
    },
    totals: () => new Map([['default/qwen', { promptTokens: 100 * asked, generatedTokens: 10 * asked }]]),
    view: (key) => (key === 'default/qwen' ? view : undefined),
  })
  metrics.beforeRender(() => feed([qwen, { namespace: 'default', name: 'silent' }]))
  const known = await figures(/^(tokens|requests|kv)_/)
  view = { state: 'notReported', message: '' }
  const later = await figures(/^(tokens|requests|kv)_/)
  const of = (kind: string) => `{kind="${kind}",name="qwen",namespace="default"}`
  expect([known, later]).toEqual([
    {
      [`tokens_total${of('prompt')}`]: 100,
      [`tokens_total${of('generated')}`]: 10,
      [`tokens_per_second${of('prompt')}`]: 300,
      [`tokens_per_second${of('generated')}`]: 25,
      [`requests_running${labels}`]: 1,
      [`requests_waiting${labels}`]: 0,
    },
    { [`tokens_total${of('prompt')}`]: 200, [`tokens_total${of('generated')}`]: 20 },
  ])
})

test('what the gateway counted is told as it is there, of services that there are, and kept while it does not answer', async () => {
  const whole = (...values: [bucket: number, count: number][]) => ({
    counts: [...durationBounds, 0].map((_, index) => values.find(([bucket]) => bucket === index)?.[1] ?? 0),
    sum: 12,
  })
  const counted: GatewayCounts['services'][number] = {
    ...{ ...qwen, waiting: 1, streaming: 2 },
    requests: [{ code: '2xx', reason: 'answered', count: 5 }],
    firstByte: whole([1, 3], [durationBounds.length, 2]),
    inTotal: whole([2, 4]),
  }
  const services = [counted, { ...counted, name: 'gone' }]
  let counts: GatewayCounts | undefined = { requests: { '2xx': 9 }, services, ingress: { 200: 4, 401: 1 } }
  const feed = gatewayMetricsFeed(metrics, () => ({ counts: () => Promise.resolve(counts) }))
  metrics.beforeRender(() => feed([qwen]))
  const pattern = /^gateway_|client_proxy.*2xx|^ingress_|gone/
  const told = {
    'ingress_requests_total{code="200"}': 4,
    'ingress_requests_total{code="401"}': 1,
    'client_proxy_requests_total{outcome="2xx"}': 9,
    'gateway_requests_total{code="2xx",name="qwen",namespace="default",reason="answered"}': 5,
    'gateway_requests_in_flight{name="qwen",namespace="default",phase="waiting"}': 1,
    'gateway_requests_in_flight{name="qwen",namespace="default",phase="streaming"}': 2,
    [`gateway_time_to_first_byte_seconds_sum${labels}`]: 12,
    [`gateway_time_to_first_byte_seconds_count${labels}`]: 5,
    [`gateway_request_duration_seconds_sum${labels}`]: 12,
    [`gateway_request_duration_seconds_count${labels}`]: 4,
  }
  expect(await figures(pattern)).toEqual(told)
  const { body } = await metrics.render()
  const buckets = body
    .split('\n')
    .filter((line) => line.includes('first_byte_seconds_bucket'))
    .map((line) => line.split(' ').at(-1))
  expect(buckets).toEqual(['0', ...durationBounds.slice(1).map(() => '3'), '5'])
  counts = undefined
  expect(await figures(pattern)).toEqual(told)
  // Another gateway, which was asked nothing yet.
  counts = { requests: {}, services: [] }
  expect(await figures(pattern)).toEqual({ 'client_proxy_requests_total{outcome="2xx"}': 0 })
})
