import type { LogChunk } from '../../../src/contract/log.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import { sampleService } from '../sample-snapshot.ts'

export const gigabyte = 1_000_000_000

export const done = { status: 'done' } as const
export const waiting = { status: 'waiting' } as const

export const ready = sampleService({
  uid: 'ready',
  name: 'phi-4-mini',
  model: 'phi-4-mini-q4',
  message: 'Serving at 192.168.1.20:51234.',
  pid: 4711,
  port: 51_234,
  address: '192.168.1.20',
  url: 'http://phi-4-mini.default.svc.cluster.local:8080',
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

export const paused = sampleService({
  ...ready,
  state: 'unready',
  reason: 'Paused',
  message: 'This machine is paused: the model stays in memory, and no requests are sent here.',
  steps: { fetched: done, started: done, healthy: done, published: waiting, clusterAgrees: waiting },
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
    guess:
      'The model file is most likely damaged or made for a newer llama.cpp: delete it and let it be fetched again.',
    firstError: 'llama_model_load: error loading model: tensor "blk.0.attn_q.weight" has wrong shape',
    memory: { residentBytes: 1_340_000_000, ageMs: 800 },
  },
})

export const refused = sampleService({
  uid: 'refused',
  name: 'llama-70b',
  state: 'refused',
  reason: 'Refused',
  message: 'The runtime "vllm-swift" is not built into this agent: say llama-server, or serve it elsewhere.',
  steps: { fetched: waiting, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
})

export const withoutOllama = sampleService({
  uid: 'without-ollama',
  name: 'llama-3.2-3b',
  state: 'waiting',
  reason: 'StartFailed',
  runtime: 'ollama',
  runtimeFrom: 'the source of its Model',
  message:
    'Ollama does not run at 127.0.0.1:11434: open the Ollama app, run "ollama serve", have the agent start it (--ollama-start), or give its port with --ollama-port; "brew install ollama" installs it.',
  steps: { fetched: done, started: { status: 'failed' }, healthy: waiting, published: waiting, clusterAgrees: waiting },
})

export const starting = sampleService({
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

export const stopping = sampleService({
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

export const unready = sampleService({
  uid: 'unready',
  name: 'deepseek-r1-8b',
  state: 'unready',
  reason: 'Starting',
  message: 'The server does not answer its health check; it is withdrawn until it does.',
  pid: 4714,
  steps: {
    fetched: done,
    started: done,
    healthy: { status: 'failed', message: 'No answer for 12 s.' },
    published: waiting,
    clusterAgrees: waiting,
  },
})

export const longest = sampleService({
  uid: 'longest',
  namespace: 'a-namespace-whose-name-has-the-sixty-three-letters-kubernetes-has',
  name: `an-inference-service-${'with-a-very-long-name-'.repeat(8)}version-2`,
  model: `a-model-${'with-a-very-long-name-'.repeat(8)}q4`,
  url: `http://an-inference-service-${'with-a-very-long-name-'.repeat(2)}.default.svc.cluster.local:8080`,
  message: `The model is looked for in ${'/Volumes/External/A folder with a long name'.repeat(4)}/model.gguf.`,
})

export const every: ServiceView[] = [
  ready,
  fetching,
  starting,
  unready,
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
    steps: { fetched: waiting, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
  }),
  sampleService({
    uid: 'foreign',
    name: 'codestral',
    state: 'foreign',
    reason: 'ClaimedElsewhere',
    message: 'The machine "mini" serves it.',
    steps: { fetched: waiting, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
  }),
]

export const figures = {
  fetching: { progress: { doneBytes: 7_900_000_000, totalBytes: 18_600_000_000, bytesPerSecond: 61_000_000 } },
  ready: { footprintBytes: 9.1 * gigabyte },
  starting: { footprintBytes: 4.2 * gigabyte },
  unready: { footprintBytes: 5.4 * gigabyte },
  stopping: { footprintBytes: 0.5 * gigabyte, requestsInFlight: 2 },
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

export function needs(gigabytes: number): NonNullable<ServiceView['memory']> {
  return { needBytes: gigabytes * gigabyte, priority: 'normal', isProtected: false }
}

export function itemsOf(weights: number) {
  const [kv, compute, overhead] = [2.7, 0.9, 0.7].map((gigabytes) => gigabytes * gigabyte)
  return {
    weights: weights * gigabyte,
    kv: kv ?? 0,
    compute: compute ?? 0,
    overhead: overhead ?? 0,
    promptCache: 0,
    mmproj: 0,
  }
}

export const tooLarge = sampleService({
  uid: 'too-large',
  contextSize: 32_768,
  name: 'llama-70b',
  state: 'waiting',
  reason: 'InsufficientMemory',
  message: 'It needs 43.9 GB, and 26.4 GB are left in the budget of 72.0 GB.',
  steps: { fetched: done, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
  memory: {
    needBytes: 43.9 * gigabyte,
    items: itemsOf(39.6),
    guess: 'The projector is not counted: its file was not read.',
    priority: 'normal',
    isProtected: false,
    place: 1,
    waysToFit: [
      {
        kind: 'change',
        sentence: 'Use a context of 4,096 tokens: needs 26.1 GB',
        change: { contextSize: 4_096 },
      },
      {
        kind: 'change',
        sentence: 'Use a q8_0 KV cache: needs 26.3 GB',
        change: { cacheType: 'q8_0' },
      },
      { kind: 'evict', sentence: 'Evict llama-3.3-70b: frees 25.8 GB', evict: ['default/llama-3.3-70b'] },
      { kind: 'quit', sentence: 'Quit Xcode: frees up to 18.2 GB', quit: ['Xcode'] },
      {
        kind: 'budget',
        sentence:
          'Raise the memory budget to 90.0 GB, after sudo sysctl iogpu.wired_limit_mb=85831, which lasts until the Mac is restarted',
        budget: { of: 'machine', bytes: 90 * gigabyte, command: 'sudo sysctl iogpu.wired_limit_mb=85831' },
      },
    ],
  },
})

const evictedBecause =
  'Evicted from memory, which was critically short: it has the lowest priority, and 8.1 GB come back. It comes back automatically once that has passed.'

export const evicted = sampleService({
  uid: 'evicted',
  name: 'deepseek-r1-8b',
  state: 'stopped',
  reason: 'Held',
  message: evictedBecause,
  since: '2026-01-02T02:50:05.000Z',
  steps: { fetched: done, started: waiting, healthy: waiting, published: waiting, clusterAgrees: waiting },
  hold: {
    cause: 'evicted',
    by: 'pressure',
    since: '2026-01-02T02:50:05.000Z',
    message: evictedBecause,
  },
})
