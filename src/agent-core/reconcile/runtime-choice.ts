import type { InferenceService, InferenceServiceSpec, ModelSpec } from '../kube/resources.ts'
import { overrideCount } from '../memory/estimate/server-arguments.ts'
import type { RuntimeChoice, SpecRefusal } from './desired.ts'
import { modelIdentity } from './model-request.ts'
import { type ArgumentPolicy, judgeArguments, textProblem } from '../runtimes/argument-policy.ts'
import { judgeVariable, loadsCode } from '../runtimes/environment-policy.ts'
import type { LlamaServerDialect } from '../runtimes/llama-server-binary.ts'
import { llamaServerArgv } from '../runtimes/llama-server.ts'
import { resolveRuntime, runtimeAnnotation, servingDigest } from '../runtimes/resolution.ts'
import { formatCount } from '../../contract/format.ts'

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
    message: `spec.env: ${listed(names.map(shown))} can load code into the server, decide where it looks for files or stand for an argument, and is never passed on. Take it out.`,
    loadsCode: names.some(loadsCode),
  }
}

/**
 * What a person should know about variables that a server here does not get. It is started without them: LLMKube's Go agent passes
 * no variables at all, so what runs there has to run here.
 */
export function environmentNotice({ env }: InferenceServiceSpec, allowed: readonly string[]): string | undefined {
  const fromPod = env.flatMap(({ name, valueFrom }) => (valueFrom === undefined ? [] : [shown(name)]))
  const notAllowed = env.flatMap(({ name, valueFrom }) =>
    valueFrom === undefined && judgeVariable(name, allowed) === 'leftOut' ? [shown(name)] : [],
  )
  const sentences = [
    ...(fromPod.length === 0
      ? []
      : [
          `It runs without ${listed(fromPod)} of spec.env, whose valueFrom only a Pod can read: give a literal value where it is needed.`,
        ]),
    ...(notAllowed.length === 0
      ? []
      : [
          `It runs without ${listed(notAllowed)} of spec.env: this machine allows variables by name, with --allowed-env.`,
        ]),
  ]
  return sentences.length === 0 ? undefined : sentences.join(' ')
}

const maxListed = 5
const maxNameLength = 60

const shown = (name: string): string => (name.length <= maxNameLength ? name : `${name.slice(0, maxNameLength)}…`)

const listed = (names: readonly string[]): string =>
  names.length <= maxListed
    ? names.join(', ')
    : `${names.slice(0, maxListed).join(', ')} and ${names.length - maxListed} more`

export interface RuntimeSettings {
  /** `--runtime`: for a service that names none. */
  readonly defaultRuntime: string
  /** As given; where it really is gets looked up at every start. */
  readonly llamaServer: string | undefined
  readonly performanceCores: number | undefined
  readonly policy: SpecPolicy
}

/** What a person of this machine allows the specs of others. */
export interface SpecPolicy extends ArgumentPolicy {
  /** `--allowed-env`. */
  readonly allowedEnv: readonly string[]
}

/** Values that are known only when the server is started here. */
interface ServerPlace {
  readonly modelPath: string
  /** See LlamaServerInput. */
  readonly alias?: string | undefined
  readonly mmproj?: string | undefined
  /** Where it listens; absent = everywhere. */
  readonly host?: string | undefined
  readonly dialect?: LlamaServerDialect
  /** Keeps the cache of prompts to what was counted for it; in MiB. */
  readonly cacheRamMiB?: number | undefined
}

/** The command line of a service but for what is only known at its start. */
export function commandLine(
  spec: InferenceServiceSpec,
  model: ModelSpec,
  { performanceCores }: RuntimeSettings,
  { modelPath, host, mmproj, alias, dialect, cacheRamMiB }: ServerPlace,
): (port: number) => string[] {
  const gpuLayers = model.hardware?.gpu?.layers
  const projector = mmproj === undefined ? [] : ['--mmproj', mmproj]
  const promptCache = cacheRamMiB === undefined ? [] : ['--cache-ram', String(cacheRamMiB)]
  return (port) => [
    ...llamaServerArgv({
      ...{ spec, modelPath, host, port, gpuLayers, performanceCores, alias },
      ...(dialect && { dialect }),
    }),
    ...projector,
    ...promptCache,
  ]
}

/** llama-server counts every request but a health check as use, and wakes up for it. */
export const sleepsWhenIdle = ({ extraArgs }: InferenceServiceSpec): boolean =>
  extraArgs.some((argument) => argument.split('=')[0] === '--sleep-idle-seconds')

export const chooseRuntime =
  (settings: RuntimeSettings) =>
  (service: InferenceService, spec: InferenceServiceSpec, model: ModelSpec): RuntimeChoice => {
    const resolution = resolveRuntime({
      annotation: service.metadata.annotations[runtimeAnnotation],
      specRuntime: spec.runtime,
      modelFormat: model.format,
      flag: settings.defaultRuntime,
    })
    if (resolution.kind === 'refused') return { ok: false, message: resolution.message }
    const digest = servingDigest({
      executable: settings.llamaServer ?? resolution.runtime,
      // The source stands for the file: where it lies is our own business, as is each argument that only a start adds.
      argv: commandLine(spec, model, settings, { modelPath: '' }),
      // Includes variables that no server gets: a change of what a person allows must not restart a running server.
      env: statedEnvironment(spec),
      modelSource: modelIdentity(model),
    })
    const refusal = specRefusal(spec, settings.policy)
    if (refusal !== undefined) return { ok: false, ...refusal, digest }
    const notice = environmentNotice(spec, settings.policy.allowedEnv)
    return { ok: true, digest, ...(notice !== undefined && { notice }) }
  }

/** What a spec may not ask of a server of this machine. */
export function specRefusal(spec: InferenceServiceSpec, policy: SpecPolicy): SpecRefusal | undefined {
  const args = judgeArguments(spec.extraArgs, policy)
  if (args !== undefined) return { reason: 'ExtraArgsRejected', ...args }
  const env = environmentRefusal(spec)
  if (env !== undefined) return { reason: 'EnvironmentRejected', ...env }
  const field = fieldProblem(spec) ?? overridesProblem(spec)
  return field === undefined ? undefined : { reason: 'Refused', message: field, loadsCode: false }
}

/** Each is compared with every tensor of the model, by the agent that sizes it up and by llama-server. */
const maxOverrides = 256

function overridesProblem({ tensorOverrides, extraArgs }: InferenceServiceSpec): string | undefined {
  const count = overrideCount([...tensorOverrides.flatMap((text) => ['--override-tensor', text]), ...extraArgs])
  if (count <= maxOverrides) return undefined
  return `spec.tensorOverrides is refused: with those of spec.extraArgs it holds ${formatCount(count)} different overrides, and at most ${maxOverrides} are taken. Take some out: one pattern can name many tensors.`
}

/** Texts that become the value of a flag must not look like another. */
function fieldProblem(spec: InferenceServiceSpec): string | undefined {
  const { cacheTypeK, cacheTypeV, cacheTypeCustomK, cacheTypeCustomV, reasoningBudgetMessage } = spec
  const texts = { cacheTypeK, cacheTypeV, cacheTypeCustomK, cacheTypeCustomV, reasoningBudgetMessage }
  const lists = { metadataOverrides: spec.metadataOverrides, tensorOverrides: spec.tensorOverrides }
  const values = [
    ...Object.entries(texts).map(([name, text]) => [name, text ?? ''] as const),
    ...Object.entries(lists).flatMap(([name, all]) => all.map((text) => [name, text] as const)),
  ]
  for (const [name, text] of values) {
    const problem = textProblem(text)
    if (problem !== undefined) return `spec.${name} is refused: ${problem}. Correct it.`
  }
  return undefined
}
