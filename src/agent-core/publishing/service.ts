import { isDeepStrictEqual } from 'node:util'
import { isApiError } from '../kube/api-error.ts'
import type { Service } from '../kube/resources.ts'
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
import { type Publishing, publicationBy } from './publishing.ts'
import { done, OwnWrites, readNow, settledWrite, watchedStore, type WriteResult, type WriteStep } from './writes.ts'

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
const wishOf = ({ uid, servicePorts }: Publication): unknown => ({ uid, servicePorts })

/** The Service of one InferenceService, which is created, adopted and removed; a foreign one is never taken over. */
export class OwnService {
  readonly #publishing: Publishing
  /** Namespace and name of the Service. */
  readonly #place: { readonly namespace: string; readonly name: string }
  readonly #writes: OwnWrites<unknown>
  #found: Found | undefined

  constructor({ namespace, name }: Pick<PublishTarget, 'namespace' | 'name'>, publishing: Publishing) {
    const { naming, monotonicNow } = publishing
    this.#publishing = publishing
    this.#place = { namespace, name: naming.nameOf(name) }
    this.#writes = new OwnWrites(monotonicNow)
  }

  get cached(): Service | undefined {
    const { namespace, name } = this.#place
    return this.#publishing.services.cache.get(namespace, name)
  }

  /** From the cache, and from what was found in the way less than {@link recheckMs} ago. */
  view(target: PublishTarget): { readonly service: ServiceView; readonly recheckInMs: number | undefined } {
    const service = this.cached
    const found = service ? undefined : this.#found
    const recheckInMs = found ? recheckMs - (this.#publishing.monotonicNow() - found.at) : 0
    if (!found || recheckInMs <= 0) return { service: judgeService(service, target), recheckInMs: undefined }
    return found.kind === 'relayed'
      ? { service: { kind: 'relayed' }, recheckInMs: undefined }
      : { service: { kind: found.kind, message: found.message }, recheckInMs }
  }

  /** Milliseconds until it may be written again where others changed it; what is wanted differently now is written at once. */
  mendInMs(publication: Publication): number {
    return this.#writes.mendInMs((last) => isDeepStrictEqual(last, wishOf(publication)))
  }

  /** Whether it says what is wanted, whosever it is; true where there is none. */
  isCurrent(publication: Publication): boolean {
    const service = this.cached
    return !service || serviceIsCurrent(service, publication)
  }

  /** A dry run tells whether the name is free and acceptable before anything is claimed; undefined = it is. */
  async findObstacle(target: PublishTarget): Promise<WriteResult | undefined> {
    const { api, services, signal } = this.#publishing
    this.#found = undefined
    let service = this.cached
    if (!service) {
      try {
        const body = serviceBody(publicationBy(this.#publishing, target, undefined))
        await api.create(services.resource, target.namespace, body, { dryRun: true, signal })
        return undefined
      } catch (error) {
        if (isApiError(error, 404, 422)) return this.#remember({ kind: 'refused', message: error.message })
        if (!isApiError(error, 409)) throw error
      }
      service = await readNow({ ...this.#place, api, signal, store: watchedStore(services) })
    }
    const judged = judgeService(service, target)
    return judged.kind === 'taken' ? this.#remember(judged) : undefined
  }

  /**
   * Answers what was there before too: where there was none, Kubernetes has deleted the Endpoints. With `takesBack` it is taken from LLMKube's relay
   * too. Throws what the server refuses: its name was free before.
   */
  async write(
    target: PublishTarget,
    publication: Publication,
    { takesBack }: { readonly takesBack: boolean },
  ): Promise<{ readonly result: WriteResult; readonly before?: ServiceJudgement['kind'] }> {
    const wish = wishOf(publication)
    let before: ServiceJudgement['kind'] | undefined
    const result = await this.#settle((service) => {
      const judged = judgeService(service, target)
      before = undefined
      if (judged.kind === 'taken') return { do: 'stop', result: this.#remember(judged) }
      if (judged.kind === 'relayed' && !takesBack) {
        this.#found = { kind: 'relayed', message: '', at: this.#publishing.monotonicNow() }
        return { do: 'stop', result: done }
      }
      if (service && serviceIsCurrent(service, publication)) return { do: 'stop', result: done }
      if (this.mendInMs(publication) > 0) return { do: 'stop', result: done }
      this.#writes.writing(wish)
      before = judged.kind
      return service
        ? { do: 'patch', object: service, body: servicePatch(publication, service) }
        : { do: 'create', body: serviceBody(publication) }
    })
    if (before === undefined) return { result }
    this.#found = undefined
    this.#writes.wrote(wish)
    return { result, before }
  }

  /** Only one made for this very InferenceService. */
  async remove(target: PublishTarget): Promise<WriteResult> {
    const result = await this.#settle((service) =>
      service && judgeService(service, target).kind === 'ours' && isOwnedBy(service, target)
        ? { do: 'delete', object: service }
        : { do: 'stop', result: done },
    )
    this.#writes.forget()
    return result
  }

  async #settle(decide: (service: Service | undefined) => WriteStep<Service, WriteResult>): Promise<WriteResult> {
    const { api, services, signal } = this.#publishing
    const store = watchedStore(services)
    const settled = await settledWrite({ ...this.#place, api, signal, store, known: this.cached, decide })
    if (settled.kind === 'refused') throw settled.error
    return settled.kind === 'stopped' ? settled.result : done
  }

  #remember({ kind, message }: Omit<Obstacle, 'at'>): WriteResult {
    this.#found = { kind, message, at: this.#publishing.monotonicNow() }
    return { kind, message }
  }
}
