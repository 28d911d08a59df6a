import { isApiError, rootMessage } from './api-error.ts'
import { KubeApi } from './kube-api.ts'
import type { OnAnswer } from './kube-transport.ts'
import { explainAbsence, ListWatch, type ListWatchState, missingNamespace } from './list-watch.ts'
import { ObjectCache } from './object-cache.ts'
import type { PinnedContext } from './pinned-context.ts'
import {
  type EndpointSlice,
  type InferenceService,
  type Model,
  parseEndpointSlice,
  parseInferenceService,
  parseModel,
  parseService,
  resources,
  type Service,
} from './resources.ts'
import type { Logger } from '../observability/logger.ts'
import { within } from '../util/within.ts'
import type { ClusterView } from '../../contract/cluster.ts'

/** A person waits for it, and what runs for the present cluster is not touched before it answered. */
const answerLimitMs = 5_000
/** Then what is missing is only named less exactly. */
const explainLimitMs = 1_000

interface DoubtOptions {
  /** Absent = all namespaces. */
  readonly namespace: string | undefined
  readonly limitMs?: number
  readonly whyUnreachable?: ClusterOptions['whyUnreachable']
}

/** Why nothing could be served in the cluster of this context, as a sentence; undefined where it answers and has LLMKube's kinds. */
export async function doubtAbout(
  context: PinnedContext,
  { namespace, limitMs = answerLimitMs, whyUnreachable }: DoubtOptions,
): Promise<string | undefined> {
  const api = new KubeApi(context)
  const signal = AbortSignal.timeout(limitMs)
  const silent = `Its API server ${context.server} did not answer within ${limitMs / 1_000} s.`
  let doubt: string | undefined = silent
  const ask = async (): Promise<void> => {
    try {
      await Promise.all(
        [resources.inferenceServices, resources.models].map((one) => api.list(one, { namespace, limit: 1 }, signal)),
      )
      doubt = undefined
    } catch (error) {
      const denied = await whyUnreachable?.(error).catch(() => undefined)
      doubt = denied ?? (await sentenceOn(api, error, signal.aborted ? silent : undefined))
    }
  }
  // A credential plugin may hang longer than any request.
  await within(limitMs, ask())
  return doubt
}

async function sentenceOn(api: KubeApi, error: unknown, silent: string | undefined): Promise<string> {
  if (isApiError(error, 404)) {
    return explainAbsence(api, resources.inferenceServices, AbortSignal.timeout(explainLimitMs))
  }
  const trouble = api.context.connection.troubleOf(error)
  if (trouble !== undefined) return trouble
  if (isApiError(error, 401)) return `Its API server does not accept these credentials (${error.detail}): log in again.`
  if (isApiError(error, 403)) return `These credentials lack a right there (${error.detail}): see metal-agent rights.`
  return silent ?? `Its API server ${api.context.server} does not answer: ${rootMessage(error)}.`
}

/** How often a missing namespace is looked for again, since a sentence asks a person to create it. */
const namespaceRetryMs = 15_000

/**
 * What every Service and EndpointSlice of an agent carries, ours and the Go agent's alike. Kubernetes gives what a Service carries to the
 * slices it makes for it, so that those of LLMKube's relays are seen too.
 */
const agentSelector = 'llmkube.ai/inference-service'

interface ClusterOptions {
  readonly context: PinnedContext
  /** Absent = all namespaces. */
  readonly namespace: string | undefined
  readonly log: Logger
  /** Called after every change of `view()` or of a cache's freshness. */
  readonly onState: () => void
  /** While the slices are not watched nothing may be concluded from their silence. */
  readonly onSliceWatch: (live: boolean) => void
  /** For an unknown time nothing may have been heard, although the watches were live. */
  readonly onGap: () => void
  readonly onAnswer?: OnAnswer | undefined
  /** One sentence where it is this machine that keeps us from the API server. */
  readonly whyUnreachable?: ((error: unknown) => Promise<string | undefined>) | undefined
  readonly now?: () => number
  readonly random?: () => number
}

/** One cluster through one pinned context: the four resources we watch, and the requests we make. */
export class Cluster {
  readonly api: KubeApi
  readonly inferenceServices = new ObjectCache<InferenceService>()
  readonly models = new ObjectCache<Model>()
  readonly services = new ObjectCache<Service>()
  readonly slices = new ObjectCache<EndpointSlice>()
  readonly #options: ClusterOptions
  readonly #watches: readonly Pick<ListWatch<never>, 'start' | 'stop' | 'resync' | 'state' | 'kind' | 'ignored'>[]
  readonly #stopped = new AbortController()
  #namespaceProblem: string | undefined
  #reported: string | undefined
  #namespaceChecked: Promise<void> | undefined
  #namespaceTimer: NodeJS.Timeout | undefined

  constructor(options: ClusterOptions) {
    this.#options = options
    this.api = new KubeApi(options.context, options.onAnswer)
    const { namespace, log, now, random, whyUnreachable } = options
    const shared = {
      api: this.api,
      namespace,
      log,
      ...(whyUnreachable && { whyUnreachable }),
      ...(now && { now }),
      ...(random && { random }),
    }
    const onState = (): void => this.#changed()
    this.#watches = [
      new ListWatch({
        ...shared,
        resource: resources.inferenceServices,
        parse: parseInferenceService,
        cache: this.inferenceServices,
        onState,
      }),
      new ListWatch({ ...shared, resource: resources.models, parse: parseModel, cache: this.models, onState }),
      new ListWatch({
        ...shared,
        resource: resources.services,
        labelSelector: agentSelector,
        parse: parseService,
        cache: this.services,
        onState,
      }),
      new ListWatch({
        ...shared,
        resource: resources.endpointSlices,
        labelSelector: agentSelector,
        parse: parseEndpointSlice,
        cache: this.slices,
        onState: (state) => {
          options.onSliceWatch(state.state === 'live')
          onState()
        },
      }),
    ]
  }

  start(): void {
    this.inferenceServices.onChange(() => this.#noticeNamespace())
    for (const watch of this.#watches) watch.start()
  }

  /** After a wake, when connections may be dead without knowing it: lists everything again, over none that was there before. */
  reconnect(): void {
    this.resync()
    this.#options.context.reconnect()
  }

  /** Lists everything again. */
  resync(): void {
    const { onSliceWatch, onGap } = this.#options
    onGap()
    onSliceWatch(false)
    for (const watch of this.#watches) watch.resync()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    clearTimeout(this.#namespaceTimer)
    await Promise.all([...this.#watches.map((watch) => watch.stop()), this.#namespaceChecked])
  }

  /** Undefined = all of them. */
  get namespace(): string | undefined {
    return this.#options.namespace
  }

  /** Every resource has been listed completely at least once. */
  get synced(): boolean {
    return [this.inferenceServices, this.models, this.services, this.slices].every((cache) => cache.synced)
  }

  /** The worst of the four watches speaks for all. */
  view(): ClusterView {
    const { context, namespace } = this.#options
    const worst = this.#worst()
    return {
      context: context.name,
      server: context.server,
      ...(namespace !== undefined && { namespace }),
      state: worst.state,
      message: worst.state === 'live' ? (this.#namespaceProblem ?? worst.message) : worst.message,
      ...(worst.cause !== undefined && { cause: worst.cause }),
      since: new Date(worst.since).toISOString(),
      ...(worst.retryAt !== undefined && { retryAt: new Date(worst.retryAt).toISOString() }),
    }
  }

  #worst(): ListWatchState {
    return this.#watches.map((watch) => watch.state()).reduce((a, b) => (severity(b) > severity(a) ? b : a))
  }

  /** The state of each watch, by the plural of its kind. */
  watchStates(): { readonly kind: string; readonly state: ListWatchState }[] {
    return this.#watches.map((watch) => ({ kind: watch.kind, state: watch.state() }))
  }

  /** What a person should know of what the API server says, as sentences. */
  notices(): string[] {
    const ofLogin = this.#options.context.notice
    const ofKinds = this.#watches.flatMap(({ kind, ignored }) =>
      ignored === undefined
        ? []
        : [
            `Some ${kind} that ${this.api.context.server} returns are ignored, such as ${ignored}, because Kubernetes does not allow their names or metadata: check that this is the right API server.`,
          ],
    )
    return [...(ofLogin === undefined ? [] : [ofLogin]), ...ofKinds]
  }

  consecutiveFailures(): number {
    return Math.max(...this.#watches.map((watch) => watch.state().consecutiveFailures))
  }

  #changed(): void {
    if (this.synced && this.#options.namespace !== undefined) {
      this.#namespaceChecked ??= this.#checkNamespace(this.#options.namespace)
    }
    this.#tell()
    this.#options.onState()
  }

  /** Nothing can be in a namespace that is not there. */
  #noticeNamespace(): void {
    if (this.#namespaceProblem === undefined || this.inferenceServices.size === 0) return
    this.#namespaceProblem = undefined
    clearTimeout(this.#namespaceTimer)
    this.#options.onState()
  }

  /** One line for the cluster, not one for each of its watches. */
  #tell(): void {
    const { log, context, namespace } = this.#options
    const { state, message } = this.#worst()
    if (message === this.#reported || state === 'connecting') return
    const hadReport = this.#reported !== undefined
    this.#reported = message
    if (state === 'live') log.info(hadReport ? 'recovered' : 'watching', { context: context.name, namespace })
    else log.warn('polling error', { state, reason: message })
  }

  async #checkNamespace(namespace: string): Promise<void> {
    const { log, onState } = this.#options
    const found = await missingNamespace(this.api, namespace, this.#stopped.signal).catch((error: unknown) => {
      log.debug('namespace not checked', { namespace, error })
      return null
    })
    if (this.#stopped.signal.aborted) return
    if (found !== null && found !== this.#namespaceProblem) {
      this.#namespaceProblem = found
      if (found !== undefined) log.warn('namespace missing', { reason: found })
      onState()
    }
    if (found === undefined) return
    this.#namespaceTimer = setTimeout(() => {
      this.#namespaceChecked = this.#checkNamespace(namespace)
    }, namespaceRetryMs)
  }
}

const order = ['live', 'connecting', 'stale', 'absent', 'denied', 'unauthorized', 'offline'] as const

const severity = ({ state }: ListWatchState): number => order.indexOf(state)
