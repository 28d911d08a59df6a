import { refKey } from '../support/object-key.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Resource } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { endpointsAreCurrent, isAgents, parseEndpoints, type Endpoints } from './endpoints.ts'
import { endpointsBody, endpointsPatch, type Publication } from './objects.ts'
import { isAnswered, settledWrite, type ObjectStore } from './settled-write.ts'

interface Known {
  readonly endpoints: Endpoints | undefined
  /** Somebody else's, or we have no rights to them: left alone, and said so once. */
  readonly denied: boolean
}

type Place = Pick<Publication, 'namespace' | 'name' | 'serviceName'>

/**
 * Keeps core/v1 Endpoints beside the slices, for readers that know no slices. They are not watched: what is known of
 * them is the answer to our own last write. Trouble with them never stops a publication unless the cluster is away.
 */
export class EndpointsWriter {
  readonly #api: KubeApi
  readonly #resource: Resource | undefined
  readonly #log: Logger
  readonly #signal: AbortSignal
  readonly #known = new Map<string, Known>()

  /** Without a resource nothing is ever written. */
  constructor(options: {
    readonly api: KubeApi
    readonly resource: Resource | undefined
    readonly log: Logger
    readonly signal: AbortSignal
  }) {
    this.#api = options.api
    this.#resource = options.resource
    this.#log = options.log
    this.#signal = options.signal
  }

  has(key: string): boolean {
    return this.#known.get(key)?.endpoints !== undefined
  }

  isCurrent(publication: Publication): boolean {
    const known = this.#known.get(refKey(publication))
    if (!this.#resource || known?.denied) return true
    if (known?.endpoints) return endpointsAreCurrent(known.endpoints, publication)
    return publication.published === undefined
  }

  /** With `leftovers`, Endpoints of an earlier holder are looked for even where none are needed. */
  async write(publication: Publication, { leftovers = false } = {}): Promise<void> {
    const key = refKey(publication)
    const { published } = publication
    if (!this.#resource || (this.isCurrent(publication) && !leftovers)) return
    try {
      const settled = await settledWrite<Endpoints, 'foreign' | 'nothing to do'>({
        ...this.#place(publication),
        store: this.#store(this.#resource, key),
        known: this.#known.get(key)?.endpoints ?? (leftovers ? 'unread' : undefined),
        decide: (endpoints) => {
          if (!endpoints) {
            return published
              ? { do: 'create', body: endpointsBody(publication) }
              : { do: 'stop', result: 'nothing to do' }
          }
          if (!isAgents(endpoints)) return { do: 'stop', result: 'foreign' }
          if (endpointsAreCurrent(endpoints, publication)) return { do: 'stop', result: 'nothing to do' }
          return { do: 'patch', object: endpoints, body: endpointsPatch(publication, endpoints) }
        },
      })
      if (settled.kind === 'refused') this.#deny(key, 'Endpoints refused', settled.message)
      if (settled.kind === 'stopped' && settled.result === 'foreign') {
        this.#deny(key, 'Endpoints left alone', 'Endpoints of this name belong to somebody else.')
      }
    } catch (error) {
      if (!isAnswered(error, 403)) throw error
      this.#deny(key, 'Endpoints left alone', error.message)
    }
  }

  async remove(place: Place): Promise<void> {
    const key = refKey(place)
    const known = this.#known.get(key)
    this.#known.delete(key)
    if (!this.#resource || known?.denied) return
    try {
      await settledWrite<Endpoints, undefined>({
        ...this.#place(place),
        store: this.#store(this.#resource, key),
        known: known?.endpoints ?? 'unread',
        decide: (endpoints) =>
          endpoints && isAgents(endpoints) ? { do: 'delete', object: endpoints } : { do: 'stop', result: undefined },
      })
    } catch (error) {
      if (known) this.#known.set(key, known)
      if (!isAnswered(error, 403)) throw error
      this.#deny(key, 'Endpoints left alone', error.message)
      return
    }
    this.#known.delete(key)
  }

  /** Nothing is known of them any more; no request. */
  forget(key: string): void {
    this.#known.delete(key)
  }

  #deny(key: string, message: string, reason: string): void {
    this.#known.set(key, { endpoints: undefined, denied: true })
    this.#log.warn(message, { key, reason })
  }

  #place({ namespace, serviceName }: Place) {
    return { api: this.#api, namespace, name: serviceName, signal: this.#signal }
  }

  #store(resource: Resource, key: string): ObjectStore<Endpoints> {
    return {
      resource,
      parse: parseEndpoints,
      learn: (_namespace, _name, endpoints) => {
        const ours = endpoints && isAgents(endpoints) ? endpoints : undefined
        this.#known.set(key, { endpoints: ours, denied: false })
      },
    }
  }
}
