import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { Agent } from '../../src/agent-core/agent/agent.ts'
import type { AgentOptions as CoreOptions } from '../../src/agent-core/agent/agent-options.ts'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { HostInterface } from '../../src/agent-core/platform/platform.ts'
import { agentSettings, type AgentSettings } from '../../src/agent-core/settings/settings.ts'
import { loadNodeId } from '../../src/agent-core/state/node-id.ts'
import { AdminClient, type ClusterConnection, type KubeObject } from './control-plane/admin-client.ts'
import { writeKubeconfig } from './control-plane/kubeconfig.ts'
import { startControllerStandIn } from './controller-stand-in/controller-stand-in.ts'
import { eventually } from './eventually.ts'
import { startFileServer, type FileServer } from './file-server.ts'
import { patienceMs, Recorder, RunningAgent } from './running-agent.ts'
import { StatedMemory, statedPlatform } from './stated-memory.ts'
import { sampleScriptArgs, sampleServerPath, type SampleScript } from './sample-servers/sample.ts'
import { removeFolder } from './temporary-folder.ts'

/** Of the documentation network: the API server accepts it and no client can connect to it. */
export const hostIp = '192.0.2.7'
const bridge: HostInterface = {
  ...{ name: 'bridge100', address: hostIp, netmask: '255.255.255.0' },
  ...{ family: 'IPv4', internal: false },
}

/** Settings: a sample server is taken to need 537 MB, so that a second one of a service does not fit beside the first. */
export const roomForOne = { memoryBudgetBytes: 800 * 1024 ** 2 }

/** Enough for a model as long as a sample server serves it. */
export const fakeGguf = Buffer.from('GGUF and nothing more')

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const platform = hostPlatform()

/** What the agent's own options have for tests, and no others. */
type TrialOptions = Pick<
  CoreOptions,
  | 'onShutdown'
  | 'liveness'
  | 'random'
  | 'idleMinuteMs'
  | 'leaveLimitMs'
  | 'memoryClock'
  | 'memoryTrial'
  | 'refreshEveryMs'
  | 'turnsTrial'
  | 'supplyEveryMs'
  | 'powerTrial'
>

export interface AgentOptions extends TrialOptions {
  /** Of the state folder, and what others call this agent; the same name again is the same agent at its next start. */
  readonly name?: string
  readonly hostIp?: string
  /** Of a user who is not the administrator. */
  readonly connection?: ClusterConnection
  /** An existing kubeconfig, instead of one written for `connection`. */
  readonly kubeconfig?: string
  /** The interfaces of its machine; absent = those of this one, and one with the published address. */
  readonly interfaces?: () => readonly HostInterface[]
  readonly everyNamespace?: boolean
  readonly allowlist?: readonly string[]
  /** What the command line would have said beside all this. */
  readonly settings?: Partial<AgentSettings>
  /** What is asked of it then is done as soon as it can be. */
  readonly beforeStart?: (agent: RunningAgent) => void
  readonly llamaServer?: string
  readonly drainTimeoutMs?: number
  /** Absent = far more memory than any test needs. */
  readonly memory?: StatedMemory
}

export interface ServiceOptions {
  readonly spec?: Readonly<Record<string, unknown>>
  /** How the sample server shall behave. */
  readonly script?: SampleScript
  readonly modelRef?: string
  readonly namespace?: string
  readonly annotations?: Readonly<Record<string, string>>
}

export interface ModelOptions {
  readonly source?: string
  readonly format?: string
  readonly accelerator?: string
  /** Further fields of `spec.hardware`. */
  readonly hardware?: Readonly<Record<string, unknown>>
  readonly files?: readonly string[]
  readonly sha256?: string
  readonly refreshPolicy?: 'OnChange'
  readonly namespace?: string
}

/** A namespace of its own on an API server, a server of model files, and agents in between. */
export class AgentWorld implements AsyncDisposable {
  readonly namespace: string
  readonly admin: AdminClient
  readonly files: FileServer
  readonly folder: string
  /** Where every Model points unless told. */
  readonly modelUrl: string
  readonly #connection: ClusterConnection
  readonly #parts = new AsyncDisposableStack()
  readonly #pids = new Set<number>()

  private constructor(connection: ClusterConnection, namespace: string, folder: string, files: FileServer) {
    this.#connection = connection
    this.namespace = namespace
    this.folder = folder
    this.files = files
    this.admin = new AdminClient(connection, namespace)
    this.modelUrl = files.serve('/tiny.gguf', fakeGguf).url
  }

  /** `controller: false` leaves out the stand-in for LLMKube's. */
  static async open(
    connection: ClusterConnection,
    { controller = true, namespace }: { controller?: boolean; namespace?: string } = {},
  ): Promise<AgentWorld> {
    const folder = await mkdtemp(join(tmpdir(), 'mb-agent-'))
    const name = namespace ?? `agent-${randomBytes(4).toString('hex')}`
    const world = new AgentWorld(connection, name, folder, await startFileServer())
    if (namespace === undefined) await world.createNamespace(name)
    if (controller) await world.startController(name)
    return world
  }

  async createNamespace(name = `agent-${randomBytes(4).toString('hex')}`): Promise<string> {
    await this.admin.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    return name
  }

  /** `allowedHostPathRoots`: below them it lets a Model have a path of the machine as its source. */
  async startController(
    namespace = this.namespace,
    { allowedHostPathRoots = [] }: { readonly allowedHostPathRoots?: readonly string[] } = {},
  ): Promise<void> {
    const options = { connection: this.#connection, namespace, allowedHostPathRoots }
    this.#parts.use(await startControllerStandIn(options))
  }

  /** What an agent of this world is started with; an earlier one of the same name left its state folder. */
  async preparedAgent(options: AgentOptions = {}) {
    const { name = 'mac', connection = this.#connection } = options
    const stateDir = join(this.folder, name)
    await mkdir(stateDir, { recursive: true, mode: 0o700 })
    const kubeconfig =
      options.kubeconfig ?? (await writeKubeconfig(join(this.folder, `${name}.kubeconfig`), connection))
    const settings = agentSettings.parse({
      kubeconfig,
      ...(options.everyNamespace === true ? {} : { namespace: this.namespace }),
      inferenceServiceAllowlist: options.allowlist ?? [],
      modelStore: join(stateDir, 'models'),
      allowedModelRoots: [this.folder],
      allowedDownloadHosts: ['127.0.0.1', 'localhost'],
      stateDir,
      llamaServer: options.llamaServer ?? sampleServerPath,
      startupStallMs: 60_000,
      // Sample servers are told by arguments how to behave.
      allowUnsafeExtraArgs: true,
      drainLimitMs: options.drainTimeoutMs ?? 30_000,
      hostIp: options.hostIp ?? hostIp,
      // Many agents share this machine and its one ingress port; what a relay gets has tests of its own.
      publish: 'direct',
      port: 0,
      logLevel: 'info',
      ...options.settings,
    })
    const identity = await loadNodeId({ file: join(this.folder, `${name}.node`), displayName: name })
    return { settings, identity, stateDir, kubeconfig }
  }

  async startAgent(options: AgentOptions = {}): Promise<RunningAgent> {
    const { settings, identity, stateDir, kubeconfig } = await this.preparedAgent(options)
    const log = new Recorder()
    const { platform } = options.memory ?? new StatedMemory()
    const agent = new Agent({
      ...options,
      settings,
      // The address that is published where a test says nothing else is this machine's.
      platform: statedPlatform(platform, {
        interfaces: options.interfaces ?? (() => [...platform.interfaces(), bridge]),
      }),
      identity,
      version: 'v0-test',
      env: process.env,
      log,
      notices: [],
    })
    const running = new RunningAgent(agent, { namespace: this.namespace, log, stateDir, kubeconfig })
    // As an icon, for which nothing is measured.
    agent.subscribe(() => {
      for (const { pid } of agent.snapshot('icon').services) if (pid !== undefined) this.#pids.add(pid)
    }, 'icon')
    this.#parts.defer(() => running.stop())
    options.beforeStart?.(running)
    await agent.start()
    return running
  }

  applyModel(name: string, options: ModelOptions = {}) {
    const { source = this.modelUrl, format = 'gguf', accelerator = 'metal', hardware, namespace } = options
    const { files, sha256, refreshPolicy } = options
    const fields = { ...(files && { files }), ...(sha256 && { sha256 }), ...(refreshPolicy && { refreshPolicy }) }
    return this.admin.apply({
      apiVersion,
      kind: 'Model',
      metadata: { name, ...(namespace !== undefined && { namespace }) },
      spec: { source, format, hardware: { accelerator, ...hardware }, ...fields },
    })
  }

  applyService(name: string, { spec, script, modelRef = name, namespace, annotations }: ServiceOptions = {}) {
    return this.admin.apply({
      apiVersion,
      kind: 'InferenceService',
      metadata: { name, ...(namespace !== undefined && { namespace }), ...(annotations && { annotations }) },
      spec: { modelRef, ...(script && { extraArgs: sampleScriptArgs(script) }), ...spec },
    })
  }

  /** A Model and the InferenceService that serves it. */
  async apply(name: string, options: ServiceOptions & ModelOptions = {}): Promise<void> {
    await this.applyModel(name, options)
    await this.applyService(name, options)
  }

  /** An agent of its own, a Model and an InferenceService, as soon as that serves. */
  async serving(name: string, options: AgentOptions & ServiceOptions & ModelOptions = {}) {
    const agent = await this.startAgent(options)
    await this.apply(name, options)
    return { agent, ...(await agent.untilReady(name)) }
  }

  patchSpec(name: string, spec: Readonly<Record<string, unknown>>): Promise<KubeObject> {
    return this.admin.patch(inferenceService(name), { spec })
  }

  patchModel(name: string, spec: Readonly<Record<string, unknown>>): Promise<KubeObject> {
    return this.admin.patch({ apiVersion, kind: 'Model', metadata: { name } }, { spec })
  }

  deleteService(name: string): Promise<void> {
    return this.admin.delete(inferenceService(name))
  }

  deleteModel(name: string): Promise<void> {
    return this.admin.delete({ apiVersion, kind: 'Model', metadata: { name } })
  }

  async contextSize(name: string): Promise<number | undefined> {
    return specShape.parse((await this.admin.get(inferenceService(name)))?.['spec']).contextSize
  }

  async status(name: string): Promise<z.infer<typeof statusShape>> {
    return statusShape.parse((await this.admin.get(inferenceService(name)))?.['status'] ?? {})
  }

  /** What stands in the condition that only the agent writes, such as `True Serving`. */
  async condition(name: string): Promise<string | undefined> {
    const ours = await this.#ourCondition(name)
    return ours && `${ours.status} ${ours.reason}`
  }

  async conditionMessage(name: string): Promise<string | undefined> {
    return (await this.#ourCondition(name))?.message
  }

  async #ourCondition(name: string) {
    return (await this.status(name)).conditions.find(({ type }) => type === 'MetalAgent')
  }

  /** Reasons of the Events about an InferenceService, in no order. */
  async eventReasons(name: string): Promise<string[]> {
    return (await this.events(name)).map(({ reason }) => reason).sort()
  }

  /** The Events about an InferenceService, in no order. */
  async events(name: string): Promise<z.infer<typeof eventShape>[]> {
    const events = await this.admin.list({ apiVersion: 'v1', kind: 'Event' })
    return events
      .map((event) => eventShape.parse(event))
      .filter(({ involvedObject: { kind, name: about } }) => kind === 'InferenceService' && about === name)
  }

  service(name: string, namespace = this.namespace): Promise<KubeObject | undefined> {
    return this.admin.get({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace } })
  }

  endpoints(name: string): Promise<KubeObject | undefined> {
    return this.admin.get({ apiVersion: 'v1', kind: 'Endpoints', metadata: { name } })
  }

  slice(name: string, namespace = this.namespace): Promise<KubeObject | undefined> {
    return this.admin.get({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name, namespace },
    })
  }

  /** The holder by the annotation of the slice; undefined where there is none. */
  async claim(name: string): Promise<unknown> {
    const text = claimedShape.safeParse(await this.slice(name)).data?.metadata.annotations['metalbar.dev/claim']
    return text === undefined ? undefined : JSON.parse(text)
  }

  /** Where pods are sent; undefined where there is no slice or it names no address. */
  async published(name: string, namespace = this.namespace): Promise<Published | undefined> {
    const slice = await this.slice(name, namespace)
    const parsed = sliceShape.safeParse(slice).data
    const [endpoint] = parsed?.endpoints ?? []
    const [address] = endpoint?.addresses ?? []
    const port = parsed?.ports?.[0]?.port
    if (!endpoint || address === undefined || port === undefined) return undefined
    return { address, port, ready: endpoint.conditions.ready }
  }

  /** The address is withdrawn or gone. */
  async untilNotReady(name: string): Promise<void> {
    await eventually(async () => (await this.published(name))?.ready !== true, {
      timeoutMs: patienceMs,
      what: `the withdrawal of ${name}`,
    })
  }

  /** Which of the three published objects there are. */
  async publishedKinds(name: string): Promise<string[]> {
    const objects = await Promise.all([this.service(name), this.slice(name), this.endpoints(name)])
    return objects.flatMap((object) => (object === undefined ? [] : [object.kind]))
  }

  async untilPublishedKinds(name: string, ...kinds: string[]): Promise<void> {
    await eventually(async () => (await this.publishedKinds(name)).join() === kinds.join(), {
      timeoutMs: patienceMs,
      what: `${name} to be published as ${kinds.join(' and ') || 'nothing'}`,
    })
  }

  /** Fails where a server of one of the agents is left. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync()
    await this.admin.deleteAll({ apiVersion, kind: 'InferenceService' }).catch(() => undefined)
    await this.admin.deleteAll({ apiVersion, kind: 'Model' }).catch(() => undefined)
    this.admin.close()
    await this.files[Symbol.asyncDispose]()
    await removeFolder(this.folder)
    const left = (await Promise.all([...this.#pids].map(serverProcess))).filter((facts) => facts !== undefined)
    if (left.length > 0) throw new Error(`Servers are left: ${left.map(({ pid }) => pid).join(', ')}`)
  }
}

export interface Published {
  readonly address: string
  readonly port: number
  readonly ready: boolean
}

/** The arguments of a running server, in one string; undefined when it is gone. */
export const commandLineOf = async (pid: number): Promise<string | undefined> => (await serverProcess(pid))?.commandLine

export async function untilGone(pid: number): Promise<void> {
  await eventually(async () => (await serverProcess(pid)) === undefined, {
    timeoutMs: patienceMs,
    what: `the end of process ${pid}`,
  })
}

/** The pid may belong to another process by now. */
async function serverProcess(pid: number) {
  const facts = await platform.process(pid)
  return facts?.commandLine.includes('--port') === true ? facts : undefined
}

export const inferenceService = (name: string) => ({ apiVersion, kind: 'InferenceService', metadata: { name } })

const specShape = z.looseObject({ contextSize: z.number().optional() })

const statusShape = z.looseObject({
  phase: z.string().default(''),
  readyReplicas: z.number().default(0),
  conditions: z
    .array(z.looseObject({ type: z.string(), status: z.string(), reason: z.string(), message: z.string() }))
    .default([]),
})

const eventShape = z.looseObject({
  reason: z.string(),
  message: z.string(),
  /** Other components leave it out. */
  count: z.number().default(1),
  involvedObject: z.looseObject({ kind: z.string(), name: z.string() }),
})

const claimedShape = z.looseObject({ metadata: z.looseObject({ annotations: z.record(z.string(), z.string()) }) })
const sliceShape = z.looseObject({
  endpoints: z
    .array(z.looseObject({ addresses: z.array(z.string()), conditions: z.looseObject({ ready: z.boolean() }) }))
    .nullish(),
  ports: z.array(z.looseObject({ port: z.number() })).nullish(),
})
