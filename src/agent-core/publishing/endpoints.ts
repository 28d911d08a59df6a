import { z } from 'zod'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Resource } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { backOffCeilingMs } from '../util/back-off.ts'
import { keyOf, refKey, splitKey } from '../util/object-key.ts'
import { isHeld } from './claim.ts'
import type { ClaimedSlices } from './claimed-slice.ts'
import { renewEveryMs } from './heartbeat.ts'
import {
  commonLabels,
  holds,
  isOwnedBy,
  labels,
  managedBy,
  type MergePatch,
  type Owned,
  ownerReferenceOf,
  ownerReferencesWith,
  type Publication,
  type Published,
  publishedOf,
  type PublishTarget,
  serviceNameOf,
} from './objects.ts'
import { deleteWhere, ForeignEdits, type ObjectStore, settledWrite } from './writes.ts'

const ownerReference = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
  controller: z.boolean().optional(),
  blockOwnerDeletion: z.boolean().optional(),
})

const addresses = z
  .array(z.object({ ip: z.string() }))
  .nullish()
  .transform((list) => list ?? [])

const subsets = z
  .array(
    z.object({
      addresses,
      notReadyAddresses: addresses,
      ports: z
        .array(z.object({ name: z.string().default(''), port: z.number().int(), protocol: z.string().default('TCP') }))
        .nullish()
        .transform((list) => list ?? []),
    }),
  )
  .nullish()
  .transform((list) => list ?? [])

const endpoints = z.object({
  metadata: z.object({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    resourceVersion: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
    ownerReferences: z.array(ownerReference).default([]),
    managedFields: z.array(z.object({ manager: z.string().default(''), time: z.string().optional() })).default([]),
  }),
  subsets,
})

/** core/v1 Endpoints as far as we compare them; ours are written, never watched. */
type Endpoints = z.infer<typeof endpoints>

/** Throws a ZodError where it is not an Endpoints object. */
const parseEndpoints = (raw: unknown): Endpoints => endpoints.parse(raw)

/** An agent made it: ours, or a Go agent's that lacks the skip-mirror label. */
const isAgents = ({ metadata }: Endpoints): boolean => metadata.labels[labels.managedBy] === managedBy

const endpointsAreCurrent = (current: Endpoints, publication: Publication): boolean =>
  holds(current.metadata.labels, endpointsLabels(publication)) &&
  isOwnedBy(current, publication) &&
  subsetsAreCurrent(current.subsets, publication)

/** The server sorts the ports of a subset by a rule of its own. */
function subsetsAreCurrent(
  [subset, ...others]: Endpoints['subsets'],
  { published, servicePorts }: Publication,
): boolean {
  if (!published || !subset) return !published && !subset
  const { addresses, notReadyAddresses, ports } = subset
  const [shown, empty] = published.ready ? [addresses, notReadyAddresses] : [notReadyAddresses, addresses]
  return (
    others.length === 0 &&
    empty.length === 0 &&
    shown.length === 1 &&
    shown[0]?.ip === published.address &&
    ports.length === servicePorts.length &&
    servicePorts.every(({ name }) =>
      ports.some((is) => is.name === name && is.port === published.port && is.protocol === 'TCP'),
    )
  )
}

/** The skip-mirror label must be in the first write: without it Kubernetes copies the addresses into a slice of its own. */
export const endpointsBody = (publication: Publication): object => ({
  metadata: {
    name: publication.serviceName,
    namespace: publication.namespace,
    labels: endpointsLabels(publication),
    ownerReferences: [ownerReferenceOf(publication)],
  },
  subsets: endpointsSubsets(publication),
})

export const endpointsPatch = (publication: Publication, { metadata }: Owned): MergePatch => ({
  metadata: {
    labels: endpointsLabels(publication),
    ownerReferences: ownerReferencesWith(publication, metadata),
  },
  subsets: endpointsSubsets(publication),
})

const endpointsLabels = (publication: Publication): Readonly<Record<string, string>> => ({
  ...commonLabels(publication),
  [labels.skipMirror]: 'true',
  [labels.accelerator]: 'metal',
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

/** Rights may be granted, and others' Endpoints may go: they are looked at again, ever more seldom. */
const deniedBackOff = { firstMs: 30_000, maxMs: 600_000 }

/** Foreign Endpoints, or no rights to them: left alone until `until` of the monotonic clock, and logged once. */
interface Denial {
  readonly reason: string
  readonly failures: number
  readonly until: number
}

/** What Endpoints say, and so tells two writes apart. */
type Wish = Pick<Publication, 'uid' | 'servicePorts' | 'published'>

const wishOf = ({ uid, servicePorts, published }: Publication): Wish => ({ uid, servicePorts, published })

/** What we wrote, and whether it was said that others change it again and again. */
interface Written {
  readonly edits: ForeignEdits<Wish>
  isLogged: boolean
}

type Place = Pick<Publication, 'namespace' | 'name' | 'serviceName'>

/**
 * Keeps core/v1 Endpoints beside the slices, for readers that know no slices. They are not watched: what is known of them is the answer
 * to our own last request, or what a look at all of them found. Trouble with them never stops a publication unless the cluster is away.
 */
export class EndpointsWriter {
  readonly #api: KubeApi
  readonly #resource: Resource | undefined
  readonly #log: Logger
  readonly #signal: AbortSignal
  readonly #now: () => number
  readonly #random: () => number
  readonly #known = new Map<string, Endpoints>()
  readonly #denials = new Map<string, Denial>()
  readonly #written = new Map<string, Written>()

  /** Without a resource nothing is ever written. */
  constructor(options: {
    readonly api: KubeApi
    readonly resource: Resource | undefined
    readonly log: Logger
    readonly signal: AbortSignal
    readonly monotonicNow: () => number
    readonly random: () => number
  }) {
    this.#api = options.api
    this.#resource = options.resource
    this.#log = options.log
    this.#signal = options.signal
    this.#now = options.monotonicNow
    this.#random = options.random
  }

  has(key: string): boolean {
    return this.#known.has(key)
  }

  /** True also where there is nothing we may do about them, until a later try succeeds. */
  isCurrent(publication: Publication): boolean {
    const key = refKey(publication)
    return (
      !this.#resource ||
      this.#denials.has(key) ||
      this.#isAsKnown(publication) ||
      this.#waits(publication, this.#known.get(key))
    )
  }

  #isAsKnown(publication: Publication): boolean {
    const known = this.#known.get(refKey(publication))
    return known ? endpointsAreCurrent(known, publication) : publication.published === undefined
  }

  /**
   * Finds what others have done since to those that we know, with one list however many they are. False where that is not permitted, so
   * that each has to be asked for. Throws ApiError for everything else.
   */
  async lookAtAll(namespace: string | undefined): Promise<boolean> {
    if (!this.#resource || this.#known.size === 0) return true
    const before = new Map(this.#known)
    const found = new Map<string, Endpoints>()
    const query = { namespace, labelSelector: `${labels.managedBy}=${managedBy}` }
    try {
      for await (const { items } of this.#api.pages(this.#resource, query, this.#signal)) {
        for (const item of items) {
          const endpoints = parseEndpoints(item)
          found.set(refKey(endpoints.metadata), endpoints)
        }
      }
    } catch (error) {
      if (!isApiError(error, 403)) throw error
      return false
    }
    for (const [key, known] of before) {
      // Endpoints written meanwhile are newer than the list.
      if (this.#known.get(key) !== known) continue
      const { namespace: where, name } = splitKey(key)
      const now = found.get(keyOf(where, serviceNameOf(name)))
      if (now) this.#known.set(key, now)
      else this.#known.delete(key)
    }
    return true
  }

  /**
   * With `reread` the server is asked, as others may have changed them, or an earlier holder may have left some; with `despiteOthers`
   * they are written also where others have just changed them again and again.
   */
  async write(publication: Publication, { reread = false, despiteOthers = false } = {}): Promise<void> {
    const key = refKey(publication)
    const { published } = publication
    if (!this.#resource || this.#isDenied(key) || (this.#isAsKnown(publication) && !reread)) return
    const { edits } = this.#writtenOf(publication)
    const wish = wishOf(publication)
    try {
      const settled = await settledWrite<Endpoints, 'foreign' | 'others write' | 'nothing to do'>({
        ...this.#place(publication),
        store: this.#store(this.#resource, key),
        known: reread ? 'unread' : this.#known.get(key),
        decide: (endpoints) => {
          if (endpoints && !isAgents(endpoints)) return { do: 'stop', result: 'foreign' }
          const isRight = endpoints ? endpointsAreCurrent(endpoints, publication) : !published
          if (isRight) return { do: 'stop', result: 'nothing to do' }
          if (!despiteOthers && this.#waits(publication, endpoints)) return { do: 'stop', result: 'others write' }
          edits.writing(wish)
          if (endpoints) return { do: 'patch', object: endpoints, body: endpointsPatch(publication, endpoints) }
          return { do: 'create', body: endpointsBody(publication) }
        },
      })
      if (settled.kind === 'written') edits.wrote(wish)
      if (settled.kind === 'refused') this.#deny(key, 'Endpoints refused', settled.message)
      if (settled.kind === 'stopped' && settled.result === 'foreign') {
        this.#deny(key, 'Endpoints left alone', 'Something else owns the Endpoints of this name.')
      }
      const isRight = settled.kind === 'stopped' && settled.result === 'nothing to do' && this.#known.has(key)
      if (settled.kind === 'written' || isRight) this.#denials.delete(key)
    } catch (error) {
      if (!isApiError(error, 403)) throw error
      this.#deny(key, 'Endpoints left alone', error.message)
    }
  }

  async remove(place: Place): Promise<void> {
    const key = refKey(place)
    const known = this.#known.get(key)
    this.#known.delete(key)
    this.#written.delete(key)
    if (!this.#resource || this.#isDenied(key)) return
    try {
      const store = this.#store(this.#resource, key)
      await deleteWhere({ ...this.#place(place), store, known: known ?? 'unread' }, isAgents)
    } catch (error) {
      if (known) this.#known.set(key, known)
      if (!isApiError(error, 403)) throw error
      this.#deny(key, 'Endpoints left alone', error.message)
      return
    }
    this.#known.delete(key)
  }

  /** Those that no agent made: Kubernetes did, for a Service that selected Pods and is an agent's by now. */
  async removeOthers(place: Place): Promise<void> {
    if (!this.#resource) return
    const key = refKey(place)
    const store = this.#store(this.#resource, key)
    await deleteWhere({ ...this.#place(place), store, known: 'unread' }, (endpoints) => !isAgents(endpoints))
    this.#denials.delete(key)
  }

  /** Drops what is known about them; sends no request. */
  forget(key: string): void {
    this.#known.delete(key)
    this.#denials.delete(key)
    this.#written.delete(key)
  }

  /** What others make of our writes again and again is put right no sooner than that allows; said once. */
  #waits(publication: Publication, endpoints: Endpoints | undefined): boolean {
    const key = refKey(publication)
    const written = this.#written.get(key)
    const isAs = (wish: Wish): boolean =>
      endpoints ? endpointsAreCurrent(endpoints, { ...publication, ...wish }) : wish.published === undefined
    const edits = written?.edits.look(endpoints, isAs)
    if (!written || !edits) {
      if (written) written.isLogged = false
      return false
    }
    if (!written.isLogged) this.#log.warn('Endpoints changed by others', { key, reason: edits.message })
    written.isLogged = true
    // What is wanted differently now is written at once.
    return edits.mendInMs > 0 && written.edits.hasWritten(wishOf(publication))
  }

  #writtenOf({ namespace, name, serviceName }: Place): Written {
    const key = refKey({ namespace, name })
    const known = this.#written.get(key)
    if (known) return known
    const { fieldManager } = this.#api
    const of = { kind: 'Endpoints', namespace, name: serviceName, fieldManager, monotonicNow: this.#now } as const
    const written: Written = { edits: new ForeignEdits<Wish>(of), isLogged: false }
    this.#written.set(key, written)
    return written
  }

  #isDenied(key: string): boolean {
    return this.#now() < (this.#denials.get(key)?.until ?? -Infinity)
  }

  #deny(key: string, message: string, reason: string): void {
    const before = this.#denials.get(key)
    const failures = (before?.failures ?? 0) + 1
    const waitMs = backOffCeilingMs(deniedBackOff, failures) * (1 - 0.5 * this.#random())
    this.#known.delete(key)
    this.#denials.set(key, { reason, failures, until: this.#now() + waitMs })
    if (before?.reason !== reason) this.#log.warn(message, { key, reason })
  }

  #place({ namespace, serviceName }: Place) {
    return { api: this.#api, namespace, name: serviceName, signal: this.#signal }
  }

  #store(resource: Resource, key: string): ObjectStore<Endpoints> {
    return {
      resource,
      parse: parseEndpoints,
      learn: (_namespace, _name, endpoints) => {
        if (endpoints && isAgents(endpoints)) this.#known.set(key, endpoints)
        else this.#known.delete(key)
      },
    }
  }
}

/** So often Endpoints that say ready are tried to be written before the claim is given up without it. */
const lastWriteTries = 3

interface EndpointsUpkeepOptions {
  readonly endpoints: EndpointsWriter
  readonly slices: Pick<ClaimedSlices, 'held' | 'of'>
  readonly publication: (target: PublishTarget, published: Published | undefined) => Publication
  /** Where they are looked for; undefined = in all namespaces. */
  readonly namespace: string | undefined
  readonly log: Logger
  readonly signal: AbortSignal
  /** Time between two checks of the Endpoints. */
  readonly everyMs: number | undefined
}

/** Keeps the Endpoints of held claims as their slices are, between the writes of these and with the last of them. */
export class EndpointsUpkeep implements Disposable {
  readonly #options: EndpointsUpkeepOptions
  /** How often in a row the Endpoints of a claim that is given up could not be written. */
  readonly #lastWriteFailures = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  /** Each renewal of a claim asks for its Endpoints, as they may not be listed. */
  #asksForEach = false

  constructor(options: EndpointsUpkeepOptions) {
    this.#options = options
  }

  /** Begins the regular checks. */
  start(): void {
    this.#timer = setTimeout(() => {
      void this.#look().finally(() => {
        if (!this.#options.signal.aborted) this.start()
      })
    }, this.#options.everyMs ?? renewEveryMs).unref()
  }

  /** With a renewal of the claim. */
  renewed(target: PublishTarget, published: Published | undefined): void {
    const { slices } = this.#options
    void slices.of(target).beside(() => this.#keep(target, published, { reread: this.#asksForEach }))
  }

  /** Endpoints that the cluster refuses again and again do not keep other agents from the claim. */
  async writeLast(target: PublishTarget, published: Published | undefined): Promise<void> {
    const { endpoints, publication, log } = this.#options
    const key = refKey(target)
    try {
      await endpoints.write(publication(target, published), { reread: !endpoints.has(key), despiteOthers: true })
    } catch (error) {
      if (!isApiError(error) || error.code === undefined) throw error
      const failures = (this.#lastWriteFailures.get(key) ?? 0) + 1
      this.#lastWriteFailures.set(key, failures)
      if (failures < lastWriteTries) throw error
      log.warn('Endpoints left as they are', { key, error })
    }
    this.#lastWriteFailures.delete(key)
  }

  /** The signal must have been aborted before. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }

  /** A failure here does not stop the work it runs beside: the next look tries again. */
  async #keep(
    target: PublishTarget,
    published: Published | undefined,
    options?: { readonly reread: boolean },
  ): Promise<void> {
    const { endpoints, publication, log } = this.#options
    try {
      await endpoints.write(publication(target, published), options)
    } catch (error) {
      log.debug('Endpoints not kept', { key: refKey(target), error })
    }
  }

  /** Lists the Endpoints once, to find and correct foreign changes; without the list it corrects those known to differ. */
  async #look(): Promise<void> {
    const { endpoints, slices, namespace, log, signal } = this.#options
    try {
      this.#asksForEach = !(await endpoints.lookAtAll(namespace))
    } catch (error) {
      if (signal.aborted) return
      log.debug('Endpoints not checked', { error })
    }
    await Promise.all(slices.held().map((target) => this.#mend(target)))
  }

  async #mend(target: PublishTarget): Promise<void> {
    const slice = this.#options.slices.of(target)
    await slice.beside(async () => {
      // What is wanted may have changed while this waited for its turn.
      const wanted = slice.heldFor
      const cached = wanted && slice.cached(wanted)
      if (cached && isHeld(slice.judge(wanted))) await this.#keep(wanted, publishedOf(cached))
    })
  }
}
