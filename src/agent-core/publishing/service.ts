import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Service } from '../kube/resources.ts'
import { refKey } from '../util/object-key.ts'
import {
  isOwnedBy,
  labels,
  managedBy,
  type Publication,
  type PublishTarget,
  serviceBody,
  serviceIsCurrent,
  servicePatch,
} from './objects.ts'
import {
  done,
  type Edits,
  ForeignEdits,
  readNow,
  settledWrite,
  type WatchedKind,
  watchedStore,
  type WriteResult,
} from './writes.ts'

type ServiceJudgement =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ours' }
  /** LLMKube's controller has it lead to its relay for this very InferenceService. */
  | { readonly kind: 'relayed' }
  /** A foreign Service: nothing is published beside it. */
  | { readonly kind: 'taken'; readonly message: string }

/** Whether the Service under our name may be written: ours, or left by an agent for the same InferenceService. */
export function judgeService(service: Service | undefined, target: PublishTarget): ServiceJudgement {
  if (!service) return { kind: 'absent' }
  const { metadata, spec } = service
  const controller = metadata.ownerReferences.find((reference) => reference.controller === true)
  const madeFor = metadata.labels[labels.inferenceService]
  if (isRelayed(service, target)) return { kind: 'relayed' }
  if (controller) return taken(service, `is managed by ${controller.kind} ${controller.name}`)
  if (Object.keys(spec.selector ?? {}).length > 0) return taken(service, 'selects Pods of its own')
  if (spec.type === 'ExternalName') return taken(service, 'points to an external name')
  if (madeFor !== undefined && madeFor !== target.name) {
    return {
      kind: 'taken',
      message: `Service ${metadata.namespace}/${metadata.name} belongs to InferenceService ${madeFor}, whose name maps to the same Service; rename one of the two.`,
    }
  }
  if (metadata.labels[labels.managedBy] !== managedBy && !isOwnedBy(service, target)) {
    return taken(service, 'was not made by an agent')
  }
  return { kind: 'ours' }
}

/** LLMKube 0.10 makes itself the controller of a Service that its relay answers; an agent that takes one back may have left the selector. */
export const isRelayed = ({ metadata, spec }: Service, { name, uid }: PublishTarget): boolean =>
  metadata.ownerReferences.some((reference) => reference.controller === true && reference.uid === uid) ||
  isLedToRelay({ spec }, name)

/** LLMKube's controller has it select the Pods of its relay for this InferenceService. */
export const isLedToRelay = ({ spec }: Pick<Service, 'spec'>, inferenceService: string): boolean =>
  spec.selector?.[relaySelector] === inferenceService

const relaySelector = 'inference.llmkube.dev/metal-relay'

const taken = ({ metadata: { namespace, name } }: Service, why: string): ServiceJudgement => ({
  kind: 'taken',
  message: `Service ${namespace}/${name} has the name this InferenceService needs but ${why}; delete it (kubectl -n ${namespace} delete service ${name}) or rename the InferenceService.`,
})

/** Objects without our label are not watched: what stood in the way is looked at again after this long. */
export const recheckMs = 60_000

export type ServiceView =
  | ServiceJudgement
  /** The server does not accept a Service of that name; in its words. */
  | { readonly kind: 'refused'; readonly message: string }

export interface Obstacle {
  readonly kind: 'taken' | 'refused'
  readonly message: string
  /** Monotonic milliseconds. */
  readonly at: number
}

/** What was found where no watch tells it. */
type Found = Obstacle | { readonly kind: 'relayed'; readonly message: ''; readonly at: number }

/** What a Service says of its InferenceService, and so tells two writes apart. */
type Wish = Pick<Publication, 'uid' | 'servicePorts'>

const wishOf = ({ uid, servicePorts }: Publication): Wish => ({ uid, servicePorts })

/** Creates, adopts and removes Services; never takes over a foreign one. */
export class ServiceWriter {
  readonly #api: KubeApi
  readonly #services: WatchedKind<Service>
  readonly #nameOf: (inferenceService: string) => string
  readonly #now: () => number
  readonly #signal: AbortSignal
  readonly #found = new Map<string, Found>()
  /** By key: changes by others of what we have written. */
  readonly #edits = new Map<string, ForeignEdits<Wish>>()

  constructor(options: {
    readonly api: KubeApi
    readonly services: WatchedKind<Service>
    /** The name of a Service by that of its InferenceService. */
    readonly nameOf: (inferenceService: string) => string
    readonly monotonicNow: () => number
    readonly signal: AbortSignal
  }) {
    this.#api = options.api
    this.#nameOf = options.nameOf
    this.#services = options.services
    this.#now = options.monotonicNow
    this.#signal = options.signal
  }

  /** From the cache, and from what was found in the way less than {@link recheckMs} ago; `isOwn`: it was made for this very object. */
  view(target: PublishTarget): {
    readonly service: ServiceView
    readonly isOwn: boolean
    readonly recheckInMs: number | undefined
  } {
    const service = this.#cached(target)
    const isOwn = service !== undefined && isOwnedBy(service, target)
    const found = service ? undefined : this.#found.get(refKey(target))
    const recheckInMs = found ? recheckMs - (this.#now() - found.at) : 0
    if (found?.kind === 'relayed' && recheckInMs > 0) {
      return { service: { kind: 'relayed' }, isOwn, recheckInMs: undefined }
    }
    return found && recheckInMs > 0
      ? { service: { kind: found.kind, message: found.message }, isOwn, recheckInMs }
      : { service: judgeService(service, target), isOwn, recheckInMs: undefined }
  }

  /** Only while others change it again and again. */
  edits(target: PublishTarget, publication: Publication): Edits | undefined {
    return this.#lookAtEdits(target, this.#cached(target), publication)
  }

  /** Whether something was found under its name that no watch tells. */
  isKnown(target: PublishTarget): boolean {
    return this.#found.has(refKey(target))
  }

  /** Whether it says what is wanted, whosever it is; true where there is none. */
  isCurrent(target: PublishTarget, publication: Publication): boolean {
    const service = this.#cached(target)
    return !service || serviceIsCurrent(service, publication)
  }

  /** A dry run tells whether the name is free and acceptable before anything is claimed; undefined = it is. */
  async findObstacle(target: PublishTarget, publication: Publication): Promise<WriteResult | undefined> {
    this.#found.delete(refKey(target))
    let service = this.#cached(target)
    if (!service) {
      try {
        const options = { dryRun: true, signal: this.#signal }
        await this.#api.create(this.#services.resource, target.namespace, serviceBody(publication), options)
        return undefined
      } catch (error) {
        if (isApiError(error, 404, 422)) return this.#remember(target, { kind: 'refused', message: error.message })
        if (!isApiError(error, 409)) throw error
      }
      service = await readNow({ ...this.#place(target), store: watchedStore(this.#services) })
    }
    const judged = judgeService(service, target)
    return judged.kind === 'taken' ? this.#remember(target, judged) : undefined
  }

  /**
   * `onCreate`: there was none, and so Kubernetes has deleted the Endpoints too. With `onTakenBack` it is taken from LLMKube's relay too. Throws what
   * the server refuses: its name was free before.
   */
  async write(
    target: PublishTarget,
    publication: Publication,
    { onCreate, onTakenBack }: { readonly onCreate: () => void; readonly onTakenBack?: () => void },
  ): Promise<WriteResult> {
    const edits = this.#editsOf(target)
    const wish = wishOf(publication)
    const before = { isRelayed: false }
    const settled = await settledWrite<Service, WriteResult>({
      ...this.#place(target),
      store: watchedStore(this.#services),
      known: this.#cached(target),
      decide: (service) => {
        const judged = judgeService(service, target)
        if (judged.kind === 'taken') return { do: 'stop', result: this.#remember(target, judged) }
        if (judged.kind === 'relayed' && !onTakenBack) {
          this.#found.set(refKey(target), { kind: 'relayed', message: '', at: this.#now() })
          return { do: 'stop', result: done }
        }
        if (service && serviceIsCurrent(service, publication)) return { do: 'stop', result: done }
        if ((this.#lookAtEdits(target, service, publication)?.mendInMs ?? 0) > 0) return { do: 'stop', result: done }
        edits.writing(wish)
        before.isRelayed = judged.kind === 'relayed'
        if (service) return { do: 'patch', object: service, body: servicePatch(publication, service) }
        onCreate()
        return { do: 'create', body: serviceBody(publication) }
      },
    })
    if (settled.kind === 'refused') throw settled.error
    if (settled.kind === 'stopped') return settled.result
    this.#found.delete(refKey(target))
    edits.wrote(wish)
    if (before.isRelayed) onTakenBack?.()
    return done
  }

  /** Only one made for this very InferenceService. */
  async remove(target: PublishTarget): Promise<WriteResult> {
    const settled = await settledWrite<Service, WriteResult>({
      ...this.#place(target),
      store: watchedStore(this.#services),
      known: this.#cached(target),
      decide: (service) =>
        service && judgeService(service, target).kind === 'ours' && isOwnedBy(service, target)
          ? { do: 'delete', object: service }
          : { do: 'stop', result: done },
    })
    if (settled.kind === 'refused') throw settled.error
    this.#edits.delete(refKey(target))
    return settled.kind === 'stopped' ? settled.result : done
  }

  forget(key: string): void {
    this.#found.delete(key)
    this.#edits.delete(key)
  }

  #lookAtEdits(target: PublishTarget, service: Service | undefined, publication: Publication): Edits | undefined {
    const known = this.#edits.get(refKey(target))
    const isAs = (wish: Wish): boolean =>
      service !== undefined && serviceIsCurrent(service, { ...publication, ...wish })
    const edits = known?.look(service, isAs)
    // What is wanted differently now is written at once.
    return edits && known?.hasWritten(wishOf(publication)) === false ? { ...edits, mendInMs: 0 } : edits
  }

  #editsOf(target: PublishTarget): ForeignEdits<Wish> {
    const key = refKey(target)
    const known = this.#edits.get(key)
    if (known) return known
    const { namespace, name } = this.#place(target)
    const { fieldManager } = this.#api
    const edits = new ForeignEdits<Wish>({ kind: 'Service', namespace, name, fieldManager, monotonicNow: this.#now })
    this.#edits.set(key, edits)
    return edits
  }

  #remember(target: PublishTarget, { kind, message }: Omit<Obstacle, 'at'>): WriteResult {
    this.#found.set(refKey(target), { kind, message, at: this.#now() })
    return { kind, message }
  }

  #cached(target: PublishTarget): Service | undefined {
    return this.#services.cache.get(target.namespace, this.#nameOf(target.name))
  }

  #place({ namespace, name }: PublishTarget) {
    return { api: this.#api, namespace, name: this.#nameOf(name), signal: this.#signal }
  }
}
