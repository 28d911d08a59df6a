import { X509Certificate } from 'node:crypto'
import type { Dispatcher } from 'undici'
import { isApiError, rootMessage } from './api-error.ts'
import { authorityOf, type Credential, type CredentialPlugins, tokenIn } from './credential-plugin.ts'
import { dispatcherFor } from './dispatcher.ts'
import { type Access, type Cluster, KubeconfigError, readNamedFile, type User } from './kubeconfig.ts'
import { ProgramError } from '../util/ask-program.ts'
import { causesOf, errorCode, ownFailure } from '../util/error-code.ts'
import { proxyFor } from '../util/proxy.ts'
import { isSecretName } from '../util/redact.ts'

/** Codes of OpenSSL that concern the certificate of the other side, as Node.js 24 tells them (OpenSSL 3.5). */
export const certificateCodes =
  /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT|HOSTNAME_MISMATCH|INVALID_CA|PATH_LENGTH)/

/** How an API server ends a connection whose client certificate it refuses. */
const refusedHandshake = /^(?:EPIPE|EPROTO|ECONNRESET|UND_ERR_SOCKET|ERR_O?SSL_)/

/** Connections to the API server of one context, and what each request is sent with. */
export class Connection {
  readonly #access: Access
  readonly #plugins: CredentialPlugins
  readonly #proxy: URL | undefined
  /** What was got last from a plugin, a login server or a token file. */
  #kept: Credential | undefined
  #open: { readonly cert: string | undefined; readonly dispatcher: Promise<Dispatcher> } | undefined
  /** The client certificate of the latest connection. */
  #certificate: X509Certificate | undefined

  /** `before`: of the same server. Throws KubeconfigError. */
  constructor(access: Access, plugins: CredentialPlugins, before?: Connection) {
    this.#access = access
    if (before) this.#certificate = before.#certificate
    this.#plugins = plugins
    this.#proxy = proxyOf(access.cluster, plugins.env)
  }

  /** Throws KubeconfigError or ProgramError where what the kubeconfig names cannot be had. */
  async authenticated(): Promise<Authenticated> {
    const credential = await this.#credential()
    if (this.#open && this.#open.cert !== credential.cert) this.reconnect('its client certificate was replaced')
    const open = (this.#open ??= { cert: credential.cert, dispatcher: this.#connect(credential) })
    const dispatcher = await open.dispatcher.catch((error: unknown) => {
      if (this.#open === open) this.#open = undefined
      throw error
    })
    return { dispatcher, headers: headersOf(this.#access.user, credential.token) }
  }

  /** Requests under way fail; later ones open new connections, for which the files with certificates are read again. */
  reconnect(why = 'this machine may have slept'): void {
    const before = this.#open
    this.#open = undefined
    const dropped = new Error(`the connection was dropped, because ${why}`)
    before?.dispatcher.then(
      (dispatcher) => dispatcher.destroy(dropped),
      () => undefined,
    )
  }

  /** Without its login; undefined where none is between. */
  get proxy(): string | undefined {
    return this.#proxy && `${this.#proxy.protocol}//${this.#proxy.host}`
  }

  /** All that is known of what it logs in with: nothing of it may be sent to others. */
  get secrets(): string[] {
    const { token, password, exec, 'auth-provider': provider, ...user } = this.#access.user
    const variables = (exec?.env ?? []).map(({ name, value }): [string, string] => [name, value])
    const named = [...Object.entries(provider?.config ?? {}), ...variables]
    const stated = named.flatMap(([name, value]) => (isSecretName(name) ? [value] : []))
    const pair = [user['client-certificate-data'], user['client-key-data']].map((data) => data.toString('base64'))
    const { token: got, key } = this.#kept ?? {}
    return [token, password, ...pair, ...stated, got, key, ...this.#plugins.secrets].flatMap((secret) => secret || [])
  }

  /** What of this machine or on the way keeps a request from the API server, named in a sentence; undefined where that may be the server itself. */
  troubleOf(error: unknown): string | undefined {
    const own = causesOf(error).find((one) => one instanceof ProgramError || one instanceof KubeconfigError)
    if (own) return own.message
    const code = errorCode(error) ?? ''
    const isRefused = isApiError(error, 401) || refusedHandshake.test(code)
    const outdated = isRefused && this.#certificate && outdatedSentence(this.#certificate)
    if (outdated) return outdated
    if (isApiError(error) && error.code !== undefined) return undefined
    if (this.proxy === undefined || certificateCodes.test(code) || ownFailure(error) !== undefined) return undefined
    const words = isApiError(error) ? error.detail : rootMessage(error)
    const { server, 'proxy-url': stated } = this.#access.cluster
    const by = stated === '' ? 'the environment of the agent' : 'the kubeconfig'
    return `The proxy ${this.proxy}, which ${by} names, does not lead to ${server} (${words}): check the proxy.`
  }

  async #credential(): Promise<Credential> {
    if (!this.#kept || (this.#kept.until ?? Infinity) <= Date.now()) this.#kept = await this.#ask()
    return this.#kept
  }

  /** In the order of kubectl. */
  async #ask(): Promise<Credential> {
    const { user, cluster } = this.#access
    if (user.tokenFile !== '') return tokenIn(user.tokenFile, user.token)
    if (user.token !== '') return { token: user.token }
    if (user.username !== '') return {}
    if (user.exec && !hasCertificate(user)) return this.#plugins.ask(user.exec, cluster)
    return user['auth-provider'] ? this.#plugins.login(user['auth-provider'].config).credential() : {}
  }

  async #connect({ cert, key }: Credential): Promise<Dispatcher> {
    const { cluster, user } = this.#access
    const [ca, own] = await Promise.all([authorityOf(cluster), certificateOf(user)])
    const pair = own ?? (cert && key ? { cert: Buffer.from(cert), key: Buffer.from(key) } : undefined)
    this.#certificate = pair && certificateIn(pair.cert)
    const servername = cluster['tls-server-name']
    const trust = { ca, rejectUnauthorized: !cluster['insecure-skip-tls-verify'] }
    return dispatcherFor({ ...trust, ...pair, ...(servername !== '' && { servername }) }, this.#proxy)
  }
}

export interface Authenticated {
  readonly dispatcher: Dispatcher
  readonly headers: Readonly<Record<string, string | string[]>>
}

const hasCertificate = (user: User): boolean =>
  (user['client-certificate'] !== '' || user['client-certificate-data'].length > 0) &&
  (user['client-key'] !== '' || user['client-key-data'].length > 0)

async function certificateOf(user: User): Promise<{ cert: Buffer; key: Buffer } | undefined> {
  if (!hasCertificate(user)) return undefined
  const read = async (what: string, data: Buffer, file: string): Promise<Buffer> =>
    data.length > 0 ? data : readNamedFile(what, file)
  return {
    cert: await read('client certificate', user['client-certificate-data'], user['client-certificate']),
    key: await read('client key', user['client-key-data'], user['client-key']),
  }
}

/** The certificate with which the kubeconfig itself logs a user in. Throws KubeconfigError. */
export async function clientCertificate(user: User): Promise<X509Certificate | undefined> {
  const pair = await certificateOf(user)
  return pair && certificateIn(pair.cert)
}

function certificateIn(pem: Buffer): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw new KubeconfigError(`The client certificate cannot be read: ${rootMessage(error)}.`, { cause: error })
  }
}

/** Undefined while it is valid. */
export function outdatedSentence({ validFromDate, validToDate }: X509Certificate): string | undefined {
  const now = Date.now()
  if (validToDate.getTime() < now) {
    return `The client certificate of this context expired on ${dayOf(validToDate)}: log in again, or fetch the kubeconfig of the cluster again.`
  }
  if (validFromDate.getTime() <= now) return undefined
  return `The client certificate of this context is valid only from ${dayOf(validFromDate)} on: check the clock of this machine.`
}

/** In UTC. */
export const dayOf = (date: Date): string => date.toISOString().slice(0, 10)

/** What a proxy may speak; Go sends the name of the server to it with both forms of SOCKS. */
const proxyProtocols = ['http:', 'https:', 'socks5:', 'socks5h:']

function proxyOf({ server, 'proxy-url': stated }: Cluster, env: CredentialPlugins['env']): URL | undefined {
  try {
    const proxy = stated === '' ? proxyFor(env, new URL(server)) : new URL(stated)
    if (!proxy || proxyProtocols.includes(proxy.protocol)) return proxy
    throw new Error(`${proxy.protocol} is not http:, https: or socks5:`)
  } catch (error) {
    const by = stated === '' ? 'The environment' : 'proxy-url of the kubeconfig'
    throw new KubeconfigError(`${by} names a proxy that cannot be used: ${rootMessage(error)}.`, { cause: error })
  }
}

/** The headers that log in, and those of the user and groups that are impersonated. */
function headersOf(user: User, token: string | undefined): Record<string, string | string[]> {
  const basic = `Basic ${Buffer.from(`${user.username}:${user.password}`).toString('base64')}`
  const authorization = token ? `Bearer ${token}` : user.username === '' ? undefined : basic
  if (user.as === '') return authorization === undefined ? {} : { authorization }
  const extra = Object.entries(user['as-user-extra']).filter(([, values]) => values.length > 0)
  return {
    ...(authorization !== undefined && { authorization }),
    'Impersonate-User': octets(user.as),
    ...(user['as-uid'] !== '' && { 'Impersonate-Uid': octets(user['as-uid']) }),
    ...(user['as-groups'].length > 0 && { 'Impersonate-Group': user['as-groups'].map(octets) }),
    ...Object.fromEntries(extra.map(([key, values]) => [`Impersonate-Extra-${escaped(key)}`, values.map(octets)])),
  }
}

/** Headers are sent in latin1: what that makes of this is the text's UTF-8. */
const octets = (text: string): string => Buffer.from(text).toString('latin1')

/** The name of a header can hold what is not a letter, a digit or one of some signs only as %XX. */
const escaped = (key: string): string =>
  octets(key).replaceAll(
    /[^\w!#$&'*+.^`|~-]/g,
    (octet) => `%${octet.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  )
