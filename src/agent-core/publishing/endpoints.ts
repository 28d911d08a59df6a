import { z } from 'zod'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Resource } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { refKey } from '../util/object-key.ts'
import { commonLabels, labels, managedBy, ownerReferenceOf, type Publication } from './objects.ts'
import { deleteWhere, type ObjectStore, readNow } from './writes.ts'

/** Others may change or delete them, and may grant rights to them or remove their own: they are applied again after this time. */
const againAfterMs = 300_000

/** Answers that say nothing of the object itself: the same request may succeed a moment later. */
const transient: readonly (number | undefined)[] = [undefined, 429, 503, 504]

const endpoints = z.object({
  metadata: z.object({
    uid: z.string(),
    resourceVersion: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
  }),
})
type Endpoints = z.infer<typeof endpoints>

/** An agent made it: ours, or a Go agent's that lacks the skip-mirror label. */
const isAgents = ({ metadata }: Endpoints): boolean => metadata.labels[labels.managedBy] === managedBy

/** The skip-mirror label must be in the first write: without it Kubernetes copies the addresses into a slice of its own. */
export const endpointsBody = (publication: Publication): { readonly metadata: object; readonly subsets: object[] } => ({
  metadata: {
    name: publication.serviceName,
    namespace: publication.namespace,
    labels: { ...commonLabels(publication), [labels.skipMirror]: 'true', [labels.accelerator]: 'metal' },
    ownerReferences: [ownerReferenceOf(publication)],
  },
  subsets: endpointsSubsets(publication),
})

/** Legacy readers know nothing of expiry, so a withdrawn address moves to where they do not look. */
const endpointsSubsets = ({ published, servicePorts }: Publication): object[] =>
  published === undefined
    ? []
    : [
        {
          [published.ready ? 'addresses' : 'notReadyAddresses']: [{ ip: published.address }],
          ports: servicePorts.map(({ name }) => ({ name, port: published.port, protocol: 'TCP' })),
        },
      ]

interface Applied {
  /** What was to be said, or could not be; compared as a text. */
  readonly said: string
  /** Undefined where they are not ours to write. */
  readonly uid: string | undefined
  /** Monotonic milliseconds. */
  readonly at: number
}

interface EndpointsOptions {
  readonly api: KubeApi
  /** Undefined: nothing is ever written. */
  readonly resource: Resource | undefined
  readonly log: Logger
  readonly signal: AbortSignal
  readonly monotonicNow: () => number
}

type Place = Pick<Publication, 'namespace' | 'name' | 'serviceName'>

/**
 * Keeps core/v1 Endpoints beside the slices, for readers that know no slices: derived data, applied whole by the holder of the slice and by
 * nobody else. They are neither watched nor compared. Trouble with them never stops a publication unless the cluster is away.
 */
export class EndpointsWriter {
  readonly #options: EndpointsOptions
  readonly #applied = new Map<string, Applied>()
  /** By key: why they are left alone, as it was logged. */
  readonly #reasons = new Map<string, string>()

  constructor(options: EndpointsOptions) {
    this.#options = options
  }

  has(key: string): boolean {
    return this.#applied.get(key)?.uid !== undefined
  }

  /** They say what is wanted as far as is known, or are not ours to write. */
  isCurrent(publication: Publication): boolean {
    const applied = this.#applied.get(refKey(publication))
    if (!this.#options.resource) return true
    if (!applied) return publication.published === undefined
    return applied.uid === undefined || applied.said === saidBy(publication)
  }

  /**
   * Writes what is not known to be said already, and from time to time what is; with `afterOthers` also what another holder may have left.
   * Throws ApiError where the cluster is away.
   */
  async apply(publication: Publication, { afterOthers = false } = {}): Promise<void> {
    const { resource, monotonicNow } = this.#options
    const key = refKey(publication)
    const applied = this.#applied.get(key)
    const isDue = applied !== undefined && monotonicNow() - applied.at >= againAfterMs
    if (!resource || (this.isCurrent(publication) && !isDue && !afterOthers)) return
    try {
      const uid = await this.#write(resource, publication, applied?.uid)
      if (uid === undefined) this.#leaveAlone(publication, 'Something else owns the Endpoints of this name.')
      else {
        this.#applied.set(key, { said: saidBy(publication), uid, at: monotonicNow() })
        this.#reasons.delete(key)
      }
    } catch (error) {
      if (!isApiError(error) || transient.includes(error.code)) throw error
      this.#leaveAlone(publication, error.message)
    }
  }

  /** Those of an agent. Throws ApiError, except where there is no right to do it. */
  async remove(place: Place): Promise<void> {
    const { resource } = this.#options
    if (!resource) return
    try {
      await deleteWhere({ ...this.#place(resource, place), known: 'unread' }, isAgents)
      this.forget(refKey(place))
    } catch (error) {
      if (!isApiError(error, 403)) throw error
      this.#leaveAlone(place, error.message)
    }
  }

  /** Those that no agent made: Kubernetes did, for a Service that selected Pods and is an agent's by now. */
  async removeOthers(place: Place): Promise<void> {
    const { resource } = this.#options
    if (!resource) return
    await deleteWhere({ ...this.#place(resource, place), known: 'unread' }, (found) => !isAgents(found))
    this.forget(refKey(place))
  }

  /** Drops what is known about them; sends no request. */
  forget(key: string): void {
    this.#applied.delete(key)
    this.#reasons.delete(key)
  }

  /** Answers the uid of what was written; undefined where they are somebody else's. */
  async #write(resource: Resource, publication: Publication, known: string | undefined): Promise<string | undefined> {
    const { api, signal } = this.#options
    const { namespace, serviceName } = publication
    const { metadata, ...body } = endpointsBody(publication)
    const apply = async (uid: string | undefined): Promise<string> => {
      const wanted = { ...body, metadata: { ...metadata, ...(uid !== undefined && { uid }) } }
      return endpoints.parse(await api.apply(resource, namespace, serviceName, wanted, signal)).metadata.uid
    }
    try {
      if (known !== undefined) return await apply(known)
    } catch (error) {
      // Those that we know are gone, or were made anew.
      if (!isApiError(error, 404, 409, 422)) throw error
    }
    const found = await readNow(this.#place(resource, publication))
    return found && !isAgents(found) ? undefined : apply(found?.metadata.uid)
  }

  #leaveAlone(place: Place, reason: string): void {
    const { log, monotonicNow } = this.#options
    const key = refKey(place)
    this.#applied.set(key, { said: '', uid: undefined, at: monotonicNow() })
    if (this.#reasons.get(key) !== reason) log.warn('Endpoints left alone', { key, reason })
    this.#reasons.set(key, reason)
  }

  #place(resource: Resource, { namespace, serviceName }: Place) {
    const store: ObjectStore<Endpoints> = { resource, parse: (raw) => endpoints.parse(raw), learn: () => undefined }
    return { api: this.#options.api, namespace, name: serviceName, signal: this.#options.signal, store }
  }
}

const saidBy = (publication: Publication): string => JSON.stringify(endpointsBody(publication))
