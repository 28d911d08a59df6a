import { type Dispatcher, request } from 'undici'
import { z } from 'zod'
import { rootMessage } from './api-error.ts'
import { dispatcherFor } from './dispatcher.ts'
import { readNamedFile } from './kubeconfig.ts'
import { ProgramError } from '../util/ask-program.ts'
import { boundedBody } from '../util/bounded-body.ts'
import { parseJson } from '../util/files.ts'
import { proxyFor } from '../util/proxy.ts'

/** Both requests of a renewal together. */
const timeLimitMs = 10_000
/** Several times what the answers of any login server have. */
const maxAnswerBytes = 256 * 1024
/** So long before its end a token is taken for expired, as it has to arrive. */
const leewayMs = 10_000
/** How long a new token is used although this machine's clock says that it has expired. */
const leastMs = 60_000

const discovery = z.object({ token_endpoint: z.url({ protocol: /^https$/ }) })
const renewal = z.object({ id_token: z.string(), refresh_token: z.string().optional() })
const refusal = z.object({ error: z.string().max(100) })
const claims = z.object({ exp: z.number().max(8_640_000_000_000) })

/** The id token of a user whose `auth-provider` is `oidc`, renewed with the refresh token when it has expired; the kubeconfig is never written. */
export class OidcLogin {
  readonly #config: Readonly<Record<string, string>>
  readonly #env: Readonly<Record<string, string>>
  #idToken: string
  /** Milliseconds since the epoch. */
  #usableUntil: number
  /** Login servers may give a new one each time and take none twice. */
  #refreshToken: string
  #renewing: Promise<void> | undefined
  /** What a person should know, as a sentence. */
  notice: string | undefined

  /** `config`: of the `auth-provider`. */
  constructor(config: Readonly<Record<string, string>>, env: Readonly<Record<string, string>>) {
    this.#config = config
    this.#env = env
    this.#idToken = config['id-token'] ?? ''
    this.#usableUntil = expiryOf(this.#idToken)
    this.#refreshToken = config['refresh-token'] ?? ''
  }

  /** It logs in with them, or did. */
  get secrets(): string[] {
    return [this.#idToken, this.#refreshToken]
  }

  /** Callers share one renewal. Throws ProgramError. */
  async credential(): Promise<{ token: string; until: number }> {
    if (this.#usableUntil <= Date.now()) {
      this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined))
      await this.#renewing
    }
    return { token: this.#idToken, until: this.#usableUntil }
  }

  async #renew(): Promise<void> {
    const { 'idp-issuer-url': issuer = '', 'client-id': clientId = '', 'client-secret': secret = '' } = this.#config
    if (this.#refreshToken === '') {
      throw new ProgramError('The id-token of the kubeconfig has expired and cannot be renewed: log in again.')
    }
    const ca = await this.#authority()
    const proxy = proxyFor(this.#env, new URL(issuer))
    const dispatcher = dispatcherFor({ ca }, proxy)
    const options = { dispatcher, signal: AbortSignal.timeout(timeLimitMs) }
    try {
      const where = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
      const { token_endpoint } = await answerOf(issuer, discovery, request(where, options))
      const form = new URLSearchParams({
        ...{ grant_type: 'refresh_token', refresh_token: this.#refreshToken, client_id: clientId },
        ...(secret !== '' && { client_secret: secret }),
      })
      const headers = { 'content-type': 'application/x-www-form-urlencoded' }
      const asked = request(token_endpoint, { ...options, method: 'POST', headers, body: form.toString() })
      const { id_token, refresh_token } = await answerOf(issuer, renewal, asked)
      this.#idToken = id_token
      this.#usableUntil = Math.max(expiryOf(id_token), Date.now() + leastMs)
      if (!refresh_token || refresh_token === this.#refreshToken) return
      this.#refreshToken = refresh_token
      this.notice = `The login server ${issuer} gave this agent another refresh token and may take the one of the kubeconfig no longer, so that kubectl has to log in again: give the agent a login of its own.`
    } finally {
      await dispatcher.destroy()
    }
  }

  async #authority(): Promise<Buffer | undefined> {
    const { 'idp-certificate-authority': file = '', 'idp-certificate-authority-data': data = '' } = this.#config
    if (data !== '') return Buffer.from(data, 'base64')
    return file === '' ? undefined : readNamedFile('certificate authority of the login server', file)
  }
}

const tooLong = new Error(`its answer has more than ${maxAnswerBytes / 1024} KiB`)

async function answerOf<T>(issuer: string, schema: z.ZodType<T>, asked: Promise<Dispatcher.ResponseData>): Promise<T> {
  try {
    const { statusCode, body } = await asked
    const answer = parseJson((await boundedBody(body, maxAnswerBytes, () => tooLong)).toString())
    const parsed = schema.safeParse(answer)
    if (statusCode === 200 && parsed.success) return parsed.data
    throw new Error(`it answered ${statusCode} ${refusal.safeParse(answer).data?.error ?? ''}`.trim())
  } catch (error) {
    throw new ProgramError(
      `The login server ${issuer} of the kubeconfig does not renew the token (${rootMessage(error)}): check that it answers, or log in again.`,
      { cause: error },
    )
  }
}

/** 0 where it says nothing that can be read. */
function expiryOf(idToken: string): number {
  const payload = Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString('utf8')
  const { exp = 0 } = claims.safeParse(parseJson(payload)).data ?? {}
  return Math.max(0, exp * 1_000 - leewayMs)
}
