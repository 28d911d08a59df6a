import type { InferenceService, Model } from '../../kube/resources.ts'
import type { AgentSchedulingStatus } from '../../kube/status-writer.ts'
import type { Desired } from '../desired.ts'
import type { UnloadReason } from '../unload-reasons.ts'
import type { ServiceReason, ServiceState } from '../../../contract/service.ts'

/** What the cluster makes of a service that this machine publishes; only LLMKube's controller writes the phase. */
type ClusterAgreement =
  | { readonly kind: 'agrees' }
  /** Nothing is known to stand in the way: the controller may only need a moment. */
  | { readonly kind: 'pending'; readonly message: string }
  /** It will not agree before a person changes something. */
  | { readonly kind: 'disagrees'; readonly message: string }
  | { readonly kind: 'noController'; readonly message: string }

export function clusterAgreement(service: InferenceService | undefined, model: Model | undefined): ClusterAgreement {
  const phase = service?.status.phase ?? ''
  if (phase === 'Ready') return { kind: 'agrees' }
  if (phase === '') {
    const message = "No controller has written the status of this service: check that LLMKube's controller runs."
    return { kind: 'noController', message }
  }
  const replicas = service?.spec.value.replicas ?? 1
  if (replicas > 1) {
    const message = `One Mac serves one replica, but ${replicas} are requested: the cluster stays at ${phase}. Set replicas to 1.`
    return { kind: 'disagrees', message }
  }
  if (model !== undefined && model.status.phase !== 'Ready') {
    const message = `The cluster's controller does not call Model ${model.metadata.name} ready (${model.status.phase || 'no phase'}) and ignores this address until it does; for a local path it needs --allowed-host-path-roots.`
    return { kind: 'disagrees', message }
  }
  return { kind: 'pending', message: `The cluster still says ${phase}.` }
}

/** The controller gets so long to take up what is published or withdrawn. */
export const disagreementAfterMs = 60_000

/** The sentence for a person if the cluster's status keeps contradicting this machine; undefined if it does not. */
export function disagreement(
  isPublished: boolean,
  service: InferenceService | undefined,
  model: Model | undefined,
): string | undefined {
  const agreement = clusterAgreement(service, model)
  if (!isPublished) {
    return agreement.kind === 'agrees' ? 'The cluster still says Ready, although nothing is published here.' : undefined
  }
  return agreement.kind === 'pending' || agreement.kind === 'disagrees' ? agreement.message : undefined
}

/** Why pods must not be sent to a server that may be well: the machine sleeps, or the server has not answered since. */
export type Silence = 'asleep' | 'unverified'

export type FetchRefusal = Extract<AgentSchedulingStatus, 'ModelSourceNotAllowed' | 'ModelDigestMismatch'>

/** The model file of the desired source. */
export type FetchView =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'running'
      readonly source: string
      /** Why no bytes arrive, or what happened. */ readonly message?: string
    }
  | { readonly kind: 'done'; readonly source: string }
  | {
      readonly kind: 'failed'
      readonly source: string
      readonly message: string
      /** What the cluster is told of it. */
      readonly refusal?: FetchRefusal | undefined
      /** Absent = only a change of the inputs helps. */
      readonly retryAt: number | undefined
    }

/** The one server process of the key. */
export type ServerView =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'starting'
      readonly digest: string
      /** Failures in a row before this start. */
      readonly failures: number
      readonly message: string
      /** An earlier agent started it: until it was asked, what is published stays. */
      readonly unasked?: boolean
      /** Only where it was found running. */
      readonly port?: number
    }
  | { readonly kind: 'ready'; readonly digest: string; readonly port: number }
  | { readonly kind: 'unready'; readonly digest: string; readonly port: number; readonly message: string }
  | {
      readonly kind: 'stopping'
      readonly message: string
      /** It ended by itself a moment ago; the rest of its process group is being ended. */
      readonly hasEnded?: boolean
    }
  | {
      readonly kind: 'failed'
      readonly digest: string
      readonly duringStart: boolean
      readonly message: string
      /** No start was tried: its arguments or environment are not allowed. */
      readonly refusal?: ServiceReason
      /** Failures in a row; the back-off counts them. */
      readonly failures: number
      readonly nextStartAt: number
    }

export interface Replacement {
  /** Why not, as a sentence; undefined where nothing speaks against it. */
  readonly refusal: string | undefined
  /** When it is asked again; absent where something other than time changes the answer. */
  readonly retryAt?: number | undefined
}

/** Which agent holds the slice's claim, and what slice, Service and Endpoints say, as far as the caches know. */
export interface PublicationView {
  readonly claim:
    | 'unknown'
    | 'absent'
    | 'released'
    | 'dead'
    /** Ours, but for an earlier object of this name. */
    | 'previous'
    | 'ours'
    /** Ours, but not renewed for so long that another may have taken it: local work continues, and each write reads first. */
    | 'uncertain'
    | 'foreign'
    | 'unclaimed'
    | 'overwritten'
    | 'taken'
  /** What a person should know about the claim; empty where it is plainly ours. */
  readonly message: string
  /** It is taken by nobody: its name is too long for the Service of an ingress. */
  readonly isNameTooLong?: boolean
  /** When time alone changes the claim. */
  readonly retryAt: number | undefined
  /** `adoptable`: an agent's, but not made for this very object. */
  readonly service: 'absent' | 'ours' | 'outdated' | 'adoptable' | 'taken'
  readonly serviceMessage: string
  /** Others change the Service again and again: it is put right no sooner. */
  readonly serviceMendAt?: number | undefined
  /** What is published to pods now. */
  readonly shown: { readonly address: string; readonly port: number; readonly ready: boolean } | undefined
  /** False while core/v1 Endpoints, or details of the slice, still tell something else. */
  readonly complete: boolean
  /** Others change our slice again and again: it is put right no sooner. */
  readonly mendAt?: number | undefined
  /** Slice or Endpoints of ours exist. */
  readonly present: boolean
}

export type MemoryReason = Extract<ServiceReason, 'InsufficientMemory' | 'MemoryCheckFailed' | 'MemoryPressure'>

/** Why a server may not be started now. */
export type StartObstacle = MemoryReason | 'StartsInTurn'

/** Where it would listen, a server would be of no use, or open to all. */
export type ListenObstacle = 'NoHostAddress' | 'NoApiKey'

/** Why requests to the published address would not reach a server although it answers here. */
export interface Unreached {
  readonly reason: ServiceReason
  /** A sentence, with what to do about it. */
  readonly message: string
  readonly kind:
    | 'closed'
    /** Not known yet: what is published stays until it is, and nothing else is published. */
    | 'unknown'
    /** It listens at an address that is no longer published: another server takes its place. */
    | 'misplaced'
    /** Everybody reaches it without the API key that its service asks for: it is stopped. */
    | 'exposed'
}

export interface Observation {
  readonly now: number
  readonly desired: Desired
  /** `warning`: why pods may not reach it, although it is published. */
  readonly address: { readonly ip: string | undefined; readonly message: string; readonly warning?: string }
  /** The port at which LLMKube's relay asks for it, where that is the only way to it. */
  readonly relayPort?: number | undefined
  readonly fetch: FetchView
  readonly server: ServerView
  /** Whether the desired server could take the place of the present one; undefined = not asked for yet. */
  readonly instead: Replacement | undefined
  /** Why the desired server may not be started now. */
  readonly obstacle:
    { readonly reason: StartObstacle | ListenObstacle; readonly message: string; readonly retryAt?: number } | undefined
  /** Absent = requests reach it. */
  readonly unreached?: Unreached | undefined
  /** It will leave memory, or has left it, and keeps its claim; a hold is part of what is desired. */
  readonly unloaded: Extract<UnloadReason, { kind: 'idle' }> | undefined
  /** Why the server was asked to stop; empty where it was not. */
  readonly stopReason: string
  readonly publication: PublicationView
  /** A person asked for a new server process. */
  readonly restartAsked: boolean
  /** A person paused this machine. */
  readonly paused: boolean
  readonly silence: Silence | undefined
  /** The cluster did not accept our last write: until then only local steps are possible. */
  readonly clusterRetry:
    | {
        readonly at: number
        readonly message: string
        /** It answers, and does not take what we ask. */
        readonly isRefusal?: boolean
      }
    | undefined
  /** The cluster did not accept our last write of the Service, which holds up nothing else. */
  readonly serviceRetry?: { readonly at: number; readonly message: string } | undefined
  /** What the cluster says otherwise than it is here, as a sentence, and since when. */
  readonly disagreement?: { readonly message: string; readonly since: number } | undefined
  /** The part of a message that counts requests as they finish, and changes all the time. */
  readonly drainFigures?: string
}

/** What to do next; a step that takes long only begins, and its end brings the key back into the queue. */
export type Step =
  | { readonly do: 'claim' }
  | { readonly do: 'ensureService' }
  | { readonly do: 'fetch' }
  | { readonly do: 'cancelFetch' }
  /** How much memory the desired server will hold, and whether it fits in place of the present one. */
  | { readonly do: 'sizeUp' }
  | { readonly do: 'start' }
  | { readonly do: 'publish'; readonly address: string; readonly port: number }
  | { readonly do: 'withdraw' }
  /** What an agent that is gone still promises. */
  | { readonly do: 'withdrawDead' }
  | { readonly do: 'stop' }
  /** Slice and Endpoints go, the Service and its ClusterIP stay. */
  | { readonly do: 'unpublish' }
  /** The claim is free for others at once, the slice stays. */
  | { readonly do: 'release' }
  /** Deletes Service, EndpointSlice and Endpoints. */
  | { readonly do: 'remove' }
  | { readonly do: 'rest' }

export interface Plan {
  readonly step: Step
  readonly state: ServiceState
  readonly reason: ServiceReason
  readonly message: string
  /** When time alone changes the answer. */
  readonly retryAt: number | undefined
  /** True = this service is none of ours and has nothing left here: it is not shown at all. */
  readonly forget: boolean
}

export const act = (step: Step, state: ServiceState, reason: ServiceReason, message: string): Plan => ({
  step,
  state,
  reason,
  message,
  retryAt: undefined,
  forget: false,
})

export const rest = (state: ServiceState, reason: ServiceReason, message: string, retryAt?: number): Plan => ({
  step: { do: 'rest' },
  state,
  reason,
  message,
  retryAt,
  forget: false,
})

export const forget = (): Plan => ({ ...rest('stopped', 'Stopped', ''), forget: true })

/** Local promises are kept while the cluster is away; what needs it waits, and says so. */
export function unreachable(observed: Observation, state: ServiceState, reason: ServiceReason): Plan {
  return rest(
    state,
    reason,
    observed.clusterRetry?.message ?? 'The cluster does not answer.',
    observed.clusterRetry?.at,
  )
}
