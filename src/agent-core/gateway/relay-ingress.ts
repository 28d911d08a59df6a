import type { DoorState } from './doors.ts'
import { relayIdentity, type RelayIdentity } from './relay-identity.ts'
import { RelayTokens, type RelayTokensOptions } from './relay-tokens.ts'
import { ingressHost, ingressHostForIpv6, type RelayAccess, type RelayIngressTold } from '../../contract/gateway.ts'
import { messageOf } from '../util/message-of.ts'
import { splitKey } from '../util/object-key.ts'
import { pause } from '../util/pause.ts'

/** How relays reach a service: besides the published address, or alone. */
export type RelayedHow = Exclude<RelayAccess['is'], 'unchanged'>

export interface RelayIngressOptions extends Omit<RelayTokensOptions, 'onChange'> {
  /** The gateway is to be told: at once, or with what else there is soon. */
  readonly onTold: (when: 'at once' | 'soon') => void
  /** {@link RelayIngress.pin}, {@link RelayIngress.state} or {@link RelayIngress.tokenProblem} may have changed. */
  readonly onState: () => void
  readonly stateDir: string
  /** `--ingress-port`. */
  readonly port: number
  /** Whether the address that is published is of IPv6. */
  readonly isIpv6: () => boolean
  /** Whether the gateway listens at an address. */
  readonly door: (address: string, port: number) => DoorState
}

/** An identity that cannot be used is looked at again, since a person may have mended it. */
const identityAgainMs = 10_000

/**
 * The ingress by which the relays of an LLMKube 0.10 reach services of this machine: its identity, its tokens, and which services are behind it. The
 * gateway is the listener. It costs nothing while no service is behind it.
 */
export class RelayIngress implements AsyncDisposable {
  readonly #options: RelayIngressOptions
  readonly #tokens: RelayTokens
  readonly #leaving = new AbortController()
  /** By key; null: relays do not reach it. What is not here is as an earlier agent left it. */
  readonly #services = new Map<string, RelayedHow | null>()
  #identity: RelayIdentity | undefined
  #problem: string | undefined
  #reading: Promise<void> | undefined

  constructor(options: RelayIngressOptions) {
    this.#options = options
    this.#tokens = new RelayTokens({ ...options, onChange: () => this.#stateChanged() })
  }

  get port(): number {
    return this.#options.port
  }

  /** Where the gateway listens. */
  get host(): typeof ingressHost | typeof ingressHostForIpv6 {
    return this.#options.isIpv6() ? ingressHostForIpv6 : ingressHost
  }

  /** The pin that an EndpointSlice tells. Undefined until some service is behind the ingress, and where {@link state} says why there is none. */
  get pin(): string | undefined {
    return this.#identity?.pin
  }

  /** Whether relays can connect: there is an identity, and the gateway listens. */
  get state(): DoorState {
    if (this.#problem !== undefined) return { kind: 'closed', message: this.#problem }
    if (!this.#identity) return { kind: 'unknown', message: 'The identity of the relay ingress is being read.' }
    return this.#options.door(this.host, this.port)
  }

  /** Why relays of the namespace are not let in, as a sentence; undefined where they are, or where it is not known yet. */
  tokenProblem(namespace: string): string | undefined {
    return this.#tokens.problem(namespace)
  }

  isTokenDenied(namespace: string): boolean {
    return this.#tokens.isDenied(namespace)
  }

  /** What a person should know. */
  get notice(): string | undefined {
    if (this.#relayed.length === 0) return undefined
    const { state } = this
    if (state.kind === 'closed') return `No relay of the cluster reaches this machine. ${state.message}`
    const denied = this.#relayed
      .map((key) => splitKey(key).namespace)
      .find((namespace) => this.isTokenDenied(namespace))
    return denied === undefined ? undefined : this.tokenProblem(denied)
  }

  /** Call it for every service once it is known how it is published; undefined: relays do not reach it. */
  set(key: string, how: RelayedHow | undefined): void {
    const before = this.#services.get(key)
    if (before === (how ?? null)) return
    this.#services.set(key, how ?? null)
    // Of a thousand services that no relay reaches the gateway need not be told one by one.
    this.#servicesChanged((how ?? before) ? 'at once' : 'soon')
  }

  /** Call it for a service that this agent serves no longer. */
  forget(key: string): void {
    if (this.#services.delete(key)) this.#servicesChanged('soon')
  }

  /** Call it when the cluster is left: its relays reach nothing from then on. */
  forgetWhere(isLeft: (key: string) => boolean): void {
    for (const key of this.#services.keys()) if (isLeft(key)) this.#services.set(key, null)
    this.#servicesChanged('at once')
  }

  /** For the gateway: how it is to treat the service. */
  how(key: string): RelayAccess['is'] | undefined {
    const how = this.#services.get(key)
    return how === undefined ? 'unchanged' : (how ?? undefined)
  }

  /** For the gateway; undefined while there is nothing to tell it. */
  get told(): RelayIngressTold | undefined {
    if (!this.#identity || this.#relayed.length === 0) return undefined
    const { certificate, key } = this.#identity
    const { host, port } = this
    return { ...(host !== ingressHost && { host }), port, certificate, key, tokens: this.#tokens.told }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    await Promise.all([this.#tokens[Symbol.asyncDispose](), this.#reading])
  }

  get #relayed(): string[] {
    return [...this.#services].flatMap(([key, how]) => (how === null ? [] : [key]))
  }

  #servicesChanged(when: 'at once' | 'soon'): void {
    const relayed = this.#relayed
    this.#tokens.want(new Set(relayed.map((key) => splitKey(key).namespace)))
    if (relayed.length > 0 && !this.#identity)
      this.#reading ??= this.#readIdentity().finally(() => (this.#reading = undefined))
    this.#options.onTold(when)
  }

  #stateChanged(): void {
    this.#options.onTold('at once')
    this.#options.onState()
  }

  /** Until there is one, or none is needed. Never rejects. */
  async #readIdentity(): Promise<void> {
    const { stateDir, log, pause: wait = pause } = this.#options
    do {
      try {
        this.#identity = await relayIdentity(stateDir)
        this.#problem = undefined
        this.#stateChanged()
        return
      } catch (error) {
        const problem = messageOf(error)
        if (problem !== this.#problem) {
          log.warn('no relay identity', { text: problem })
          this.#problem = problem
          this.#stateChanged()
        }
      }
    } while (this.#relayed.length > 0 && (await wait(identityAgainMs, this.#leaving.signal)))
  }
}
