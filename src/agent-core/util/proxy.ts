import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import ipaddr from 'ipaddr.js'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The proxy for requests of ours to `url`, by HTTPS_PROXY, HTTP_PROXY and NO_PROXY: an address with http, https or one of the SOCKS schemes;
 * undefined: straight. NO_PROXY means what Go's golang.org/x/net/http/httpproxy v0.49.0 (12 January 2026) makes of it, and with it kubectl:
 * localhost and loopback addresses are never asked for through a proxy, which would find its own there. As curl, and other than Go: small
 * letters win, blanks part entries too, and a dot at the end of a name and brackets around an address say nothing.
 * `allProxy`: ALL_PROXY, of which Go knows nothing, stands in where the other is not set. Throws where the variable holds no address of a proxy.
 */
export function proxyFor(env: Environment, url: URL, { allProxy = false } = {}): URL | undefined {
  const names = [`${url.protocol.slice(0, -1)}_proxy`, ...(allProxy ? ['all_proxy'] : [])]
  const name = names.find((one) => variable(env, one) !== undefined) ?? ''
  const proxy = variable(env, name)
  if (proxy === undefined || isExempt(url, variable(env, 'no_proxy') ?? '')) return undefined
  const address = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(proxy) ? proxy : `http://${proxy}`)
  if (address !== null && /^(?:https?|socks(?:4a?|5h?)?):(?!.*%(?![\da-f]{2}))/i.test(address.href)) return address
  throw new Error(`${name.toUpperCase()} is no address of a proxy: write http://host:port, % as %25 and # as %23.`)
}

/** Empty counts as not there. */
function variable(env: Environment, name: string): string | undefined {
  return [env[name], env[name.toUpperCase()]].map((value) => value?.trim()).find((value) => value)
}

function isExempt({ protocol, hostname, port }: URL, noProxy: string): boolean {
  const host = hostname.replace(/^\[|\]$|\.$/g, '')
  const address = isIP(host) === 0 ? undefined : ipaddr.process(host)
  if (host === 'localhost' || address?.range() === 'loopback') return true
  const asked = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  return noProxy.split(/[\s,]+/).some((entry) => {
    if (entry === '*') return true
    if (ipaddr.isValidCIDR(entry)) return address !== undefined && isIn(address, ipaddr.parseCIDR(entry))
    // An IPv6 address without brackets has no port.
    const [, six, other = entry, only = asked] = /^(?:\[(.+)\]|([^:]+))(?::(\d+))?$/.exec(entry) ?? []
    const named = six ?? other
    if (only !== asked) return false
    if (isIP(named) !== 0) return address?.toString() === ipaddr.process(named).toString()
    return address === undefined && isBelow(host, named)
  })
}

const isIn = (address: ipaddr.IPv4 | ipaddr.IPv6, [network, bits]: [ipaddr.IPv4 | ipaddr.IPv6, number]): boolean =>
  address.kind() === network.kind() && address.match(network, bits)

/** `named` stands for the names below it, and for itself where it does not begin with a dot. */
function isBelow(host: string, named: string): boolean {
  const domain = domainToASCII(named.replace(/^\*?\.|\.$/g, ''))
  return domain !== '' && (host.endsWith(`.${domain}`) || (host === domain && !/^\*?\./.test(named)))
}
