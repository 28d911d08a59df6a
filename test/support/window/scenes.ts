import { LinkError } from '../../../src/contract/client.ts'
import type { CommandResult } from '../../../src/contract/commands.ts'
import type { LogChunk } from '../../../src/contract/log.ts'
import type { MemoryStateView } from '../../../src/contract/memory.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { sampleService, sampleSnapshot } from '../sample-snapshot.ts'
import { FakeAgent } from './fake-agent.ts'

/** A state of the window worth looking at. */
export interface Scene {
  readonly agent: () => FakeAgent
  /** Name of the service whose detail is opened. */
  readonly open?: string
  /** Then pressed, in this order. */
  readonly press?: readonly string[]
  /** Done to the agent at the end. */
  readonly then?: (agent: FakeAgent) => void
  readonly width?: number
  readonly height?: number
  /** How much larger than usual a person reads. */
  readonly textScale?: number
}

const done = { status: 'done' } as const
const waiting = { status: 'waiting' } as const

export const ready = sampleService({
  uid: 'ready',
  name: 'phi-4-mini',
  model: 'phi-4-mini-q4',
  message: 'Serving at 192.168.1.20:51234.',
  pid: 4711,
  port: 51_234,
  address: '192.168.1.20',
  url: 'http://phi-4-mini.default.svc.cluster.local:8080/v1',
})

export const fetching = sampleService({
  uid: 'fetching',
  name: 'qwen3-30b-a3b',
  model: 'qwen3-30b-a3b-q4',
  state: 'fetching',
  reason: 'Fetching',
  message: 'Downloading the model.',
  steps: {
    fetched: { status: 'active', message: 'Downloading the model.' },
    started: waiting,
    healthy: waiting,
    published: waiting,
    clusterAgrees: waiting,
  },
})

export const crashing = sampleService({
  uid: 'crashing',
  name: 'mistral-small',
  model: 'mistral-small-24b',
  state: 'crash-looping',
  reason: 'CrashLooping',
  message: 'The server ended by itself 4 times in a row; it is started again in a while.',
  since: '2026-01-02T03:02:00.000Z',
  retryAt: '2026-01-02T03:04:47.000Z',
  restarts: 4,
  steps: {
    fetched: done,
    started: { status: 'failed', message: 'Exit code 1 after 2.1 s.' },
    healthy: waiting,
    published: waiting,
    clusterAgrees: waiting,
  },
  crash: {
    at: '2026-01-02T03:03:47.000Z',
    failures: 4,
    message:
      'llama-server exited with code 1 while starting. The model file is most likely damaged or made for a newer llama.cpp: delete it and let it be fetched again.',
    exitCode: 1,
    firstError: 'llama_model_load: error loading model: tensor "blk.0.attn_q.weight" has wrong shape',
    memory: { residentBytes: 1_340_000_000, ageMs: 800 },
  },
})

const refused = sampleService({
  uid: 'refused',
  name: 'llama-70b',
  state: 'refused',
  reason: 'Refused',
  message: 'The runtime "vllm-swift" is not built into this agent: say llama-server, or serve it elsewhere.',
  steps: { fetched: waiting, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
})

const starting = sampleService({
  uid: 'starting',
  name: 'gemma-3-12b',
  state: 'starting',
  reason: 'Starting',
  message: 'The server is loading the model.',
  pid: 4712,
  port: 51_235,
  steps: {
    fetched: done,
    started: { status: 'done', message: 'Process 4712.' },
    healthy: { status: 'active', message: 'The server is loading the model.' },
    published: waiting,
    clusterAgrees: waiting,
  },
})

const stopping = sampleService({
  uid: 'stopping',
  name: 'smollm-360m',
  state: 'stopping',
  reason: 'Stopping',
  message: 'Requests in flight may finish before the server is ended.',
  pid: 4713,
})

export const held = sampleService({
  uid: 'held',
  name: 'nomic-embed',
  state: 'stopped',
  reason: 'Stopped',
  message: 'Stopped on this machine.',
  since: '2026-01-02T02:50:05.000Z',
  steps: { fetched: done, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
  hold: {
    cause: 'stopped',
    since: '2026-01-02T02:50:05.000Z',
    message: 'The cluster wants it, and it was stopped here because the cluster did not take the change.',
  },
})

const longest = sampleService({
  uid: 'longest',
  namespace: 'a-namespace-whose-name-has-the-sixty-three-letters-kubernetes-has',
  name: `an-inference-service-${'with-a-very-long-name-'.repeat(8)}version-2`,
  model: `a-model-${'with-a-very-long-name-'.repeat(8)}q4`,
  url: `http://an-inference-service-${'with-a-very-long-name-'.repeat(2)}.default.svc.cluster.local:8080/v1`,
  message: `The model is looked for in ${'/Volumes/External/A folder with a long name'.repeat(4)}/model.gguf.`,
})

const every: ServiceView[] = [
  ready,
  fetching,
  starting,
  sampleService({
    uid: 'unready',
    name: 'deepseek-r1-8b',
    state: 'unready',
    reason: 'Starting',
    message: 'The server does not answer its health check; it is withdrawn until it does.',
  }),
  crashing,
  refused,
  stopping,
  held,
  sampleService({
    uid: 'waiting',
    name: 'whisper',
    state: 'waiting',
    reason: 'Pending',
    message: 'Waiting for its Model.',
  }),
  sampleService({
    uid: 'foreign',
    name: 'codestral',
    state: 'foreign',
    reason: 'ClaimedElsewhere',
    message: 'The machine "mini" serves it.',
  }),
]

const figures = {
  fetching: { progress: { doneBytes: 7_900_000_000, totalBytes: 18_600_000_000, bytesPerSecond: 61_000_000 } },
  stopping: { requestsInFlight: 2 },
}

export const output: LogChunk = {
  lines: [
    'build: 11434 with Apple clang 17.0.0',
    'main: loading model',
    "srv    load_model: loading model '/Users/me/Library/Application Support/Metalbar/models/phi-4-mini-q4.gguf'",
    'llama_model_loader: loaded meta data with 36 key-value pairs and 196 tensors',
    'load_tensors: offloaded 33/33 layers to GPU',
    'main: server is listening on http://127.0.0.1:51234 - starting the main loop',
    'srv  update_slots: all slots are idle',
    ...Array.from(
      { length: 24 },
      (_, index) => `srv  log_server_r: request: POST /v1/chat/completions 192.168.1.7 200 (${index + 1})`,
    ),
  ],
  start: { fileId: 'run-2', offset: 0 },
  end: { fileId: 'run-2', offset: 2_400 },
  gap: 'Skipped 1,200 lines.',
}

const withServices = (services: ServiceView[]) => () => {
  const agent = new FakeAgent(sampleSnapshot({ services, figures }))
  agent.logs.current = output
  return agent
}

const refusal: CommandResult = {
  outcome: 'refused',
  by: 'cluster',
  message:
    'inferenceservices.inference.llmkube.dev "phi-4-mini" is forbidden: user "me" cannot patch it in namespace "default".',
  instead: {
    label: 'Hold it on this machine',
    command: { name: 'stop', service: { namespace: 'default', name: 'phi-4-mini' }, scope: 'here' },
  },
}

const answering = (answers: FakeAgent['answers']) => () => {
  const agent = withServices([ready])()
  agent.answers.push(...answers)
  return agent
}

const cluster = sampleSnapshot().cluster

const gigabyte = 1_000_000_000

/** Of a Mac with 96 GB. */
export const memory: MemoryStateView = {
  totalBytes: 96 * gigabyte,
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

const inMemory = {
  services: [ready, { ...starting, memory: needs(10.4) }, largeModel(), stopping, held],
  figures: {
    ...figures,
    ready: { footprintBytes: 9.1 * gigabyte },
    starting: { footprintBytes: 4.2 * gigabyte },
    large: { footprintBytes: 25.8 * gigabyte },
    stopping: { footprintBytes: 0.5 * gigabyte, requestsInFlight: 2 },
  },
  memory,
  memoryFigures: { availableBytes: 42.2 * gigabyte },
} satisfies Partial<AgentSnapshot>

function needs(gigabytes: number): NonNullable<ServiceView['memory']> {
  return { needBytes: gigabytes * gigabyte, priority: 'normal', isProtected: false }
}

function largeModel(): ServiceView {
  return sampleService({ uid: 'large', name: 'llama-3.3-70b', state: 'unready', reason: 'Starting', pid: 4720 })
}

const measuring: Partial<AgentSnapshot> = {
  power: { state: 'measuring', message: 'Measured every second.' },
  powerFigures: { combinedWatts: 41.2, gpuWatts: 33, cpuWatts: 8.1 },
}

function powerRefused(): FakeAgent {
  const agent = new FakeAgent(sampleSnapshot(inMemory))
  const message = 'Power is on, but sudo does not allow it yet: metal-agent power install.'
  agent.answers.push({ outcome: 'failed', message })
  return agent
}

/** A minute of answers to two prompts, with a gap where nothing was measured. */
function drawPower(agent: FakeAgent): void {
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

export const sceneNames = [
  'connecting',
  'no-agent',
  'no-access',
  'empty',
  'memory',
  'memory-wide',
  'memory-short',
  'power',
  'power-off',
  'services',
  'services-wide',
  'detail-wide',
  'detail',
  'detail-tall',
  'download',
  'starting',
  'draining',
  'crash',
  'hold',
  'stop-pending',
  'stop-refused',
  'stop-unknown',
  'stale',
  'cluster-away',
  'paused',
  'no-address',
  'long-names',
  'long-names-detail',
  'large-text',
  'large-text-detail',
] as const
export type SceneName = (typeof sceneNames)[number]

/** By the name of its picture. */
export const scenes: Readonly<Record<SceneName, Scene>> = {
  connecting: { agent: () => new FakeAgent() },
  'no-agent': {
    agent: () => {
      const agent = new FakeAgent()
      agent.leave(new LinkError('gone', 'No agent answers on this computer: start one with `metal-agent`.'))
      return agent
    },
  },
  'no-access': {
    agent: () => {
      const agent = new FakeAgent()
      agent.leave(new LinkError('refused', 'The address was used before: run `metal-agent ui` for a new one.'))
      return agent
    },
  },
  empty: { agent: withServices([]) },
  memory: { agent: () => new FakeAgent(sampleSnapshot(inMemory)) },
  'memory-wide': {
    agent: () => new FakeAgent(sampleSnapshot({ ...inMemory, ...measuring })),
    width: 1_100,
    height: 760,
  },
  'memory-short': {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          ...inMemory,
          memory: { ...memory, pressure: 'critical', problem: 'Applications that are no models hold most of it.' },
          memoryFigures: { availableBytes: 2.1 * gigabyte },
        }),
      ),
  },
  power: { agent: () => new FakeAgent(sampleSnapshot({ ...inMemory, ...measuring })), then: drawPower },
  'power-off': { agent: powerRefused, press: ['Turn on'] },
  services: { agent: withServices(every) },
  'services-wide': { agent: withServices(every), width: 1_100, height: 760 },
  'detail-wide': { agent: withServices(every), open: 'phi-4-mini', width: 1_100, height: 760 },
  detail: { agent: withServices([ready]), open: 'phi-4-mini' },
  'detail-tall': { agent: withServices([ready]), open: 'phi-4-mini', height: 980 },
  download: { agent: withServices([fetching]), open: 'qwen3-30b-a3b' },
  starting: { agent: withServices([starting]), open: 'gemma-3-12b' },
  draining: { agent: withServices([stopping]), open: 'smollm-360m' },
  crash: { agent: withServices([crashing]), open: 'mistral-small' },
  hold: { agent: withServices([held]), open: 'nomic-embed' },
  'stop-pending': { agent: withServices([ready]), open: 'phi-4-mini', press: ['Stop'] },
  'stop-refused': { agent: answering([refusal]), open: 'phi-4-mini', press: ['Stop'] },
  'stop-unknown': {
    agent: answering([new LinkError('gone', 'The agent went away before it answered.')]),
    open: 'phi-4-mini',
    press: ['Stop'],
  },
  stale: { agent: withServices(every), then: (agent) => agent.leave() },
  'cluster-away': {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [ready, held],
          cluster: {
            ...cluster,
            state: 'stale',
            message: 'The API server at https://10.0.0.1:6443 does not answer: connection refused.',
            since: '2026-01-02T03:02:05.000Z',
            retryAt: '2026-01-02T03:04:17.000Z',
          },
        }),
      ),
  },
  paused: {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [ready],
          host: { ...sampleSnapshot().host, paused: true },
          notices: ['There is no Metal on this machine: models run on its processors.'],
        }),
      ),
  },
  'no-address': {
    agent: () => {
      const { address: _address, ...host } = sampleSnapshot().host
      const message = 'No address of this machine can be reached from a cluster: choose one with --host-ip.'
      return new FakeAgent(sampleSnapshot({ services: [ready], host: { ...host, message } }))
    },
  },
  'long-names': { agent: withServices([longest, ready]) },
  'long-names-detail': { agent: withServices([longest]), open: longest.name },
  'large-text': { agent: withServices(every), textScale: 2 },
  'large-text-detail': { agent: withServices([crashing]), open: 'mistral-small', textScale: 2 },
}
