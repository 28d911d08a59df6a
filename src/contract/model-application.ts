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

/** A well-known model by the name that LLMKube's own catalogue gives it. */
export interface CatalogueEntry {
  readonly name: string
  readonly title: string
  /** Such as `8B`: how many weights it has. */
  readonly parameters: string
  readonly quantization: string
  /** LLMKube's, so that both make the same Model of a name. */
  readonly source: string
}

const hub = (repo: string, file: string): string => `https://huggingface.co/${repo}/resolve/main/${file}.gguf`

/** By bartowski, whose files and repositories are named alike. */
const conversion = (model: string, quantization: string): string =>
  hub(`bartowski/${model}-GGUF`, `${model}-${quantization}`)

const entry = (
  name: string,
  title: string,
  parameters: string,
  { model, quantization }: { readonly model: string; readonly quantization: string },
): CatalogueEntry => ({ name, title, parameters, quantization, source: conversion(model, quantization) })

const q4 = (model: string) => ({ model, quantization: 'Q4_K_M' })
const q5 = (model: string) => ({ model, quantization: 'Q5_K_M' })

/** The smallest first. */
export const catalogue: readonly CatalogueEntry[] = [
  entry('llama-3.2-3b', 'Llama 3.2 3B Instruct', '3B', q5('Llama-3.2-3B-Instruct')),
  entry('phi-4-mini', 'Phi-4 Mini Instruct', '3.8B', q5('microsoft_Phi-4-mini-instruct')),
  entry('gemma-3-4b', 'Gemma 3 4B IT', '4B', q5('google_gemma-3-4b-it')),
  entry('mistral-7b', 'Mistral 7B Instruct v0.3', '7B', q5('Mistral-7B-Instruct-v0.3')),
  entry('qwen-2.5-coder-7b', 'Qwen 2.5 Coder 7B Instruct', '7B', q5('Qwen2.5-Coder-7B-Instruct')),
  entry('deepseek-r1-7b', 'DeepSeek R1 Distill Qwen 7B', '7B', q5('DeepSeek-R1-Distill-Qwen-7B')),
  entry('llama-3.1-8b', 'Llama 3.1 8B Instruct', '8B', q5('Meta-Llama-3.1-8B-Instruct')),
  entry('gemma-3-12b', 'Gemma 3 12B IT', '12B', q5('google_gemma-3-12b-it')),
  entry('qwen-2.5-14b', 'Qwen 2.5 14B Instruct', '14B', q5('Qwen2.5-14B-Instruct')),
  entry('deepseek-r1-14b', 'DeepSeek R1 Distill Qwen 14B', '14B', q5('DeepSeek-R1-Distill-Qwen-14B')),
  entry('mistral-small-24b', 'Mistral Small 24B Instruct', '24B', q4('Mistral-Small-24B-Instruct-2501')),
  entry('deepseek-r1-32b', 'DeepSeek R1 Distill Qwen 32B', '32B', q4('DeepSeek-R1-Distill-Qwen-32B')),
  entry('qwen-2.5-32b', 'Qwen 2.5 32B Instruct', '32B', q4('Qwen2.5-32B-Instruct')),
  entry('qwen-2.5-coder-32b', 'Qwen 2.5 Coder 32B Instruct', '32B', q4('Qwen2.5-Coder-32B-Instruct')),
  {
    ...entry('qwen-3-32b', 'Qwen 3 32B', '32B', q4('Qwen3-32B')),
    source: hub('Qwen/Qwen3-32B-GGUF', 'Qwen3-32B-Q4_K_M'),
  },
  {
    ...entry('mixtral-8x7b', 'Mixtral 8x7B Instruct', '8x7B', q4('Mixtral-8x7B-Instruct-v0.1')),
    source: hub('TheBloke/Mixtral-8x7B-Instruct-v0.1-GGUF', 'mixtral-8x7b-instruct-v0.1.Q4_K_M'),
  },
  entry('llama-3.3-70b', 'Llama 3.3 70B Instruct', '70B', q4('Llama-3.3-70B-Instruct')),
]

/** The entry for a name as a person types it; undefined if the catalogue does not have it. */
export const inCatalogue = (name: string): CatalogueEntry | undefined =>
  catalogue.find((one) => one.name === name.trim().toLowerCase())

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
  /** Type of the KV cache, for keys and values alike; absent = f16. */
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

/** What a manifest is made of. */
export type Manifest = { readonly [key: string]: string | number | boolean | Manifest }

/** Documents for `kubectl apply -f -`. */
export const yamlOf = (documents: readonly Manifest[]): string =>
  documents.map((document) => `${linesOf(document, '').join('\n')}\n`).join('---\n')

function linesOf(manifest: Manifest, indent: string): string[] {
  return Object.entries(manifest).flatMap(([key, value]) => {
    const name = `${indent}${scalar(key)}:`
    return typeof value === 'object'
      ? [name, ...linesOf(value, `${indent}  `)]
      : [`${name} ${typeof value === 'string' ? scalar(value) : String(value)}`]
  })
}

/** Between double quotes wherever a plain word could be read as anything else, with everything escaped that is not plainly visible. */
function scalar(text: string): string {
  if (/^[A-Za-z][\w./-]*$/.test(text) && !reserved.test(text)) return text
  const escaped = text.replace(/["\\]|[^\x20-\x7e]/gu, (character) => {
    if (character === '"' || character === '\\') return `\\${character}`
    const code = character.codePointAt(0) ?? 0
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
  })
  return `"${escaped}"`
}

/** Words of YAML 1.1, which Kubernetes' tools read. */
const reserved = /^(?:y|yes|n|no|true|false|on|off|null)$/i

/** What `deleteModel` would delete, as of now. */
export const deletionView = z.object({
  /** Uid of the InferenceService: sent along with the deletion, so that only the object that was shown is deleted. */
  uid: z.string(),
  /** Absent where its Model is not there. */
  model: z
    .object({
      name: z.string(),
      isDeleted: z.boolean(),
      /** Why it goes, or stays: one sentence. */
      message: z.string(),
    })
    .optional(),
  /** What a person is asked before: one sentence or two. */
  message: z.string(),
})
export type DeletionView = z.infer<typeof deletionView>
