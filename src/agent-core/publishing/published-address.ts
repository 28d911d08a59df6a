import { isDeepStrictEqual } from 'node:util'
import type { History } from '../history/history.ts'
import type { Logger } from '../observability/logger.ts'
import { hostAddress, type HostAddress, type HostCandidate } from './host-address.ts'
import type { PersonSettings } from '../settings/person-settings.ts'

/** Addresses come and go with networks; reading the interfaces costs microseconds. */
const lookEveryMs = 5_000

export interface PublishedAddressOptions {
  readonly interfaces: () => readonly HostCandidate[]
  readonly wanted: () => PersonSettings['hostAddress']
  /** URL of the API server, whose network is the likeliest that pods come from; undefined while there is no cluster. */
  readonly server: () => string | undefined
  readonly history: Pick<History, 'add'>
  readonly log: Logger
  readonly onChange: () => void
}

export interface AddressFacts {
  readonly ip: string | undefined
  /** Why it is this address, or why there is none. */
  readonly message: string
  /** Why pods may not reach it, although it is published. */
  readonly warning?: string
}

/** Before anything was looked at. */
const nothingChosen: HostAddress = { kind: 'none', message: 'The host address has not been chosen yet.', rejected: [] }

export const noAddress: AddressFacts = { ip: undefined, message: nothingChosen.message }

/** The address of this host that pods are sent to: as a flag or a person says, else the best of those it has. */
export class PublishedAddress implements Disposable {
  readonly #options: PublishedAddressOptions
  #current = nothingChosen
  #isFirst = true
  #timer: NodeJS.Timeout | undefined

  constructor(options: PublishedAddressOptions) {
    this.#options = options
  }

  get current(): HostAddress {
    return this.#current
  }

  get facts(): AddressFacts {
    const { current } = this
    if (current.kind === 'none') return { ip: undefined, message: current.message }
    const { address: ip, why, warning } = current
    return { ip, message: `Pods are sent to ${ip}: ${why}.`, ...(warning !== undefined && { warning }) }
  }

  /** Looks again and again from now on. */
  watch(): void {
    const { log } = this.#options
    this.#timer = setInterval(() => {
      this.check().catch((error: unknown) => log.error('host address not checked', { error }))
    }, lookEveryMs)
  }

  /** Resolves when the address is the one that is wanted at that moment. */
  async check(): Promise<void> {
    const { interfaces, wanted, server, onChange } = this.#options
    const cluster = server()
    if (cluster === undefined) return
    const choice = wanted()
    const found = await hostAddress({
      explicit: choice.by === 'automatic' ? undefined : choice,
      server: cluster,
      interfaces,
      before: this.#current,
    })
    // While a name server was waited for, a person may have chosen another address, or another cluster may be served.
    if (!isDeepStrictEqual([choice, cluster], [wanted(), server()])) return this.check()
    if (isDeepStrictEqual(found, this.#current)) return
    const { ip } = this.facts
    this.#current = found
    if (ip !== this.facts.ip) this.#tell()
    this.#log(choice.by === 'automatic')
    onChange()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  /** The first address is no change. */
  #tell(): void {
    if (!this.#isFirst) this.#options.history.add({ kind: 'addressChanged', message: this.facts.message })
    this.#isFirst = false
  }

  #log(isDetected: boolean): void {
    const { log, interfaces } = this.#options
    if (this.#current.kind === 'none') {
      log.warn('no host IP', { text: this.#current.message })
      return
    }
    const { address: ip, why, rejected, warning } = this.#current
    const name = interfaces().find((one) => one.address === ip)?.name
    log.info(isDetected ? 'auto-detected host IP' : 'using host IP', { ip, interface: name, why, rejected })
    if (warning !== undefined) log.warn('host IP may not be reached', { text: warning })
  }
}
