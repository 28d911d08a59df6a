import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import { inferenceServiceStatus, serviceName } from './inference-service-status.ts'
import { type Connection, type KubeAnswer, KubeHttp } from './kube-http.ts'
import { isRemoteFile, modelStatus } from './model-status.ts'
import { endpointSlice, inferenceService, isMetal, model, type InferenceService, type Model } from './objects.ts'
import { keyOf, Reflector } from './reflector.ts'
import { relayMode, type RelayModeOptions } from './relay-mode.ts'

export interface ControllerStandInOptions {
  readonly connection: Connection
  /** Absent = all of them. */
  readonly namespace?: string
  /** Absolute folders; none unless told, and then every Model with a local source is Failed. */
  readonly allowedHostPathRoots?: readonly string[]
  /** Asks http(s) sources for their size as the real one does; off unless told, since test servers count requests. */
  readonly readsSourceSize?: boolean
  /** LLMKube's controller looks at every metal service again after this time. */
  readonly requeueMs?: number
  /** As LLMKube 0.10's: it has relays, and this tells where the Pod of one answers. Absent = as 0.9's. */
  readonly relayPod?: RelayModeOptions['pod']
  readonly now?: () => number
}

type Slice = z.infer<typeof endpointSlice>

export interface ControllerStandIn extends AsyncDisposable {
  stop(): Promise<void>
}

const requeueMs = 90_000
/** After a lost race or an outage. */
const retryMs = 100
/** The real one does not wait longer for a source's header either. */
const sizeTimeoutMs = 2_000
const group = '/apis/inference.llmkube.dev/v1alpha1'

/**
 * Does to InferenceServices and Models with accelerator metal what LLMKube's controller does, over the API alone.
 * Resolves when it has read the cluster once.
 */
export async function startControllerStandIn(options: ControllerStandInOptions): Promise<ControllerStandIn> {
  const controller = new Controller(options)
  await controller.synced()
  return controller
}

class Controller implements ControllerStandIn {
  readonly #options: ControllerStandInOptions
  readonly #http: KubeHttp
  readonly #abort = new AbortController()
  readonly #services: Reflector<InferenceService>
  readonly #models: Reflector<Model>
  readonly #slices: Reflector<Slice>
  readonly #pending = new Map<string, () => Promise<void>>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  readonly #sizes = new Map<string, number | undefined>()
  readonly #ready: Promise<unknown>
  #worker: Promise<void> = Promise.resolve()
  #isWorking = false

  constructor(options: ControllerStandInOptions) {
    this.#options = options
    this.#http = new KubeHttp(options.connection)
    const { signal } = this.#abort
    const scope = options.namespace === undefined ? '' : `/namespaces/${options.namespace}`
    this.#services = new Reflector({
      http: this.#http,
      signal,
      schema: inferenceService,
      path: `${group}${scope}/inferenceservices`,
      onChange: (service) => {
        this.#enqueueService(keyOf(service))
      },
    })
    this.#models = new Reflector({
      http: this.#http,
      signal,
      schema: model,
      path: `${group}${scope}/models`,
      onChange: (changed) => {
        this.#enqueueModel(keyOf(changed))
      },
    })
    this.#slices = new Reflector({
      http: this.#http,
      signal,
      schema: endpointSlice,
      path: `/apis/discovery.k8s.io/v1${scope}/endpointslices`,
      onChange: ({ metadata }) => {
        // The label holds the Service's name and is read as the InferenceService's: with dots in it they differ.
        const name = metadata.labels?.['kubernetes.io/service-name']
        if (name === undefined) return
        this.#enqueueService(`${metadata.namespace}/${name}`)
        if (name.endsWith('-agent')) this.#enqueueService(`${metadata.namespace}/${name.slice(0, -'-agent'.length)}`)
      },
    })
    this.#ready = Promise.all([this.#services.synced, this.#models.synced, this.#slices.synced])
  }

  async synced(): Promise<void> {
    await this.#ready
  }

  async stop(): Promise<void> {
    this.#abort.abort()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#pending.clear()
    await Promise.all([this.#services.ended(), this.#models.ended(), this.#slices.ended(), this.#worker])
    this.#http.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #enqueueService(key: string): void {
    this.#enqueue(`service ${key}`, () => this.#reconcileService(key))
  }

  #enqueueModel(key: string): void {
    this.#enqueue(`model ${key}`, () => this.#reconcileModel(key))
  }

  #enqueue(id: string, work: () => Promise<void>): void {
    if (this.#abort.signal.aborted) return
    this.#pending.set(id, work)
    if (!this.#isWorking) this.#worker = this.#work()
  }

  async #work(): Promise<void> {
    this.#isWorking = true
    await this.#ready
    for (;;) {
      const [next] = this.#pending
      if (!next) break
      const [id, work] = next
      this.#pending.delete(id)
      try {
        await work()
      } catch {
        // The API server is away: the same again a little later.
        this.#later(id, work, retryMs)
      }
    }
    this.#isWorking = false
  }

  #later(id: string, work: () => Promise<void>, afterMs: number): void {
    if (this.#abort.signal.aborted) return
    clearTimeout(this.#timers.get(id))
    this.#timers.set(
      id,
      setTimeout(() => this.#enqueue(id, work), afterMs),
    )
  }

  async #reconcileService(key: string): Promise<void> {
    const service = this.#services.get(key)
    if (!service || service.metadata.deletionTimestamp !== undefined) return
    const used = this.#models.get(`${service.metadata.namespace}/${service.spec.modelRef}`)
    if (used && !isMetal(used)) return
    const all = [...this.#slices.values()].filter(({ metadata }) => metadata.namespace === service.metadata.namespace)
    const slices = await this.#slicesFor(service, all)
    const status = inferenceServiceStatus({ service, model: used, slices, nowMs: this.#now() })
    const answer = await this.#putStatus('inferenceservices', { ...service, status })
    if (answer.status === 200) this.#services.assume(service, inferenceService.parse(answer.body))
    const again = answer.status === 200 || answer.status === 404 ? (this.#options.requeueMs ?? requeueMs) : retryMs
    this.#later(`service ${key}`, () => this.#reconcileService(key), again)
  }

  #slicesFor(service: InferenceService, slices: readonly Slice[]): Promise<readonly Slice[]> | readonly Slice[] {
    const { relayPod } = this.#options
    if (relayPod) {
      const { signal } = this.#abort
      return relayMode({ http: this.#http, signal, service, slices, nowMs: this.#now(), pod: relayPod })
    }
    return slices.filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === serviceName(service))
  }

  async #reconcileModel(key: string): Promise<void> {
    const current = this.#models.get(key)
    const [namespace = '', name = ''] = key.split('/')
    for (const service of this.#services.values()) {
      if (service.metadata.namespace === namespace && service.spec.modelRef === name)
        this.#enqueueService(keyOf(service))
    }
    if (!current || !isMetal(current) || current.metadata.deletionTimestamp !== undefined) return
    const status = modelStatus(current, {
      allowedHostPathRoots: this.#options.allowedHostPathRoots ?? [],
      sizeBytes: await this.#sizeOf(current.spec.source),
      nowMs: this.#now(),
    })
    if (isDeepStrictEqual(status, current.status)) return
    const answer = await this.#putStatus('models', { ...current, status })
    if (answer.status === 200) this.#models.assume(current, model.parse(answer.body))
    else if (answer.status !== 404) this.#later(`model ${key}`, () => this.#reconcileModel(key), retryMs)
  }

  /** A full update, not a patch: what others wrote since the object was read makes it a conflict. */
  #putStatus(plural: string, object: InferenceService | Model): Promise<KubeAnswer> {
    const { namespace, name } = object.metadata
    const path = `${group}/namespaces/${namespace}/${plural}/${name}/status?fieldManager=llmkube-controller`
    return this.#http.request({ method: 'PUT', path, body: object, signal: this.#abort.signal })
  }

  async #sizeOf(source: string): Promise<number | undefined> {
    if (this.#options.readsSourceSize !== true || !isRemoteFile(source)) return undefined
    if (!this.#sizes.has(source)) this.#sizes.set(source, await readSize(source))
    return this.#sizes.get(source)
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}

/** A source that does not answer, or not with a length, has no size. */
async function readSize(source: string): Promise<number | undefined> {
  const response = await fetch(source, { method: 'HEAD', signal: AbortSignal.timeout(sizeTimeoutMs) }).catch(
    () => undefined,
  )
  const length = response?.ok === true ? Number(response.headers.get('content-length')) : 0
  return length > 0 ? length : undefined
}
