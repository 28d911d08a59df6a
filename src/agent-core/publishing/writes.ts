import { isDeepStrictEqual } from 'node:util'
import { type ApiError, isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { ObjectCache } from '../kube/object-cache.ts'
import type { KubeObject, Resource } from '../kube/resources.ts'
import { labels, type MergePatch } from './objects.ts'

/** How a write ended. What the cluster does not answer or does not permit is thrown as ApiError instead. */
export type WriteResult =
  /** It is so now, whether or not it needed a request. */
  | { readonly kind: 'done' }
  /** The claim is not ours, or no longer ours. */
  | { readonly kind: 'lost'; readonly message: string }
  /** A foreign object has our name. */
  | { readonly kind: 'taken'; readonly message: string }
  /** The server does not accept the object; in its words. */
  | { readonly kind: 'refused'; readonly message: string }
  /** Not attempted, because the state it was based on is out of date: read again. */
  | { readonly kind: 'dropped'; readonly message: string }

export const done: WriteResult = { kind: 'done' }

const dropped: WriteResult = {
  kind: 'dropped',
  message: 'The write was dropped because what it was based on is out of date.',
}

/** Writes that wait for each other. */
export class WriteQueue {
  readonly #signal: AbortSignal
  #last: Promise<unknown> = Promise.resolve()
  /** Turns of an earlier generation are dropped. */
  #generation = 0

  /** After the abort no turn begins. */
  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /** After all earlier turns; `dropped` where a gap in the watch came first. */
  add<T>(work: () => Promise<T>): Promise<T | WriteResult> {
    const generation = this.#generation
    const result = this.#last.then((): T | WriteResult | Promise<T> =>
      generation === this.#generation && !this.#signal.aborted ? work() : dropped,
    )
    const settled = (): undefined => undefined
    this.#last = result.then(settled, settled)
    return result
  }

  /** Drops the writes that wait for their turn. */
  dropWaiting(): void {
    this.#generation += 1
  }

  /** Resolves when all turns queued until now are over. */
  async settled(): Promise<void> {
    await this.#last
  }
}

/** A kind of which all objects with the label `llmkube.ai/inference-service` are watched, also those of LLMKube's relays. */
export interface WatchedKind<T extends KubeObject> {
  readonly resource: Resource
  readonly parse: (raw: unknown) => T
  readonly cache: ObjectCache<T>
}

/** Only what the watch would deliver may enter its cache: it would never hear of anything else again. */
export const watchedStore = <T extends KubeObject>({ resource, parse, cache }: WatchedKind<T>): ObjectStore<T> => ({
  resource,
  parse: (raw) => cache.known(raw) ?? parse(raw),
  learn: (namespace, name, object) => {
    if (object && labels.inferenceService in object.metadata.labels) cache.assume(object)
    else cache.remove(namespace, name)
  },
})

/** How many attempts in a row may end in a conflict before the key goes back to its queue. */
const maxAttempts = 4

export interface Versioned {
  readonly metadata: { readonly uid: string; readonly resourceVersion: string }
}

/** One kind of object and where its news go. */
export interface ObjectStore<T extends Versioned> {
  readonly resource: Resource
  readonly parse: (raw: unknown) => T
  /** Called with every answer; undefined = it is gone. */
  readonly learn: (namespace: string, name: string, object: T | undefined) => void
}

/** The write that an object as it is now needs. */
export type WriteStep<T, R> =
  | { readonly do: 'create'; readonly body: object }
  | { readonly do: 'patch'; readonly object: T; readonly body: MergePatch }
  | { readonly do: 'delete'; readonly object: T }
  | { readonly do: 'stop'; readonly result: R }

type Settled<T, R> =
  /** `object` is undefined after a delete. */
  | { readonly kind: 'written'; readonly object: T | undefined }
  | { readonly kind: 'stopped'; readonly result: R }
  /** The object as such is not acceptable; the message is the server's. */
  | { readonly kind: 'refused'; readonly message: string; readonly error: ApiError }

interface WriteOptions<T extends Versioned, R> {
  readonly api: KubeApi
  readonly store: ObjectStore<T>
  readonly namespace: string
  readonly name: string
  /** What a cache says, or `unread` to ask the server first. */
  readonly known: T | undefined | 'unread'
  readonly decide: (current: T | undefined) => WriteStep<T, R>
  readonly signal: AbortSignal
}

/**
 * Writes with uid and resourceVersion as preconditions. Whatever the server objects to (404, 409, 422) is settled by reading what it holds
 * now and deciding again. Throws ApiError for every other answer, and after too many conflicts.
 */
export async function settledWrite<T extends Versioned, R>(options: WriteOptions<T, R>): Promise<Settled<T, R>> {
  const { store, namespace, name, decide } = options
  let current = options.known === 'unread' ? await readNow(options) : options.known
  for (let attempt = 1; ; attempt += 1) {
    const step = decide(current)
    if (step.do === 'stop') return { kind: 'stopped', result: step.result }
    try {
      const object = await perform(options, step)
      store.learn(namespace, name, object)
      return { kind: 'written', object }
    } catch (error) {
      if (!isApiError(error, 404, 409, 422)) throw error
      const now = await readNow(options)
      if (isRefusal(error, current, now)) return { kind: 'refused', message: error.message, error }
      if (attempt === maxAttempts) throw error
      current = now
    }
  }
}

/** Deletes the object for as long as it is meant: what is gone by now is as it should be, what was changed is looked at again. */
export const deleteWhere = <T extends Versioned>(
  options: Omit<WriteOptions<T, undefined>, 'decide'>,
  isMeant: (object: T) => boolean,
): Promise<unknown> =>
  settledWrite({
    ...options,
    decide: (object) => (object && isMeant(object) ? { do: 'delete', object } : { do: 'stop', result: undefined }),
  })

/** A quorum read; undefined = it is not there. */
export async function readNow<T extends Versioned>({
  api,
  store,
  namespace,
  name,
  signal,
}: Omit<WriteOptions<T, never>, 'known' | 'decide'>): Promise<T | undefined> {
  try {
    const object = store.parse(await api.get(store.resource, namespace, name, signal))
    store.learn(namespace, name, object)
    return object
  } catch (error) {
    if (!isApiError(error, 404)) throw error
    store.learn(namespace, name, undefined)
    return undefined
  }
}

async function perform<T extends Versioned, R>(
  { api, store, namespace, name, signal }: WriteOptions<T, R>,
  step: Exclude<WriteStep<T, R>, { do: 'stop' }>,
): Promise<T | undefined> {
  if (step.do === 'create') return store.parse(await api.create(store.resource, namespace, step.body, { signal }))
  const { uid, resourceVersion } = step.object.metadata
  if (step.do === 'delete') {
    await api.delete(store.resource, namespace, name, { uid, resourceVersion }, signal)
    return undefined
  }
  const body = { ...step.body, metadata: { ...step.body.metadata, uid, resourceVersion } }
  return store.parse(await api.mergePatch(store.resource, namespace, name, body, { signal }))
}

/** Nothing had changed under us, and still the server objects: then it objects to what we ask. */
function isRefusal<T extends Versioned>(error: ApiError, before: T | undefined, now: T | undefined): boolean {
  // A POST finds no namespace to post to.
  if (error.code === 404) return before === undefined && now === undefined
  return error.code === 422 && before?.metadata.resourceVersion === now?.metadata.resourceVersion
}

/** What others change is put right so often in so long: a program may answer each repair with another change. */
const mostMends = 3
const mendsWithinMs = 30_000

/** Our last write of one object, and when it may be made again. `Written` is as much of a write as tells it from another one of ours. */
export class OwnWrites<Written> {
  readonly #now: () => number
  /** Undefined where there was none, or its answer is not known. */
  #last: { readonly what: Written } | undefined
  /** When it was put right last, the oldest first. */
  #mendedAt: readonly number[] = []

  constructor(monotonicNow: () => number) {
    this.#now = monotonicNow
  }

  /** To be called before the request, whose answer may get lost. */
  writing(what: Written): void {
    if (isDeepStrictEqual(this.#last?.what, what)) this.#mendedAt = [...this.#mendedAt, this.#now()].slice(-mostMends)
    this.#last = undefined
  }

  wrote(what: Written): void {
    this.#last = { what }
  }

  /** What is there now is none of what we wrote. */
  forget(): void {
    this.#last = undefined
  }

  /** Milliseconds until what others changed may be put right; 0 where `isEdited` does not say that our last write was changed. */
  mendInMs(isEdited: (last: Written) => boolean): number {
    if (!this.#last || !isEdited(this.#last.what)) return 0
    const since = this.#mendedAt.length < mostMends ? -Infinity : (this.#mendedAt[0] ?? -Infinity)
    return Math.max(0, since + mendsWithinMs - this.#now())
  }
}
