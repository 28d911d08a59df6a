import { refKey } from '../support/object-key.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Service } from '../kube/resources.ts'
import {
  isOwnedBy,
  serviceBody,
  serviceIsCurrent,
  serviceNameOf,
  servicePatch,
  type Publication,
  type PublishTarget,
} from './objects.ts'
import { judgeService, type ServiceJudgement } from './service-judgement.ts'
import { isAnswered, readNow, settledWrite } from './settled-write.ts'
import { watchedStore, type WatchedKind } from './watched-kind.ts'
import { done, type WriteResult } from './write-result.ts'

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

/** Creates, adopts and removes Services; never takes one over that is somebody else's. */
export class ServiceWriter {
  readonly #api: KubeApi
  readonly #services: WatchedKind<Service>
  readonly #now: () => number
  readonly #signal: AbortSignal
  readonly #obstacles = new Map<string, Obstacle>()

  constructor(options: {
    readonly api: KubeApi
    readonly services: WatchedKind<Service>
    readonly monotonicNow: () => number
    readonly signal: AbortSignal
  }) {
    this.#api = options.api
    this.#services = options.services
    this.#now = options.monotonicNow
    this.#signal = options.signal
  }

  /** From the cache, and from what was found in the way less than {@link recheckMs} ago. */
  view(target: PublishTarget): { readonly service: ServiceView; readonly recheckInMs: number | undefined } {
    const service = this.#cached(target)
    const obstacle = service ? undefined : this.#obstacles.get(refKey(target))
    const recheckInMs = obstacle ? recheckMs - (this.#now() - obstacle.at) : 0
    return obstacle && recheckInMs > 0
      ? { service: { kind: obstacle.kind, message: obstacle.message }, recheckInMs }
      : { service: judgeService(service, target), recheckInMs: undefined }
  }

  /** True also where there is none of ours to be out of date. */
  isCurrent(target: PublishTarget, publication: Publication): boolean {
    const service = this.#cached(target)
    return !service || judgeService(service, target).kind !== 'ours' || serviceIsCurrent(service, publication)
  }

  /** A dry run tells whether the name is free and acceptable before anything is claimed; undefined = it is. */
  async findObstacle(target: PublishTarget, publication: Publication): Promise<WriteResult | undefined> {
    this.#obstacles.delete(refKey(target))
    let service = this.#cached(target)
    if (!service) {
      try {
        const options = { dryRun: true, signal: this.#signal }
        await this.#api.create(this.#services.resource, target.namespace, serviceBody(publication), options)
        return undefined
      } catch (error) {
        if (isAnswered(error, 404, 422)) return this.#remember(target, { kind: 'refused', message: error.message })
        if (!isAnswered(error, 409)) throw error
      }
      service = await readNow({ ...this.#place(target), store: watchedStore(this.#services) })
    }
    const judged = judgeService(service, target)
    return judged.kind === 'taken' ? this.#remember(target, judged) : undefined
  }

  /** `onCreate`: there was none, and so Kubernetes has deleted the Endpoints too. Throws what the server refuses: its name was free before. */
  async write(target: PublishTarget, publication: Publication, onCreate: () => void): Promise<WriteResult> {
    const settled = await settledWrite<Service, WriteResult>({
      ...this.#place(target),
      store: watchedStore(this.#services),
      known: this.#cached(target),
      decide: (service) => {
        const judged = judgeService(service, target)
        if (judged.kind === 'taken') return { do: 'stop', result: this.#remember(target, judged) }
        if (!service) {
          onCreate()
          return { do: 'create', body: serviceBody(publication) }
        }
        if (serviceIsCurrent(service, publication)) return { do: 'stop', result: done }
        return { do: 'patch', object: service, body: servicePatch(publication, service) }
      },
    })
    if (settled.kind === 'refused') throw settled.error
    return settled.kind === 'stopped' ? settled.result : done
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
    return settled.kind === 'stopped' ? settled.result : done
  }

  forget(key: string): void {
    this.#obstacles.delete(key)
  }

  #remember(target: PublishTarget, { kind, message }: Omit<Obstacle, 'at'>): WriteResult {
    this.#obstacles.set(refKey(target), { kind, message, at: this.#now() })
    return { kind, message }
  }

  #cached(target: PublishTarget): Service | undefined {
    return this.#services.cache.get(target.namespace, serviceNameOf(target.name))
  }

  #place({ namespace, name }: PublishTarget) {
    return { api: this.#api, namespace, name: serviceNameOf(name), signal: this.#signal }
  }
}
