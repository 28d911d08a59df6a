import { z } from 'zod'
import {
  cacheType,
  contextSize,
  modelSource,
  namespaceName,
  newServiceName,
  parallelSlots,
  quantizationName,
  secretName,
} from './names.ts'
import { inCatalogue } from './catalogue.ts'
import { yamlOf, type Manifest } from './yaml.ts'

/** A Model and an InferenceService of the same name, for this kind of machine. */
export const modelApplication = z.object({
  namespace: namespaceName,
  name: newServiceName,
  source: modelSource,
  /** Chooses among the files of a repository. */
  quantization: quantizationName.optional(),
  /** Name of a Secret of the namespace, with the token that opens a private source. */
  sourceSecret: secretName.optional(),
  /** Absent = the agent's default. */
  contextSize: contextSize.optional(),
  parallelSlots: parallelSlots.optional(),
  /** Of keys and values alike; absent = f16. */
  cacheType: cacheType.optional(),
})
export type ModelApplication = z.infer<typeof modelApplication>

/** On what was made by {@link manifestsOf}; its Model may be deleted with its service. */
export const createdBy = { label: 'metalbar.dev/created-by', value: 'metalbar' } as const

/** What a person may type, as a Model has it: a name of the catalogue stands for its source, and `owner/name` for one of the Hub. */
export function sourceOfModel(typed: string): string {
  const source = typed.trim()
  return inCatalogue(source)?.source ?? (/^[^/\s:.~][^/\s:]*\/\S+$/.test(source) ? `hf://${source}` : source)
}

const apiVersion = 'inference.llmkube.dev/v1alpha1'

export interface ApplicationManifests {
  readonly model: Manifest
  readonly service: Manifest
}

/** What is created in the cluster. */
export function manifestsOf(application: ModelApplication): ApplicationManifests {
  const { namespace, name, source, quantization, sourceSecret, parallelSlots: slots, cacheType: cache } = application
  const metadata = { name, namespace, labels: { [createdBy.label]: createdBy.value } }
  return {
    model: {
      apiVersion,
      kind: 'Model',
      metadata,
      spec: {
        source: sourceOfModel(source),
        format: 'gguf',
        ...(quantization !== undefined && { quantization }),
        ...(sourceSecret !== undefined && { sourceSecretRef: { name: sourceSecret } }),
        hardware: { accelerator: 'metal' },
      },
    },
    service: {
      apiVersion,
      kind: 'InferenceService',
      metadata,
      spec: {
        modelRef: name,
        replicas: 1,
        ...(application.contextSize !== undefined && { contextSize: application.contextSize }),
        ...(slots !== undefined && { parallelSlots: slots }),
        ...(cache !== undefined && { cacheTypeK: cache, cacheTypeV: cache }),
      },
    },
  }
}

/** The same, to be shown, copied and applied by somebody who may. */
export function applicationYaml(application: ModelApplication): string {
  const { model, service } = manifestsOf(application)
  return yamlOf([model, service])
}
