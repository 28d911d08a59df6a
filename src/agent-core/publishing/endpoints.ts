import { z } from 'zod'
import { isApiError, isDecision } from '../kube/api-error.ts'
import type { Resource } from '../kube/resources.ts'
import { refKey } from '../util/object-key.ts'
import { commonLabels, labels, managedBy, ownerReferenceOf, type Publication, type PublishTarget } from './objects.ts'
import type { Publishing } from './publishing.ts'
import { deleteWhere, type ObjectStore, readNow } from './writes.ts'

/** Others may change or delete them, and may grant rights to them or remove their own: they are applied again after this time. */
const againAfterMs = 300_000

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

/** What was written last, or could not be. */
interface Applied {
  /** What it says, as a text to be compared. */
  readonly said: string
  /** Undefined where they are not ours to write. */
  readonly uid: string | undefined
  /** Monotonic milliseconds. */
  readonly at: number
}

/**
 * Keeps core/v1 Endpoints beside a slice, for readers that know no slices: derived data, applied whole by the holder of the slice and by
 * nobody else. They are neither watched nor compared. Trouble with them never stops a publication unless the cluster is away.
 */
export class OwnEndpoints {
  readonly #publishing: Publishing
  /** Namespace and name of the InferenceService, for the log. */
  readonly #key: string
  readonly #place: { readonly namespace: string; readonly name: string }
  #applied: Applied | undefined
  /** Why they are left alone, as it was logged. */
  #reason: string | undefined

  constructor(target: Pick<PublishTarget, 'namespace' | 'name'>, publishing: Publishing) {
    this.#publishing = publishing
    this.#key = refKey(target)
    this.#place = { namespace: target.namespace, name: publishing.naming.nameOf(target.name) }
  }

  /** Some were written. */
  get isThere(): boolean {
    return this.#applied?.uid !== undefined
  }

  /** They say what is wanted as far as is known, or are not ours to write. */
  isCurrent(publication: Publication): boolean {
    if (!this.#publishing.endpoints) return true
    if (!this.#applied) return publication.published === undefined
    return this.#applied.uid === undefined || this.#applied.said === saidBy(publication)
  }

  /**
   * Writes what is not known to be said already, and from time to time what is; with `afterOthers` also what another holder may have left.
   * Throws ApiError where the cluster is away.
   */
  async apply(publication: Publication, { afterOthers = false } = {}): Promise<void> {
    const { endpoints: resource, monotonicNow } = this.#publishing
    const isDue = this.#applied !== undefined && monotonicNow() - this.#applied.at >= againAfterMs
    if (!resource || (this.isCurrent(publication) && !isDue && !afterOthers)) return
    try {
      const uid = await this.#write(resource, publication)
      if (uid === undefined) this.#leaveAlone('Something else owns the Endpoints of this name.')
      else {
        this.#applied = { said: saidBy(publication), uid, at: monotonicNow() }
        this.#reason = undefined
      }
    } catch (error) {
      // A webhook that fails for them alone (500) keeps nothing from being published.
      if (!isDecision(error) && !isApiError(error, 500)) throw error
      this.#leaveAlone(error.message)
    }
  }

  /** Those of an agent. Throws ApiError, except where there is no right to do it. */
  async remove(): Promise<void> {
    try {
      await this.#removeWhere(isAgents)
    } catch (error) {
      if (!isApiError(error, 403)) throw error
      this.#leaveAlone(error.message)
    }
  }

  /** Those that no agent made: Kubernetes did, for a Service that selected Pods and is an agent's by now. */
  removeOthers(): Promise<void> {
    return this.#removeWhere((found) => !isAgents(found))
  }

  /** Drops what is known about them; sends no request. */
  forget(): void {
    this.#applied = undefined
    this.#reason = undefined
  }

  /** Answers the uid of what was written; undefined where they are somebody else's. */
  async #write(resource: Resource, publication: Publication): Promise<string | undefined> {
    const { api, signal } = this.#publishing
    const { namespace, name } = this.#place
    const { metadata, ...body } = endpointsBody(publication)
    const apply = async (uid: string | undefined): Promise<string> => {
      const wanted = { ...body, metadata: { ...metadata, ...(uid !== undefined && { uid }) } }
      return endpoints.parse(await api.apply(resource, namespace, name, wanted, { signal })).metadata.uid
    }
    try {
      if (this.#applied?.uid !== undefined) return await apply(this.#applied.uid)
    } catch (error) {
      // Those that we know are gone, or were made anew.
      if (!isApiError(error, 404, 409, 422)) throw error
    }
    const found = await readNow({ ...this.#place, api, signal, store: storeOf(resource) })
    return found && !isAgents(found) ? undefined : apply(found?.metadata.uid)
  }

  async #removeWhere(isMeant: (found: Endpoints) => boolean): Promise<void> {
    const { api, signal, endpoints: resource } = this.#publishing
    if (!resource) return
    await deleteWhere({ ...this.#place, api, signal, store: storeOf(resource), known: 'unread' }, isMeant)
    this.forget()
  }

  #leaveAlone(reason: string): void {
    const { log, monotonicNow } = this.#publishing
    this.#applied = { said: '', uid: undefined, at: monotonicNow() }
    if (this.#reason !== reason) log.warn('Endpoints left alone', { key: this.#key, reason })
    this.#reason = reason
  }
}

const storeOf = (resource: Resource): ObjectStore<Endpoints> => ({
  resource,
  parse: (raw) => endpoints.parse(raw),
  learn: () => undefined,
})

const saidBy = (publication: Publication): string => JSON.stringify(endpointsBody(publication))
