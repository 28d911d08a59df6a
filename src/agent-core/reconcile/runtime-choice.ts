import { formatCount } from '../../contract/format.ts'
import { overrideCount } from '../memory/estimate/server-arguments.ts'
import type { InferenceService, InferenceServiceSpec, ModelSpec } from '../kube/resources.ts'
import { judgeArguments, textProblem, type ArgumentPolicy } from '../runtimes/argument-policy.ts'
import { llamaServerArgv } from '../runtimes/llama-server.ts'
import type { LlamaServerDialect } from '../runtimes/llama-server-binary.ts'
import { resolveRuntime, runtimeAnnotation, servingDigest } from '../runtimes/resolution.ts'
import type { RuntimeChoice, SpecRefusal } from './desired.ts'
import { environmentNotice, environmentRefusal, statedEnvironment } from './environment.ts'
import { modelIdentity } from './model-request.ts'

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
export interface ServerPlace {
  readonly modelPath: string
  /** See LlamaServerInput. */
  readonly alias?: string | undefined
  readonly mmproj?: string | undefined
  readonly dialect?: LlamaServerDialect
  /** Keeps the cache of prompts to what was counted for it; in MiB. */
  readonly cacheRamMiB?: number | undefined
}

/** The command line of a service but for what is only known at its start. */
export function commandLine(
  spec: InferenceServiceSpec,
  model: ModelSpec,
  { performanceCores }: RuntimeSettings,
  { modelPath, mmproj, alias, dialect, cacheRamMiB }: ServerPlace,
): (port: number) => string[] {
  const gpuLayers = model.hardware?.gpu?.layers
  const projector = mmproj === undefined ? [] : ['--mmproj', mmproj]
  const promptCache = cacheRamMiB === undefined ? [] : ['--cache-ram', String(cacheRamMiB)]
  return (port) => [
    ...llamaServerArgv({ spec, modelPath, port, gpuLayers, performanceCores, alias, ...(dialect && { dialect }) }),
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
      // Also what no server gets: what runs when a person allows less or more goes on until its next start.
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
