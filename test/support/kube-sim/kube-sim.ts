import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { everything, type User } from './access.ts'
import { Faults, type RequestMatch } from './faults.ts'
import { collectGarbage } from './garbage.ts'
import { isObject, type JsonObject, type KubeObject } from './json.ts'
import type { Kind } from './kinds.ts'
import { Operations, type DeletePreconditions, type PatchType, type Subresource } from './operations.ts'
import { RequestLog } from './requests.ts'
import { parseLabelSelector } from './selectors.ts'
import { ApiServer } from './server.ts'
import { gone, StatusError } from './status-error.ts'
import { Store } from './store.ts'
import { parseYaml } from './yaml.ts'
import { throwAwayIdentity, type Identity } from './tls.ts'

export interface KubeSimOptions {
  /** Any free one unless told. */
  readonly port?: number
  /** `https` unless told. */
  readonly protocol?: 'http' | 'https'
  /** Namespaces that exist from the start; `default` unless told. */
  readonly namespaces?: readonly string[]
  /** Whether LLMKube's definitions are installed; true unless told. */
  readonly crds?: boolean
  /** Users beside the administrator. */
  readonly users?: readonly User[]
  /** Deletes what lost its owners, as kube-controller-manager does; true unless told. */
  readonly garbageCollection?: boolean
  /** The real server sends one about every minute. */
  readonly bookmarkEveryMs?: number
  /** Changes that are remembered for watches and continued lists. */
  readonly historyLimit?: number
  readonly now?: () => number
}

/** One object, as the in-process calls name it. */
export interface Reference {
  /** The plural; names that two groups share are not served here. */
  readonly resource: string
  /** `default` unless told. */
  readonly namespace?: string
  readonly name: string
}

/** What a client needs to reach a cluster. */
export interface Connection {
  readonly server: string
  /** PEM; empty over plain HTTP. */
  readonly ca: string
  readonly token: string
}

export interface SimChange {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly resource: string
  readonly object: KubeObject
}

const historyLimit = 50_000
const bookmarkEveryMs = 60_000
const crdFolder = join(import.meta.dirname, '../crds')
const manager = 'kube-sim'
const manifest = z.looseObject({ apiVersion: z.string(), kind: z.string() })

/**
 * A Kubernetes API server in memory, over HTTP(S) on loopback, that can be made to fail on demand. The in-process calls
 * act as the administrator, throw StatusError, and return copies.
 */
export class KubeSim implements AsyncDisposable {
  readonly faults = new Faults()
  readonly requests = new RequestLog()
  readonly administrator: User = { name: 'kube-sim-admin', token: 'kube-sim-admin-token', rules: everything }
  /** Added to the time of the `Date` header and of every timestamp the server sets. */
  clockOffsetMs = 0
  /** May be replaced: a removed user's requests are answered 401, a changed rule takes effect at once. */
  users: readonly User[]
  readonly #store: Store
  readonly #operations: Operations
  readonly #server: ApiServer
  readonly #identity: Identity | undefined
  readonly #stopGarbage: () => void
  #port: number
  #isRunning = false

  private constructor(options: KubeSimOptions, identity: Identity | undefined) {
    this.users = options.users ?? []
    this.#port = options.port ?? 0
    this.#identity = identity
    const now = () => (options.now ?? Date.now)() + this.clockOffsetMs
    this.#store = new Store({ historyLimit: options.historyLimit ?? historyLimit })
    this.#operations = new Operations({ store: this.#store, now })
    this.#stopGarbage =
      options.garbageCollection === false ? () => undefined : collectGarbage(this.#store, this.#operations)
    this.#server = new ApiServer({
      store: this.#store,
      operations: this.#operations,
      faults: this.faults,
      requests: this.requests,
      users: () => [this.administrator, ...this.users],
      now,
      bookmarkEveryMs: options.bookmarkEveryMs ?? bookmarkEveryMs,
      identity,
    })
  }

  static async start(options: KubeSimOptions = {}): Promise<KubeSim> {
    const identity = options.protocol === 'http' ? undefined : await throwAwayIdentity()
    const sim = new KubeSim(options, identity)
    for (const name of options.namespaces ?? ['default']) sim.createNamespace(name)
    if (options.crds !== false) await sim.installCrds()
    await sim.start()
    return sim
  }

  get url(): string {
    return `${this.#identity ? 'https' : 'http'}://127.0.0.1:${this.#port}`
  }

  /** Comes back after `stop`: same port, same objects. */
  async start(): Promise<void> {
    if (this.#isRunning) return
    this.#port = await this.#server.listen(this.#port)
    this.#isRunning = true
  }

  /** An outage: open connections are cut, new ones refused. The objects stay. */
  async stop(): Promise<void> {
    this.#isRunning = false
    await this.#server.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopGarbage()
    await this.stop()
  }

  /** For clients that take no kubeconfig; the administrator unless a user's name is given. */
  connection(user?: string): Connection {
    return { server: this.url, ca: this.#identity?.certificate ?? '', token: this.#user(user).token }
  }

  /** A kubeconfig of one context named `sim`, as YAML. It verifies the server's certificate; over HTTP there is none. */
  kubeconfig({ namespace, user }: { namespace?: string; user?: string } = {}): string {
    const { token } = this.#user(user)
    const trust = this.#identity
      ? `certificate-authority-data: ${Buffer.from(this.#identity.certificate).toString('base64')}`
      : 'insecure-skip-tls-verify: true'
    return [
      'apiVersion: v1',
      'kind: Config',
      'current-context: sim',
      'clusters:',
      `- {name: sim, cluster: {server: '${this.url}', ${trust}}}`,
      'users:',
      `- {name: sim, user: {token: ${token}}}`,
      'contexts:',
      `- {name: sim, context: {cluster: sim, user: sim${namespace === undefined ? '' : `, namespace: ${namespace}`}}}`,
      '',
    ].join('\n')
  }

  /** Installs LLMKube's definitions. */
  async installCrds(folder = crdFolder): Promise<void> {
    for (const file of (await readdir(folder)).filter((name) => name.endsWith('.yaml'))) {
      this.create(manifest.parse(parseYaml(await readFile(join(folder, file), 'utf8'))))
    }
  }

  /** Removes every definition, and with them their objects. */
  removeCrds(): void {
    const kind = this.#kind('customresourcedefinitions')
    for (const { metadata } of this.#store.list(kind)) {
      this.#operations.delete({ kind, namespace: '', name: metadata.name }, {})
    }
  }

  createNamespace(name: string): void {
    this.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }

  /** Objects go to the namespace they name, else to `default`; a `status` is kept, as if written right after. */
  create(object: {
    readonly apiVersion: string
    readonly kind: string
    readonly [field: string]: unknown
  }): KubeObject {
    const body = asJson(object)
    const [version = '', group = ''] = object.apiVersion.split('/').reverse()
    const kind = this.#operations.findKind({ group, version, kind: object.kind })
    if (!kind) throw new StatusError(404, 'NotFound', `no kind ${object.kind} in ${object.apiVersion}`)
    const metadata = body['metadata']
    const named = isObject(metadata) ? metadata['namespace'] : undefined
    const namespace = kind.namespaced ? (typeof named === 'string' ? named : 'default') : ''
    const created = this.#operations.create({ kind, namespace }, body, { manager })
    const status = body['status']
    if (status === undefined || !kind.hasStatus || kind.plural === 'namespaces') return structuredClone(created)
    const reference = { resource: kind.plural, namespace, name: created.metadata.name }
    return this.patch(reference, { status }, { subresource: 'status' })
  }

  get(reference: Reference): KubeObject | undefined {
    const { kind, namespace, name } = this.#target(reference)
    return structuredClone(this.#store.get(kind, namespace, name))
  }

  /** A JSON merge patch unless told. */
  patch(
    reference: Reference,
    patch: unknown,
    options: { type?: PatchType; subresource?: Subresource } = {},
  ): KubeObject {
    const { type = 'merge', ...rest } = options
    const target = this.#target(reference)
    const { object } = this.#operations.patch(target, type, asJson({ patch })['patch'] ?? null, { manager, ...rest })
    return structuredClone(object)
  }

  delete(reference: Reference, preconditions: DeletePreconditions = {}): void {
    this.#operations.delete(this.#target(reference), preconditions)
  }

  /** All namespaces unless one is given. */
  list(
    resource: string,
    { namespace, labelSelector = '' }: { namespace?: string; labelSelector?: string } = {},
  ): KubeObject[] {
    const objects = this.#store.list(this.#kind(resource), namespace).filter(parseLabelSelector(labelSelector))
    return structuredClone(objects)
  }

  /** Called in the same turn as the change. */
  onChange(listener: (change: SimChange) => void): () => void {
    return this.#store.onChange(({ type, kind, object }) => {
      listener({ type, resource: kind.plural, object: structuredClone(object) })
    })
  }

  /** The revision of the last change. */
  get resourceVersion(): string {
    return String(this.#store.revision)
  }

  /** Forgets what happened so far: watches from an earlier version and lists that are being paged are answered 410. */
  compact(): void {
    this.#store.compact()
  }

  /** How many watches are open now. */
  watchCount(on: RequestMatch = {}): number {
    return this.#server.watches(on).length
  }

  /** Does something to the watches that are open now. */
  breakWatches(how: 'close' | 'reset' | 'silence' | 'gone', on: RequestMatch = {}): void {
    for (const watch of this.#server.watches(on)) {
      if (how === 'close') watch.end()
      else if (how === 'reset') watch.reset()
      else if (how === 'silence') watch.silence()
      else watch.fail(gone('too old resource version: 1 (2)'))
    }
  }

  #user(name: string | undefined): User {
    const user = name === undefined ? this.administrator : this.users.find((one) => one.name === name)
    if (!user) throw new Error(`There is no user ${name ?? ''} in this sim.`)
    return user
  }

  #kind(plural: string): Kind {
    const kind = this.#operations.findKind({ plural })
    if (!kind) throw new StatusError(404, 'NotFound', `the server has no resource ${plural}`)
    return kind
  }

  #target({ resource, namespace = 'default', name }: Reference): { kind: Kind; namespace: string; name: string } {
    const kind = this.#kind(resource)
    return { kind, namespace: kind.namespaced ? namespace : '', name }
  }
}

/** What would arrive over the wire: no undefined, no dates, nothing shared with the caller. */
function asJson(value: object): JsonObject {
  const json: unknown = JSON.parse(JSON.stringify(value))
  // Parsed JSON of an object is a JSON object by definition.
  return json as JsonObject
}
