import { expect, test } from 'vitest'
import { llamaServerArgv, type LlamaServerSpec } from '../../../src/agent-core/runtimes/llama-server.ts'
import { servingDigest } from '../../../src/agent-core/runtimes/serving-digest.ts'

interface Change {
  readonly spec?: LlamaServerSpec & { replicas?: number; priority?: string }
  readonly executable?: string
  readonly env?: Record<string, string>
  readonly modelSource?: string
  readonly modelPath?: string
}

const digest = ({
  spec = {},
  executable = '/bin/llama-server',
  env = { A: '1', B: '2' },
  modelSource = 'https://example.test/m.gguf',
  modelPath = '/store/m/m.gguf',
}: Change = {}) =>
  servingDigest({ executable, argv: (port) => llamaServerArgv({ spec, modelPath, port }), env, modelSource })

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
  ['another executable', { executable: '/usr/local/bin/llama-server' }],
  ['a variable', { env: { A: '1' } }],
  ['another source of the model', { modelSource: 'https://example.test/other.gguf' }],
  ['another file', { modelPath: '/store/m/other.gguf' }],
])('%s is a reason to restart', (_, change) => {
  const digests = [digest(change), digest(), digest({ spec: { extraArgs: ['--seed', '2'] } })]
  expect(new Set(digests).size).toBe(3)
})
