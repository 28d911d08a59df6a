import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiServer, TestCluster } from '../test/support/control-plane/control-plane.ts'
import type { AdminClient } from '../test/support/control-plane/admin-client.ts'
import { startControllerStandIn } from '../test/support/controller-stand-in/controller-stand-in.ts'
import { writeLlamaGguf } from '../test/support/gguf-writer.ts'
import { AgentProcess } from './agent-process.ts'
import { installAgent } from './installed-agent.ts'
import { RequestCounter } from './request-count.ts'
import { buildCommand } from '../tasks/package/command.ts'
import { SliceWatch } from '../test/support/slice-watch.ts'

/** One real API server and the built agent, for everything that is measured. */
export class World implements AsyncDisposable {
  readonly #folder: string
  readonly #launcher: string
  readonly #modelFile: string
  readonly #apiServer: ApiServer

  private constructor(folder: string, launcher: string, modelFile: string, apiServer: ApiServer) {
    this.#folder = folder
    this.#launcher = launcher
    this.#modelFile = modelFile
    this.#apiServer = apiServer
  }

  static async open(): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), 'metalbar-bench-'))
    await using opening = new AsyncDisposableStack()
    opening.defer(() => rm(folder, { recursive: true, force: true }))
    const launcher = await installAgent(join(folder, 'installed'))
    const modelFile = join(folder, 'model.gguf')
    await writeLlamaGguf(modelFile)
    const apiServer = await ApiServer.start()
    opening.move()
    return new World(folder, launcher, modelFile, apiServer)
  }

  /** What the launcher starts with Node.js. */
  get bundle(): string {
    return join(this.#folder, 'installed/out/cli/metal-agent.js')
  }

  /** As `make package` makes it; answers the one file. */
  async buildSelfContained(): Promise<string> {
    const file = join(this.#folder, 'metal-agent')
    await buildCommand(file)
    return file
  }

  /** A namespace of its own with a user for the agent, and LLMKube's controller. */
  async openSite(): Promise<Site> {
    await using opening = new AsyncDisposableStack()
    const cluster = opening.use(await TestCluster.open(this.#apiServer.connection))
    const { connection, namespace, admin } = cluster
    const everything = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]
    const user = await cluster.restrictedKubeconfig(everything, { clusterRules: everything })
    const [account] = await admin.list({ apiVersion: 'v1', kind: 'ServiceAccount' })
    const slices = opening.use(new SliceWatch(connection, namespace))
    opening.use(await startControllerStandIn({ connection, namespace, allowedHostPathRoots: [this.#folder] }))
    const folder = join(this.#folder, namespace)
    await mkdir(folder)
    const { kubeconfig } = user
    const agent = { kubeconfig, namespace, folder }
    return {
      admin,
      slices,
      modelFile: this.#modelFile,
      startAgent: (launcher = this.#launcher) => AgentProcess.start({ ...agent, launcher }),
      countRequests: () => RequestCounter.install(admin, { name: account?.metadata.name ?? '', namespace }),
      [Symbol.asyncDispose]: disposalOf(opening.move()),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#apiServer[Symbol.asyncDispose]()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Where one group of rows is measured. */
export interface Site extends AsyncDisposable {
  readonly admin: AdminClient
  readonly slices: SliceWatch
  /** A model that can be served as it is, without a download. */
  readonly modelFile: string
  /** By the built launcher, unless another command is given. */
  startAgent(launcher?: string): Promise<AgentProcess>
  /** Counts the agent's requests from then on. */
  countRequests(): Promise<RequestCounter>
}

const disposalOf = (stack: AsyncDisposableStack) => () => stack.disposeAsync()
