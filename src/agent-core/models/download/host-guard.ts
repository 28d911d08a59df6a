import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { domainToASCII } from 'node:url'
import ipaddr from 'ipaddr.js'
import { ModelError, remoteRepairMs } from '../errors.ts'

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
}

/**
 * Limits downloads to public addresses and the hosts that a person listed; without it a Model could have this machine send requests into
 * its own network. The address that was checked is the one that is dialled, so that a name cannot change its address in between.
 */
export class HostGuard {
  readonly #allowed: () => readonly string[]
  readonly #resolve: Resolve

  constructor({ allowed, resolve = systemLookup }: HostGuardOptions) {
    this.#allowed = allowed
    this.#resolve = resolve
  }

  /** Of each request, before anything is dialled: all that can be judged where a proxy resolves the name. Throws ModelError. */
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
      const [first] = addresses
      if (first === undefined) callback(notAllowed(hostname), [])
      else if (!this.#isListed(bare(hostname)) && !addresses.every(({ address }) => this.#mayDial(address)))
        callback(notAllowed(hostname), [])
      else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }

  #isListed(host: string): boolean {
    return this.#allowed().some((entry) => bare(entry) === host)
  }

  #mayDial(address: string): boolean {
    const dialled = ipaddr.parse(address)
    const judged = innermost(dialled)
    if (judged.range() === 'unicast' && !isLocalTranslation(dialled)) return true
    return this.#allowed().some((entry) => holds(entry, judged) || holds(entry, dialled))
  }
}

type Address = ipaddr.IPv4 | ipaddr.IPv6

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
  return new ModelError(
    'transient',
    'DownloadHostNotAllowed',
    `No model is fetched from ${host}, which is not a public address: let a person on this machine start the agent with --allowed-download-hosts ${host}, or give a public address.`,
    { retryAfterMs: remoteRepairMs },
  )
}
