import { expect, test } from 'vitest'
import { inferenceServiceSpec, modelSpec } from '../../../src/agent-core/kube/resources.ts'
import { specRefusal } from '../../../src/agent-core/reconcile/runtime-choice.ts'
import { judgeVariable } from '../../../src/agent-core/runtimes/environment-policy.ts'
import { mlxServerRuntime } from '../../../src/agent-core/runtimes/mlx-server.ts'
import type { ProcessRuntime } from '../../../src/agent-core/runtimes/runtime.ts'
import { vllmSwiftRuntime } from '../../../src/agent-core/runtimes/vllm-swift.ts'

const argvOf = (runtime: ProcessRuntime, fields: object, more: object = {}): string => {
  const spec = inferenceServiceSpec.parse({ modelRef: 'm', ...fields })
  return runtime.argv({ spec, model: modelSpec.parse({}), modelPath: '/m', port: 80, ...more }).join(' ')
}
const start = 'serve /m --port 80 --host 127.0.0.1'

test.each([
  [{}, `${start} --max-model-len 2048 --max-num-seqs 4`],
  [{ contextSize: 8192, parallelSlots: 1 }, `${start} --max-model-len 8192 --max-num-seqs 1`],
  [
    { cacheTypeK: 'q8_0', cacheTypeCustomK: 'turbo4v2', extraArgs: ['--seed', '1'] },
    `${start} --max-model-len 2048 --max-num-seqs 4 --additional-config {"kv_bits":4,"kv_scheme":"turbo4v2"} --seed 1`,
  ],
  [
    { cacheTypeK: 'turbo3' },
    `${start} --max-model-len 2048 --max-num-seqs 4 --additional-config {"kv_bits":3,"kv_scheme":"turbo3"}`,
  ],
  [{ cacheTypeK: 'Turbo4', cacheTypeV: 'turbo4' }, `${start} --max-model-len 2048 --max-num-seqs 4`],
  [{ cacheTypeK: 'constructor' }, `${start} --max-model-len 2048 --max-num-seqs 4`],
])(
  'of %j vllm-swift is given what LLMKube’s agent gives it, with a number of requests that was counted',
  (fields, argv) => {
    expect(argvOf(vllmSwiftRuntime, fields)).toBe(argv)
  },
)

test('clients call the model as the Model is named, unless the spec says another name', () => {
  const named = (extraArgs: readonly string[]) =>
    argvOf(vllmSwiftRuntime, { extraArgs }, { alias: 'qwen' }).split(' --max-num-seqs 4 ')[1]
  expect([named([]), named(['--served-model-name=q']), named(['--served-model-name', 'q'])]).toEqual([
    '--served-model-name qwen',
    '--served-model-name=q',
    '--served-model-name q',
  ])
})

test.each([
  [{}, '--model /m --host 0.0.0.0 --port 80'],
  [{ parallelSlots: 1 }, '--model /m --host 0.0.0.0 --port 80'],
  [
    { parallelSlots: 2, extraArgs: ['--reasoning', 'off'] },
    '--model /m --host 0.0.0.0 --port 80 --max-slots 2 --reasoning off',
  ],
])('of %j mlx-server is given what LLMKube’s agent gives it', (fields, argv) => {
  expect(argvOf(mlxServerRuntime, fields)).toBe(argv)
})

const usual = { allowsUnsafe: false, allowedEnv: [], modelRoots: ['/store'] }
const unsafe = { ...usual, allowsUnsafe: true }
const refusal = (runtime: ProcessRuntime, policy: typeof usual, ...extraArgs: string[]) =>
  specRefusal(inferenceServiceSpec.parse({ modelRef: 'm', extraArgs }), policy, runtime)

test.each([
  ['Python of others', ['--trust-remote-code'], true],
  ['Python of others, by a flag with its value', ['--worker-extension-cls=x.Y'], true],
  ['a file of further arguments', ['--config', '/store/c.yaml'], true],
  ['files of this machine', ['--allowed-local-media-path', '/'], false],
  ['memory that was not counted', ['--gpu-memory-utilization', '0.95'], false],
  ['a key that clients do not know', ['--api-key', 'k'], false],
  ['what it is not known to take', ['--new-flag'], false],
])('of a spec vllm-swift does not get %s', (_what, args, loadsCode) => {
  expect(refusal(vllmSwiftRuntime, usual, ...args)).toMatchObject({ reason: 'ExtraArgsRejected', loadsCode })
})

test.each([
  [vllmSwiftRuntime, ['--host=0.0.0.0']],
  [vllmSwiftRuntime, ['--por', '1']],
  [vllmSwiftRuntime, ['--uds', '/tmp/s']],
  [vllmSwiftRuntime, ['--max_num_seqs', '64']],
  [mlxServerRuntime, ['--host', '0.0.0.0']],
  [mlxServerRuntime, ['--model', 'org/repository']],
] as const)(
  'where it listens, what it loads and how much it holds is the agent’s also where unsafe arguments are allowed',
  (runtime, args) => {
    expect(refusal(runtime, unsafe, ...args)?.message).toMatch(/is refused: /)
  },
)

test('parsers of tools and reasoning are a spec’s to choose', () => {
  const args = ['--tool-call-parser', 'hermes', '--enable-auto-tool-choice', '--reasoning-parser', 'qwen3']
  expect([
    refusal(vllmSwiftRuntime, usual, ...args),
    refusal(mlxServerRuntime, usual, '--tool-call-format', 'json'),
  ]).toEqual([undefined, undefined])
})

test('no spec gives vLLM plug-ins, rights of a developer or adapters to load, whatever a person allows by name', () => {
  const names = ['VLLM_PLUGINS', 'VLLM_SERVER_DEV_MODE', 'VLLM_ALLOW_RUNTIME_LORA_UPDATING']
  expect(names.map((name) => judgeVariable(name, names))).toEqual(names.map(() => 'never'))
  expect(judgeVariable('VLLM_ALLOW_LONG_MAX_MODEL_LEN', [])).toBe('leftOut')
})

test.each([
  ['vllm-swift 0.6.2', false],
  ['vllm-swift 0.3.2', false],
  ['vllm-swift 1.0', false],
  ['vllm-swift 0.10', false],
  ['vllm-swift 0.3.1', true],
  ['vllm-swift 0.3', true],
  ['vllm-swift 0.2.9', true],
  ['hello', true],
])('%s is refused: %s', (answer, isRefused) => {
  expect(vllmSwiftRuntime.dialectFrom(`${answer}\nvLLM: 0.20`).problem !== undefined).toBe(isRefused)
})
