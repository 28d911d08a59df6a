import type { ClusterView } from '../contract/cluster.ts'
import type { ClusterSession } from './cluster-session.ts'
import type { ContextPin } from './context-pin.ts'
import { KubeconfigError, PinnedContext } from './kube/pinned-context.ts'
import type { Logger } from './observability/logger.ts'
import type { Unfinished } from './publishing/shutdown-writes.ts'
import { within } from './support/within.ts'

/** A kubeconfig that is missing or broken is looked at again this often: a person is likely at work on it. */
const kubeconfigRetryMs = 5_000
/** A cluster that does not answer holds up each step of an end no longer; all of them stay below half a minute. */
const stepLimitMs = 2_000
const farewellLimitMs = 5_000
const firstListLimitMs = 5_000

export interface ClusterLinkOptions {
  /** As chosen now. Absent = as kubectl looks for one. */
  readonly kubeconfig: () => string | undefined
  /** As a flag says or a person chose. Absent = the pinned one, at first the kubeconfig's current context. */
  readonly context: () => string | undefined
  /** By a flag, which chooses anew at each start. */
  readonly isContextStated: () => boolean
  readonly pin: ContextPin
  readonly env: NodeJS.ProcessEnv
  readonly open: (context: PinnedContext, hooks: SessionHooks) => ClusterSession
  /** What must be known before anything is decided in a session. */
  readonly beforeStart: () => Promise<void>
  /** Called when a session has ended for good, so that what was told in it can be forgotten. */
  readonly onLeft: () => void
  /** How many watches failed in a row. */
  /** Undefined while nothing is watched. */
  readonly onWatchFailures: (failures: number | undefined) => void
  readonly log: Logger
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
}

/** Before anything is known. */
export const notConnected = (context: string | undefined): ClusterView => ({
  context: context ?? '',
  server: '',
  state: 'connecting',
  message: 'Reading the kubeconfig.',
  since: new Date().toISOString(),
})

/** What a session tells the link. */
export interface SessionHooks {
  readonly onClusterState: () => void
  readonly onChange: () => void
}

/** Which cluster this agent serves: connects to it, moves from one to another, and ends in good order. One session at a time. */
export class ClusterLink {
  readonly #options: ClusterLinkOptions
  #session: ClusterSession | undefined
  /** Of moves to another context, one after the other. */
  #moving: Promise<void> = Promise.resolve()
  /** Of the latest move, until it is over. */
  #target: PinnedContext | undefined
  /** While there is no session. */
  #waiting: ClusterView
  #wasLive = false
  /** The last session whose cluster answered. */
  #reached: ClusterSession | undefined
  /** An agent that is stopped as soon as it is connected still keeps what it was connected to. */
  #pinning: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #isEnding = false
  /** Of the kubeconfig as it is now, while a session goes on with what it had: one sentence. */
  #kubeconfigProblem: string | undefined
  /** The context that was left last, while the present one has not been reached. */
  #cameFrom: string | undefined
  /** Called at every change of the session and of its cluster's state. */
  readonly #looks = new Set<() => void>()

  constructor(options: ClusterLinkOptions) {
    this.#options = options
    this.#waiting = notConnected(this.#wantedContext)
  }

  /** Undefined while there is no usable kubeconfig. */
  get session(): ClusterSession | undefined {
    return this.#session
  }

  view(): ClusterView {
    return this.#session?.cluster.view() ?? this.#waiting
  }

  /** The context that is served, or is about to be. */
  get servedContext(): PinnedContext | undefined {
    return this.#target ?? this.#session?.cluster.api.context
  }

  /** What a person should know about the choice of the cluster, as sentences. */
  notices(): string[] {
    const back = this.#cameFrom
    const now = this.servedContext?.name ?? ''
    return [
      ...(this.#kubeconfigProblem === undefined ? [] : [this.#kubeconfigProblem]),
      ...(back === undefined
        ? []
        : [
            `Context "${now}" was not reached yet; "${back}" was served before: metal-agent context use ${back} goes back.`,
          ]),
    ]
  }

  /** A context of the kubeconfig as it is now. Throws KubeconfigError. */
  loadContext(name: string): Promise<PinnedContext> {
    const { kubeconfig, env } = this.#options
    return PinnedContext.load({ file: kubeconfig(), context: name, env })
  }

  /**
   * What another kubeconfig would have it serve: the context of the present name, or its own current one. Absent = as kubectl looks for one.
   * Throws KubeconfigError.
   */
  async loadKubeconfig(file: string | undefined): Promise<PinnedContext> {
    const { env, isContextStated } = this.#options
    const context = this.#wantedContext
    try {
      return await PinnedContext.load({ file, context, env })
    } catch (error) {
      if (!(error instanceof KubeconfigError) || context === undefined || isContextStated()) throw error
      return PinnedContext.load({ file, env })
    }
  }

  get #wantedContext(): string | undefined {
    return this.#options.context() ?? this.#options.pin.context
  }

  /** What a start serves by itself. Throws KubeconfigError, also where that would be another cluster than before. */
  async #keptContext(): Promise<PinnedContext> {
    const { kubeconfig, env, isContextStated, pin } = this.#options
    const isKept = !isContextStated()
    const context = await PinnedContext.load({ file: kubeconfig(), context: this.#wantedContext, isKept, env })
    return isKept ? await pin.check(context) : context
  }

  /** Resolves when it serves the cluster, or cannot: it looks at the kubeconfig again from time to time then. */
  async connect(): Promise<void> {
    const { log, onChange } = this.#options
    clearTimeout(this.#timer)
    try {
      const context = await this.#keptContext()
      if (!this.#isEnding && !this.#session) await this.#serve(context)
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      if (this.#waiting.message !== error.message) log.error('no cluster', { reason: error.message })
      this.#waiting = {
        ...this.#waiting,
        context: this.#wantedContext ?? '',
        state: 'offline',
        message: error.message,
        retryAt: new Date(Date.now() + kubeconfigRetryMs).toISOString(),
      }
      onChange()
      if (this.#isEnding || this.#session) return
      this.#timer = setTimeout(() => this.#inBackground(this.connect()), kubeconfigRetryMs)
    }
  }

  /** The kubeconfig says something else than before. What is served goes on; its credentials are those of the file from now on. */
  async kubeconfigChanged(): Promise<void> {
    const session = this.#session
    if (this.#isEnding || this.#target) return
    if (!session) {
      await this.connect()
      return
    }
    const { context } = session.cluster.api
    const problem = await this.#takeCredentials(context)
    if (this.#session !== session) return
    if (problem !== this.#kubeconfigProblem && problem !== undefined) {
      this.#options.log.warn('kubeconfig changed', { reason: problem })
    }
    this.#kubeconfigProblem = problem
    // What it was refused for may be mended.
    if (problem === undefined && session.cluster.view().state !== 'live') session.cluster.resync()
    this.#options.onChange()
  }

  /** Why they are not taken: one sentence. */
  async #takeCredentials(present: PinnedContext): Promise<string | undefined> {
    try {
      const { server } = await this.loadContext(present.name)
      if (server !== present.server) {
        return `Context "${present.name}" now stands for ${server}, and the agent stays with ${present.server}: choose the context to move there.`
      }
      await present.renew()
      return undefined
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      return `The agent stays with "${present.name}" and the credentials it has: ${error.message}`
    }
  }

  /** What runs for the present cluster comes down in good order, visibly; then the other is served. Returns at once. */
  moveTo(context: PinnedContext, where: string): void {
    this.#target = context
    this.#kubeconfigProblem = undefined
    const left = this.#session?.cluster.api.context.name
    if (left !== undefined && this.#session === this.#reached) this.#cameFrom = left === context.name ? undefined : left
    const moved = this.#moving.then(() => this.#options.pin.choose(context)).then(() => this.#move(context, where))
    this.#moving = moved.finally(() => {
      if (this.#target === context) this.#target = undefined
    })
    this.#inBackground(this.#moving)
  }

  /** No further decision: what runs and is published stays as it is until {@link withdraw} or {@link close}. */
  async stopDeciding(): Promise<void> {
    this.#isEnding = true
    this.#lookAgain()
    clearTimeout(this.#timer)
    await within(stepLimitMs, Promise.all([this.#session?.reconciler.stop(), this.#pinning]))
  }

  /** No new traffic to this machine; what servers of an agent before this one publish is known after the first list. */
  async withdraw({ hasServers }: { readonly hasServers: boolean }): Promise<void> {
    const session = this.#session
    if (!session) return
    if (hasServers)
      await within(
        firstListLimitMs,
        this.#until(() => session.cluster.synced),
      )
    this.#complain('not withdrawn', await session.publisher.withdrawAll())
  }

  /** The last word about every service that this machine had a claim on. */
  async sayStopped(displayName: string): Promise<void> {
    await within(farewellLimitMs, this.#session?.reconciler.sayStopped(displayName))
  }

  /** Other machines may take the services at once. */
  async release(): Promise<void> {
    this.#complain('not released', (await this.#session?.publisher.releaseAll()) ?? [])
  }

  async close(): Promise<void> {
    const session = this.#session
    await within(stepLimitMs, session?.events.flush())
    await session?.publisher[Symbol.asyncDispose]()
    await session?.cluster.stop()
  }

  async #move(context: PinnedContext, where: string): Promise<void> {
    clearTimeout(this.#timer)
    const session = this.#session
    if (session) {
      session.reconciler.leave(`Released: this machine moves to ${where}.`)
      await this.#untilLeft(session)
      if (this.#isEnding) return
      await within(stepLimitMs, session.reconciler.stop())
      await this.release()
      await this.close()
      this.#session = undefined
      this.#options.onWatchFailures(undefined)
      this.#options.onLeft()
    }
    if (!this.#isEnding) await this.#serve(context)
  }

  /** Or until the agent ends. */
  #untilLeft({ reconciler }: ClusterSession): Promise<void> {
    return this.#until(() => reconciler.hasLeft || this.#isEnding)
  }

  async #until(isSo: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const look = (): void => {
      if (isSo()) resolve(undefined)
    }
    this.#looks.add(look)
    look()
    await promise
    this.#looks.delete(look)
  }

  #lookAgain(): void {
    for (const look of this.#looks) look()
  }

  async #serve(context: PinnedContext): Promise<void> {
    const { open, beforeStart } = this.#options
    const onChange = (): void => {
      this.#lookAgain()
      this.#options.onChange()
    }
    const session = open(context, { onClusterState: () => this.#clusterChanged(), onChange })
    this.#session = session
    await beforeStart()
    session.reconciler.start()
    session.cluster.start()
  }

  #clusterChanged(): void {
    const { onWatchFailures, onChange } = this.#options
    const { cluster, reconciler } = this.#session ?? {}
    if (cluster) onWatchFailures(cluster.consecutiveFailures())
    this.#lookAgain()
    const wasLive = this.#wasLive
    this.#wasLive = cluster?.view().state === 'live'
    if (this.#wasLive) this.#pinReached()
    if (this.#wasLive && !wasLive) reconciler?.retryAll()
    else if (cluster?.synced === true) reconciler?.enqueueAll()
    onChange()
  }

  #pinReached(): void {
    if (!this.#session || this.#session === this.#reached) return
    this.#reached = this.#session
    if (!this.#target) this.#cameFrom = undefined
    this.#pinning = this.#caught(this.#options.pin.reached(this.#session.cluster.api))
  }

  #complain(message: string, unfinished: readonly Unfinished[]): void {
    for (const { key, message: reason } of unfinished) this.#options.log.warn(message, { key, reason })
  }

  /** For work that reports expected failures itself: any other error is a defect, which is logged and must not end the agent. */
  #inBackground(work: Promise<void>): void {
    void this.#caught(work)
  }

  #caught(work: Promise<void>): Promise<void> {
    return work.catch((error: unknown) => this.#options.log.error('background work failed', { error }))
  }
}
