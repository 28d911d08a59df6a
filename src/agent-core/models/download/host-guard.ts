import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import { domainToASCII } from 'node:url'
import ipaddr from 'ipaddr.js'
import { ModelError } from '../errors.ts'

/** All addresses of a name, as `dns.lookup` gives them. */
export type Resolve = (
  hostname: string,
  options: LookupOptions & { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

export interface HostGuardOptions {
  /** Names, addresses and blocks (CIDR) beside the public addresses. */
  readonly allowed: () => readonly string[]
  /** For tests: in place of the system's. */
  readonly resolve?: Resolve | undefined
  /** For tests: in place of this machine's. */
  readonly interfaces?: typeof networkInterfaces | undefined
}

/**
 * Limits downloads to public addresses outside this machine's own network and the hosts that a person listed; without it a Model could have
 * this machine send requests into its own network, where every machine that has IPv6 has a public address too. The address that was
 * checked is the one that is dialled, so that a name cannot change its address in between.
 */
export class HostGuard {
  readonly #allowed: () => readonly string[]
  readonly #resolve: Resolve
  readonly #interfaces: typeof networkInterfaces

  constructor({ allowed, resolve = systemLookup, interfaces = networkInterfaces }: HostGuardOptions) {
    this.#allowed = allowed
    this.#resolve = resolve
    this.#interfaces = interfaces
  }

  /** Asked for each request before anything is dialled: all that can be judged where a proxy resolves the name. Throws ModelError. */
  requireHost(hostname: string): void {
    const host = bare(hostname)
    const isFine = ipaddr.isValid(host) ? this.#mayDial(host) : !isLocalName(host)
    if (!isFine && !this.#isListed(host)) throw notAllowed(host)
  }

  /** For a socket that is about to connect; not asked for an address. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    this.#resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        callback(error, [])
        return
      }
      try {
        const first = this.#requireAddresses(hostname, addresses)
        if (options.all === true) callback(null, addresses)
        else callback(null, first.address, first.family)
      } catch (refused) {
        // Thrown on, it would end the agent: the resolver calls this.
        callback(refused instanceof Error ? refused : new Error(String(refused)), [])
      }
    })
  }

  #isListed(host: string): boolean {
    return this.#allowed().some((entry) => bare(entry) === host)
  }

  /** The first of them. Throws ModelError. */
  #requireAddresses(hostname: string, addresses: readonly LookupAddress[]): LookupAddress {
    const [first] = addresses
    const isFine = this.#isListed(bare(hostname)) || addresses.every(({ address }) => this.#mayDial(address))
    if (first === undefined || !isFine) throw notAllowed(hostname)
    return first
  }

  #mayDial(address: string): boolean {
    const dialled = withoutZone(ipaddr.parse(address))
    const judged = innermost(dialled)
    if (isPublic(judged) && !isLocalTranslation(dialled) && !this.#isOwn(judged, dialled)) return true
    return this.#allowed().some((entry) => holds(entry, judged) || holds(entry, dialled))
  }

  /** Whether one lies in a network of this machine's interfaces, which come and go while the agent runs. */
  #isOwn(...addresses: readonly Address[]): boolean {
    const own = Object.values(this.#interfaces()).flatMap((given) => given ?? [])
    return own.some((one) => addresses.some((address) => isNear(address, one)))
  }
}

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** The interface an address belongs to (`%en0`) says nothing about where it leads. */
const withoutZone = (address: Address): Address => ipaddr.fromByteArray(address.toByteArray())

/** All that is given out to the public in IPv6 so far; the rest, such as `::2` or `4000::1`, has no owner who could serve a model. */
const publicIpv6 = ipaddr.parseCIDR('2000::/3')

const isPublic = (address: Address): boolean =>
  address.range() === 'unicast' && (address.kind() === 'ipv4' || address.match(publicIpv6))

/**
 * How long the prefix of an own network is at least and at most, whatever the interface says. Shorter: some tunnels state a class of addresses
 * or everything (/0, /8), which must not refuse the internet. Longer: an IPv6 network has 64 bits also where DHCPv6 or a tunnel gives out
 * single addresses (/128), and the other end of a line (/31, /32) is next to this one.
 */
const ownPrefixBits = { ipv4: { least: 16, most: 30 }, ipv6: { least: 48, most: 64 } }

/** Whether it lies in the network of an address of this machine. */
function isNear(address: Address, { address: own, cidr }: Readonly<{ address: string; cidr: string | null }>): boolean {
  const mine = withoutZone(ipaddr.parse(own))
  const { least, most } = ownPrefixBits[mine.kind()]
  const stated = cidr === null ? most : Number(cidr.split('/').at(-1))
  return mine.kind() === address.kind() && address.match(mine, Math.min(most, Math.max(least, stated)))
}

/** The IPv4 address that an IPv6 one stands for: mapped, compatible, or translated as DNS64 and 6to4 do. */
function innermost(address: Address): Address {
  if (address.kind() === 'ipv4') return address
  const bytes = address.toByteArray()
  const isCompatible = bytes.slice(0, 12).every((byte) => byte === 0) && bytes.slice(12, 15).some((byte) => byte !== 0)
  switch (address.range()) {
    case 'ipv4Mapped':
    case 'rfc6145':
    case 'rfc6052':
      return new ipaddr.IPv4(bytes.slice(12))
    case '6to4':
      return new ipaddr.IPv4(bytes.slice(2, 6))
    default:
      return isCompatible ? new ipaddr.IPv4(bytes.slice(12)) : address
  }
}

/** NAT64 into the network's own addresses (RFC 8215). */
const localTranslation = ipaddr.parseCIDR('64:ff9b:1::/48')

const isLocalTranslation = (address: Address): boolean => address.kind() === 'ipv6' && address.match(localTranslation)

function holds(entry: string, address: Address): boolean {
  if (ipaddr.isValidCIDR(entry)) {
    const [network, bits] = ipaddr.parseCIDR(entry)
    return network.kind() === address.kind() && address.match(network, bits)
  }
  const host = bare(entry)
  return ipaddr.isValid(host) && innermost(ipaddr.parse(host)).toNormalizedString() === address.toNormalizedString()
}

/** As names and addresses are compared: no brackets, no dot at the end, no capitals, no Unicode. */
function bare(host: string): string {
  const plain = host
    .replace(/^\[(.+)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase()
  return ipaddr.isValid(plain) ? plain : domainToASCII(plain) || plain
}

const isLocalName = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost')

/** Names neither the address nor the port, so that a Model's author learns nothing about this machine's network. */
function notAllowed(hostname: string): ModelError {
  const host = bare(hostname)
  return ModelError.untilRepairedThere(
    'DownloadHostNotAllowed',
    `No model is fetched from ${host}, which is not a public address outside this machine's own network: have the owner of this machine start the agent with --allowed-download-hosts ${host}, or give a public address.`,
  )
}
