import { KubeConfig, type RequestContext } from '@kubernetes/client-node'
import { Agent } from 'undici'
import { withFilesRead, type StatedAccess } from './kubeconfig-files.ts'

/**
 * client-node makes a new undici agent for every request; reusing the first keeps connections, and one handshake, alive. HTTP/2 stays off:
 * when the last stream of a session has ended, undici 8 throws "socket idle timeout" from a timer, where it cannot be caught.
 */
export class ReusingKubeConfig extends KubeConfig {
  /** Where no proxy is between. */
  #connect: Extract<DispatcherOptions, { type: 'agent' }>['connect'] | undefined
  #dispatcher: ReturnType<RequestContext['getDispatcher']>
  /** The present cluster and user as the kubeconfig has them, with the names of files. */
  #stated: StatedAccess | undefined

  constructor() {
    super()
    this.currentContext = ''
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    // Each new connection reads the certificates anew, which may have been replaced.
    if (!this.#dispatcher) await this.#readFiles()
    await super.applySecurityAuthentication(context)
    this.#dispatcher ??= this.#connect ? keepingAgent(this.#connect) : context.getDispatcher()
    if (this.#dispatcher) context.setDispatcher(this.#dispatcher)
  }

  /** Requests under way fail; later ones open new connections. */
  reconnect(): void {
    const before = this.#dispatcher
    this.#dispatcher = undefined
    before?.destroy(new Error('the connection was given up, since this machine may have slept'), () => undefined)
  }

  async #readFiles(): Promise<void> {
    const [cluster, user] = [this.getCurrentCluster(), this.getCurrentUser()]
    if (!cluster) return
    this.#stated ??= { cluster, user }
    const read = await withFilesRead(this.#stated)
    this.clusters = this.clusters.map((one) => (one.name === read.cluster.name ? read.cluster : one))
    this.users = this.users.map((one) => (one.name === read.user?.name ? read.user : one))
  }

  override createDispatcherOptions(...given: DispatcherArguments): DispatcherOptions {
    const options = super.createDispatcherOptions(...given)
    switch (options.type) {
      case 'none':
      case 'agent':
        this.#connect = { keepAlive: true, ...(options.type === 'agent' && options.connect), ...http1Only }
        return { type: 'agent', connect: this.#connect }
      case 'proxy':
      case 'socks':
        return { ...options, requestTls: { ...options.requestTls, ...http1Only } }
    }
  }
}

type DispatcherArguments = Parameters<KubeConfig['createDispatcherOptions']>
type DispatcherOptions = ReturnType<KubeConfig['createDispatcherOptions']>

/**
 * Heartbeats come every 45 s or oftener and need no new handshake; API servers close idle connections after 90 s, some load balancers after
 * 60 s.
 */
const keepIdleMs = 50_000

/** The types disagree about options that are there and undefined, which undici reads as absent. */
const keepingAgent = (connect: object): Agent =>
  new Agent({ connect: connect as NonNullable<Agent.Options['connect']>, keepAliveTimeout: keepIdleMs })

/** An option of undici's connector that client-node's types do not know. */
const http1Only = { allowH2: false }
