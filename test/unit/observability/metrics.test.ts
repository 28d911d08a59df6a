import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AgentMetrics } from '../../../src/agent-core/observability/metrics.ts'

let metrics: AgentMetrics
beforeEach(() => {
  metrics = new AgentMetrics()
})
afterEach(() => metrics[Symbol.dispose]())

const qwen = { namespace: 'default', name: 'qwen' }

async function lines(pattern: RegExp): Promise<string[]> {
  const { body } = await metrics.render()
  return body.split('\n').filter((line) => !line.startsWith('#') && pattern.test(line))
}

const ours = () => lines(/^llmkube_metal_agent_(?!health_check_duration_seconds_bucket)/)

const memoryFromTheStart = [
  ...['normal', 'warning', 'critical', 'unknown'].map((to) => `memory_pressure_transitions_total{to="${to}"} 0`),
  'evictions_total 0',
  ...['disabled', 'below_guard', 'floor', 'all_protected', 'runtime_ineligible', 'empty'].map(
    (reason) => `evictions_skipped_total{reason="${reason}"} 0`,
  ),
].map((line) => `llmkube_metal_agent_${line}`)

test('what can be counted is there from the start, at 0', async () => {
  expect(await ours()).toEqual([
    'llmkube_metal_agent_managed_processes 0',
    'llmkube_metal_agent_watch_consecutive_failures 0',
    'llmkube_metal_agent_fatal_exits_total{subsystem="watcher"} 0',
    'llmkube_metal_agent_fatal_exits_total{subsystem="health-server"} 0',
    ...memoryFromTheStart,
  ])
})

test('what is only brought up to date when it is read is so', async () => {
  metrics.beforeRender(() => Promise.resolve(metrics.setManagedProcesses(7)))
  expect(await lines(/managed_processes/)).toEqual(['llmkube_metal_agent_managed_processes 7'])
})

test('names and labels are those of the Go agent', async () => {
  metrics.setManagedProcesses(2)
  metrics.setWatchFailures(3)
  metrics.setHealthy(qwen, true)
  metrics.countRestart(qwen)
  metrics.observeHealthCheck(qwen, 0.02)
  metrics.countFatalExit('watcher')
  expect(await ours()).toEqual([
    'llmkube_metal_agent_managed_processes 2',
    'llmkube_metal_agent_process_healthy{name="qwen",namespace="default"} 1',
    'llmkube_metal_agent_process_restarts_total{name="qwen",namespace="default"} 1',
    'llmkube_metal_agent_health_check_duration_seconds_sum{name="qwen",namespace="default"} 0.02',
    'llmkube_metal_agent_health_check_duration_seconds_count{name="qwen",namespace="default"} 1',
    'llmkube_metal_agent_watch_consecutive_failures 3',
    'llmkube_metal_agent_fatal_exits_total{subsystem="watcher"} 1',
    'llmkube_metal_agent_fatal_exits_total{subsystem="health-server"} 0',
    ...memoryFromTheStart,
  ])
  const buckets = await lines(/_bucket.*name="qwen"/)
  expect(buckets.map((line) => /le="([^"]+)"/.exec(line)?.[1])).toEqual(
    '0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf'.split(' '),
  )
})

test('memory has the names of the Go agent, and what is not known has no figure', async () => {
  const memory = () => lines(/^llmkube_metal_agent_(memory|system|process_rss|evictions_total).* (?!0$)/)
  metrics.setMemoryBudget(36e9)
  metrics.setMemoryEstimate(qwen, 5e9)
  metrics.setSystemMemory({ availableBytes: 8e9, wiredBytes: 2e9 })
  metrics.setProcessMemory(qwen, 6e9)
  metrics.setPressureLevel('critical')
  metrics.countPressureChange('critical')
  metrics.countEviction()
  metrics.countEvictionSkipped('floor')
  const known = await memory()
  metrics.setSystemMemory(undefined)
  metrics.setProcessMemory(qwen, undefined)
  metrics.setPressureLevel('unknown')
  expect([known, await memory(), await lines(/floor/)]).toEqual([
    [
      'llmkube_metal_agent_memory_budget_bytes 36000000000',
      'llmkube_metal_agent_memory_estimated_bytes{name="qwen",namespace="default"} 5000000000',
      'llmkube_metal_agent_system_memory_available_bytes 8000000000',
      'llmkube_metal_agent_system_memory_wired_bytes 2000000000',
      'llmkube_metal_agent_process_rss_bytes{name="qwen",namespace="default"} 6000000000',
      'llmkube_metal_agent_memory_pressure_level 2',
      'llmkube_metal_agent_memory_pressure_transitions_total{to="critical"} 1',
      'llmkube_metal_agent_evictions_total 1',
    ],
    [
      'llmkube_metal_agent_memory_budget_bytes 36000000000',
      'llmkube_metal_agent_memory_estimated_bytes{name="qwen",namespace="default"} 5000000000',
      'llmkube_metal_agent_memory_pressure_transitions_total{to="critical"} 1',
      'llmkube_metal_agent_evictions_total 1',
    ],
    ['llmkube_metal_agent_evictions_skipped_total{reason="floor"} 1'],
  ])
})

test('power has the names of the Go agent, and what is not reported has no figure', async () => {
  const power = () => lines(/power/)
  const atFirst = await power()
  metrics.setPower({ combinedWatts: 12.5, cpuWatts: 4, gpuWatts: 8, aneWatts: 0.5 })
  const whole = await power()
  metrics.setPower({ gpuWatts: 8, aneWatts: 0 })
  const part = await power()
  metrics.setPower(undefined)
  expect([atFirst, whole, part, await power()]).toEqual([
    [],
    [
      'llmkube_metal_agent_apple_power_combined_watts 12.5',
      'llmkube_metal_agent_apple_power_gpu_watts 8',
      'llmkube_metal_agent_apple_power_cpu_watts 4',
      'llmkube_metal_agent_apple_power_ane_watts 0.5',
    ],
    ['llmkube_metal_agent_apple_power_gpu_watts 8', 'llmkube_metal_agent_apple_power_ane_watts 0'],
    [],
  ])
})

test('a service is shown with no restarts before its first, and leaves nothing when it goes', async () => {
  metrics.setHealthy(qwen, false)
  metrics.setHealthy({ namespace: 'other', name: 'qwen' }, true)
  const shown = await lines(/name="qwen"/)
  metrics.observeHealthCheck(qwen, 1)
  metrics.setMemoryEstimate(qwen, 1)
  metrics.setProcessMemory(qwen, 1)
  metrics.removeService(qwen)
  expect([shown, await lines(/namespace="default"/)]).toEqual([
    [
      'llmkube_metal_agent_process_healthy{name="qwen",namespace="default"} 0',
      'llmkube_metal_agent_process_healthy{name="qwen",namespace="other"} 1',
      'llmkube_metal_agent_process_restarts_total{name="qwen",namespace="default"} 0',
      'llmkube_metal_agent_process_restarts_total{name="qwen",namespace="other"} 0',
    ],
    [],
  ])
})

test('before the first scrape nothing watches the event loop, and processor time counts from the start of the process', async () => {
  const until = performance.now() + 600
  while (performance.now() < until) await nextTurn()
  const { user, system } = process.cpuUsage()
  const [cpu = '', ...lag] = await lines(/^(process_cpu_seconds_total|nodejs_eventloop_lag_(mean|max)_seconds) /)
  expect(Number(cpu.split(' ')[1])).toBeGreaterThanOrEqual((user + system) / 1e6)
  expect(lag).toEqual([])
})

test('the process and its event loop are measured, and a block of the loop shows as what it lasted beyond a sample', async () => {
  await metrics.render()
  const blockMs = 600
  const sampleMs = 250
  // The first block ends with the sampler's first look, from which it measures the others.
  const begun: number[] = []
  for (let block = 0; block < 3; block++) {
    begun.push(performance.now())
    const until = performance.now() + blockMs
    while (performance.now() < until) continue
    await nextTurn()
  }
  begun.push(performance.now())
  // A look comes between two blocks, so that two of them are no further apart than this.
  const [first = 0, second = 0, third = 0, last = 0] = begun
  const longestMs = Math.max(third - first, last - second) - blockMs
  const shown = await lines(
    /^(nodejs_eventloop_lag_\w+|process_cpu_seconds_total|process_resident_memory_bytes|nodejs_heap_size_used_bytes) /,
  )
  const figures = new Map(shown.map((line) => line.split(' ')).map(([name, value]) => [name, Number(value)]))
  expect([...figures.keys()].sort()).toEqual([
    'nodejs_eventloop_lag_max_seconds',
    'nodejs_eventloop_lag_mean_seconds',
    'nodejs_eventloop_lag_seconds',
    'nodejs_heap_size_used_bytes',
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
  ])
  const toleranceMs = 20
  for (const figure of ['mean', 'max']) {
    const lagMs = (figures.get(`nodejs_eventloop_lag_${figure}_seconds`) ?? 0) * 1_000
    expect(lagMs).toBeGreaterThan(blockMs - sampleMs - toleranceMs)
    expect(lagMs).toBeLessThan(longestMs - sampleMs + toleranceMs)
  }
})

test('two registries do not meet', async () => {
  using other = new AgentMetrics()
  other.setManagedProcesses(5)
  expect(await lines(/managed_processes/)).toEqual(['llmkube_metal_agent_managed_processes 0'])
})
