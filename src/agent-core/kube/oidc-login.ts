import { Agent, request, type Dispatcher } from 'undici'
import { z } from 'zod'
import { parseJson } from '../util/files.ts'
import { ProgramError } from '../util/ask-program.ts'
import { rootMessage } from './api-error.ts'
import { readNamedFile } from './kubeconfig-files.ts'

/** `auth-provider.config` of a user whose auth provider is `oidc`. */
export const oidcProvider = z.object({
  'idp-issuer-url': z.string().default(''),
  'client-id': z.string().default(''),
  'client-secret': z.string().default(''),
  'id-token': z.string().default(''),
  'refresh-token': z.string().default(''),
  'idp-certificate-authority': z.string().default(''),
  'idp-certificate-authority-data': z.string().default(''),
})

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

/** The id token of a user, renewed with the refresh token when it has expired; the kubeconfig itself is never written. */
export class OidcLogin {
  readonly #provider: z.infer<typeof oidcProvider>
  #idToken: string
  /** Milliseconds since the epoch. */
  #usableUntil: number
  /** Login servers may give a new one each time and take none twice. */
  #refreshToken: string
  #renewing: Promise<void> | undefined

  constructor(provider: z.infer<typeof oidcProvider>) {
    this.#provider = provider
    this.#idToken = provider['id-token']
    this.#usableUntil = expiryOf(this.#idToken)
    this.#refreshToken = provider['refresh-token']
  }

  /** Callers share one renewal. Throws ProgramError. */
  async credential(): Promise<{ token: string; expirationTimestamp: string }> {
    if (this.#usableUntil <= Date.now()) {
      this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined))
      await this.#renewing
    }
    return { token: this.#idToken, expirationTimestamp: new Date(this.#usableUntil).toISOString() }
  }

  async #renew(): Promise<void> {
    const { 'idp-issuer-url': issuer, 'client-id': clientId, 'client-secret': secret } = this.#provider
    if (issuer === '' || clientId === '' || this.#refreshToken === '') {
      throw new ProgramError('The id-token of the kubeconfig has expired and cannot be renewed: log in again.')
    }
    const ca = await this.#authority()
    const dispatcher = new Agent({ connect: ca ? { ca } : {}, allowH2: false })
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
      if (refresh_token !== undefined) this.#refreshToken = refresh_token
    } finally {
      await dispatcher.destroy()
    }
  }

  async #authority(): Promise<Buffer | undefined> {
    const { 'idp-certificate-authority': file, 'idp-certificate-authority-data': data } = this.#provider
    if (data !== '') return Buffer.from(data, 'base64')
    return file === '' ? undefined : readNamedFile('certificate authority of the login server', file)
  }
}

async function answerOf<T>(issuer: string, schema: z.ZodType<T>, asked: Promise<Dispatcher.ResponseData>): Promise<T> {
  try {
    const { statusCode, body } = await asked
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of body) {
      const piece = Buffer.from(chunk as Uint8Array)
      bytes += piece.length
      if (bytes > maxAnswerBytes) throw new Error(`its answer has more than ${maxAnswerBytes / 1024} KiB`)
      chunks.push(piece)
    }
    const answer = parseJson(Buffer.concat(chunks).toString('utf8'))
    const told = schema.safeParse(answer)
    if (statusCode === 200 && told.success) return told.data
    throw new Error(`it answered ${statusCode} ${refusal.safeParse(answer).data?.error ?? ''}`.trim())
  } catch (error) {
    throw new ProgramError(
      `The login server ${issuer} of the kubeconfig renews no token (${rootMessage(error)}): check that it answers, or log in again.`,
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
