import type { InferenceService, InferenceServiceSpec, ModelSpec } from '../kube/resources.ts'
import { llamaServerArgv } from '../runtimes/llama-server.ts'
import type { LlamaServerDialect } from '../runtimes/llama-server-dialect.ts'
import { resolveRuntime, runtimeAnnotation } from '../runtimes/resolution.ts'
import { servingDigest } from '../runtimes/serving-digest.ts'
import type { RuntimeChoice } from './desired.ts'
import { environmentOf } from './environment.ts'
import { modelIdentity } from './model-request.ts'

export interface RuntimeSettings {
  /** `--runtime`: for a service that names none. */
  readonly defaultRuntime: string
  /** As given; where it really is gets looked up at every start. */
  readonly llamaServer: string | undefined
  readonly performanceCores: number | undefined
}

/** What is known of a server only when it is started here. */
export interface ServerPlace {
  readonly modelPath: string
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
  { modelPath, mmproj, dialect, cacheRamMiB }: ServerPlace,
): (port: number) => string[] {
  const gpuLayers = model.hardware?.gpu?.layers
  const projector = mmproj === undefined ? [] : ['--mmproj', mmproj]
  const promptCache = cacheRamMiB === undefined ? [] : ['--cache-ram', String(cacheRamMiB)]
  return (port) => [
    ...llamaServerArgv({ spec, modelPath, port, gpuLayers, performanceCores, ...(dialect && { dialect }) }),
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
      // The source stands for the file: where it lies is our own business.
      argv: commandLine(spec, model, settings, { modelPath: '' }),
      env: environmentOf(spec),
      modelSource: modelIdentity(model),
    })
    return { ok: true, digest }
  }
