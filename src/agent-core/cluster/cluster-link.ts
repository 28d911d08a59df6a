import { ClusterChoice, type ClusterChoiceOptions, type Renewal } from './cluster-choice.ts'
import type { ClusterSession } from './cluster-session.ts'
import { KubeconfigError } from '../kube/kubeconfig.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import type { Logger } from '../observability/logger.ts'
import type { Unfinished } from '../publishing/publisher.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import { awakeTimeout } from '../util/awake-timeout.ts'
import { messageOf } from '../util/message-of.ts'
import { pause } from '../util/pause.ts'
import { splitKey } from '../util/object-key.ts'
import { within } from '../util/within.ts'
import type { ClusterView } from '../../contract/cluster.ts'
import { shellWord } from '../../contract/shell.ts'

/** A kubeconfig that is missing or broken is looked at again this often: a person is likely at work on it. */
const kubeconfigRetryMs = 5_000
/** A cluster that does not answer holds up each step of an end no longer; all of them stay below half a minute. */
const stepLimitMs = 2_000
const farewellLimitMs = 5_000
const firstListLimitMs = 5_000
/** Between two rounds of tries to release what a move has left. */
const releaseEveryMs = 2_000

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
  #session: ClusterSession | undefined
  /** Settles when the moves to other contexts or namespaces are over, which run one after the other; never rejects. */
  #moving: Promise<void> = Promise.resolve()
  /** Where the latest move leads, until it is over. */
  #target: PinnedContext | undefined
  /** What is shown while there is no session. */
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
  /** Why the credentials of the kubeconfig as it is now are not taken: one sentence. */
  #kubeconfigProblem: string | undefined
  /** Why the last move did not end as it should: one sentence. */
  #moveProblem: string | undefined
  /** Ends the tries to release what the last move left ready, since the cluster refused to hear of it. */
  #endLateRelease: () => Promise<void> = () => Promise.resolve()
  /** What the move that is under way waits for. */
  #leaving: { readonly reconciler: Reconciler; readonly where: string } | undefined
  /** The context that was left last, while the present one has not been reached. */
  #previous: ReturnType<typeof previousPlace>
  /** At every change of the session and of its cluster's state. */
  readonly #changes = new ChangeSignal()

  constructor(options: ClusterLinkOptions) {
    this.#options = options
    this.choice = new ClusterChoice(options)
    this.#waiting = notConnected(this.choice.name)
  }

  /** Undefined while there is no usable kubeconfig. */
  get session(): ClusterSession | undefined {
    return this.#session
  }

  view(): ClusterView {
    return this.#session ? { ...this.#session.cluster.view(), lease: this.#session.lease.ref } : this.#waiting
  }

  /** The context that is served, or is about to be. */
  get servedContext(): PinnedContext | undefined {
    return this.#target ?? this.#session?.cluster.api.context
  }

  /** What a person should know about the choice of the cluster, as sentences. */
  notices(): string[] {
    const back = this.#previous
    const now = this.servedContext?.name ?? ''
    const { kubeconfig } = this.choice
    const previousContext = back && previousContextSentence(back, { now, kubeconfig })
    const waits = this.#leaving && waitsSentence(this.#leaving)
    const { cluster, lease } = this.#session ?? {}
    const ofCluster = [...(cluster?.notices() ?? []), lease?.notice]
    const all = [this.#moveProblem, waits, this.#kubeconfigProblem, previousContext, ...ofCluster]
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

  /** The kubeconfig says something else than before. What is served keeps serving, and uses the file's credentials from now on. */
  async kubeconfigChanged(): Promise<void> {
    if (this.#isEnding) return
    if (this.#target) this.#isStale = true
    else if (this.#session) await this.#follow(this.#session)
    else await this.connect()
  }

  async #follow(session: ClusterSession): Promise<void> {
    const { log, onChange } = this.#options
    const renewal = await this.choice.renew(session.cluster.api.context)
    if (this.#session !== session) return
    const problem = problemOf(renewal)
    if (problem !== undefined && problem !== this.#kubeconfigProblem)
      log.warn('kubeconfig changed', { reason: problem })
    this.#kubeconfigProblem = problem
    // What it was refused for may be mended.
    if (problem === undefined && session.cluster.view().state !== 'live') session.cluster.resync()
    onChange()
  }

  /**
   * Withdraws and stops what is no longer served, visibly; then serves the other context or namespace. Within one cluster only services
   * outside the new namespace stop, and the rest keeps serving. Returns at once.
   */
  moveTo(context: PinnedContext, where: string): void {
    this.#target = context
    this.#kubeconfigProblem = undefined
    this.#moveProblem = undefined
    const left = this.#session?.cluster.api.context
    if (left && this.#session === this.#reached) this.#previous = previousPlace(left, context)
    this.#moving = this.#caught(this.#moving.then(() => this.#moveOnce(context, where)))
  }

  async #moveOnce(context: PinnedContext, where: string): Promise<void> {
    try {
      await this.#options.pin.choose(context)
      await this.#move(context, where)
    } catch (error) {
      this.#options.log.error('move failed', { where, error })
      this.#moveProblem = `The move to ${where} failed: ${messageOf(error)}. The agent connected again.`
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
    this.#changes.notify()
    clearTimeout(this.#timer)
    await within(stepLimitMs, Promise.all([this.#session?.reconciler.stop(), this.#pinning]))
  }

  /** No new traffic to this machine; what servers of an agent before this one publish is known after the first list. */
  async withdraw({ hasServers }: { readonly hasServers: boolean }): Promise<void> {
    const session = this.#session
    if (!session) return
    const isListed = this.#changes.until(() => !hasServers || session.cluster.synced)
    await within(firstListLimitMs, isListed)
    this.#complain('not withdrawn', await session.publisher.withdrawAll())
  }

  /** The last word about every service that this machine had a claim on. */
  async sayStopped(displayName: string): Promise<void> {
    await within(farewellLimitMs, this.#session?.reconciler.sayStopped(displayName))
  }

  /** Other machines may take the services at once, and the cluster no longer counts on this one. */
  async release(): Promise<void> {
    const { publisher, lease } = this.#session ?? {}
    const [unfinished] = await Promise.all([publisher?.releaseAll(), lease?.remove()])
    this.#complain('not released', unfinished ?? [])
  }

  async close(): Promise<void> {
    await this.#endLateRelease()
    if (this.#session) await close(this.#session)
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
    const { reconciler, publisher, lease } = session
    reconciler.leave(`Released: this machine moves to ${where}.`, isLeft)
    this.#leaving = { reconciler, where }
    await this.#untilLeft(reconciler, where)
    this.#leaving = undefined
    if (this.#isEnding) return
    await within(stepLimitMs, reconciler.stop())
    const [unfinished] = await Promise.all([publisher.releaseAll({ isMeant: isLeft }), lease.remove()])
    this.#complain('not released', unfinished)
    await this.#endLateRelease()
    if (unfinished.length === 0) await close(session)
    else this.#releaseLate(session, isLeft)
    this.#session = undefined
    this.#options.onWatchFailures(undefined)
    this.#options.onLeft(isLeft)
  }

  /** Pods are sent to servers that are gone until the cluster knows, so it is written beside what is served next. */
  #releaseLate(session: ClusterSession, isMeant: (key: string) => boolean): void {
    const ended = new AbortController()
    const release = async (): Promise<void> => {
      while (await pause(releaseEveryMs, ended.signal)) {
        if ((await session.publisher.releaseAll({ isMeant })).length === 0) break
      }
      await close(session)
    }
    const released = this.#caught(release())
    this.#endLateRelease = async () => {
      ended.abort()
      await session.publisher[Symbol.asyncDispose]()
      await released
    }
  }

  /** No longer than a server that can be ended takes to its end. */
  async #untilLeft(reconciler: Reconciler, where: string): Promise<void> {
    const limitMs = this.#options.leaveLimitMs()
    let isOverdue = false
    const limit = awakeTimeout(() => {
      isOverdue = true
      this.#changes.notify()
    }, limitMs)
    await this.#changes.until(() => reconciler.stillHere.length === 0 || isOverdue || this.#isEnding)
    limit.clear()
    const { stillHere } = reconciler
    if (stillHere.length === 0 || this.#isEnding) return
    this.#complain('not left', stillHere)
    const message = `The move to ${where} stopped waiting after ${Math.round(limitMs / 1_000)} s for ${namesOf(stillHere)}`
    this.#options.onLeftBehind(message)
  }

  /** Ends a session that cannot continue. What runs and is published stays for the next session. */
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
      this.#changes.notify()
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
    const { cluster, reconciler, lease } = this.#session ?? {}
    if (cluster) onWatchFailures(cluster.consecutiveFailures())
    this.#changes.notify()
    const wasLive = this.#wasLive
    this.#wasLive = cluster?.view().state === 'live'
    if (this.#wasLive) this.#pinReached()
    if (this.#wasLive && !wasLive) {
      reconciler?.retryAll()
      void lease?.renew()
    } else if (cluster?.synced === true) reconciler?.enqueueAll()
    onChange()
  }

  #pinReached(): void {
    if (!this.#session || this.#session === this.#reached) return
    this.#reached = this.#session
    if (!this.#target) {
      this.#previous = undefined
      this.#moveProblem = undefined
    }
    const { pin } = this.#options
    const { api } = this.#session.cluster
    this.#pinning = this.#caught(pin.reached(api))
  }

  #complain(message: string, unfinished: readonly Unfinished[]): void {
    for (const { key, message: reason } of unfinished) this.#options.log.warn(message, { key, reason })
  }

  /** For work that reports expected failures itself: any other error is a defect, which is logged and must not end the agent. */
  #caught(work: Promise<void>): Promise<void> {
    return work.catch((error: unknown) => this.#options.log.error('background work failed', { error }))
  }
}

async function close({ events, publisher, lease, cluster }: ClusterSession): Promise<void> {
  lease[Symbol.dispose]()
  await within(stepLimitMs, events.flush())
  await publisher[Symbol.asyncDispose]()
  await cluster.stop()
}

function problemOf(renewal: Renewal): string | undefined {
  if (renewal.kind === 'renewed') return undefined
  return renewal.kind === 'unusable' ? renewal.message : `${renewal.message}: choose the context to move there.`
}

function waitsSentence({ reconciler, where }: { readonly reconciler: Reconciler; readonly where: string }) {
  const { stillHere } = reconciler
  return stillHere.length === 0 ? undefined : `The move to ${where} waits for ${namesOf(stillHere)}`
}

/** Such as `a/b, c/d: The server is finishing.` */
const namesOf = (left: readonly Unfinished[]): string =>
  `${left.map(({ key }) => key).join(', ')}: ${[...new Set(left.map(({ message }) => message))].join(' ')}`

interface ClusterLinkOptions extends ClusterChoiceOptions {
  /** To be served. Absent = all of them. */
  readonly namespace: () => string | undefined
  readonly open: (context: PinnedContext, hooks: SessionHooks) => ClusterSession
  /** What must be known before anything is decided in a session. */
  readonly beforeStart: () => Promise<void>
  /** Called when services were left for good, so that what was reported about them can be forgotten. */
  readonly onLeft: (isLeft: (key: string) => boolean) => void
  /** A move waits no longer for what it leaves, in milliseconds. */
  readonly leaveLimitMs: () => number
  /** Called with a sentence where a move did not wait for all that it leaves: it comes down beside what is served then. */
  readonly onLeftBehind: (message: string) => void
  /** Called when a move has ended: what is served may come from other files now. */
  readonly onMoved: () => void
  /** How many watches failed in a row; undefined while nothing is watched. */
  readonly onWatchFailures: (failures: number | undefined) => void
  readonly log: Logger
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
}

/** What a session tells the link. */
export interface SessionHooks {
  readonly onClusterState: () => void
  readonly onChange: () => void
}

interface Place {
  readonly name: string
  readonly file: string | undefined
}

/** Undefined where the cluster stays, or nothing was left that could be chosen again. */
function previousPlace(left: PinnedContext, next: PinnedContext): Place | undefined {
  const { name, file } = left
  return left.isAt(next) || (name === next.name && file === next.file) ? undefined : { name, file }
}

/** What a person reads while the present context has not been reached; `kubeconfig` is the one in use. */
export function previousContextSentence(
  back: Place,
  { now, kubeconfig }: { now: string; kubeconfig: string | undefined },
) {
  const use = `metal-agent context use ${shellWord(back.name)}`
  if (back.file === kubeconfig) {
    return `Context "${now}" has not been reached yet; "${back.name}" was served before: to go back, run ${use}.`
  }
  const of = back.file ?? 'the usual kubeconfig'
  const set = `metal-agent settings set kubeconfig ${shellWord(back.file ?? 'default')}`
  return `Context "${now}" has not been reached yet; "${back.name}" of ${of} was served before: to go back, run ${set}, and then ${use}.`
}

/** Lets one part wait until a condition holds, where another says each time that something has changed. */
class ChangeSignal {
  readonly #checks = new Set<() => void>()

  /** Resolves when the condition holds: it is checked now, and at each {@link notify}. */
  async until(holds: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const check = (): void => {
      if (holds()) resolve(undefined)
    }
    this.#checks.add(check)
    check()
    await promise
    this.#checks.delete(check)
  }

  notify(): void {
    for (const check of this.#checks) check()
  }
}
