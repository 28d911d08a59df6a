import type { NodeFacts } from '../../../src/agent-core/publishing/lease-content.ts'

/** A Mac that serves one of its two models. */
export const nodeFacts: NodeFacts = {
  displayName: 'mac',
  agentVersion: '0.9.0',
  runtimes: [
    { name: 'llama-server', formats: ['gguf'], path: '/opt/homebrew/bin/llama-server', version: '6500' },
    { name: 'mlx-lm', formats: ['mlx', 'safetensors'], message: 'mlx-lm is not installed here.' },
  ],
  budgetBytes: 96 * 1024 ** 3,
  availableBytes: 40 * 1024 ** 3 + 12_345,
  models: [
    { name: 'qwen3-4b', digest: `sha256:${'a'.repeat(64)}`, sizeBytes: 2_500_000_000 },
    { name: 'gemma', digest: `files:${'b'.repeat(64)}`, sizeBytes: 9_000_000_000 },
  ],
  modelsServed: 1,
  load: 0.256,
  watts: 31.4,
  paused: false,
}

/** As much as there can be of everything. */
export const crowdedFacts: NodeFacts = {
  ...nodeFacts,
  displayName: 'ä"'.repeat(200),
  agentVersion: '"'.repeat(500),
  runtimes: Array.from({ length: 12 }, (_, index) => ({
    ...{ name: `runtime-${index}`, path: '/x', formats: ['gguf', 'mlx', 'safetensors'], version: '"'.repeat(100) },
  })),
  models: Array.from({ length: 5_000 }, (_, index) => ({
    name: `${index}-`.padEnd(253, 'n'),
    digest: `sha256:${'a'.repeat(64)}`,
    sizeBytes: Number.MAX_SAFE_INTEGER,
  })),
}
