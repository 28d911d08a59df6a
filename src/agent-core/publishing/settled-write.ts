import type { ApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Resource } from '../kube/resources.ts'
import type { MergePatch } from './objects.ts'

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

export type Settled<T, R> =
  /** `object` is undefined after a delete. */
  | { readonly kind: 'written'; readonly object: T | undefined }
  | { readonly kind: 'stopped'; readonly result: R }
  /** The object as such is not acceptable; the message is the server's. */
  | { readonly kind: 'refused'; readonly message: string; readonly error: ApiError }

export interface WriteOptions<T extends Versioned, R> {
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
      if (!isAnswered(error, 404, 409, 422)) throw error
      const now = await readNow(options)
      if (isRefusal(error, current, now)) return { kind: 'refused', message: error.message, error }
      if (attempt === maxAttempts) throw error
      current = now
    }
  }
}

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
    if (!isAnswered(error, 404)) throw error
    store.learn(namespace, name, undefined)
    return undefined
  }
}

/** Rooms do not import one another's code, so an ApiError is recognised by its fields. Without codes any answer of the server counts. */
export const isAnswered = (error: unknown, ...codes: readonly number[]): error is ApiError =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'number' &&
  (codes.length === 0 || codes.includes(error.code))

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
