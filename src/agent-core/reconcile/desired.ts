import { z } from 'zod'
import type { InferenceService, InferenceServiceSpec, Model, ModelSpec, ObjectMeta } from '../kube/resources.ts'
import type { Draft } from './draft.ts'
import { contentKey } from './model-request.ts'
import { apiKeyAnnotation } from '../gateway/api-keys.ts'
import { runtimeAnnotation } from '../runtimes/resolution.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import type { Hold, ServiceReason } from '../../contract/service.ts'

/** Every key of ours that a person may set on an InferenceService. */
export const annotationKeys = {
  runtime: runtimeAnnotation,
  /** Minutes without a request after which the server is stopped. */
  idleMinutes: 'metalbar.dev/idle-minutes',
  apiKeySecret: apiKeyAnnotation,
} as const

/** Written by ourselves. */
const ownKeys = ['metalbar.dev/replicas-before-stop']

const prefix = 'metalbar.dev/'
const longestIdleMinutes = 7 * 24 * 60

const idleMinutes = z
  .string()
  .trim()
  .regex(/^\d{1,5}$/)
  .transform(Number)
  .pipe(z.int().min(1).max(longestIdleMinutes))

interface Annotations {
  readonly idleMinutes: number | undefined
  /** One sentence for each that does nothing as it is. */
  readonly notices: readonly string[]
}

/** What a person said on the object itself. A mistake takes effect nowhere and is reported. */
function readAnnotations(annotations: Readonly<Record<string, string>>): Annotations {
  const known: readonly string[] = [...Object.values(annotationKeys), ...ownKeys]
  const unknown = Object.keys(annotations).filter((key) => key.startsWith(prefix) && !known.includes(key))
  const given = annotations[annotationKeys.idleMinutes]
  const idle = given === undefined ? undefined : idleMinutes.safeParse(given)
  const keys = Object.values(annotationKeys).join(' and ')
  return {
    idleMinutes: idle?.data,
    notices: [
      ...unknown.map((key) => `The annotation ${key} is unknown and has no effect: the known ones are ${keys}.`),
      ...(idle?.success === false
        ? [
            `The annotation ${annotationKeys.idleMinutes} says ${JSON.stringify(given)} and has no effect: it takes whole minutes from 1 to ${longestIdleMinutes}.`,
          ]
        : []),
    ],
  }
}

/** What the cluster asks of this machine for one InferenceService. */
export type Desired =
  /** Too early to tell: nothing may be concluded from an absence. */
  | { readonly kind: 'unknown'; readonly message: string }
  | { readonly kind: 'gone'; readonly message: string }
  /** The Model is for another accelerator. */
  | { readonly kind: 'notOurs'; readonly message: string }
  /** For other agents: this one is to keep away. */
  | { readonly kind: 'excluded'; readonly message: string }
  /** A person wants it elsewhere or nowhere, although the cluster wants it. */
  | { readonly kind: 'held'; readonly reason: 'Held'; readonly message: string }
  | { readonly kind: 'stopped'; readonly reason: 'Stopped' | 'Suspended'; readonly message: string }
  | {
      readonly kind: 'modelMissing'
      readonly message: string
      /** Until then the Model may only be later than its service: each has a watch of its own. */
      readonly graceEndsAt?: number
    }
  /** The specification or its Model's cannot be read in full, as when the cluster has a newer LLMKube: nothing new is begun for it. */
  | {
      readonly kind: 'unreadable'
      readonly message: string
      /** Its Model is known to ask for a Mac. */
      readonly isForMac: boolean
    }
  | {
      readonly kind: 'refused'
      readonly reason: ServiceReason
      readonly message: string
      /** A running server is left alone until its next start; absent = it is stopped. */
      readonly spares?: {
        /** Digest of a server that is stopped nevertheless. */
        readonly except: string | undefined
      }
    }
  | {
      readonly kind: 'serve'
      readonly runtime: ServerRuntime
      /** What decided for it, such as "spec.runtime". */
      readonly runtimeFrom: string
      /** What of the Models a fetch depends on: see `contentKey`. */
      readonly source: string
      readonly draft?: Draft
      /** Over what reaches the command line or the model, and nothing else: another digest restarts the server. */
      readonly digest: string
      /** Without a request for so long it leaves memory; absent = never. */
      readonly idleMinutes?: number
      /** What a person should know although it is served. */
      readonly notice?: string
      /** Until then more changes may follow, and one restart is to serve them all. */
      readonly settlesAt?: number
    }

/** Why a service with `spec.replicas: 0` is stopped. */
export const scaledToZero = 'Scaled to zero replicas.'

export type RuntimeChoice =
  | (Pick<Extract<Desired, { kind: 'serve' }>, 'runtime' | 'runtimeFrom' | 'digest' | 'draft' | 'notice'> & {
      readonly ok: true
    })
  | { readonly ok: false; readonly message: string; readonly reason?: undefined; readonly draft?: undefined }
  /** What is to be known of the draft model's Model. */
  | {
      readonly ok: false
      readonly draft: 'missing' | 'unreadable'
      readonly message: string
      readonly reason?: undefined
    }
  | (SpecRefusal & {
      readonly ok: false
      readonly draft?: undefined
      /** Digest of a server that an earlier agent started from this spec although it is refused now. */
      readonly digest: string
    })

/** The runtime is there, but the spec asks it for what this machine does not allow. */
export interface SpecRefusal {
  readonly reason: 'ExtraArgsRejected' | 'EnvironmentRejected' | 'Refused'
  readonly message: string
  /** A server that was started with it may run programs for others. */
  readonly loadsCode: boolean
}

export interface DesiredInputs {
  readonly key: string
  /** Both caches have been listed completely at least once. */
  readonly synced: boolean
  readonly service: InferenceService | undefined
  /** The metadata that the object had last, if it was there since this cluster is watched. */
  readonly lastSeen: ObjectMeta | undefined
  readonly model: Model | undefined
  /** Names this agent may claim; empty = all. */
  readonly allowlist: readonly string[]
  /** An older InferenceService that needs the same Service name; absent where this has it. */
  readonly nameTakenBy: string | undefined
  readonly hold: Hold | undefined
  readonly chooseRuntime: (service: InferenceService, spec: InferenceServiceSpec, model: ModelSpec) => RuntimeChoice
}

/** Reads the desired state out of the objects. Pure. */
export function desiredOf(inputs: DesiredInputs): Desired {
  const { service, key, synced, allowlist, hold, lastSeen } = inputs
  if (!synced && hold) return held(hold)
  if (!synced) return { kind: 'unknown', message: 'Waiting for the first complete list from the cluster.' }
  if (!service || service.metadata.deletionTimestamp !== undefined) {
    // A server may be left from before a move to this namespace or cluster.
    const isKnown = service !== undefined || lastSeen !== undefined
    const message = isKnown
      ? `InferenceService ${key} was deleted.`
      : `There is no InferenceService ${key} in the namespaces this agent watches.`
    return { kind: 'gone', message }
  }
  if (allowlist.length > 0 && !allowlist.includes(service.metadata.name)) {
    return { kind: 'excluded', message: `${service.metadata.name} is not in the allowlist of this agent.` }
  }
  return modelIsForeign(inputs) ?? desiredBySpec(inputs, service, service.spec.value)
}

/** Only a Model that says `accelerator: metal` makes a service one for a Mac. */
function modelIsForeign({ model }: DesiredInputs): Desired | undefined {
  const accelerator = model && acceleratorOf(model)
  if (!model || accelerator === undefined || accelerator === 'metal') return undefined
  return {
    kind: 'notOurs',
    message: `Model ${model.metadata.name} asks for the accelerator ${accelerator}, not metal.`,
  }
}

/** Undefined where it cannot be read. */
function acceleratorOf({ spec }: Model): string | undefined {
  const isUnread = !spec.ok && spec.unread.some((field) => acceleratorFields.has(field))
  return isUnread ? undefined : (spec.value.hardware?.accelerator ?? 'cpu')
}

const acceleratorFields: ReadonlySet<string> = new Set(['', 'hardware', 'hardware.accelerator'])

function desiredBySpec(inputs: DesiredInputs, service: InferenceService, spec: InferenceServiceSpec): Desired {
  const { model, nameTakenBy, hold } = inputs
  const { namespace, name } = service.metadata
  if (spec.suspend) return { kind: 'stopped', reason: 'Suspended', message: 'Suspended by spec.suspend.' }
  if (spec.replicas === 0) return { kind: 'stopped', reason: 'Stopped', message: scaledToZero }
  if (hold) return held(hold)
  if (!service.spec.ok) return unreadable(service.spec.message, model)
  if (spec.modelRef === '') return refused(`InferenceService ${namespace}/${name} names no Model; set spec.modelRef.`)
  if (!model) {
    return {
      kind: 'modelMissing',
      message: `There is no Model "${spec.modelRef}" in namespace ${namespace}; create it, or correct spec.modelRef.`,
    }
  }
  if (!model.spec.ok) return unreadable(model.spec.message, model)
  if (model.spec.value.source === '') return refused(`Model ${namespace}/${model.metadata.name} has no spec.source.`)
  if (nameTakenBy !== undefined) {
    return refused(
      `${name} and ${nameTakenBy} both become the Service name "${name.replaceAll('.', '-')}", and ${nameTakenBy} was first; rename one of them.`,
      'ServiceNameTaken',
    )
  }
  const runtime = inputs.chooseRuntime(service, spec, model.spec.value)
  if (!runtime.ok && runtime.draft === 'missing') return { kind: 'modelMissing', message: runtime.message }
  if (!runtime.ok && runtime.draft === 'unreadable') return unreadable(runtime.message, model)
  if (!runtime.ok && runtime.reason === undefined) return refused(runtime.message)
  if (!runtime.ok) {
    const { message, reason, digest, loadsCode } = runtime
    return { kind: 'refused', reason, message, spares: { except: loadsCode ? digest : undefined } }
  }
  const { idleMinutes, notices } = readAnnotations(service.metadata.annotations)
  const notice = [runtime.notice, ...notices].filter((sentence) => sentence !== undefined).join(' ')
  return {
    kind: 'serve',
    runtime: runtime.runtime,
    runtimeFrom: runtime.runtimeFrom,
    source: contentKey(model.spec.value, runtime.draft),
    digest: runtime.digest,
    ...(runtime.draft && { draft: runtime.draft }),
    ...(idleMinutes !== undefined && { idleMinutes }),
    ...(notice !== '' && { notice }),
  }
}

const held = ({ message }: Hold): Desired => ({ kind: 'held', reason: 'Held', message })

const unreadable = (message: string, model: Model | undefined): Desired => ({
  kind: 'unreadable',
  message,
  isForMac: model !== undefined && acceleratorOf(model) === 'metal',
})

const refused = (message: string, reason: ServiceReason = 'Refused'): Desired => ({ kind: 'refused', reason, message })

/**
 * The runtime that runs, else the one that is wanted. What decided is known of the one that is wanted alone: after a change another may run
 * until it is replaced.
 */
export function runtimeShown(
  running: ServerRuntime | undefined,
  desired: Desired,
): { readonly runtime?: ServerRuntime; readonly runtimeFrom?: string } {
  const wanted = desired.kind === 'serve' ? desired : undefined
  const runtime = running ?? wanted?.runtime
  if (runtime === undefined) return {}
  return { runtime, ...(wanted?.runtime === runtime && { runtimeFrom: wanted.runtimeFrom }) }
}
