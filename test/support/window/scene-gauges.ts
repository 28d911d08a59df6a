import type { MemoryStateView } from '../../../src/contract/memory.ts'
import type { RuntimeFigures, ServiceView } from '../../../src/contract/service.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { sampleService, sampleSnapshot } from '../sample-snapshot.ts'
import { FakeAgent } from './fake-agent.ts'
import {
  figures,
  gigabyte,
  held,
  itemsOf,
  needs,
  output,
  ready,
  starting,
  stopping,
  unready,
} from './scene-services.ts'

/** Of a Mac with 96 GB. */
const totalBytes = 96 * gigabyte

export const memory: MemoryStateView = {
  totalBytes,
  budgetBytes: 72 * gigabyte,
  budgetHow: '72.0 GB (67.1 GiB), 0.75 of the memory of this machine.',
  gpuLimitBytes: 77.3 * gigabyte,
  modelsBytes: 45.6 * gigabyte,
  reservedBytes: 6.2 * gigabyte,
  pressure: 'normal',
  pressureSince: '2026-01-02T01:04:05.000Z',
  evictionEnabled: true,
  eviction: 'smollm-360m would be evicted first.',
  waiting: ['default/whisper'],
}

const otherBytes = 14.2 * gigabyte

/** While these services hold what `figures` says of them. */
export function memoryWith(services: readonly ServiceView[]): Pick<AgentSnapshot, 'memory' | 'memoryFigures'> {
  const sizes: AgentSnapshot['figures'] = figures
  const modelsBytes = services.reduce((sum, { uid }) => sum + (sizes[uid]?.footprintBytes ?? 0), 0)
  const waiting = services.filter(({ reason }) => reason === 'InsufficientMemory').map(({ name }) => `default/${name}`)
  return {
    memory: { ...memory, modelsBytes, reservedBytes: 0, waiting },
    memoryFigures: {
      availableBytes: totalBytes - otherBytes - modelsBytes,
      freeBytes: 72 * gigabyte - modelsBytes,
    },
  }
}

export const inMemory = {
  services: [ready, { ...starting, memory: needs(10.4) }, largeModel(), stopping, held],
  figures: {
    ...figures,
    large: { footprintBytes: 25.8 * gigabyte },
  },
  memory,
  memoryFigures: { availableBytes: 42.2 * gigabyte, freeBytes: 26.4 * gigabyte },
} satisfies Partial<AgentSnapshot>

export function largeModel(): ServiceView {
  const { reason, message, steps } = unready
  return sampleService({ uid: 'large', name: 'llama-3.3-70b', state: 'unready', reason, message, steps, pid: 4720 })
}

export const measuring: Partial<AgentSnapshot> = {
  power: { state: 'measuring', message: 'Measured every second.' },
  powerFigures: { combinedWatts: 41.2, gpuWatts: 33, cpuWatts: 8.1 },
}

export function powerRefused(): FakeAgent {
  const agent = new FakeAgent(sampleSnapshot(inMemory))
  const message = 'Power is on, but sudo does not allow it yet: metal-agent power install.'
  agent.answers.push({ outcome: 'failed', message })
  return agent
}

/** A minute of answers to two prompts, with a gap where nothing was measured. */
export function drawPower(agent: FakeAgent): void {
  const begin = Date.parse(sampleSnapshot().now)
  for (let second = 1; second <= 118; second++) {
    const busy = (second > 20 && second < 55) || second > 75
    const watts = (busy ? 41 : 9) + 3 * Math.sin(second)
    const isGap = second > 60 && second < 66
    agent.show(
      sampleSnapshot({
        ...inMemory,
        revision: second + 1,
        now: new Date(begin + second * 1_000).toISOString(),
        ...(isGap
          ? {}
          : { ...measuring, powerFigures: { combinedWatts: watts, gpuWatts: watts * 0.8, cpuWatts: 8.1 } }),
      }),
    )
  }
}

export function working(): FakeAgent {
  const runtime: RuntimeFigures = {
    state: 'reported',
    generatedTokensPerSecond: 52.31,
    promptTokensPerSecond: 812.4,
    requestsRunning: 1,
    requestsWaiting: 0,
    kvUse: 0.37,
    lastRequestAt: '2026-01-02T03:04:00.000Z',
  }
  const gateway: AgentSnapshot['figures'][string]['gateway'] = [
    { door: 'clientProxy', address: '127.0.0.1', requests: 2 },
    { door: 'published', address: '10.0.0.7', requests: 1 },
  ]
  const service = { ...ready, memory: { ...needs(9.8), items: { ...itemsOf(8.2), kv: 0.9 * gigabyte } } }
  const agent = new FakeAgent(
    sampleSnapshot({
      services: [service],
      host: { ...sampleSnapshot().host, clientProxy: 'http://127.0.0.1:9999' },
      figures: { ready: { footprintBytes: 9.1 * gigabyte, runtime, powerShareWatts: 31.5, gateway } },
      ...memoryWith([service]),
      ...measuring,
    }),
  )
  agent.logs.current = output
  agent.known.server = {
    commandLine:
      "/opt/homebrew/bin/llama-server --model '/Users/me/Library/Application Support/Metalbar/models/phi-4-mini-q4.gguf' --host 0.0.0.0 --port 51234",
    crashLines: [],
  }
  return agent
}
