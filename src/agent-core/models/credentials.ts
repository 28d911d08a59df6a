import { hubHosts } from './hub/endpoint.ts'
import type { HubToken } from './hub/token.ts'

/** A token and the only hosts (`host` or `host:port`, as URLs write them) that may see it, over https alone. */
export interface Credentials {
  /** Sent as `Authorization: Bearer`. */
  readonly token: string
  readonly hosts: readonly string[]
  /** For tests: plain http to this machine gets the token too. */
  readonly allowInsecureLoopback?: boolean
}

export function hubCredentials(
  endpoint: string,
  token: HubToken | undefined,
  allowInsecureLoopback = false,
): Credentials | undefined {
  if (token === undefined) return undefined
  return {
    token: token.value,
    hosts: hubHosts(endpoint),
    ...(allowInsecureLoopback ? { allowInsecureLoopback } : {}),
  }
}

export function maySend({ hosts, allowInsecureLoopback = false }: Credentials, url: URL): boolean {
  const isSecure = url.protocol === 'https:' || (allowInsecureLoopback && isLoopback(url.hostname))
  return isSecure && hosts.includes(url.host)
}

/**
 * The credentials sent along one chain of redirects: the login of the address to its own origin, else the token to the hosts it is for.
 * From the first redirect to another host on neither is sent, also where that host redirects back.
 */
export class Login {
  readonly #origin: string
  readonly #basic: string | undefined
  readonly #credentials: Credentials | undefined
  #leftOrigin = false
  #leftHosts = false

  constructor({ url, credentials }: { readonly url: string; readonly credentials?: Credentials | undefined }) {
    const { origin, username, password } = new URL(url)
    this.#origin = origin
    this.#credentials = credentials
    if (username !== '' || password !== '') {
      const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
      this.#basic = `Basic ${Buffer.from(login).toString('base64')}`
    }
  }

  get isGiven(): boolean {
    return this.#basic !== undefined || this.#credentials !== undefined
  }

  /** Asked for every address of the chain, in its order. */
  headersFor(url: URL): { authorization?: string } {
    this.#leftOrigin ||= url.origin !== this.#origin
    this.#leftHosts ||= this.#credentials?.hosts.includes(url.host) !== true
    if (this.#basic !== undefined && !this.#leftOrigin) return { authorization: this.#basic }
    if (this.#credentials === undefined || this.#leftHosts || !maySend(this.#credentials, url)) return {}
    return { authorization: `Bearer ${this.#credentials.token}` }
  }
}

/** The address for the request itself, whose login goes into its headers. */
export function withoutLogin(address: string): URL {
  const url = new URL(address)
  url.username = ''
  url.password = ''
  url.hash = ''
  return url
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname)
}
