import type { ClusterView } from '../../contract/cluster.ts'
import type { ClusterSession } from './cluster-session.ts'
import { ClusterChoice } from './cluster-choice.ts'
import type { ClusterLinkOptions } from './cluster-link-options.ts'
import { KubeconfigError, type PinnedContext } from '../kube/pinned-context.ts'
import { KubeconfigFollower } from './kubeconfig-follower.ts'
import type { Unfinished } from '../publishing/publisher.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import { awakeTimeout } from '../util/awake-timeout.ts'
import { Looks } from '../util/looks.ts'
import { messageOf } from '../util/message-of.ts'
import { splitKey } from '../util/object-key.ts'
import { within } from '../util/within.ts'
import { wayBackFrom, wayBackSentence } from './previous-context.ts'

/** A kubeconfig that is missing or broken is looked at again this often: a person is likely at work on it. */
const kubeconfigRetryMs = 5_000
/** A cluster that does not answer holds up each step of an end no longer; all of them stay below half a minute. */
const stepLimitMs = 2_000
const farewellLimitMs = 5_000
const firstListLimitMs = 5_000

/** Before anything is known. */
export const notConnected = (context: string | undefined): ClusterView => ({
  context: context ?? '',
  server: '',
  state: 'connecting',
  message: 'Reading the kubeconfig.',
  since: new Date().toISOString(),
})

/** Which cluster this agent serves: connects to it, moves from one to another, and ends in good order. One session at a time. */
export class ClusterLink {
  readonly #options: ClusterLinkOptions
  /** Which context is to be served. */
  readonly choice: ClusterChoice
  readonly #follower: KubeconfigFollower
  #session: ClusterSession | undefined
  /** Of moves to another context or namespace, one after the other; never rejected. */
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
  /** The kubeconfig changed while a move was under way. */
  #isStale = false
  /** Why the last move did not end as it should: one sentence. */
  #moveProblem: string | undefined
  /** What the move that is under way waits for. */
  #leaving: { readonly reconciler: Reconciler; readonly where: string } | undefined
  /** The context that was left last, while the present one has not been reached. */
  #cameFrom: ReturnType<typeof wayBackFrom>
  /** At every change of the session and of its cluster's state. */
  readonly #looks = new Looks()

  constructor(options: ClusterLinkOptions) {
    this.#options = options
    this.choice = new ClusterChoice(options)
    this.#follower = new KubeconfigFollower({ choice: this.choice, log: options.log })
    this.#waiting = notConnected(this.choice.name)
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
    const { kubeconfig } = this.choice
    const wayBack = back && wayBackSentence(back, { now, kubeconfig })
    const waits = this.#leaving && waitsSentence(this.#leaving)
    const ofCluster = this.#session?.cluster.notices() ?? []
    const all = [this.#moveProblem, waits, this.#follower.problem, wayBack, ...ofCluster]
    return all.filter((sentence) => sentence !== undefined)
  }

  /** Resolves when it serves the cluster, or cannot: it looks at the kubeconfig again from time to time then. */
  async connect(): Promise<void> {
    clearTimeout(this.#timer)
    try {
      const context = await this.choice.load()
      if (!this.#session) await this.#serve(context)
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      this.#waitAfter(error.message)
    }
  }

  /** As {@link connect}, for callers that cannot report a defect: it is logged here. */
  async #reconnect(): Promise<void> {
    try {
      if (!this.#isEnding) await this.connect()
    } catch (error) {
      this.#options.log.error('not connected', { error })
      await this.#drop()
      this.#waitAfter(`The agent cannot connect: ${messageOf(error)}.`)
    }
  }

  #waitAfter(message: string): void {
    const { log, onChange } = this.#options
    if (this.#waiting.message !== message) log.error('no cluster', { reason: message })
    this.#waiting = {
      ...this.#waiting,
      context: this.choice.name ?? '',
      state: 'offline',
      message,
      retryAt: new Date(Date.now() + kubeconfigRetryMs).toISOString(),
    }
    onChange()
    if (this.#isEnding || this.#session) return
    this.#timer = setTimeout(() => void this.#caught(this.#reconnect()), kubeconfigRetryMs)
  }

  /** The kubeconfig says something else than before. What is served goes on; its credentials are those of the file from now on. */
  async kubeconfigChanged(): Promise<void> {
    if (this.#isEnding) return
    if (this.#target) this.#isStale = true
    else if (this.#session) await this.#follow(this.#session)
    else await this.connect()
  }

  async #follow(session: ClusterSession): Promise<void> {
    const isTaken = await this.#follower.follow(session.cluster.api.context, () => this.#session === session)
    // What it was refused for may be mended.
    if (isTaken && session.cluster.view().state !== 'live') session.cluster.resync()
    this.#options.onChange()
  }

  /**
   * What is not served any more comes down in good order, visibly; then the other is served. In the same cluster that is what is outside the
   * namespace that is to be served, and the rest goes on. Returns at once.
   */
  moveTo(context: PinnedContext, where: string): void {
    this.#target = context
    this.#follower.forget()
    this.#moveProblem = undefined
    const left = this.#session?.cluster.api.context
    if (left && this.#session === this.#reached) this.#cameFrom = wayBackFrom(left, context)
    this.#moving = this.#caught(this.#moving.then(() => this.#moveOnce(context, where)))
  }

  async #moveOnce(context: PinnedContext, where: string): Promise<void> {
    try {
      await this.#options.pin.choose(context)
      await this.#move(context, where)
    } catch (error) {
      this.#options.log.error('move failed', { where, error })
      this.#moveProblem = `The move to ${where} did not go as it should: ${messageOf(error)}. The agent connected anew.`
      await this.#drop()
      await this.#reconnect()
    } finally {
      await this.#moveEnded(context)
    }
  }

  async #moveEnded(context: PinnedContext): Promise<void> {
    if (this.#target !== context) return
    this.#target = undefined
    this.#options.onMoved()
    this.#options.onChange()
    const isStale = this.#isStale
    this.#isStale = false
    if (isStale) await this.kubeconfigChanged()
  }

  /** No further decision: what runs and is published stays as it is until {@link withdraw} or {@link close}. */
  async stopDeciding(): Promise<void> {
    this.#isEnding = true
    this.#looks.again()
    clearTimeout(this.#timer)
    await within(stepLimitMs, Promise.all([this.#session?.reconciler.stop(), this.#pinning]))
  }

  /** No new traffic to this machine; what servers of an agent before this one publish is known after the first list. */
  async withdraw({ hasServers }: { readonly hasServers: boolean }): Promise<void> {
    const session = this.#session
    if (!session) return
    const isListed = this.#looks.until(() => !hasServers || session.cluster.synced)
    await within(firstListLimitMs, isListed)
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
    const present = session?.cluster.api.context
    if (!session || !present?.isAt(context)) {
      if (session) await this.#leave(session, where, () => true)
      await this.#serve(context)
      return
    }
    if (present.file !== context.file) {
      present.readFrom(context)
      await this.#follow(session)
    }
    const namespace = this.#options.namespace()
    if (session.cluster.namespace === namespace || this.#isEnding) return
    await this.#leave(session, where, (key) => namespace !== undefined && splitKey(key).namespace !== namespace)
    await this.#serve(present)
  }

  /** Ends the servers that the next session does not want. The others keep serving until it takes them up, and so does one that cannot be ended. */
  async #leave(session: ClusterSession, where: string, isLeft: (key: string) => boolean): Promise<void> {
    const { reconciler, publisher } = session
    reconciler.leave(`Released: this machine moves to ${where}.`, isLeft)
    this.#leaving = { reconciler, where }
    await this.#untilLeft(reconciler, where)
    this.#leaving = undefined
    if (this.#isEnding) return
    await within(stepLimitMs, reconciler.stop())
    this.#complain('not released', await publisher.releaseAll({ isMeant: isLeft }))
    await this.close()
    this.#session = undefined
    this.#options.onWatchFailures(undefined)
    this.#options.onLeft(isLeft)
  }

  /** No longer than a server that can be ended takes to its end. */
  async #untilLeft(reconciler: Reconciler, where: string): Promise<void> {
    const limitMs = this.#options.leaveLimitMs()
    let isOverdue = false
    const limit = awakeTimeout(() => {
      isOverdue = true
      this.#looks.again()
    }, limitMs)
    await this.#looks.until(() => reconciler.stillHere.length === 0 || isOverdue || this.#isEnding)
    limit.clear()
    const { stillHere } = reconciler
    if (stillHere.length === 0 || this.#isEnding) return
    this.#complain('not left', stillHere)
    const message = `The move to ${where} did not wait longer than ${Math.round(limitMs / 1_000)} s for ${namesOf(stillHere)}`
    this.#options.onLeftBehind(message)
  }

  /** Of a session that cannot go on. What runs and is published stays for the next. */
  async #drop(): Promise<void> {
    const session = this.#session
    if (!session) return
    await this.#caught(within(stepLimitMs, session.reconciler.stop()))
    await this.#caught(this.close())
    this.#session = undefined
    this.#options.onWatchFailures(undefined)
  }

  async #serve(context: PinnedContext): Promise<void> {
    if (this.#isEnding) return
    const { open, beforeStart } = this.#options
    const onChange = (): void => {
      this.#looks.again()
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
    this.#looks.again()
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
    if (!this.#target) {
      this.#cameFrom = undefined
      this.#moveProblem = undefined
    }
    this.#pinning = this.#caught(this.#options.pin.reached(this.#session.cluster.api))
  }

  #complain(message: string, unfinished: readonly Unfinished[]): void {
    for (const { key, message: reason } of unfinished) this.#options.log.warn(message, { key, reason })
  }

  /** For work that reports expected failures itself: any other error is a defect, which is logged and must not end the agent. */
  #caught(work: Promise<void>): Promise<void> {
    return work.catch((error: unknown) => this.#options.log.error('background work failed', { error }))
  }
}

function waitsSentence({ reconciler, where }: { readonly reconciler: Reconciler; readonly where: string }) {
  const { stillHere } = reconciler
  return stillHere.length === 0 ? undefined : `The move to ${where} waits for ${namesOf(stillHere)}`
}

/** Such as `a/b, c/d: The server is finishing.` */
const namesOf = (left: readonly Unfinished[]): string =>
  `${left.map(({ key }) => key).join(', ')}: ${[...new Set(left.map(({ message }) => message))].join(' ')}`
