import { createHash } from 'node:crypto'
import { isApiError, rootMessage } from '../kube/api-error.ts'
import { readSecret } from '../kube/secrets.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { Logger } from '../observability/logger.ts'
import { pause } from '../util/pause.ts'
import { refKey, splitKey } from '../util/object-key.ts'
import { earlierKeyMs, type EarlierKey, type PublishedAccess, type ServiceKey } from '../../contract/gateway.ts'
import { secretName } from '../../contract/names.ts'

/** Annotation of the InferenceService: the name of a Secret in its namespace, whose key `token` holds the API key that clients must send. */
export const apiKeyAnnotation = 'metalbar.dev/api-key-secret'

/** A key that was replaced or deleted is noticed within five seconds, the reading included. */
const usualReadEveryMs = 3_000

/** It has to fit among the headers of a request. */
const maxKeyLength = 4_096

export type ApiKeyState =
  /** Never read so far: what the gateway knows counts. */
  | { readonly kind: 'unknown'; readonly message: string }
  | { readonly kind: 'known'; readonly sha256: string }
  /** Every request is refused; `message` says what to do. */
  | { readonly kind: 'unusable'; readonly message: string }

export interface ApiKeysOptions {
  /** The client of the current cluster's API server; undefined while no cluster is connected. */
  readonly api: () => Pick<KubeApi, 'get'> | undefined
  /** Called when a service's key changes, becomes usable or stops being usable. */
  readonly onChange: (key: string) => void
  readonly log: Logger
  /** Milliseconds since 1970; for tests. */
  readonly now?: () => number
  /** For tests. */
  readonly readEveryMs?: number
}

/** The last key that was read for a service, and the one before it. */
interface KnownKey {
  readonly sha256: string
  readonly earlierKey?: EarlierKey | undefined
}

/**
 * The API keys that services ask for, as digests: read from their Secrets by name every few seconds, only while there are such services.
 * Secrets are not watched, and a key is neither kept nor logged.
 */
export class ApiKeys implements AsyncDisposable {
  readonly #options: ApiKeysOptions
  readonly #leaving = new AbortController()
  /** The Secret that each service names; null for a service that asks for no key. */
  readonly #wanted = new Map<string, string | null>()
  readonly #states = new Map<string, ApiKeyState>()
  /** What a gateway that is started now has to ask for. A Secret that cannot be read for a while changes nothing of it. */
  readonly #keys = new Map<string, KnownKey>()
  #reading: Promise<void> | undefined

  constructor(options: ApiKeysOptions) {
    this.#options = options
  }

  /** Call it for every service. `secret`: the value of its annotation; undefined if it has none. */
  want(key: string, secret: string | undefined): void {
    const before = this.#wanted.get(key)
    if (before === (secret ?? null)) return
    this.#wanted.set(key, secret ?? null)
    this.#states.delete(key)
    if (secret === undefined) this.#keys.delete(key)
    this.#options.onChange(key)
    if (secret !== undefined) this.#reading ??= this.#keepReading().finally(() => (this.#reading = undefined))
  }

  forget(key: string): void {
    this.#wanted.delete(key)
    this.#states.delete(key)
    this.#keys.delete(key)
  }

  /** Reads every Secret again. Call it after the credentials or the cluster have changed. */
  readAgain(): void {
    this.#wanted.clear()
    this.#states.clear()
  }

  /** Forgets the keys of services that this machine serves no longer. */
  forgetWhere(isLeft: (key: string) => boolean): void {
    for (const key of this.#keys.keys()) if (isLeft(key)) this.#keys.delete(key)
  }

  /** What a gateway that an earlier agent left asks for. */
  adopt(keys: readonly ServiceKey[]): void {
    for (const { sha256, earlierKey, ...ref } of keys) {
      const own = this.#keys.get(refKey(ref))
      // While the same agent runs, it knows as much as its gateway.
      if (own?.earlierKey) continue
      this.#keys.set(refKey(ref), followedBy({ sha256, earlierKey }, own?.sha256 ?? sha256, this.#now()))
    }
  }

  /** The state of the key of a service that asks for one. */
  stateOf(key: string): ApiKeyState {
    return this.#states.get(key) ?? { kind: 'unknown', message: 'Its Secret with the API key is being read.' }
  }

  /** What the gateway must require; undefined leaves it unchanged. */
  askedFor(key: string): Omit<PublishedAccess, 'servicePorts'> | undefined {
    const wanted = this.#wanted.get(key)
    if (wanted === undefined) return undefined
    if (wanted === null) return { key: 'none' }
    const state = this.stateOf(key)
    if (state.kind === 'unknown') return undefined
    if (state.kind === 'unusable') return { key: 'nobody' }
    const { earlierKey } = this.#keys.get(key) ?? {}
    return { key: state.sha256, ...(earlierKey && earlierKey.until > this.#now() && { earlierKey }) }
  }

  /** Whether Secrets are being read, which is while some service asks for a key. */
  get isReading(): boolean {
    return this.#reading !== undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    await this.#reading
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }

  /** Until no service asks for a key. Never rejects. */
  async #keepReading(): Promise<void> {
    const { readEveryMs = usualReadEveryMs } = this.#options
    do {
      const asking = [...this.#wanted].flatMap(([key, secret]) => (secret === null ? [] : [{ key, secret }]))
      if (asking.length === 0) return
      await Promise.all(asking.map(({ key, secret }) => this.#readOne(key, secret)))
    } while (await pause(readEveryMs, this.#leaving.signal))
  }

  async #readOne(key: string, secret: string): Promise<void> {
    const found = await this.#find(key, secret)
    const before = this.#states.get(key)
    if (this.#wanted.get(key) !== secret) return
    // While the cluster cannot be asked, the state that was found last stays.
    if (found.kind === 'unknown' && (before ?? found).kind !== 'unknown') return
    this.#states.set(key, found)
    if (found.kind === 'known') this.#keys.set(key, followedBy(this.#keys.get(key), found.sha256, this.#now()))
    // A key that was taken away counts no longer, nor does the one before it.
    else if (found.kind === 'unusable') this.#keys.delete(key)
    if (JSON.stringify(found) === JSON.stringify(before)) return
    if (found.kind !== 'known') this.#options.log.warn('no API key', { service: key, text: found.message })
    this.#options.onChange(key)
  }

  async #find(key: string, secret: string): Promise<ApiKeyState> {
    const { namespace } = splitKey(key)
    if (!secretName.safeParse(secret).success) {
      return unusable(`${apiKeyAnnotation} names no Secret: give the name of one in ${namespace}, or remove it.`)
    }
    const named = `Secret ${namespace}/${secret}, which ${apiKeyAnnotation} names,`
    const api = this.#options.api()
    if (!api) return { kind: 'unknown', message: `${named} cannot be read: there is no cluster.` }
    try {
      const token = (await readSecret(api, namespace, secret))?.values['token']?.trim() ?? ''
      if (token === '') return unusable(`${named} has no key "token": put the API key there.`)
      if (token.length > maxKeyLength || !/^[\x21-\x7e]+$/.test(token)) {
        return unusable(
          `${named} has a "token" that no client can send: the API key must be at most ${maxKeyLength} visible ASCII characters.`,
        )
      }
      return { kind: 'known', sha256: createHash('sha256').update(token).digest('hex') }
    } catch (error) {
      if (isApiError(error, 404)) return unusable(`${named} does not exist: create it with the API key under "token".`)
      const why = rootMessage(error)
      if (isApiError(error, 403)) {
        return unusable(`${named} cannot be read (${why}): allow this agent to get Secrets in ${namespace}.`)
      }
      return { kind: 'unknown', message: `${named} cannot be read at the moment (${why}); the agent tries again.` }
    }
  }
}

function followedBy(before: KnownKey | undefined, sha256: string, now: number): KnownKey {
  if (before?.sha256 === sha256) return before
  return { sha256, ...(before && { earlierKey: { sha256: before.sha256, until: now + earlierKeyMs } }) }
}

const unusable = (why: string): ApiKeyState => ({
  kind: 'unusable',
  message: `Nobody can use it: ${why} Until then no requests are sent here.`,
})
