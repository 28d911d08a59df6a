import { isDeepStrictEqual } from 'node:util'
import {
  type InferenceService,
  type InferenceServiceSpec,
  type Model,
  type ModelSpec,
  unreadSpeculation,
} from '../kube/resources.ts'
import type { RuntimeChoice, SpecRefusal } from './desired.ts'
import { chooseDraft } from './draft.ts'
import { servedIdentity } from './model-request.ts'
import { type ArgumentPolicy, judgeArguments } from '../runtimes/argument-policy.ts'
import { judgeVariable, loadsCode } from '../runtimes/environment-policy.ts'
import { lacksDraftWeights, saysSpeculation, speculationOf } from '../runtimes/llama-server.ts'
import { parseModelSource } from '../models/source.ts'
import { resolveRuntime, runtimeAnnotation, servingDigest } from '../runtimes/resolution.ts'
import type { Runtime } from '../runtimes/runtime.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import type { ServerRuntime } from '../servers/probe.ts'

/** Variables of `spec.env` that carry their value, whether or not a server gets them; absent and empty are the same there. */
const statedEnvironment = ({ env }: InferenceServiceSpec): Record<string, string> =>
  Object.fromEntries(env.flatMap(({ name, value = '', valueFrom }) => (valueFrom === undefined ? [[name, value]] : [])))

/** What a server gets of them. `allowed`: `--allowed-env`. */
export const environmentOf = (spec: InferenceServiceSpec, allowed: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(statedEnvironment(spec)).filter(([name]) => judgeVariable(name, allowed) === 'passed'),
  )

interface EnvironmentRefusal {
  readonly message: string
  /** A server that was started with it may run programs for others. */
  readonly loadsCode: boolean
}

/** Undefined where every variable is one that a server may be given. */
export function environmentRefusal(spec: InferenceServiceSpec): EnvironmentRefusal | undefined {
  const names = Object.keys(statedEnvironment(spec)).filter((name) => judgeVariable(name, []) === 'never')
  if (names.length === 0) return undefined
  return {
    message: `spec.env: ${listed(names.map(shown))} can load code into the server, change where it looks for files or replace an argument, so the agent never passes it on. Remove it.`,
    loadsCode: names.some(loadsCode),
  }
}

/**
 * What of a spec a server here does not get, for a person to know. It is started without: LLMKube's Go agent passes no variables and drafts no
 * tokens, so what runs there has to run here.
 */
export function leftOutNotice(
  spec: InferenceServiceSpec,
  allowed: readonly string[],
  runtime: ServerRuntime = 'llama-server',
): string | undefined {
  const { env } = spec
  const fromPod = env.flatMap(({ name, valueFrom }) => (valueFrom === undefined ? [] : [shown(name)]))
  const notAllowed = env.flatMap(({ name, valueFrom }) =>
    valueFrom === undefined && judgeVariable(name, allowed) === 'leftOut' ? [shown(name)] : [],
  )
  const sentences = [
    ...(fromPod.length === 0
      ? []
      : [
          `It runs without ${listed(fromPod)} of spec.env, whose valueFrom only a Pod can read: give a literal value if the server needs it.`,
        ]),
    ...(notAllowed.length === 0
      ? []
      : [
          `It runs without ${listed(notAllowed)} of spec.env: this machine allows variables by name, with --allowed-env.`,
        ]),
    ...notSpeculating(spec, runtime),
    ...notSetForOne(spec, runtimes[runtime]),
  ]
  return sentences.length === 0 ? undefined : sentences.join(' ')
}

function notSetForOne(spec: InferenceServiceSpec, runtime: Runtime): string[] {
  if (runtime.kind === 'process') return []
  const { product, portFlag, settingsOfAll } = runtime
  const stated = settingsOfAll.filter(
    (name) => ![undefined, []].some((absent) => isDeepStrictEqual(spec[name], absent)),
  )
  if (stated.length === 0) return []
  return [
    `It runs without ${listed(stated.map((name) => `spec.${name}`))}: ${product} serves all its models with one set of flags, so set that in ${product} itself, on its page /admin at the port of ${portFlag}.`,
  ]
}

function notSpeculating(spec: InferenceServiceSpec, runtime: ServerRuntime): string[] {
  const { type = 'none' } = spec.speculativeDecoding ?? {}
  if (type === 'none' || type === 'disabled') return []
  if (runtime === 'llama-server' && (saysSpeculation(spec) || speculationOf(spec) !== undefined)) return []
  const why =
    type === unreadSpeculation.type
      ? ', which cannot be read: correct it'
      : runtime !== 'llama-server'
        ? ` (${shown(type)}), which only llama-server supports`
        : lacksDraftWeights(spec)
          ? ` (${shown(type)}), which names no draft weights: set its draftModelRef or draftModel`
          : ` (${shown(type)}), a type that this agent does not know`
  return [`It runs without spec.speculativeDecoding${why}. Its answers are the same, only slower.`]
}

const maxListed = 5
const maxNameLength = 60

const shown = (name: string): string => (name.length <= maxNameLength ? name : `${name.slice(0, maxNameLength)}…`)

const listed = (names: readonly string[]): string =>
  names.length <= maxListed
    ? names.join(', ')
    : `${names.slice(0, maxListed).join(', ')} and ${names.length - maxListed} more`

export interface RuntimeSettings {
  /** `--runtime`, where a person gave it. */
  readonly defaultRuntime: string | undefined
  /** `--runtimes`; absent = all. */
  readonly offered?: readonly ServerRuntime[] | undefined
  /** What of them was found here at the last look. */
  readonly installed?: () => readonly ServerRuntime[]
  /** What of that does not answer as it should, each with a sentence. */
  readonly unverified?: () => ReadonlyMap<ServerRuntime, string>
  readonly performanceCores: number | undefined
  readonly policy: SpecPolicy
}

/** What a person of this machine allows the specs of others. */
export interface SpecPolicy extends ArgumentPolicy {
  /** `--allowed-env`. */
  readonly allowedEnv: readonly string[]
}

export const chooseRuntime =
  (settings: RuntimeSettings) =>
  (
    service: InferenceService,
    spec: InferenceServiceSpec,
    model: ModelSpec,
    { running, modelNamed = () => undefined }: ChoiceFacts = {},
  ): RuntimeChoice => {
    const resolution = resolveRuntime({
      annotation: service.metadata.annotations[runtimeAnnotation],
      specRuntime: spec.runtime,
      modelFormat: model.format,
      isOfOllama: parseModelSource(model.source).kind === 'ollama',
      flag: settings.defaultRuntime,
      offered: settings.offered,
      installed: settings.installed?.(),
      unverified: settings.unverified?.(),
      running,
    })
    if (resolution.kind === 'refused') return { ok: false, message: resolution.message }
    const runtime: Runtime = runtimes[resolution.runtime]
    const { performanceCores } = settings
    const choice = chooseDraft({ runtime: runtime.name, service, spec, model, modelNamed })
    const draft = choice.kind === 'chosen' ? choice.draft : undefined
    const digest = servingDigest({
      // A program at another path counts from the next start.
      runtime: runtime.name,
      // The source stands for the file: where it lies is our own business, as is each argument that only a start adds.
      argv: (port) => runtime.argv({ spec, model, modelPath: '', port, performanceCores }),
      // Includes variables that no server gets: a change of what a person allows must not restart a running server.
      env: statedEnvironment(spec),
      modelSource: servedIdentity(model, draft),
    })
    const refusal = specRefusal(spec, settings.policy, runtime)
    if (refusal !== undefined) return { ok: false, ...refusal, digest }
    if (choice.kind === 'refused') {
      return { ok: false, reason: 'Refused', message: choice.message, loadsCode: false, digest }
    }
    if (choice.kind === 'missing' || choice.kind === 'unreadable') {
      return { ok: false, draft: choice.kind, message: choice.message }
    }
    const sentences = [resolution.doubt, leftOutNotice(spec, settings.policy.allowedEnv, runtime.name)]
    const notice = sentences.filter((sentence) => sentence !== undefined).join(' ')
    return {
      ok: true,
      runtime: runtime.name,
      runtimeFrom: resolution.from,
      digest,
      ...(draft && { draft }),
      ...(notice !== '' && { notice }),
    }
  }

interface ChoiceFacts {
  /** The runtime of the service's own server. */
  readonly running?: ServerRuntime | undefined
  /** Models of the service's namespace. */
  readonly modelNamed?: (name: string) => Model | undefined
}

/** What a spec may not ask of a server of this machine. */
export function specRefusal(
  spec: InferenceServiceSpec,
  policy: SpecPolicy,
  runtime: Runtime = runtimes['llama-server'],
): SpecRefusal | undefined {
  const isLeftOut = runtime.kind === 'daemon' && runtime.settingsOfAll.includes('extraArgs')
  const args = isLeftOut ? undefined : judgeArguments(spec.extraArgs, policy, runtime.flags)
  if (args !== undefined) return { reason: 'ExtraArgsRejected', ...args }
  const env = environmentRefusal(spec)
  if (env !== undefined) return { reason: 'EnvironmentRejected', ...env }
  const field = runtime.fieldProblem(spec)
  return field === undefined ? undefined : { reason: 'Refused', message: field, loadsCode: false }
}
