import { createHash } from 'node:crypto'
import { type ServerRuntime, serverRuntimes } from '../servers/probe.ts'
import type { Runtime } from './runtime.ts'
import { runtimes } from './runtimes.ts'

/** On the InferenceService: which runtime serves it on this Mac. The CRD's own field cannot name most of them. */
export const runtimeAnnotation = 'metalbar.dev/runtime'

export interface RuntimeInput {
  readonly annotation?: string | undefined
  /** `spec.runtime`. */
  readonly specRuntime?: string | undefined
  /** `Model.spec.format`; empty counts as gguf. */
  readonly modelFormat?: string | undefined
  /** The source of the Model is Ollama's library. */
  readonly isOfOllama?: boolean
  /** `--runtime`, where a person gave it. */
  readonly flag?: string | undefined
  /** `--runtimes`: what this machine offers, in the order of preference; absent = all. */
  readonly offered?: readonly ServerRuntime[] | undefined
  /** What of that was found here. */
  readonly installed?: readonly ServerRuntime[] | undefined
  /** What of that does not answer as it should: chosen by the format where no other is here. */
  readonly unverified?: ReadonlyMap<ServerRuntime, string> | undefined
  /** The runtime of the service's own server. */
  readonly running?: ServerRuntime | undefined
}

/** A refusal waits for a change of its inputs: trying again would not help. */
export type RuntimeResolution =
  | {
      readonly kind: 'runtime'
      readonly runtime: ServerRuntime
      /** What decided, such as "spec.runtime". */
      readonly from: string
      /** Why it may not serve: a sentence. */
      readonly doubt?: string
    }
  | {
      readonly kind: 'refused'
      readonly cause: 'unknown' | 'notOffered' | 'formatMismatch'
      readonly message: string
    }

/** LLMKube's schema fills this in by default: it counts as a choice only where nothing else was said and llama.cpp can read the Model. */
const schemaDefault = 'llamacpp'

const all: readonly Runtime[] = Object.values(runtimes)
const names: ReadonlyMap<string, ServerRuntime> = new Map(
  all.flatMap(({ name, aliases }) => [name, ...aliases].map((one) => [one, name])),
)

/** The annotation, else `spec.runtime`, else `--runtime`, else what the format of the Model needs. */
export function resolveRuntime(input: RuntimeInput): RuntimeResolution {
  const { modelFormat = '', offered = serverRuntimes } = input
  const format = modelFormat === '' ? 'gguf' : modelFormat.toLowerCase()
  const { name, from, doubt } = chosen(input, format, offered)
  const choice = `The runtime "${name}" (${from})`

  const runtime = names.get(name)
  if (runtime === undefined) {
    return refused('unknown', `${choice} does not run on this machine: use ${listed(offered)}, or correct the name.`)
  }
  if (!offered.includes(runtime)) {
    return refused(
      'notOffered',
      `${choice} is not offered by this machine, which offers ${listed(offered)} (--runtimes).`,
    )
  }
  if (!serves(runtime, format)) {
    const other = all.find((one) => serves(one.name, format))?.name ?? 'llama-server'
    return refused(
      'formatMismatch',
      `${choice} cannot serve a Model of format "${format}": ${from === '--runtime' ? 'leave --runtime out' : 'leave the runtime to the format'} or choose ${other}, or use a Model of another format.`,
    )
  }
  return { kind: 'runtime', runtime, from, ...(doubt !== undefined && { doubt }) }
}

const listed = (runtimes: readonly string[]): string =>
  [runtimes.slice(0, -1).join(', '), ...runtimes.slice(-1)].filter((part) => part !== '').join(' or ')

function serves(runtime: ServerRuntime, format: string): boolean {
  const { formats }: Pick<Runtime, 'formats'> = runtimes[runtime]
  if (formats !== 'any') return formats.includes(format)
  return format === 'gguf' || !all.some((other) => other.formats !== 'any' && other.formats.includes(format))
}

interface Choice {
  readonly name: string
  readonly from: string
  readonly doubt?: string | undefined
}

function chosen(
  { annotation, specRuntime, flag, installed = [], unverified = new Map(), running, isOfOllama = false }: RuntimeInput,
  format: string,
  offered: readonly ServerRuntime[],
): Choice {
  if (annotation) return { name: annotation.trim(), from: `annotation ${runtimeAnnotation}` }
  const isFlagUsable = flag !== undefined && names.has(flag)
  const isMeantForOther = isOfOllama || !serves('llama-server', format)
  const isDefault = specRuntime === schemaDefault && (isFlagUsable || isMeantForOther)
  if (specRuntime && !isDefault) return { name: specRuntime, from: 'spec.runtime' }
  if (flag) return { name: flag, from: '--runtime' }
  if (isOfOllama && offered.includes('ollama')) return { name: 'ollama', from: 'the source of its Model' }
  // A daemon serves what was meant for it.
  const able = [...offered, ...serverRuntimes].filter((one) => runtimes[one].kind === 'process' && serves(one, format))
  const here = able.filter((one) => offered.includes(one))
  // Another one that is installed later replaces no server that runs.
  const stays = here.find((one) => one === running)
  const found = here.filter((one) => installed.includes(one))
  const name = stays ?? found.find((one) => !unverified.has(one)) ?? found[0] ?? able[0] ?? 'llama-server'
  return { name, from: `the format ${format} of its Model`, doubt: stays ? undefined : unverified.get(name) }
}

const refused = (
  cause: Extract<RuntimeResolution, { kind: 'refused' }>['cause'],
  message: string,
): RuntimeResolution => ({ kind: 'refused', cause, message })

export interface ServingInput {
  readonly runtime: ServerRuntime
  readonly argv: (port: number) => readonly string[]
  /** What the service adds to the environment. */
  readonly env: Readonly<Record<string, string>>
  /** Where the model comes from: the file may keep its path when its source changes. */
  readonly modelSource: string
}

/** Whether the digest of a server is the serving digest `base`, with whatever content of its model. */
export const isBasedOn = (digest: string, base: string): boolean => digest === base || digest.startsWith(`${base}+`)

/** Which port a server got is no reason to restart it. */
const anyPort = 0

/**
 * SHA-256 (hex) over everything that reaches the process or its model, and nothing else: as long as it stays the same, no change
 * of the objects restarts the server.
 */
export function servingDigest({ runtime, argv, env, modelSource }: ServingInput): string {
  const variables = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([runtime, argv(anyPort), variables, modelSource]))
    .digest('hex')
}
