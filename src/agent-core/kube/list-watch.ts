import { z } from 'zod'
import { answerTooLarge, ApiError, isApiError, listTooLong, rootMessage } from './api-error.ts'
import { type KubeApi, listBounds } from './kube-api.ts'
import type { ObjectCache } from './object-cache.ts'
import { type KubeObject, type Resource, resources } from './resources.ts'
import type { Logger } from '../observability/logger.ts'
import { jitteredMs } from '../util/back-off.ts'
import { ownFailure } from '../util/error-code.ts'
import { pause } from '../util/pause.ts'
import { isTurnOver, nextTurn } from '../util/turns.ts'
import type { ConnectionState } from '../../contract/cluster.ts'

/**
 * A list in a namespace that does not exist answers 200 and empty, so it is asked for once. Returns the sentence for a
 * person, or undefined where the namespace is there or may not be asked for.
 */
export async function missingNamespace(
  api: KubeApi,
  namespace: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    await api.get(resources.namespaces, undefined, namespace, signal)
    return undefined
  } catch (error) {
    if (isApiError(error, 404)) {
      return `The namespace "${namespace}" does not exist in this cluster; create it, or name another with --namespace.`
    }
    if (isApiError(error, 403)) return undefined
    throw error
  }
}

/** The API group of LLMKube's first releases; this agent knows only what came after it. */
const oldGroup = 'llmkube.io'

/** Why LLMKube's definitions are not there, as a sentence that says what to do. */
export async function explainAbsence(api: KubeApi, { group }: Resource, signal: AbortSignal): Promise<string> {
  const groups: readonly string[] = await api.groups(signal).catch(() => [])
  return groups.includes(oldGroup)
    ? `The cluster has LLMKube's old API group ${oldGroup} and not ${group}; upgrade LLMKube there.`
    : `The cluster does not have LLMKube's API group ${group}; install LLMKube there.`
}

/** `known`: something was read before, and is used until the cluster is back. */
function failureState(error: unknown, known: boolean): ConnectionState {
  if (isApiError(error, 401)) return 'unauthorized'
  if (isApiError(error, 403)) return 'denied'
  if (isApiError(error, 404)) return 'absent'
  return known ? 'stale' : 'offline'
}

/** For people. */
export function explainFailure(state: ConnectionState, resource: Resource, server: string, error: unknown): string {
  const words = isApiError(error) ? error.detail : rootMessage(error)
  if (isApiError(error) && [answerTooLarge, listTooLong].includes(error.reason)) {
    return `The ${resource.plural} of the cluster cannot be read (${words}); running models keep serving from the last known state. Delete objects there that nobody needs, or watch one namespace with --namespace.`
  }
  const own = ownFailure(error)
  if (own !== undefined) {
    return `The agent cannot ask the cluster at ${server}: ${own}. Running models keep serving, and the agent keeps trying.`
  }
  switch (state) {
    case 'unauthorized':
      return `The cluster does not accept these credentials (${words}); log in again or choose another context.`
    case 'denied':
      return `These credentials may not read ${resource.plural} (${words}); ask for the rights to get, list and watch them.`
    case 'stale':
      return `The cluster does not answer (${words}); running models keep serving, and the agent uses the last known state until it is back.`
    default:
      return `The cluster at ${server} does not answer (${words}); check that it runs and that this machine reaches it.`
  }
}

export interface ListWatchState {
  readonly state: ConnectionState
  readonly message: string
  /** See `ClusterView.cause`. */
  readonly cause?: 'localNetwork'
  /** Milliseconds since the epoch, like every time here. */
  readonly since: number
  readonly consecutiveFailures: number
  readonly retryAt: number | undefined
  readonly lastListAt: number | undefined
}

interface WatchHealthOptions {
  readonly api: KubeApi
  readonly resource: Resource
  readonly log: Logger
  /** Ends a question about an absent resource. */
  readonly signal: AbortSignal
  readonly now: () => number
  /** One sentence where it is this machine that keeps us from the API server. */
  readonly whyUnreachable?: (error: unknown) => Promise<string | undefined>
  /** Called after every change of {@link WatchHealth.state}. */
  readonly onState: (state: ListWatchState) => void
}

/** How a list-watch fares, for people and for what must not trust an old cache. */
class WatchHealth {
  readonly #options: WatchHealthOptions
  #state: ListWatchState

  constructor(options: WatchHealthOptions) {
    this.#options = options
    this.#state = {
      state: 'connecting',
      message: `Reading ${options.resource.plural}`,
      since: options.now(),
      consecutiveFailures: 0,
      retryAt: undefined,
      lastListAt: undefined,
    }
  }

  get state(): ListWatchState {
    return this.#state
  }

  /** A list was taken in, or a watch was opened. */
  alive(what: 'listed' | 'watching'): void {
    const { now, log, resource } = this.#options
    const wasLive = this.#state.state === 'live'
    // The server ended a watch that resumes where it was: listeners learn nothing new.
    if (wasLive && what === 'watching') return
    this.#set({
      state: 'live',
      message: 'Connected',
      since: wasLive ? this.#state.since : now(),
      consecutiveFailures: 0,
      retryAt: undefined,
      lastListAt: what === 'listed' ? now() : this.#state.lastListAt,
    })
    if (!wasLive) log.debug('watching', { resource: resource.plural })
  }

  /** It is tried again in `delayMs`. */
  async failed(error: unknown, delayMs: number): Promise<void> {
    const { log, resource, now, api } = this.#options
    const state = failureState(error, this.#state.lastListAt !== undefined)
    if (isApiError(error, 401)) {
      await api.context.renew().catch((cause: unknown) => log.warn('credentials not renewed', { error: cause }))
    }
    const failures = this.#state.consecutiveFailures + 1
    if (failures === 1) log.debug('watch failed', { resource: resource.plural, error, retryInMs: delayMs })
    const denied = await this.#whyUnreachable(error)
    this.#set({
      state,
      message: denied ?? (await this.#explain(state, error)),
      ...(denied !== undefined && { cause: 'localNetwork' }),
      since: this.#state.state === state ? this.#state.since : now(),
      consecutiveFailures: failures,
      retryAt: now() + delayMs,
      lastListAt: this.#state.lastListAt,
    })
  }

  /** Never rejects: what cannot be found out is no reason. */
  async #whyUnreachable(error: unknown): Promise<string | undefined> {
    const { whyUnreachable, log } = this.#options
    try {
      return await whyUnreachable?.(error)
    } catch (cause) {
      log.debug('the permission for the local network is not known', { error: cause })
      return undefined
    }
  }

  async #explain(state: ConnectionState, error: unknown): Promise<string> {
    const { resource, api, signal } = this.#options
    if (state === 'absent') return explainAbsence(api, resource, signal)
    const trouble = api.context.connection.troubleOf(error)
    if (trouble === undefined) return explainFailure(state, resource, api.context.server, error)
    return state === 'stale' ? `${trouble} Running models keep serving.` : trouble
  }

  #set(next: ListWatchState): void {
    this.#state = next
    this.#options.onState(next)
  }
}

/**
 * The server ends a quiet watch by itself after this long, jittered. An idle resource may bring no bookmark in all that
 * time, so that only silence beyond it tells a dead connection: the longer, the later one is noticed.
 */
const watchTimeoutSeconds = { from: 120, to: 150 }
const watchSilenceMs = 180_000
/** A watch that lived this long proves that the server is well, however it ended: only then does the back-off start over. */
const provenWatchMs = 10_000
const backOff = { firstMs: 500, maxMs: 30_000 }
/** Heals whatever event was lost on the way, once in this time. */
const relistEveryMs = 600_000

interface ListWatchOptions<T extends KubeObject> extends Pick<
  WatchHealthOptions,
  'api' | 'resource' | 'log' | 'whyUnreachable'
> {
  /** Absent = all namespaces. */
  readonly namespace: string | undefined
  readonly labelSelector?: string
  readonly parse: (raw: unknown) => T
  readonly cache: ObjectCache<T>
  /** Called after every change of `state()` and whenever a gap in the watch has ended with a new list. */
  readonly onState: (state: ListWatchState) => void
  /** For people. */
  readonly now?: () => number
  /** For intervals: it must not jump with the wall clock. */
  readonly monotonicNow?: () => number
  readonly random?: () => number
  /** For tests: see {@link watchSilenceMs}. */
  readonly silenceMs?: number
}

/** Keeps one {@link ObjectCache} true: list, watch from there, and start over after anything that could have lost an event. */
export class ListWatch<T extends KubeObject> {
  readonly #options: ListWatchOptions<T>
  readonly #monotonicNow: () => number
  readonly #random: () => number
  readonly #stopped = new AbortController()
  readonly #health: WatchHealth
  /** Everything of one list and its watch ends with its generation, so that a late answer cannot reach a newer one. */
  #generation = new AbortController()
  /** Up to where the changes are known; undefined = only a list can tell. */
  #version: string | undefined
  /** When the present watch was opened, on the monotonic clock. */
  #openedAt: number | undefined
  #loop: Promise<void> | undefined
  /** The first object that was ignored, until a list has none. */
  #ignored: string | undefined

  constructor(options: ListWatchOptions<T>) {
    this.#options = options
    this.#monotonicNow = options.monotonicNow ?? (() => performance.now())
    this.#random = options.random ?? Math.random
    const { now = Date.now } = options
    this.#health = new WatchHealth({ ...options, now, signal: this.#stopped.signal })
  }

  /** The plural of what is watched. */
  get kind(): string {
    return this.#options.resource.plural
  }

  state(): ListWatchState {
    return this.#health.state
  }

  /** What the API server calls an object that is ignored, since no object can be called so or have such metadata; undefined where there is none. */
  get ignored(): string | undefined {
    return this.#ignored
  }

  start(): void {
    this.#loop ??= this.#run()
  }

  /** Lists again at once: after a wake, or where an event may have been lost. */
  resync(): void {
    this.#generation.abort()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#generation.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    let attempt = 0
    let listedAt = 0
    let wasForgotten = false
    while (!this.#stopped.signal.aborted) {
      if (this.#generation.signal.aborted) {
        this.#version = undefined
        // Failures while the machine was half awake say nothing of the network that it has now, so the back-off starts over.
        attempt = 0
      }
      this.#generation = new AbortController()
      const { signal } = this.#generation
      let failure: unknown
      this.#openedAt = undefined
      try {
        if (this.#version === undefined || this.#monotonicNow() - listedAt > relistEveryMs) {
          this.#version = await this.#list(signal)
          listedAt = this.#monotonicNow()
          this.#health.alive('listed')
        }
        await this.#watch(this.#version, signal)
      } catch (error) {
        failure = error
        if (!isApiError(error) || error.code === 410) this.#version = undefined
      }
      if (this.#isStopped()) return
      if (signal.aborted) continue
      const isProven = this.#watchedForMs() >= provenWatchMs
      if (isProven) {
        attempt = 0
        wasForgotten = false
      }
      if (isProven && failure === undefined) continue
      // The server answers, and only a list is missing; asked at once where that is not all it says.
      const isForgotten = isApiError(failure, 410)
      const delayMs = isForgotten && !wasForgotten ? 0 : this.#backOff(attempt, failure)
      wasForgotten = isForgotten
      attempt += 1
      if (failure !== undefined) await this.#health.failed(failure, delayMs)
      if (delayMs > 0) await pause(delayMs, signal)
    }
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { api, resource, namespace, labelSelector, cache } = this.#options
    const objects: T[] = []
    let version = ''
    let isWhole = true
    cache.beginList()
    for await (const page of api.pages(resource, { namespace, labelSelector }, signal)) {
      for (const item of page.items) {
        while (isTurnOver()) await nextTurn()
        const object = this.#parse(item)
        if (object) objects.push(object)
        else isWhole = false
      }
      version = page.resourceVersion
    }
    signal.throwIfAborted()
    if (isWhole) this.#ignored = undefined
    cache.replace(objects, version)
    return version
  }

  /** Throws when the stream failed or may have lost events; the events before that are in the cache. */
  async #watch(from: string, signal: AbortSignal): Promise<void> {
    const { api, resource, namespace, labelSelector, silenceMs = watchSilenceMs } = this.#options
    const timeoutSeconds = Math.round(lerp(watchTimeoutSeconds.from, watchTimeoutSeconds.to, this.#random()))
    const events = api.watch(
      resource,
      { namespace, labelSelector, resourceVersion: from, timeoutSeconds },
      { silenceMs, signal, onOpen: () => this.#opened() },
    )
    for await (const { type, object } of events) {
      if (signal.aborted) return
      this.#version = this.#event(type, object) ?? this.#version
    }
  }

  /** Takes one event into the cache; returns the version it carries. */
  #event(type: string, raw: unknown): string | undefined {
    if (type === 'BOOKMARK') return bookmark.parse(raw).metadata.resourceVersion
    if (type === 'ERROR') {
      const { code, reason, message } = errorStatus.parse(raw)
      // Whatever the server complains about in mid-stream, only a new list is sure to hold everything.
      throw new ApiError(`watch: ${message}`, { code: code === 429 ? 429 : 410, reason })
    }
    const object = this.#parse(raw)
    if (!object) return undefined
    const { resourceVersion } = object.metadata
    if (type === 'DELETED') this.#forget(object)
    else this.#take(object)
    return resourceVersion
  }

  /** A watch brings no more objects than a list may have. */
  #take(object: T): void {
    const { cache } = this.#options
    const { namespace, name } = object.metadata
    if (cache.size >= listBounds.objects && !cache.get(namespace, name)) {
      throw new ApiError(`the watch returned more than ${listBounds.objects} objects`, {
        code: 410,
        reason: listTooLong,
      })
    }
    cache.upsert(object)
  }

  /** The end of an earlier object of the name says nothing about the present one. */
  #forget({ metadata: { namespace, name, uid } }: T): void {
    const { cache } = this.#options
    if (cache.get(namespace, name)?.metadata.uid === uid) cache.remove(namespace, name)
  }

  #parse(raw: unknown): T | undefined {
    try {
      return this.#options.cache.known(raw) ?? this.#options.parse(raw)
    } catch (error) {
      this.#ignore(raw, error)
      return undefined
    }
  }

  /** Reported once for all of them, since whoever may make up names may make up many. */
  #ignore(raw: unknown, error: unknown): void {
    const { log, resource, onState } = this.#options
    if (this.#ignored !== undefined) return
    this.#ignored = calledOf(raw)
    log.warn('object ignored: its metadata is not valid', {
      resource: resource.plural,
      object: this.#ignored,
      error,
    })
    onState(this.state())
  }

  /** How long the present watch has been open; 0 where it never was. */
  #watchedForMs(): number {
    return this.#openedAt === undefined ? 0 : this.#monotonicNow() - this.#openedAt
  }

  #opened(): void {
    this.#openedAt = this.#monotonicNow()
    this.#health.alive('watching')
  }

  /** Full jitter: several Macs must not come back in step. A server that names a time is believed. */
  #backOff(attempt: number, failure: unknown): number {
    const asked = isApiError(failure) ? (failure.retryAfterSeconds ?? 0) * 1_000 : 0
    return Math.max(asked, jitteredMs(backOff, attempt + 1, this.#random))
  }

  #isStopped(): boolean {
    return this.#stopped.signal.aborted
  }
}

const bookmark = z.object({ metadata: z.object({ resourceVersion: z.string() }) })
const errorStatus = z.object({
  code: z.number().default(0),
  reason: z.string().default(''),
  message: z.string().default('the watch ended with an error'),
})

/** Each with its quotes, so that nothing in it is read as ours. */
function calledOf(raw: unknown): string {
  const { data } = called.safeParse(raw)
  const { namespace, name } = data?.metadata ?? {}
  const quoted = (value: unknown) => (typeof value === 'string' ? JSON.stringify(value.slice(0, maxShownName)) : 'none')
  return `${quoted(name)} in namespace ${quoted(namespace)}`
}

const called = z.object({ metadata: z.object({ name: z.unknown(), namespace: z.unknown() }) })
const maxShownName = 100

const lerp = (from: number, to: number, share: number): number => from + (to - from) * share
