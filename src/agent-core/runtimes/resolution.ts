import { createHash } from 'node:crypto'

/** On the InferenceService: which runtime serves it on this Mac. The CRD's own field cannot name most of them. */
export const runtimeAnnotation = 'metalbar.dev/runtime'

export interface RuntimeInput {
  readonly annotation?: string | undefined
  /** `spec.runtime`. */
  readonly specRuntime?: string | undefined
  /** `Model.spec.format`; empty counts as gguf. */
  readonly modelFormat?: string | undefined
  /** `--runtime`. */
  readonly flag?: string | undefined
}

/** A refusal waits for a change of its inputs: trying again would not help. */
export type RuntimeResolution =
  | { readonly kind: 'runtime'; readonly runtime: 'llama-server' }
  | {
      readonly kind: 'refused'
      readonly cause: 'unknown' | 'notAvailableYet' | 'formatMismatch'
      readonly message: string
    }

/** LLMKube's schema fills this in by default: for a Model that llama.cpp cannot read it does not count as a choice. */
const schemaDefault = 'llamacpp'

const aliases = new Map([
  ['llama-server', 'llama-server'],
  ['llamacpp', 'llama-server'],
])
const laterRuntimes = ['omlx', 'ollama', 'vllm-swift', 'mlx-server']
const mlxRuntimes = ['omlx', 'vllm-swift', 'mlx-server']

export function resolveRuntime({ annotation, specRuntime, modelFormat, flag }: RuntimeInput): RuntimeResolution {
  const format = modelFormat === undefined || modelFormat === '' ? 'gguf' : modelFormat.toLowerCase()
  const { name, from } = chosen(annotation, specRuntime, flag, format)

  if (laterRuntimes.includes(name)) {
    return refused(
      'notAvailableYet',
      `The runtime "${name}" (${from}) is not available yet: this agent runs llama-server, so use that with a GGUF model.`,
    )
  }
  if (!aliases.has(name)) {
    return refused(
      'unknown',
      `The runtime "${name}" (${from}) does not run on this machine: use llama-server, or correct the name.`,
    )
  }
  if (format === 'mlx') {
    return refused(
      'formatMismatch',
      `The runtime "${name}" (${from}) cannot serve a Model of format "mlx": use a GGUF model; runtimes for MLX are not available yet.`,
    )
  }
  return { kind: 'runtime', runtime: 'llama-server' }
}

interface Choice {
  readonly name: string
  readonly from: string
}

function chosen(
  annotation: string | undefined,
  specRuntime: string | undefined,
  flag: string | undefined,
  format: string,
): Choice {
  if (annotation) return { name: annotation.trim(), from: `annotation ${runtimeAnnotation}` }
  const flagFits = flag !== undefined && format === 'mlx' && mlxRuntimes.includes(flag)
  if (specRuntime && !(specRuntime === schemaDefault && flagFits)) return { name: specRuntime, from: 'spec.runtime' }
  if (flag) return { name: flag, from: '--runtime' }
  return { name: 'llama-server', from: 'the default' }
}

const refused = (
  cause: Extract<RuntimeResolution, { kind: 'refused' }>['cause'],
  message: string,
): RuntimeResolution => ({ kind: 'refused', cause, message })

export interface ServingInput {
  readonly executable: string
  readonly argv: (port: number) => readonly string[]
  /** What the service adds to the environment. */
  readonly env: Readonly<Record<string, string>>
  /** Where the model comes from: the file may keep its path when its source changes. */
  readonly modelSource: string
}

/** Which port a server got is no reason to restart it. */
const anyPort = 0

/**
 * SHA-256 (hex) over everything that reaches the process or its model, and nothing else: as long as it stays the same, no change
 * of the objects restarts the server.
 */
export function servingDigest({ executable, argv, env, modelSource }: ServingInput): string {
  const variables = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([executable, argv(anyPort), variables, modelSource]))
    .digest('hex')
}
