import { z } from 'zod'
import type { AgentWorld } from '../support/agent-world.ts'
import { sampleScriptArgs } from '../support/sample-servers/sample.ts'
import { refreshed, services, twin, type Fault, type ServiceName } from './faults.ts'

type PublishedEdit = Extract<Fault['what'], { kind: 'editPublished' }>['what']
type PublishedKind = Extract<Fault['what'], { kind: 'deletePublished' }>['object']

const priorities: Readonly<Record<ServiceName, string>> = {
  steady: 'critical',
  red: 'high',
  green: 'normal',
  'sky-blue': 'low',
}
const apiVersions: Readonly<Record<PublishedKind, string>> = {
  EndpointSlice: 'discovery.k8s.io/v1',
  Service: 'v1',
  Endpoints: 'v1',
}
/** An address without a listener and without a host. */
const wrong = { port: 9, address: '192.0.2.99' }

const listed = z.looseObject({
  endpoints: z
    .array(z.looseObject({ conditions: z.looseObject({ ready: z.boolean().optional() }).optional() }))
    .nullish(),
  ports: z.array(z.looseObject({})).nullish(),
})
const withPorts = z.looseObject({ spec: z.looseObject({ ports: z.array(z.looseObject({})) }) })
const wish = z.looseObject({ spec: z.looseObject({ contextSize: z.number().optional() }) })
const endpoints = z.looseObject({
  subsets: z
    .array(
      z.looseObject({
        addresses: z.array(z.unknown()).nullish(),
        ports: z.array(z.looseObject({ port: z.number() })).nullish(),
      }),
    )
    .nullish(),
})

/** What of the soak is in the cluster, and what others may do to it. */
export class SoakObjects {
  readonly #world: AgentWorld
  /** What the sources hold now, and how many contents each had. */
  readonly #contents = new Map<ServiceName, { readonly count: number; readonly text: string }>()

  constructor(world: AgentWorld) {
    this.#world = world
    for (const name of services) this.changeContent(name)
  }

  get namespace(): string {
    return this.#world.namespace
  }

  /** Of the model of a service. */
  contentOf(name: ServiceName): { readonly count: number; readonly text: string } {
    return this.#contents.get(name) ?? { count: 0, text: '' }
  }

  changeContent(name: ServiceName): void {
    const count = this.contentOf(name).count + 1
    const text = `GGUF and nothing more of ${name}, for the ${count}. time`
    this.#contents.set(name, { count, text })
    this.#world.files.serve(modelPath(name), Buffer.from(text), { etag: () => `"${count}"` })
  }

  keyOf(name: ServiceName): string {
    return `${this.#world.namespace}/${name}`
  }

  async applyAll(): Promise<void> {
    for (const name of services) {
      await this.applyModel(name)
      await this.applyService(name)
    }
  }

  async applyModel(name: ServiceName): Promise<void> {
    const isRefreshed = refreshed.some((one) => one === name)
    const source = `${this.#world.files.origin}${modelPath(name)}`
    await this.#world.applyModel(name, { source, ...(isRefreshed && { refreshPolicy: 'OnChange' }) })
  }

  async applyService(name: ServiceName): Promise<void> {
    await this.#world.applyService(name, { spec: specOf(name) })
  }

  /** Its server is to be told apart from none of the service whose name it shares. */
  async applyTwin(): Promise<void> {
    await this.#world.applyService(twin.name, { modelRef: twin.of, spec: specOf(twin.of) })
  }

  async deleteTwin(): Promise<void> {
    await this.#world.deleteService(twin.name)
  }

  /** Undefined where there is no such service. */
  async uidOf(name: ServiceName): Promise<string | undefined> {
    const reference = { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', metadata: { name } }
    return (await this.#world.admin.get(reference))?.metadata.uid
  }

  async edit(name: ServiceName, spec: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#world.patchSpec(name, spec)
  }

  /** Undefined where there is no such service, or it names none. */
  async contextSize(name: ServiceName): Promise<number | undefined> {
    const reference = { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', metadata: { name } }
    const found = await this.#world.admin.get(reference)
    return found && wish.parse(found).spec.contextSize
  }

  async deleteService(name: ServiceName): Promise<void> {
    await this.#world.deleteService(name)
  }

  async deleteModel(name: ServiceName): Promise<void> {
    await this.#world.deleteModel(name)
  }

  async deletePublished(kind: PublishedKind, name: ServiceName): Promise<void> {
    await this.#world.admin.delete({ apiVersion: apiVersions[kind], kind, metadata: { name } })
  }

  async editPublished(what: PublishedEdit, name: ServiceName): Promise<void> {
    if (what === 'Service port') return this.#editService(name)
    const { admin } = this.#world
    if (what === 'Endpoints') {
      await admin.patch({ apiVersion: 'v1', kind: 'Endpoints', metadata: { name } }, { subsets: null })
      return
    }
    const reference = { apiVersion: apiVersions.EndpointSlice, kind: 'EndpointSlice', metadata: { name } }
    const found = await admin.get(reference)
    if (found) await admin.patch(reference, sliceEdits[what](listed.parse(found)))
  }

  async #editService(name: ServiceName): Promise<void> {
    const reference = { apiVersion: 'v1', kind: 'Service', metadata: { name } }
    const found = await this.#world.service(name)
    if (!found) return
    const { ports } = withPorts.parse(found).spec
    await this.#world.admin.patch(reference, { spec: { ports: ports.map((port) => ({ ...port, port: 8_088 })) } })
  }

  /** Ports that the Endpoints object names beside an address. */
  async endpointPorts(name: ServiceName): Promise<number[]> {
    const found = await this.#world.endpoints(name)
    const { subsets } = endpoints.parse(found ?? {})
    return (subsets ?? [])
      .flatMap(({ addresses, ports }) => ((addresses ?? []).length > 0 ? (ports ?? []) : []))
      .map(({ port }) => port)
  }
}

const modelPath = (name: ServiceName): string => `/${name}.gguf`

const specOf = (name: ServiceName): Readonly<Record<string, unknown>> => ({
  extraArgs: ['--alias', name, ...sampleScriptArgs({ loadMs: 100 })],
  priority: priorities[name],
  evictionProtection: name === 'steady',
  replicas: 1,
})

type Listed = z.infer<typeof listed>

const sliceEdits: Readonly<Record<Extract<PublishedEdit, `slice ${string}`>, (slice: Listed) => unknown>> = {
  'slice port': ({ ports }) => ({ ports: (ports ?? []).map((one) => ({ ...one, port: wrong.port })) }),
  'slice address': ({ endpoints: all }) => ({
    endpoints: (all ?? []).map((one) => ({ ...one, addresses: [wrong.address] })),
  }),
  'slice ready': ({ endpoints: all }) => ({
    endpoints: (all ?? []).map(({ conditions, ...one }) => ({
      ...one,
      conditions: { ...conditions, ready: conditions?.ready !== true },
    })),
  }),
}
