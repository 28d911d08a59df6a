import { expect, test } from 'vitest'
import { inferenceServiceSpec, modelSpec, parseInferenceService } from '../../../src/agent-core/kube/resources.ts'
import { chooseRuntime } from '../../../src/agent-core/reconcile/runtime-choice.ts'
import { llamaServerArgv, type LlamaServerSpec } from '../../../src/agent-core/runtimes/llama-server.ts'
import { resolveRuntime, type RuntimeInput, servingDigest } from '../../../src/agent-core/runtimes/resolution.ts'

const by = (runtime: string, from: string) => ({ kind: 'runtime', runtime, from })
const refused = (cause: string, message: string) => ({ kind: 'refused', cause, message })
const byAnnotation = 'annotation metalbar.dev/runtime'
const gguf = 'the format gguf of its Model'
const unverified = new Map([['mlx-lm', 'It hangs.'] as const])

test.each<[string, RuntimeInput, unknown]>([
  ['nothing said', {}, by('llama-server', gguf)],
  ['an empty format is gguf', { modelFormat: '' }, by('llama-server', gguf)],
  ['an MLX model', { modelFormat: 'MLX' }, by('mlx-lm', 'the format mlx of its Model')],
  ['safetensors', { modelFormat: 'safetensors' }, by('mlx-lm', 'the format safetensors of its Model')],
  ['custom formats pass', { modelFormat: 'custom' }, by('llama-server', 'the format custom of its Model')],
  ['the schema’s default with a model of llama.cpp', { specRuntime: 'llamacpp' }, by('llama-server', 'spec.runtime')],
  [
    'the schema’s default with an MLX model is no choice',
    { specRuntime: 'llamacpp', modelFormat: 'mlx' },
    by('mlx-lm', 'the format mlx of its Model'),
  ],
  [
    '--runtime that a person gave wins over the schema’s default',
    { specRuntime: 'llamacpp', flag: 'mlx-lm' },
    refused(
      'formatMismatch',
      'The runtime "mlx-lm" (--runtime) cannot serve a Model of format "gguf": leave --runtime out or choose llama-server, or use a Model of another format.',
    ),
  ],
  ['the Go agent’s key', { specRuntime: 'llama-server', flag: 'mlx-lm' }, by('llama-server', 'spec.runtime')],
  [
    'an annotation wins over all',
    { annotation: 'mlx-lm', specRuntime: 'ollama', flag: 'omlx', modelFormat: 'mlx' },
    by('mlx-lm', byAnnotation),
  ],
  ['--runtime alone', { flag: 'mlx-lm', modelFormat: 'mlx' }, by('mlx-lm', '--runtime')],
  ['a daemon, by who names it', { annotation: 'ollama', specRuntime: 'llamacpp' }, by('ollama', byAnnotation)],
  ['or by --runtime', { specRuntime: 'llamacpp', flag: 'ollama' }, by('ollama', '--runtime')],
  ['which is omlx for an MLX model', { flag: 'omlx', modelFormat: 'mlx' }, by('omlx', '--runtime')],
  [
    'and never by the format, however it is offered and whatever else is there',
    { offered: ['ollama', 'llama-server'], installed: ['ollama'], running: 'ollama' },
    by('llama-server', gguf),
  ],
  [
    'also of an MLX model',
    { offered: ['omlx', 'mlx-lm'], installed: ['omlx'], running: 'omlx', modelFormat: 'mlx' },
    by('mlx-lm', 'the format mlx of its Model'),
  ],
  [
    'nor for an MLX model',
    { annotation: 'ollama', modelFormat: 'mlx' },
    refused(
      'formatMismatch',
      'The runtime "ollama" (annotation metalbar.dev/runtime) cannot serve a Model of format "mlx": leave the runtime to the format or choose mlx-lm, or use a Model of another format.',
    ),
  ],
  [
    'or by the source of the Model, also over the schema’s default',
    { isOfOllama: true, specRuntime: 'llamacpp' },
    by('ollama', 'the source of its Model'),
  ],
  [
    'which may be served by another that is named',
    { isOfOllama: true, annotation: 'llama-server' },
    by('llama-server', byAnnotation),
  ],
  [
    'or where no Ollama is offered',
    { isOfOllama: true, specRuntime: 'llamacpp', offered: ['llama-server'] },
    by('llama-server', gguf),
  ],
  [
    'mlx-server is chosen by who names it',
    { annotation: 'mlx-server', modelFormat: 'mlx' },
    by('mlx-server', byAnnotation),
  ],
  [
    'or by who has no other one that serves its format',
    { modelFormat: 'mlx', installed: ['llama-server', 'mlx-server'] },
    by('mlx-server', 'the format mlx of its Model'),
  ],
  [
    'one that does not answer as it should is left out while another is here',
    { modelFormat: 'mlx', installed: ['mlx-lm', 'mlx-server'], unverified },
    by('mlx-server', 'the format mlx of its Model'),
  ],
  [
    'and is chosen, with what is wrong with it, where it is the only one',
    { modelFormat: 'mlx', installed: ['mlx-lm'], unverified },
    { ...by('mlx-lm', 'the format mlx of its Model'), doubt: 'It hangs.' },
  ],
  [
    'or where it is named',
    { annotation: 'mlx-lm', modelFormat: 'mlx', installed: ['mlx-lm', 'mlx-server'], unverified },
    by('mlx-lm', 'annotation metalbar.dev/runtime'),
  ],
  [
    'or where it runs',
    { modelFormat: 'mlx', installed: ['mlx-lm', 'mlx-server'], unverified, running: 'mlx-lm' },
    by('mlx-lm', 'the format mlx of its Model'),
  ],
  [
    'and stays where it runs when another one is installed',
    { modelFormat: 'mlx', installed: ['mlx-lm', 'mlx-server'], running: 'mlx-server' },
    by('mlx-server', 'the format mlx of its Model'),
  ],
  [
    'unless it is offered no longer',
    { modelFormat: 'mlx', offered: ['mlx-lm'], installed: ['mlx-lm', 'mlx-server'], running: 'mlx-server' },
    by('mlx-lm', 'the format mlx of its Model'),
  ],
  [
    'of what is installed, what is not offered is not chosen',
    { modelFormat: 'mlx', offered: ['mlx-lm'], installed: ['mlx-server'] },
    by('mlx-lm', 'the format mlx of its Model'),
  ],
  [
    'or by who offers it first',
    { specRuntime: 'llamacpp', modelFormat: 'mlx', offered: ['vllm-swift', 'mlx-lm'] },
    by('vllm-swift', 'the format mlx of its Model'),
  ],
  [
    'and falls back to no other',
    { annotation: 'mlx-server', modelFormat: 'mlx', offered: ['mlx-lm', 'vllm-swift'] },
    refused(
      'notOffered',
      'The runtime "mlx-server" (annotation metalbar.dev/runtime) is not offered by this machine, which offers mlx-lm or vllm-swift (--runtimes).',
    ),
  ],
  [
    'llama-server for an MLX model',
    { specRuntime: 'llama-server', modelFormat: 'mlx' },
    refused(
      'formatMismatch',
      'The runtime "llama-server" (spec.runtime) cannot serve a Model of format "mlx": leave the runtime to the format or choose mlx-lm, or use a Model of another format.',
    ),
  ],
  [
    'mlx-lm for a GGUF model',
    { annotation: 'mlx-lm' },
    refused(
      'formatMismatch',
      'The runtime "mlx-lm" (annotation metalbar.dev/runtime) cannot serve a Model of format "gguf": leave the runtime to the format or choose llama-server, or use a Model of another format.',
    ),
  ],
  [
    'what this machine does not offer',
    { modelFormat: 'mlx', offered: ['llama-server'] },
    refused(
      'notOffered',
      'The runtime "mlx-lm" (the format mlx of its Model) is not offered by this machine, which offers llama-server (--runtimes).',
    ),
  ],
  [
    'a runtime of pods',
    { specRuntime: 'vllm' },
    refused(
      'unknown',
      'The runtime "vllm" (spec.runtime) does not run on this machine: use llama-server, mlx-lm, mlx-server, vllm-swift, tensorfold, ollama or omlx, or correct the name.',
    ),
  ],
  [
    'a typo',
    { annotation: 'lama-server' },
    refused(
      'unknown',
      'The runtime "lama-server" (annotation metalbar.dev/runtime) does not run on this machine: use llama-server, mlx-lm, mlx-server, vllm-swift, tensorfold, ollama or omlx, or correct the name.',
    ),
  ],
])('%s', (_, input, expected) => {
  expect(resolveRuntime(input)).toEqual(expected)
})

interface Change {
  readonly spec?: LlamaServerSpec
  readonly env?: Record<string, string>
  readonly modelSource?: string
  readonly modelPath?: string
}

const digest = ({
  spec = {},
  env = { A: '1', B: '2' },
  modelSource = 'https://example.test/m.gguf',
  modelPath = '/store/m/m.gguf',
}: Change = {}) =>
  servingDigest({
    runtime: 'llama-server',
    argv: (port) => llamaServerArgv({ spec, modelPath, port }),
    env,
    modelSource,
  })

test.each<[string, Change]>([
  ['replicas 1 → 2', { spec: { replicas: 2 } }],
  ['another priority', { spec: { priority: 'high' } }],
  ['a default written out', { spec: { contextSize: 2048, flashAttention: true, mode: 'chat' } }],
  ['variables in another order', { env: { B: '2', A: '1' } }],
])('%s restarts nothing', (_, change) => {
  expect(digest(change)).toBe(digest())
})

test.each<[string, Change]>([
  ['a context size', { spec: { contextSize: 4096 } }],
  ['rope scaling', { spec: { ropeScaling: { type: 'yarn' } } }],
  ['an extra argument', { spec: { extraArgs: ['--seed', '1'] } }],
  ['arguments that only differ in where they are split', { spec: { extraArgs: ['--seed 1'] } }],
  ['a variable', { env: { A: '1' } }],
  ['another source of the model', { modelSource: 'https://example.test/other.gguf' }],
  ['another file', { modelPath: '/store/m/other.gguf' }],
])('%s is a reason to restart', (_, change) => {
  const digests = [digest(change), digest(), digest({ spec: { extraArgs: ['--seed', '2'] } })]
  expect(new Set(digests).size).toBe(3)
})

const everyField = {
  contextSize: 8192,
  ropeScaling: { type: 'yarn', factor: '4.0', originalContext: 32_768 },
  parallelSlots: 2,
  flashAttention: false,
  jinja: true,
  cacheTypeK: 'q8_0',
  cacheTypeCustomV: 'q4_0',
  moeCPUOffload: true,
  moeCPULayers: 3,
  noKvOffload: true,
  noWarmup: true,
  reasoningBudget: 64,
  reasoningBudgetMessage: 'enough',
  metadataOverrides: ['a=int:1'],
  tensorOverrides: ['exps=CPU', 'exps=CPU'],
  batchSize: 512,
  uBatchSize: 256,
  mode: 'rerank',
  env: [{ name: 'OMP_NUM_THREADS', value: '4' }],
}
const extraArgs = ['--metrics', '--alias', 'mine', '--lora', '/store/a.gguf', '--pooling', 'mean']

test('a service is told what is wrong with the only runtime that is there for it', () => {
  const service = parseInferenceService({
    metadata: { name: 'a', namespace: 'ns', uid: 'a', resourceVersion: '1' },
    spec: {},
  })
  const choose = chooseRuntime({
    ...{ defaultRuntime: undefined, performanceCores: undefined },
    ...{ installed: () => ['mlx-lm'], unverified: () => unverified },
    policy: { allowsUnsafe: false, modelRoots: [], allowedEnv: [] },
  })
  const model = modelSpec.parse({ source: 'hf://org/mlx', format: 'mlx' })
  expect(
    [{}, { running: 'mlx-lm' } as const].map((facts) => choose(service, service.spec.value, model, facts)),
  ).toEqual([
    expect.objectContaining({ runtime: 'mlx-lm', notice: 'It hangs.' }),
    expect.not.objectContaining({ notice: expect.anything() as unknown }),
  ])
})

// Where one changes, an update restarts the servers of everybody: what is
// added to a command line is left out of the digest instead.
test.each<[string, object, string]>([
  ['that says nothing', {}, 'ddec590bdee4092ce1dfdd299a97e39623b1ff7939c63b917bdc8af578937ce1'],
  ['with every field', everyField, '08f1db1401ae82133d51e6a5eb77ae7e515385f04d682d1d02dd323b7d6e75a0'],
  [
    'with arguments of its own',
    { mode: 'embedding', extraArgs },
    'e35dc1b52cc017f7bba8a213d1e3af68c1935120fc04fe98b5ea494340a20d12',
  ],
])('a spec %s has the digest that the ledger of a running server names', (_, spec, recorded) => {
  const policy = { allowsUnsafe: true, modelRoots: [], allowedEnv: [] }
  const choose = chooseRuntime({
    defaultRuntime: undefined,
    performanceCores: 8,
    policy,
  })
  const model = modelSpec.parse({ source: 'https://example.test/m.gguf', hardware: { gpu: { layers: 20 } } })
  const choice = choose(
    { metadata: { annotations: {} } } as Parameters<typeof choose>[0],
    inferenceServiceSpec.parse({ modelRef: 'qwen', ...spec }),
    model,
  )
  expect(choice).toMatchObject({ ok: true, digest: recorded })
})
