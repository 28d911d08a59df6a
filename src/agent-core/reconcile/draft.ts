import type { InferenceService, InferenceServiceSpec, Model, ModelSpec } from '../kube/resources.ts'
import { speculationOf } from '../runtimes/llama-server.ts'
import type { ServerRuntime } from '../servers/probe.ts'

/** The weights that a service drafts with (`spec.speculativeDecoding`). */
export type Draft =
  /** A file of the served Model, as its `spec.files` name it. */
  | { readonly file: string }
  /** Another Model of the service's namespace. */
  | { readonly model: string; readonly spec: ModelSpec }

export type DraftChoice =
  | { readonly kind: 'none' }
  | { readonly kind: 'chosen'; readonly draft: Draft }
  | { readonly kind: 'missing' | 'unreadable' | 'refused'; readonly message: string }

interface DraftInputs {
  readonly runtime: ServerRuntime
  readonly service: Pick<InferenceService, 'metadata'>
  readonly spec: InferenceServiceSpec
  readonly model: ModelSpec
  /** Looks a Model up in the service's namespace. */
  readonly modelNamed: (name: string) => Model | undefined
}

/** Which draft weights the server needs. Pure. */
export function chooseDraft({ runtime, service, spec, model, modelNamed }: DraftInputs): DraftChoice {
  const { draft } = (runtime === 'llama-server' && speculationOf(spec)) || {}
  if (draft === undefined) return { kind: 'none' }
  if ('file' in draft) {
    const problem = fileProblem(draft.file, model)
    return problem === undefined ? { kind: 'chosen', draft } : { kind: 'refused', message: problem }
  }
  return chooseModel(draft.model, service.metadata.namespace, modelNamed(draft.model))
}

function chooseModel(name: string, namespace: string, found: Model | undefined): DraftChoice {
  const field = 'spec.speculativeDecoding.draftModelRef'
  const shown = shortened(name)
  if (!found) {
    return {
      kind: 'missing',
      message: `There is no Model "${shown}" in namespace ${namespace}, the draft model that ${field} names; create it, or correct ${field}.`,
    }
  }
  if (!found.spec.ok)
    return { kind: 'unreadable', message: `${found.spec.message} It is the draft model of this service.` }
  const { source, format } = found.spec.value
  if (source === '') {
    return {
      kind: 'refused',
      message: `Model ${namespace}/${shown}, the draft model that ${field} names, has no spec.source.`,
    }
  }
  if (!isGguf(format)) {
    return {
      kind: 'refused',
      message: `Model ${namespace}/${shown}, the draft model that ${field} names, is of format "${format}", and llama-server drafts only with GGUF models: name another.`,
    }
  }
  return { kind: 'chosen', draft: { model: name, spec: found.spec.value } }
}

function fileProblem(file: string, { files }: ModelSpec): string | undefined {
  const what = `spec.speculativeDecoding.draftModel names ${JSON.stringify(shortened(file))}`
  if (!files.includes(file)) {
    return `${what}, which is not among spec.files of the Model: list it there after the model, or correct it.`
  }
  if (files[0] === file)
    return `${what}, the first of spec.files, which is the model that is served: list the model first.`
  if (!/\.gguf$/i.test(file)) return `${what}, and llama-server drafts only with .gguf files: name another.`
  return undefined
}

const isGguf = (format: string): boolean => format === '' || format.toLowerCase() === 'gguf'

const maxShownLength = 120
const shortened = (name: string): string => (name.length <= maxShownLength ? name : `${name.slice(0, maxShownLength)}…`)

/** As people call it. */
export const nameOfDraft = (draft: Draft): string => ('file' in draft ? draft.file : draft.model)
