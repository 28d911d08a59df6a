import { createHash } from 'node:crypto'
import { isApiError, rootMessage } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { readSecret, type Secret } from '../kube/secrets.ts'
import type { Logger } from '../observability/logger.ts'
import { labels } from '../publishing/objects.ts'
import { pause } from '../util/pause.ts'
import { earlierKeyMs, type EarlierKey, type RelayToken } from '../../contract/gateway.ts'
import { namespaceName } from '../../contract/names.ts'

/** LLMKube's controller makes it, one in each namespace. */
export const relaySecret = 'llmkube-metal-relay'

/** A token that was deleted or replaced counts no longer than this and one reading. */
const readEveryMs = 5_000
/** After the first reading that failed. */
const readAgainMs = 1_000
const usualReadLimitMs = 3_000

/** It has to fit among the headers of a request; the controller's has 64. */
const maxTokenLength = 4_096

export interface RelayTokensOptions {
  /** The client of the current cluster's API server; undefined while no cluster is connected. */
  readonly api: () => Pick<KubeApi, 'get'> | undefined
  /** What is to be told to the gateway has changed. */
  readonly onChange: () => void
  readonly log: Logger
  /** Milliseconds since 1970; for tests. */
  readonly now?: () => number
  /** For tests. */
  readonly pause?: typeof pause
  /** For tests. */
  readonly readLimitMs?: number
}

/** What a Secret says. */
type Found =
  | { readonly kind: 'known'; readonly sha256: string }
  /** `message`: what is wrong with it. */
  | { readonly kind: 'none'; readonly message: string }
  /** This agent may not read it. */
  | { readonly kind: 'denied'; readonly message: string }
  /** It could not be read now. */
  | { readonly kind: 'unread'; readonly message: string }

interface Known {
  /** Undefined until the Secret was read. */
  token?: RelayToken['token']
  earlier?: EarlierKey | undefined
  /** What was found last, to tell each change once. */
  message?: string | undefined
  isDenied?: boolean
}

/**
 * The tokens that relays show, as digests: read from one Secret in each namespace that has a service behind the ingress, by name and every few
 * seconds. Neither a token nor a Secret is kept, watched or logged.
 */
export class RelayTokens implements AsyncDisposable {
  readonly #options: RelayTokensOptions
  readonly #leaving = new AbortController()
  readonly #namespaces = new Map<string, Known>()
  readonly #readings = new Set<Promise<void>>()

  constructor(options: RelayTokensOptions) {
    this.#options = options
  }

  /** The namespaces whose tokens are needed; those of others are forgotten. */
  want(namespaces: ReadonlySet<string>): void {
    for (const namespace of this.#namespaces.keys()) if (!namespaces.has(namespace)) this.#namespaces.delete(namespace)
    for (const namespace of namespaces) {
      if (this.#namespaces.has(namespace) || !namespaceName.safeParse(namespace).success) continue
      const known: Known = {}
      this.#namespaces.set(namespace, known)
      const reading: Promise<void> = this.#keepReading(namespace, known).finally(() => this.#readings.delete(reading))
      this.#readings.add(reading)
    }
  }

  get told(): RelayToken[] {
    return [...this.#namespaces].map(([namespace, { token, earlier }]) => ({
      namespace,
      ...(token !== undefined && { token }),
      ...(earlier && earlier.until > this.#now() && { earlierKey: earlier }),
    }))
  }

  /** Why relays of the namespace are not let in, as a sentence; undefined where they are, or where it is not known yet. */
  problem(namespace: string): string | undefined {
    return this.#namespaces.get(namespace)?.message
  }

  /** This agent may not read the Secret. */
  isDenied(namespace: string): boolean {
    return this.#namespaces.get(namespace)?.isDenied === true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    await Promise.all(this.#readings)
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }

  /** Until the namespace is wanted no longer. Never rejects. */
  async #keepReading(namespace: string, known: Known): Promise<void> {
    const { pause: wait = pause } = this.#options
    const isWanted = (): boolean => this.#namespaces.get(namespace) === known
    for (let failures = 0; isWanted();) {
      const found = await this.#find(namespace)
      if (!isWanted()) return
      failures = found.kind === 'unread' ? failures + 1 : 0
      this.#take(namespace, known, found)
      // An API server that is away for long is not asked more often than one that is there.
      if (!(await wait(failures === 1 ? readAgainMs : readEveryMs, this.#leaving.signal))) return
    }
  }

  #take(namespace: string, known: Known, found: Found): void {
    const before = JSON.stringify([known.token, known.earlier, known.message])
    const message = found.kind === 'known' ? undefined : found.message
    const { log } = this.#options
    if (message !== undefined && message !== known.message) {
      // In a cluster whose LLMKube has no relays there never is one.
      log.info('no relay token', { namespace, text: message })
    }
    known.message = message
    if (found.kind !== 'unread') known.isDenied = found.kind === 'denied'
    if (found.kind === 'known') {
      const { token } = known
      if (token !== undefined && token !== 'nobody' && token !== found.sha256)
        known.earlier = { sha256: token, until: this.#now() + earlierKeyMs }
      known.token = found.sha256
    } else if (found.kind === 'none') {
      known.token = 'nobody'
      known.earlier = undefined
    }
    if (JSON.stringify([known.token, known.earlier, known.message]) !== before) this.#options.onChange()
  }

  async #find(namespace: string): Promise<Found> {
    const named = `Secret ${namespace}/${relaySecret}`
    const { api: apiNow, readLimitMs = usualReadLimitMs } = this.#options
    const api = apiNow()
    if (!api) return { kind: 'unread', message: `${named} cannot be read: there is no cluster.` }
    try {
      const limit = AbortSignal.any([this.#leaving.signal, AbortSignal.timeout(readLimitMs)])
      const secret = await readSecret(api, namespace, relaySecret, limit)
      return judged(named, secret)
    } catch (error) {
      if (isApiError(error, 404)) return none(`${named} does not exist yet: LLMKube's controller makes it.`)
      const unread = `${named} cannot be read (${rootMessage(error)})`
      if (!isApiError(error, 403)) return { kind: 'unread', message: `${unread}: the agent tries again.` }
      const help = `bind the role metalbar-relay to this agent in ${namespace}, which metal-agent rights --further prints.`
      return { kind: 'denied', message: `${unread}: ${help}` }
    }
  }
}

function judged(named: string, secret: Secret | undefined): Found {
  if (secret?.labels[labels.managedBy] !== 'llmkube-controller') {
    return none(
      `${named} is not LLMKube's: its label ${labels.managedBy} is not llmkube-controller. Delete it, and the controller makes another.`,
    )
  }
  const token = secret.values['token']?.trim() ?? ''
  if (token === '') return none(`${named} has no token: delete it, and LLMKube's controller makes another.`)
  if (token.length > maxTokenLength || !/^[\x21-\x7e]+$/.test(token)) {
    return none(`${named} has a "token" that no relay can send: delete it, and LLMKube's controller makes another.`)
  }
  return { kind: 'known', sha256: createHash('sha256').update(token).digest('hex') }
}

const none = (message: string): Found => ({
  kind: 'none',
  message: `No relay of its namespace can connect: ${message}`,
})
