import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { load } from 'js-yaml'
import { z } from 'zod'

/** All that a client needs to reach an API server. */
export interface ClusterConnection {
  readonly server: string
  /** PEM of the throw-away authority that signed the server's certificate. */
  readonly ca: string
  readonly token: string
}

const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  uid: z.string().optional(),
  resourceVersion: z.string().optional(),
  generation: z.number().optional(),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  ownerReferences: z.array(z.looseObject({ kind: z.string(), name: z.string(), uid: z.string() })).optional(),
})

const kubeObject = z.looseObject({ apiVersion: z.string(), kind: z.string(), metadata })
/** Any object of the cluster as plain JSON. */
export type KubeObject = z.infer<typeof kubeObject>

const kubeList = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ resourceVersion: z.string().optional() }),
  items: z.array(z.looseObject({ metadata })).nullable(),
})

/** Names one object; every KubeObject is one. Without a namespace in it the client's own is meant, where the kind has any. */
export interface ObjectReference {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string | undefined }
}

export type KindReference = Pick<ObjectReference, 'apiVersion' | 'kind'>

/** What is asked of the API server; `body` is sent as JSON unless it is a string. */
export interface ApiRequest {
  readonly method: string
  /** From the leading slash, with the query. */
  readonly path: string
  readonly body?: unknown
  readonly contentType?: string
}

export interface ApiResponse {
  readonly status: number
  readonly text: string
}

/** The API server's refusal, in its own words. */
export class ApiError extends Error {
  override name = 'ApiError'
  readonly status: number
  readonly reason: string

  constructor(status: number, reason: string, message: string) {
    super(message)
    this.status = status
    this.reason = reason
  }
}

/** A server that is halted answers nothing: a forgotten one must not hold a test until its own limit. */
const requestLimitMs = 20_000

const clusterScoped = new Set([
  'Namespace',
  'CustomResourceDefinition',
  'ClusterRole',
  'ClusterRoleBinding',
  'Node',
  'PersistentVolume',
])

/** Where the plural is not the lower-case kind with an s. */
const plurals: Record<string, string> = { Endpoints: 'endpoints' }

/** A small client for arranging and looking at a cluster in tests; deliberately not the product's. */
export class AdminClient {
  readonly connection: ClusterConnection
  readonly namespace: string
  readonly #agent: Agent

  constructor(connection: ClusterConnection, namespace = 'default') {
    this.connection = connection
    this.namespace = namespace
    this.#agent = new Agent({ keepAlive: true, ca: connection.ca })
  }

  /** Posts the object; a `status` in it is then written through the status subresource, as the API ignores it in a POST. */
  async create(object: ObjectReference & Readonly<Record<string, unknown>>): Promise<KubeObject> {
    const path = this.#collection(object, object.metadata.namespace)
    const created = await this.#object({ method: 'POST', path, body: object })
    return 'status' in object ? this.patchStatus(object, object['status']) : created
  }

  /** Creates the object, or makes an existing one equal to it in the fields it names (server-side apply). */
  apply(object: ObjectReference & Readonly<Record<string, unknown>>): Promise<KubeObject> {
    return this.#apply(object, object)
  }

  /** Applies every document of a YAML text, in their order. */
  async applyManifest(yaml: string): Promise<KubeObject[]> {
    const applied: KubeObject[] = []
    const documents = yaml.split(/^---.*$/m).filter((document) => /^[^#\s]/m.test(document))
    for (const document of documents) applied.push(await this.#apply(kubeObject.parse(load(document)), document))
    return applied
  }

  /** The object, or undefined when there is none. */
  async get(reference: ObjectReference): Promise<KubeObject | undefined> {
    try {
      return await this.#object({ method: 'GET', path: this.#path(reference) })
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined
      throw error
    }
  }

  /** JSON merge patch: null removes a field. */
  patch(reference: ObjectReference, patch: unknown, subresource?: string): Promise<KubeObject> {
    const path = this.#path(reference) + (subresource === undefined ? '' : `/${subresource}`)
    return this.#object({ method: 'PATCH', path, body: patch, contentType: 'application/merge-patch+json' })
  }

  patchStatus(reference: ObjectReference, status: unknown): Promise<KubeObject> {
    return this.patch(reference, { status }, 'status')
  }

  /** Deletes in the background; an object that is already gone is fine. */
  async delete(reference: ObjectReference): Promise<void> {
    const body = { propagationPolicy: 'Background' }
    const response = await this.request({ method: 'DELETE', path: this.#path(reference), body })
    if (response.status !== 404) ensureOk(response)
  }

  /** Every object of the kind in the client's namespace. */
  async list(kind: KindReference, { labelSelector }: { labelSelector?: string } = {}): Promise<KubeObject[]> {
    const query = labelSelector === undefined ? '' : `?labelSelector=${encodeURIComponent(labelSelector)}`
    const response = await this.request({ method: 'GET', path: this.#collection(kind) + query })
    const { items } = kubeList.parse(ensureOk(response))
    return (items ?? []).map((item) => ({ ...item, apiVersion: kind.apiVersion, kind: kind.kind }))
  }

  async deleteAll(kind: KindReference): Promise<void> {
    ensureOk(await this.request({ method: 'DELETE', path: this.#collection(kind) }))
  }

  /** One request as it is: for what the verbs above do not cover, and to see refusals. */
  async request(asked: ApiRequest): Promise<ApiResponse> {
    const { method, path, body, contentType = 'application/json' } = asked
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.connection.token}`,
      accept: 'application/json',
    }
    const payload = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
    if (payload !== undefined) {
      headers['content-type'] = contentType
      headers['content-length'] = String(Buffer.byteLength(payload)) // Node sends none by itself with a DELETE
    }
    const outgoing = request(new URL(path, this.connection.server), {
      method,
      agent: this.#agent,
      headers,
      signal: AbortSignal.timeout(requestLimitMs),
    })
    const answered = new Promise<ApiResponse>((resolve, reject) => {
      outgoing.once('error', (error: NodeJS.ErrnoException) => {
        // The server may close a kept connection as a request goes out on it.
        if (outgoing.reusedSocket && error.code === 'ECONNRESET') resolve(this.request(asked))
        else reject(error)
      })
      outgoing.once('response', (incoming) => {
        text(incoming).then((answer) => {
          resolve({ status: incoming.statusCode ?? 0, text: answer })
        }, reject)
      })
    })
    outgoing.end(payload)
    return answered
  }

  /** Ends the connections that are kept open. */
  close(): void {
    this.#agent.destroy()
  }

  #apply(reference: ObjectReference, body: unknown): Promise<KubeObject> {
    const path = `${this.#path(reference)}?fieldManager=test&force=true`
    return this.#object({ method: 'PATCH', path, body, contentType: 'application/apply-patch+yaml' })
  }

  async #object(outgoing: ApiRequest): Promise<KubeObject> {
    return kubeObject.parse(ensureOk(await this.request(outgoing)))
  }

  #path(reference: ObjectReference): string {
    return `${this.#collection(reference, reference.metadata.namespace)}/${reference.metadata.name}`
  }

  #collection({ apiVersion, kind }: KindReference, namespace = this.namespace): string {
    const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    const scope = clusterScoped.has(kind) ? '' : `/namespaces/${namespace}`
    return `${root}${scope}/${plurals[kind] ?? `${kind.toLowerCase()}s`}`
  }
}

const statusBody = z.object({ reason: z.string().optional(), message: z.string().optional() })

function ensureOk({ status, text: answer }: ApiResponse): unknown {
  if (status >= 200 && status < 300) return JSON.parse(answer)
  const said = answer.startsWith('{') ? statusBody.safeParse(JSON.parse(answer)).data : undefined
  throw new ApiError(status, said?.reason ?? 'Unknown', said?.message ?? `${status}: ${answer.slice(0, 200)}`)
}
