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
  return store.parse(await api.mergePatch(store.resource, namespace, name, body, signal))
}

/** Nothing had changed under us, and still the server objects: then it objects to what we ask. */
function isRefusal<T extends Versioned>(error: ApiError, before: T | undefined, now: T | undefined): boolean {
  // A POST finds no namespace to post to.
  if (error.code === 404) return before === undefined && now === undefined
  return error.code === 422 && before?.metadata.resourceVersion === now?.metadata.resourceVersion
}

/** The first edits by others are put right at once; later ones no sooner than `mendEveryMs` after the edit. */
const mendsAtOnce = 3
const mendEveryMs = 30_000
/** Edits are forgotten when no other follows within this time. */
const forgottenAfterMs = 600_000

export interface Edits {
  /** Names the field manager that seems to do it, and what is done about it. */
  readonly message: string
  /** Time until our content is written again. */
  readonly mendInMs: number
  /** Until they are forgotten, should no more come. */
  readonly forgottenInMs: number
}

type ManagedFields = readonly { readonly manager: string; readonly time?: string | undefined }[]

interface ForeignEditsOptions {
  readonly kind: 'EndpointSlice' | 'Service' | 'Endpoints'
  readonly namespace: string
  readonly name: string
  /** The field manager of our own writes. */
  readonly fieldManager: string
  readonly monotonicNow: () => number
}

/**
 * What we wrote into one object, and how often others changed that: a program that answers each repair with another change would
 * otherwise be answered at full speed. `Written` is as much of a write as tells it from another one of ours.
 */
export class ForeignEdits<Written> {
  readonly #options: ForeignEditsOptions
  /** By our last answered write; undefined until there is one. */
  #wrote: { readonly what: Written } | undefined
  /** By writes after it, of which no answer is known. */
  #mayHaveWritten: readonly Written[] = []
  #count = 0
  #at = 0
  #isEdited = false
  /** The field manager that seems to have made the latest foreign change. */
  #writer = ''

  constructor(options: ForeignEditsOptions) {
    this.#options = options
  }

  /** To be called before the request, whose answer may get lost. */
  writing(written: Written): void {
    this.#mayHaveWritten = [...this.#mayHaveWritten.filter((one) => !isDeepStrictEqual(one, written)), written]
  }

  /** This and nothing else is what our writes have left: what is not so from now on was changed, be it by a webhook in the answer. */
  wrote(written: Written): void {
    this.#wrote = { what: written }
    this.#mayHaveWritten = []
    this.#isEdited = false
  }

  /** It was there before we have written anything. */
  found(written: Written): void {
    this.#wrote ??= { what: written }
  }

  /** What is there now is none of what we wrote. */
  forgetWrites(): void {
    this.#wrote = undefined
    this.#mayHaveWritten = []
  }

  /** Whether it is what our last write said. */
  hasWritten(wish: Written): boolean {
    return this.#mayHaveWritten.length === 0 && isDeepStrictEqual(this.#wrote?.what, wish)
  }

  /** `object` is undefined where it is gone. The answer is undefined where nothing has to be said or waited for. */
  look(
    object: { readonly metadata: { readonly managedFields: ManagedFields } } | undefined,
    isAs: (written: Written) => boolean,
  ): Edits | undefined {
    const { kind, namespace, name, monotonicNow } = this.#options
    if (monotonicNow() - this.#at >= forgottenAfterMs) this.#count = 0
    const isEdited = this.#wrote !== undefined && ![this.#wrote.what, ...this.#mayHaveWritten].some(isAs)
    if (isEdited && !this.#isEdited) this.#notice(object?.metadata.managedFields ?? [])
    this.#isEdited = isEdited
    if (this.#count <= mendsAtOnce) return undefined
    const sinceMs = monotonicNow() - this.#at
    return {
      message: `${kind} ${namespace}/${name} keeps being changed, most recently by ${this.#writer}; the agent restores it every ${mendEveryMs / 1000} s until that stops.`,
      mendInMs: isEdited ? Math.max(0, mendEveryMs - sinceMs) : 0,
      forgottenInMs: Math.max(0, forgottenAfterMs - sinceMs),
    }
  }

  #notice(managedFields: ManagedFields): void {
    this.#count += 1
    this.#at = this.#options.monotonicNow()
    const others = managedFields.filter(({ manager }) => manager !== this.#options.fieldManager)
    const [last] = others.toSorted((a, b) => ((a.time ?? '') < (b.time ?? '') ? 1 : -1))
    this.#writer = last ? `"${last.manager}"` : 'somebody'
  }
}
