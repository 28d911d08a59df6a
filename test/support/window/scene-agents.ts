import type { CommandResult } from '../../../src/contract/commands.ts'
import type { HistoryEntry } from '../../../src/contract/queries.ts'
import type { LogPage } from '../../../src/contract/log.ts'
import type { StoredModelView } from '../../../src/contract/models.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import { agentSettings, startViews } from '../../../src/agent-core/settings/settings.ts'
import { fragmentFile, fragmentFor } from '../../../src/agent-core/power/sudoers.ts'
import { settingNames, type SettingView } from '../../../src/contract/settings.ts'
import { type EditableRow, editableRows } from '../../../src/contract/settings-table.ts'
import { sampleSnapshot } from '../sample-snapshot.ts'
import { FakeAgent } from './fake-agent.ts'
import { crashing, every, evicted, figures, gigabyte, output, ready, withoutOllama } from './scene-services.ts'
import { memoryWith } from './scene-gauges.ts'

/** As an agent answers that keeps no such run. */
const noRun: LogPage = { lines: [], start: { fileId: '', offset: 0 }, end: { fileId: '', offset: 0 } }

export const withServices = (services: ServiceView[]) => () => {
  const agent = new FakeAgent(sampleSnapshot({ services, figures, ...memoryWith(services) }))
  agent.logs.current = output
  agent.logs.previous = noRun
  return agent
}

/** What the cluster says of a service that had trouble. */
export function withNews(): FakeAgent {
  const agent = withServices([ready])()
  const service = { namespace: 'default', name: 'phi-4-mini' }
  const source = 'llmkube-metal-agent'
  agent.known.conditions = {
    conditions: [
      {
        ...{ type: 'MetalAgent', status: 'True', reason: 'Serving', message: 'Serving at 192.168.1.20:51234.' },
        since: '2026-01-02T03:01:05.000Z',
      },
      { type: 'Available', status: 'False', reason: 'NoEndpoints', message: 'No endpoint was ready.' },
    ],
  }
  agent.known.events = {
    events: [
      {
        ...{ at: '2026-01-02T03:03:05.000Z', type: 'Normal', reason: 'Ready', message: 'It serves.' },
        ...{ count: 1, service, source },
      },
      {
        ...{ at: '2026-01-02T03:02:05.000Z', type: 'Warning', reason: 'Crashed', message: 'Exit code 1 after 2.1 s.' },
        ...{ count: 3, service, source },
      },
    ],
    hasMore: true,
  }
  return agent
}

export const refusal: CommandResult = {
  outcome: 'refused',
  by: 'cluster',
  message:
    'inferenceservices.inference.llmkube.dev "phi-4-mini" is forbidden: user "me" cannot patch it in namespace "default".',
  instead: {
    label: 'Hold it on this machine',
    command: { name: 'stop', service: { namespace: 'default', name: 'phi-4-mini' }, scope: 'here' },
  },
}

export const answering = (answers: FakeAgent['answers']) => () => {
  const agent = withServices([ready])()
  agent.answers.push(...answers)
  return agent
}

/** A service whose daemon nobody runs, and the agent could start. */
export function withoutDaemon(): FakeAgent {
  const agent = withServices([withoutOllama])()
  agent.show({
    ...agent.shown,
    runtimes: [{ name: 'ollama', formats: ['gguf'], message: withoutOllama.message, start: 'ollamaStart' }],
  })
  return agent
}

export function withCrashLines(): FakeAgent {
  const agent = withServices([crashing])()
  agent.known.server = { crashLines: output.lines.slice(0, 5).concat('error loading model') }
  return agent
}

/** It serves again, but a person may still ask why it failed. */
export function withEarlierCrash(): FakeAgent {
  const { crash } = crashing
  const agent = withServices([{ ...ready, ...(crash && { crash: { ...crash, failures: 0 } }) }])()
  agent.known.server = { crashLines: output.lines.slice(0, 5).concat('error loading model') }
  return agent
}

/** Of a server that was restarted after it had failed. */
export function withEarlierRun(): FakeAgent {
  const agent = withServices([ready])()
  const fileId = 'run-1'
  const lines = [...output.lines.slice(0, 5), 'ggml_metal_init: error: failed to allocate buffer, size = 2048.00 MiB']
  const place = { start: { fileId, offset: 0 }, end: { fileId, offset: 900 } }
  agent.logs.previous = { lines, ...place, file: '/Users/me/Library/Application Support/Metalbar/runs/1/output.log' }
  return agent
}

export function withModels(): FakeAgent {
  const agent = new FakeAgent(
    sampleSnapshot({
      services: [ready],
      downloads: [
        {
          ...{ name: 'qwen3-30b-a3b', source: 'hf://Qwen/Qwen3-30B-A3B-GGUF', state: 'downloading' },
          ...{
            message: 'Downloading hf://Qwen/Qwen3-30B-A3B-GGUF.',
            since: '2026-01-02T03:02:05.000Z',
            progress: figures.fetching.progress,
          },
        } as const,
      ],
    }),
  )
  const file = { files: 1, completedAt: '2026-01-01T03:04:05.000Z' } as const
  agent.known.models = {
    directory: '/Users/me/Library/Application Support/Metalbar/models',
    freeBytes: 412 * gigabyte,
    reserveBytes: 2 * gigabyte,
    models: [
      {
        ...{ ...file, name: 'phi-4-mini-q4', source: 'hf://microsoft/phi-4-mini', state: 'complete', path: '/m/1' },
        ...{ sizeBytes: 8.2 * gigabyte, usedBy: ['default/phi-4-mini'], lastUsedAt: '2026-01-02T02:04:05.000Z' },
        ...{ architecture: 'phi3', quantization: 'Q4_K_M', contextLength: 131_072 },
      } as const,
      {
        ...{ ...file, name: 'smollm-360m', source: 'https://example.com/smollm.gguf', state: 'complete', path: '/m/2' },
        ...{ sizeBytes: 0.4 * gigabyte, usedBy: [], prunable: 'no service uses it' },
      },
      {
        ...file,
        name: '',
        source: '',
        state: 'partial',
        path: '/m/3',
        sizeBytes: 1e9,
        usedBy: [],
        prunable: 'a partial download that was not continued for 8 days',
      },
    ] as const satisfies StoredModelView[],
  }
  return agent
}

/** Beside others that are there. */
const out: ServiceView = { ...evicted, name: 'phi-3-medium' }

export function withHistory(): FakeAgent {
  const agent = withServices([...every, out])()
  const service = { namespace: 'default', name: 'phi-4-mini' }
  const evictedOne = { namespace: 'default', name: out.name }
  const entry = (id: number, at: string, kind: HistoryEntry['kind'], message: string, of?: typeof service) => ({
    ...{ id, at, kind, message },
    ...(of && { service: of }),
  })
  agent.show({ ...agent.shown, newestHistoryId: 9 })
  agent.known.history = {
    entries: [
      entry(9, '2026-01-02T03:04:00.000Z', 'ready', 'It serves requests after 4.2 s.', service),
      entry(8, '2026-01-02T03:03:56.000Z', 'started', 'Process 4711.', service),
      entry(
        7,
        '2026-01-02T03:01:00.000Z',
        'crashed',
        'llama-server ended by SIGKILL: the system was out of memory.',
        service,
      ),
      entry(6, '2026-01-01T21:01:00.000Z', 'evicted', 'Memory was critically short; 8.1 GB came back.', evictedOne),
      {
        ...entry(
          5,
          '2026-01-01T20:01:00.000Z',
          'settingsChanged',
          'Set by a person: drain-timeout is set and takes effect for servers that start after it.',
        ),
        settings: { drainLimitMs: 45_000 },
        undo: { name: 'updateSettings', settings: { drainLimitMs: 30_000 } },
      },
      entry(4, '2026-01-01T20:00:00.000Z', 'agentStarted', 'Agent 1.2.3 started.'),
    ],
    hasMore: true,
  }
  return agent
}

const person = { name: 'me', id: 501 }

const startedWith = {
  stateDir: '/Users/me/Library/Application Support/Metalbar',
  portRange: { from: 30_000, to: 30_099 },
  inferenceServiceAllowlist: ['phi-4-mini', 'qwen3-30b-a3b'],
  givenByFlags: ['portRange', 'inferenceServiceAllowlist'],
}

/** As the app hosts it: a file stands in place of flags. */
export function withStartFile(): FakeAgent {
  const agent = withSettings()
  const { settings = [] } = agent.known.settings ?? {}
  const path = `${startedWith.stateDir}/start-settings.json`
  const states = ['ingressPort', 'hostIp', 'drainLimitMs'] as const
  const stated = { ...{ ingressPort: 9_444, hostIp: '192.168.1.20' }, startFile: { path, states } }
  agent.known.settings = {
    settings: settings.map((view) =>
      view.name === 'drainLimitMs' ? { ...view, value: 45_000, from: 'startFile' } : view,
    ),
    start: startViews(agentSettings.parse({ stateDir: startedWith.stateDir, modelStore: '/models', ...stated }), {}),
    startFile: path,
  }
  agent.known.hubLogin = {
    tokenSource: 'none',
    problem: "The Hub's token file /Users/me/token cannot be read (EACCES).",
  }
  agent.known.powerRule = {
    ...{ state: 'different', file: fragmentFile(person), rule: fragmentFor(person) },
    message: "LLMKube's rule is too wide: it lets this user run powermetrics as root with any option.",
  }
  return agent
}

export function withSettings(): FakeAgent {
  const agent = withServices([ready])()
  const directory = '/Users/me/Library/Application Support/Metalbar/models'
  agent.known.models = { directory, freeBytes: 412 * gigabyte, reserveBytes: 2 * gigabyte, models: [] }
  agent.known.contexts = {
    kubeconfig: '/Users/me/.kube/config',
    contexts: [
      { name: 'lab', server: 'https://10.0.0.1:6443', inUse: true, isDefault: true },
      { name: 'prod-eu', server: 'https://prod.example.com', inUse: false, isDefault: false },
    ],
  }
  agent.known.runtimes = {
    runtimes: [
      { name: 'llama-server', formats: ['gguf'], path: '/opt/homebrew/bin/llama-server', version: '6500 (0e6fdc9a)' },
    ],
  }
  agent.known.hostAddresses = {
    automatic: true,
    message: '192.168.1.20: the address of en0, by which the cluster is reached.',
    addresses: [
      { address: '192.168.1.20', interface: 'en0', inUse: true },
      { address: '100.64.0.10', interface: 'utun4', inUse: false },
      { address: '169.254.7.7', interface: 'en5', inUse: false, unfit: 'It is an address without a router.' },
    ],
  }
  agent.known.settings = {
    settings: settingNames.map((name): SettingView => {
      const row: EditableRow = editableRows[name]
      const value = typeof row.default === 'object' ? null : (row.default ?? null)
      if (name === 'memoryFraction') return { name, value: 0.8, from: 'person' }
      return { name, value, from: name === 'logLevel' ? 'flag' : 'default' }
    }),
    start: startViews(agentSettings.parse({ ...startedWith, modelStore: directory }), {}),
  }
  agent.known.hubLogin = { tokenSource: 'environment', where: 'HF_TOKEN' }
  agent.known.powerRule = { state: 'missing', file: fragmentFile(person), rule: fragmentFor(person) }
  return agent
}

/** Runtimes that are here and that are not. */
export function withRuntimes(): FakeAgent {
  const agent = withSettings()
  agent.known.runtimes = {
    runtimes: [
      {
        ...{ name: 'llama-server', formats: ['gguf'], path: '/opt/homebrew/bin/llama-server' },
        version: '6500 (0e6fdc9a)',
      },
      {
        ...{ name: 'mlx-lm', formats: ['mlx', 'safetensors'], install: "uv tool install 'mlx-lm>=0.32.2'" },
        message: 'mlx_lm.server is not installed here: install mlx-lm with "brew install mlx-lm".',
      },
      { name: 'ollama', formats: ['gguf'], message: 'Ollama does not run at 127.0.0.1:11434.' },
    ],
  }
  return agent
}
