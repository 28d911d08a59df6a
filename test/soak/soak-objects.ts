import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { AgentWorld } from '../support/agent-world.ts'
import { startFakeHub, type FakeHub, type FakeRepo } from '../support/fake-hub.ts'
import { safetensors } from '../support/mlx-writer.ts'
import { sampleScriptArgs } from '../support/sample-servers/sample.ts'
import {
  isMlx,
  isOfDaemon,
  modelOf,
  refreshed,
  services,
  together,
  twin,
  type Fault,
  type ServiceName,
} from './faults.ts'
import { sizeOfSlots, slotsOfSize } from './processes.ts'

type PublishedEdit = Extract<Fault['what'], { kind: 'editPublished' }>['what']
type PublishedKind = Extract<Fault['what'], { kind: 'deletePublished' }>['object']

const priorities: Readonly<Record<ServiceName, string>> = {
  steady: 'critical',
  red: 'high',
  green: 'normal',
  'sky-blue': 'low',
  violet: 'normal',
  indigo: 'low',
}
/** An MLX model that a person put on the machine: it never changes. */
const localService = 'red'

const apiVersions: Readonly<Record<PublishedKind, string>> = {
  EndpointSlice: 'discovery.k8s.io/v1',
  Service: 'v1',
  Endpoints: 'v1',
}
/** How a sample server behaves. */
const script = { loadMs: 100 }
const defaultContextSize = 2_048
const firstContextInDaemon = 4_096
/** Of an MLX model; the same in each of its contents. */
const weights = safetensors([['model.norm.weight', [512]]])
/** An address without a listener and without a host. */
const wrong = { port: 9, address: '192.0.2.99' }

const listed = z.looseObject({
  endpoints: z
    .array(z.looseObject({ conditions: z.looseObject({ ready: z.boolean().optional() }).optional() }))
    .nullish(),
  ports: z.array(z.looseObject({})).nullish(),
})
const withPorts = z.looseObject({ spec: z.looseObject({ ports: z.array(z.looseObject({})) }) })
const wish = z.looseObject({
  spec: z.looseObject({ contextSize: z.number().optional(), parallelSlots: z.number().optional() }),
})
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

/** What of the soak is in the cluster and at its sources, and what others may do to it. */
export class SoakObjects implements AsyncDisposable {
  readonly #world: AgentWorld
  readonly #hub: FakeHub
  readonly #repos = new Map<ServiceName, FakeRepo>()
  /** Tokens of context of what Ollama serves. */
  #sizeInDaemon = firstContextInDaemon
  /** What the sources hold now, and how many contents each had. */
  readonly #contents = new Map<ServiceName, { readonly count: number; readonly text: string }>()

  private constructor(world: AgentWorld, hub: FakeHub) {
    this.#world = world
    this.#hub = hub
  }

  static async open(world: AgentWorld): Promise<SoakObjects> {
    const objects = new SoakObjects(world, await startFakeHub())
    for (const name of new Set(services.map(modelOf))) await objects.changeContent(name)
    return objects
  }

  /** Of the Hub that the agents shall ask. */
  get hubEndpoint(): string {
    return this.#hub.endpoint
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#hub[Symbol.asyncDispose]()
  }

  get namespace(): string {
    return this.#world.namespace
  }

  /** Of the model of a service. */
  contentOf(name: ServiceName): { readonly count: number; readonly text: string } {
    return this.#contents.get(modelOf(name)) ?? { count: 0, text: '' }
  }

  async changeContent(name: ServiceName): Promise<void> {
    const count = this.contentOf(name).count + 1
    if (!isMlx(name)) {
      const text = `GGUF and nothing more of ${name}, for the ${count}. time`
      this.#contents.set(name, { count, text })
      this.#world.files.serve(modelPath(name), Buffer.from(text), { etag: () => `"${count}"` })
      return
    }
    const text = JSON.stringify({ model_type: 'llama', of: `${name}, for the ${count}. time` })
    this.#contents.set(name, { count, text })
    const files = { [mlxConfig]: Buffer.from(text), 'model.safetensors': weights }
    if (name === localService) await writeFiles(this.#localFolder, files)
    else await this.#commit(name, files)
  }

  async #commit(name: ServiceName, files: Readonly<Record<string, Buffer>>): Promise<void> {
    const repo = this.#repos.get(name)
    if (repo) await repo.commit(files)
    else this.#repos.set(name, await this.#hub.addRepo(repoOf(name), files))
  }

  /** How many copies of its contents the store may have: none of what is served from where a person put it. */
  copiesOf(name: ServiceName): number {
    return name === localService ? 0 : this.contentOf(name).count
  }

  get #localFolder(): string {
    return join(lentFolder(this.#world.folder), localService)
  }

  #sourceOf(name: ServiceName): string {
    if (name === localService) return this.#localFolder
    return isMlx(name) ? `hf://${repoOf(name)}` : `${this.#world.files.origin}${modelPath(name)}`
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

  async applyModel(of: ServiceName): Promise<void> {
    const name = modelOf(of)
    const isRefreshed = refreshed.some((one) => one === name)
    await this.#world.applyModel(name, {
      ...{ source: this.#sourceOf(name), format: isMlx(name) ? 'mlx' : 'gguf' },
      ...(isRefreshed && { refreshPolicy: 'OnChange' }),
    })
  }

  async applyService(name: ServiceName): Promise<void> {
    await this.#world.applyService(name, {
      modelRef: modelOf(name),
      ...(isOfDaemon(name)
        ? {
            spec: { ...rankOf(name), contextSize: this.#sizeInDaemon },
            annotations: { 'metalbar.dev/runtime': 'ollama' },
          }
        : { spec: specOf(name) }),
    })
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

  /** See `SeenProcess.size`. */
  async resize(name: ServiceName, size: number): Promise<void> {
    if (isOfDaemon(name)) this.#sizeInDaemon = size
    for (const one of together(name))
      await this.edit(one, isMlx(one) ? { parallelSlots: slotsOfSize(size) } : { contextSize: size })
  }

  /** Undefined where there is no such service. */
  async sizeOf(name: ServiceName): Promise<number | undefined> {
    const reference = { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', metadata: { name } }
    const found = await this.#world.admin.get(reference)
    if (!found) return undefined
    const { contextSize = defaultContextSize, parallelSlots = 1 } = wish.parse(found).spec
    return isMlx(name) ? sizeOfSlots(parallelSlots) : contextSize
  }

  async deleteService(name: ServiceName): Promise<void> {
    await this.#world.deleteService(name)
  }

  async deleteModel(name: ServiceName): Promise<void> {
    await this.#world.deleteModel(modelOf(name))
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
const repoOf = (name: ServiceName): string => `soak/${name}`
/** The file of an MLX model that tells one content from another. */
export const mlxConfig = 'config.json'
/** The agents may serve what is in it; `folder` as of a soak. */
export const lentFolder = (folder: string): string => join(folder, 'lent')

async function writeFiles(folder: string, files: Readonly<Record<string, Buffer>>): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content)
}

const rankOf = (name: ServiceName) => ({
  priority: priorities[name],
  evictionProtection: name === 'steady',
  replicas: 1,
})

const specOf = (name: ServiceName): Readonly<Record<string, unknown>> => ({
  ...(isMlx(name)
    ? { env: [{ name: 'SAMPLE_SCRIPT', value: JSON.stringify(script) }] }
    : { extraArgs: ['--alias', name, ...sampleScriptArgs(script)] }),
  ...rankOf(name),
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
