import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import ipaddr from 'ipaddr.js'
import { bridges, type LocalCluster, localClusterText } from './local-cluster.ts'
import type { History } from '../history/history.ts'
import type { Logger } from '../observability/logger.ts'
import type { HostInterface } from '../platform/platform.ts'
import type { PersonSettings } from '../settings/person-settings.ts'
import { unusableAddresses } from '../settings/start-rows.ts'
import { isIpv6 } from '../../contract/addresses.ts'

/** A name server that does not answer must not hold up a publication. */
const routeLimitMs = 3_000

/** One address of this host. */
export type HostCandidate = Pick<HostInterface, 'name' | 'address'>

interface RejectedCandidate extends HostCandidate {
  readonly reason: string
}

export type HostAddress =
  | {
      readonly kind: 'chosen'
      readonly address: string
      /** Half a sentence, for people and the log. */
      readonly why: string
      readonly rejected: readonly RejectedCandidate[]
      /** One sentence where it is published as asked although pods may not reach this machine by it. */
      readonly warning?: string
    }
  /** Nothing can be published; one sentence that says what to do. */
  | { readonly kind: 'none'; readonly message: string; readonly rejected: readonly RejectedCandidate[] }

/** Of tunnels, those of Tailscale (RFC 6598 and its own prefix, tailscale.com/kb/1015, 2026): reachable from every machine of the tailnet. */
const tailnet = ipaddr.IPv4.parseCIDR('100.64.0.0/10')
const tailnetOfSix = ipaddr.IPv6.parseCIDR('fd7a:115c:a1e0::/48')

/** Those of VPNs, of ZeroTier (feth) and of a tailnet, as macOS 26 and Linux name them (2026). */
const tunnels = /^(utun|tun|feth|zt|tailscale|wg)/

/** Where kube-proxy (Kubernetes 1.36, pkg/proxy/ipvs) keeps the addresses of all Services. */
const ofServices = 'kube-ipvs0'

/** What a flag or a person says. */
interface ExplicitAddress {
  readonly by: 'flag' | 'person'
  readonly address: string
}

/**
 * Published as given where the API server would take it: behind NAT or a bridge the cluster may know this machine by an address that none of its
 * interfaces has, which is a warning.
 */
export function explicitHostAddress(
  { by, address }: ExplicitAddress,
  interfaces: readonly HostCandidate[],
): HostAddress {
  const problem = unpublishable(address)
  if (problem !== undefined) {
    const given = by === 'flag' ? `--host-ip ${address}` : address
    const message = `${given} cannot be published (${problem}); give an address of this machine that the cluster reaches.`
    return { kind: 'none', message, rejected: [] }
  }
  const owner = interfaces.find((one) => one.address === address)
  const why = by === 'flag' ? 'it was given with --host-ip' : 'it was chosen by hand'
  return {
    ...{ kind: 'chosen', address, rejected: [] },
    why: owner ? `${why}, on ${owner.name}` : why,
    ...(!owner && {
      warning: `${address} is on no interface of this machine: Pods reach it only if something forwards there.`,
    }),
  }
}

/**
 * The address pods are sent to: the one this host uses towards the API server (`preferred`), through a tunnel too. Where the cluster runs on this
 * host, in a virtual machine behind a bridge or at loopback, the address in a local network comes first, since pods there reach it and those of other
 * nodes as well; then the bridge, of several the one that leads to this kind of `cluster`, then a tunnel. Names such as host.docker.internal are not asked for: they resolve to an address inside this
 * host's virtual machines, or not at all, and an unreachable address is worse than none. An address of IPv6 is published only where there is none of
 * IPv4, which every cluster has Services for unless it was made without.
 */
export function chooseHostAddress(
  candidates: readonly HostCandidate[],
  preferred: string | undefined,
  cluster?: LocalCluster,
): HostAddress {
  const judged = candidates.map(({ name, address }) => ({
    ...{ name, address },
    reason: name === ofServices ? 'addresses of Services' : unpublishable(address),
  }))
  const fit = judged.filter(({ reason }) => reason === undefined)
  const four = fit.filter(({ address }) => !isIpv6(address))
  const usable = four.length > 0 ? four : fit
  const rejected = judged.flatMap(({ reason, ...candidate }) =>
    reason === undefined ? [] : [{ ...candidate, reason }],
  )
  const chosen = ({ address, name }: HostCandidate, why: string): HostAddress => ({
    kind: 'chosen',
    address,
    why: `${name} ${why}${cluster ? `; ${lowerFirst(localClusterText(cluster))}` : ''}`,
    rejected,
  })

  const route = usable.find(({ address }) => address === preferred)
  if (route && !isBridge(route)) return chosen(route, 'leads to the API server')
  const local = usable.find((one) => !isBridge(one) && !isTunnel(one))
  if (local)
    return chosen(
      local,
      route
        ? 'is the first local network, which the virtual machine of the cluster reaches'
        : 'is the first local network',
    )
  const bridge = route ?? usable.find(({ name }) => cluster?.bridge?.test(name)) ?? usable.find(isBridge)
  if (bridge)
    return chosen(bridge, route ? 'leads to the virtual machine of the cluster' : 'is a network of virtual machines')
  const tunnel = usable.find(isInTailnet) ?? usable[0]
  if (tunnel) return chosen(tunnel, isInTailnet(tunnel) ? 'is in the tailnet' : 'is a tunnel')
  const seen = rejected.map(({ name, address, reason }) => `${name} ${address}: ${reason}`).join('; ')
  return {
    kind: 'none',
    message: `No address of this machine can be published (${seen || 'there is no network interface'}); connect it to the cluster's network or give the address with --host-ip.`,
    rejected,
  }
}

/**
 * This host's source address towards the API server, undefined where there is no route or it cannot be told. Connecting
 * a UDP socket asks the routing table and sends nothing.
 */
export async function localAddressTowards(host: string, port: number): Promise<string | undefined> {
  const name = host.replace(/^\[|\]$/g, '')
  const socket = createSocket(isIP(name) === 6 ? 'udp6' : 'udp4')
  try {
    socket.connect(port, name)
    await once(socket, 'connect', { signal: AbortSignal.timeout(routeLimitMs) })
    return socket.address().address
  } catch {
    // Whatever the reason, it is the same as no preference.
    return undefined
  } finally {
    socket.close()
  }
}

const lowerFirst = (text: string): string => `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`

const isBridge = ({ name }: HostCandidate): boolean => bridges.test(name)

const isTunnel = ({ name }: HostCandidate): boolean => tunnels.test(name)

const isInTailnet = ({ name, address }: HostCandidate): boolean => {
  const ip = ipaddr.parse(address)
  return tunnels.test(name) && ip.match(ip instanceof ipaddr.IPv4 ? tailnet : tailnetOfSix)
}

interface HostAddressOptions {
  readonly explicit: ExplicitAddress | undefined
  /** URL of the API server. */
  readonly server: string
  /** Where the cluster runs on this machine. */
  readonly local?: LocalCluster | undefined
  readonly interfaces: () => readonly HostCandidate[]
  /** The address chosen before. */
  readonly before?: HostAddress
}

/**
 * The address to publish as of now; interfaces come and go. Where the route to the API server cannot be told, as when a
 * name server fails, the address from before stays for as long as an interface has it.
 */
export async function hostAddress(options: HostAddressOptions): Promise<HostAddress> {
  const { explicit, server, local, interfaces, before } = options
  if (explicit !== undefined) return explicitHostAddress(explicit, interfaces())
  const { hostname, port, protocol } = new URL(server)
  const defaultPort = protocol === 'http:' ? 80 : 443
  const preferred = await localAddressTowards(hostname, port === '' ? defaultPort : Number(port))
  const candidates = interfaces()
  const stays = before?.kind === 'chosen' && candidates.some(({ address }) => address === before.address)
  return preferred === undefined && stays ? before : chooseHostAddress(candidates, preferred, local)
}

/** Why an EndpointSlice would not take it, or no Pod could go there. */
const unpublishable = (address: string): string | undefined =>
  isIP(address) === 0 || address.includes('%') ? 'not an address' : unusableAddresses[ipaddr.parse(address).range()]

/** Addresses come and go with networks, and whoever asks for a model waits meanwhile; reading the interfaces costs microseconds. */
const lookEveryMs = 500
/** The route to the API server may change without them; to find it out may cost a question to a name server. */
const checkEveryMs = 5_000

interface PublishedAddressOptions {
  readonly interfaces: () => readonly HostCandidate[]
  readonly wanted: () => PersonSettings['hostAddress']
  /** URL of the API server, whose network is the likeliest that pods come from; undefined while there is no cluster. */
  readonly server: () => string | undefined
  readonly local?: () => LocalCluster | undefined
  readonly history: Pick<History, 'add'>
  readonly log: Logger
  readonly onChange: () => void
}

interface AddressFacts {
  readonly ip: string | undefined
  /** Why it is this address, or why there is none. */
  readonly message: string
  /** Why pods may not reach it, although it is published. */
  readonly warning?: string
}

/** State before the first look at the interfaces. */
const nothingChosen: HostAddress = { kind: 'none', message: 'The host address has not been chosen yet.', rejected: [] }

export const noAddress: AddressFacts = { ip: undefined, message: nothingChosen.message }

/** The address of this host that pods are sent to: as a flag or a person says, else the best of those it has. */
export class PublishedAddress implements Disposable {
  readonly #options: PublishedAddressOptions
  #current = nothingChosen
  #isFirst = true
  #timer: NodeJS.Timeout | undefined
  /** The interfaces of the last check. */
  #seen: readonly HostCandidate[] = []
  #checkedAt = 0
  #checks = 0
  #latest: Promise<void> = Promise.resolve()

  constructor(options: PublishedAddressOptions) {
    this.#options = options
  }

  get current(): HostAddress {
    return this.#current
  }

  /** False before the first look. */
  get isKnown(): boolean {
    return this.#current !== nothingChosen
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
      if (performance.now() - this.#checkedAt < checkEveryMs && !this.#hasOthers()) return
      this.check().catch((error: unknown) => log.error('host address not checked', { error }))
    }, lookEveryMs)
  }

  /** Whether the interfaces are others than at the last check. Where the system does not say, as without a file to open, the next check tells it. */
  #hasOthers(): boolean {
    try {
      return !isDeepStrictEqual(this.#options.interfaces(), this.#seen)
    } catch {
      return false
    }
  }

  /** Resolves when the address is the one that is wanted at that moment. */
  check(): Promise<void> {
    this.#latest = this.#check(++this.#checks)
    return this.#latest
  }

  async #check(turn: number): Promise<void> {
    const { interfaces, wanted, server, local, onChange } = this.#options
    const cluster = server()
    this.#checkedAt = performance.now()
    this.#seen = interfaces()
    if (cluster === undefined) return
    const choice = wanted()
    const found = await hostAddress({
      explicit: choice.by === 'automatic' ? undefined : choice,
      server: cluster,
      local: local?.(),
      interfaces,
      before: this.#current,
    })
    // What was found before the interfaces changed is out of date.
    if (turn !== this.#checks) return this.#latest
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
