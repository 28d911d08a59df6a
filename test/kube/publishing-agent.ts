import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { ApiError } from '../../src/agent-core/kube/api-error.ts'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { ListWatch } from '../../src/agent-core/kube/list-watch.ts'
import { ObjectCache } from '../../src/agent-core/kube/object-cache.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import {
  parseEndpointSlice,
  parseService,
  resources,
  type EndpointSlice,
  type Service,
} from '../../src/agent-core/kube/resources.ts'
import type { LogFields } from '../../src/agent-core/observability/logger.ts'
import { Publisher } from '../../src/agent-core/publishing/publisher.ts'
import type { PublisherOptions } from '../../src/agent-core/publishing/publishing.ts'
import type { Connection } from '../support/controller-stand-in/kube-http.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** One agent's publishing room with real watches, a clock that is moved by hand, and a count of what it costs. */
export interface PublishingAgent<P = Publisher> extends AsyncDisposable {
  readonly publisher: P
  readonly api: CountingApi
  readonly clock: { now: number }
  /** Keys the publisher reported. */
  readonly changed: string[]
  /** Warnings it logged. */
  readonly warnings: { message: string; fields: LogFields }[]
  /** What it logged as news. */
  readonly infos: string[]
  readonly slices: ObjectCache<EndpointSlice>
  /** How many slices were read so far, whether a watch or an answer brought them. */
  readonly slicesRead: () => number
  readonly services: ObjectCache<Service>
}

/** Of which LLMKube the cluster serves the CRDs. */
export type Crds = '0.9' | '0.10' | 'unreadable'

/** Its writes and single reads, as `POST services`. */
export class CountingApi extends KubeApi {
  #seen: string[] = []
  /** Called with the kind and the name of what is about to be deleted. */
  beforeDelete: (plural: string, name: string) => Promise<void> = () => Promise.resolve()
  /** Called with the kind and the name of what is about to be created. */
  beforeCreate: (plural: string, name: string) => Promise<void> = () => Promise.resolve()
  /** Those of the InferenceServices' group. */
  crds: Crds = '0.9'
  schemasAsked = 0
  /** Reads of a single Service so far. */
  lookups = 0

  /** Since the last call. */
  takeRequests(): string[] {
    const seen = this.#seen
    this.#seen = []
    return seen
  }

  override schemaOf(): Promise<string> {
    this.schemasAsked += 1
    return this.crds === 'unreadable' ? Promise.reject(new ApiError('No answer.', {})) : Promise.resolve(this.crds)
  }

  override schemaAt(address: string): Promise<unknown> {
    const runtime = { enum: address === '0.10' ? ['omlx', 'tensorfold'] : ['omlx'] }
    const spec = { properties: { runtime } }
    return Promise.resolve({ components: { schemas: { 'dev.llmkube.InferenceService': { properties: { spec } } } } })
  }

  override get(...parameters: Parameters<KubeApi['get']>): Promise<unknown> {
    this.#seen.push(`GET ${parameters[0].plural}`)
    if (parameters[0].plural === 'services') this.lookups += 1
    return super.get(...parameters)
  }

  override async create(...parameters: Parameters<KubeApi['create']>): Promise<unknown> {
    const [{ plural }, , body, options] = parameters
    this.#seen.push(`POST ${plural}${options?.dryRun === true ? ' (dry run)' : ''}`)
    if (options?.dryRun !== true) await this.beforeCreate(plural, named.parse(body).metadata.name)
    return super.create(...parameters)
  }

  override mergePatch(...parameters: Parameters<KubeApi['mergePatch']>): Promise<unknown> {
    this.#seen.push(`PATCH ${parameters[0].plural}`)
    return super.mergePatch(...parameters)
  }

  override apply(...parameters: Parameters<KubeApi['apply']>): Promise<unknown> {
    this.#seen.push(`APPLY ${parameters[0].plural}`)
    return super.apply(...parameters)
  }

  override async delete(...parameters: Parameters<KubeApi['delete']>): Promise<void> {
    const [{ plural }, , name] = parameters
    this.#seen.push(`DELETE ${plural}`)
    await this.beforeDelete(plural, name)
    return super.delete(...parameters)
  }
}

const named = z.object({ metadata: z.object({ name: z.string() }) })

interface Place {
  readonly connection: Connection
  readonly namespace: string
}

export const startPublishing = (
  place: Place,
  node: string,
  options: Partial<Pick<PublisherOptions, 'renewEveryMs' | 'endpoints'>> = {},
): Promise<PublishingAgent> => startPublishingRoom(place, node, (given) => new Publisher({ ...given, ...options }))

export async function startPublishingRoom<P extends AsyncDisposable & Pick<Publisher, 'setWatchLive'>>(
  { connection, namespace }: Place,
  node: string,
  create: (options: PublisherOptions) => P,
): Promise<PublishingAgent<P>> {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'kubeconfig')
  await writeFile(file, kubeconfig(connection))
  const api = new CountingApi(await PinnedContext.load({ file, env: {} }))

  const clock = { now: 1_000_000 }
  const changed: string[] = []
  const warnings: { message: string; fields: LogFields }[] = []
  const infos: string[] = []
  const slices = new ObjectCache<EndpointSlice>()
  let slicesRead = 0
  const parseSlice = (raw: unknown): EndpointSlice => {
    slicesRead += 1
    return parseEndpointSlice(raw)
  }
  const services = new ObjectCache<Service>()
  const publisher = create({
    api,
    services: { resource: resources.services, parse: parseService, cache: services },
    slices: { resource: resources.endpointSlices, parse: parseSlice, cache: slices },
    endpoints: resources.endpoints,
    node: { id: node, displayName: `${node}.local` },
    agentVersion: 'v0.0.1-test',
    log: {
      ...silentLog,
      info: (message) => infos.push(message),
      warn: (message, fields = {}) => warnings.push({ message, fields }),
    },
    onChange: (key) => changed.push(key),
    monotonicNow: () => clock.now,
  })
  const watchOf = { api, namespace, labelSelector: 'llmkube.ai/inference-service', log: silentLog }
  const onState = (): void => undefined
  const watches = [
    new ListWatch({ ...watchOf, resource: resources.services, parse: parseService, cache: services, onState }),
    new ListWatch({
      ...watchOf,
      resource: resources.endpointSlices,
      parse: parseSlice,
      cache: slices,
      onState,
    }),
  ]
  for (const watch of watches) watch.start()
  await eventually(() => watches.every((watch) => watch.state().state === 'live'), { what: 'both watches' })
  return {
    publisher,
    api,
    clock,
    changed,
    warnings,
    infos,
    slices,
    slicesRead: () => slicesRead,
    services,
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}

const kubeconfig = ({ server, ca, token }: Connection): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [
      {
        name: 'test',
        cluster: { server, ...(ca === '' ? {} : { 'certificate-authority-data': Buffer.from(ca).toString('base64') }) },
      },
    ],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  })
