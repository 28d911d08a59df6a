import { expect, test } from 'vitest'
import { resolveRuntime, type RuntimeInput } from '../../../src/agent-core/runtimes/resolution.ts'

const llamaServer = { kind: 'runtime', runtime: 'llama-server' }
const refused = (cause: string, message: string) => ({ kind: 'refused', cause, message })
const notYet = (runtime: string, from: string) =>
  refused(
    'notAvailableYet',
    `The runtime "${runtime}" (${from}) is not available yet: this agent runs llama-server, so use that with a GGUF model.`,
  )

test.each<[string, RuntimeInput, unknown]>([
  ['nothing said', {}, llamaServer],
  ['the schema’s default', { specRuntime: 'llamacpp', modelFormat: 'gguf' }, llamaServer],
  [
    'the schema’s default wins over --runtime where the format fits',
    { specRuntime: 'llamacpp', flag: 'ollama' },
    llamaServer,
  ],
  ['the Go agent’s key', { specRuntime: 'llama-server' }, llamaServer],
  ['an annotation wins over all', { annotation: 'llama-server', specRuntime: 'ollama', flag: 'omlx' }, llamaServer],
  ['safetensors pass', { modelFormat: 'safetensors' }, llamaServer],
  ['custom formats pass', { modelFormat: 'custom' }, llamaServer],
  ['an empty format is gguf', { modelFormat: '' }, llamaServer],
  [
    'a runtime to come, by annotation',
    { annotation: 'mlx-server' },
    notYet('mlx-server', 'annotation metalbar.dev/runtime'),
  ],
  ['a runtime to come, by flag', { flag: 'ollama' }, notYet('ollama', '--runtime')],
  [
    '--runtime decides for an mlx Model the schema gave llamacpp',
    { specRuntime: 'llamacpp', modelFormat: 'mlx', flag: 'omlx' },
    notYet('omlx', '--runtime'),
  ],
  [
    'mlx with llama-server',
    { specRuntime: 'llamacpp', modelFormat: 'mlx' },
    refused(
      'formatMismatch',
      'The runtime "llamacpp" (spec.runtime) cannot serve a Model of format "mlx": use a GGUF model; runtimes for MLX are not available yet.',
    ),
  ],
  [
    'a runtime of pods',
    { specRuntime: 'vllm' },
    refused(
      'unknown',
      'The runtime "vllm" (spec.runtime) does not run on this machine: use llama-server, or correct the name.',
    ),
  ],
  [
    'a typo',
    { annotation: 'lama-server' },
    refused(
      'unknown',
      'The runtime "lama-server" (annotation metalbar.dev/runtime) does not run on this machine: use llama-server, or correct the name.',
    ),
  ],
])('%s', (_, input, expected) => {
  expect(resolveRuntime(input)).toEqual(expected)
})
