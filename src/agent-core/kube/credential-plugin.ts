import type { RequestOptions } from 'node:https'
import type { KubeConfig, User } from '@kubernetes/client-node'
import { Agent, type Dispatcher, request } from 'undici'
import { z } from 'zod'
import { rootMessage } from './api-error.ts'
import { readNamedFile } from './kubeconfig.ts'
import { askProgram, ProgramError } from '../util/ask-program.ts'
import { parseJson } from '../util/files.ts'
import { isSecretName } from '../util/redact.ts'

/** `auth-provider.config` of a user whose auth provider is `oidc`. */
const oidcProvider = z.object({
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
class OidcLogin {
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

  /** It logs in with them, or did. */
  get secrets(): string[] {
    return [this.#idToken, this.#refreshToken]
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

const pluginCommand = z.object({
  command: z.string().min(1),
  args: z.array(z.string()).nullish(),
  env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
})
type PluginCommand = z.infer<typeof pluginCommand>

const credential = z.object({
  status: z.object({
    token: z.string().optional(),
    clientCertificateData: z.string().optional(),
    clientKeyData: z.string().optional(),
    expirationTimestamp: z.iso.datetime({ offset: true }).optional(),
  }),
})
type Credential = z.infer<typeof credential>['status']

/** Long enough for a person who has to log in with a browser. */
const defaultTimeLimitMs = 60_000

/** How old what was read of a token file may be before it is read again, as in kubectl. */
const tokenFileMs = 60_000

/** How much of what a plugin says about its failure is shown. */
const maxSaidLength = 500

export interface CredentialPluginsOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absent = long enough for a person to log in. */
  readonly pluginTimeLimitMs?: number
}

/** Where the credentials of a user come from, other than from the kubeconfig itself. */
type Source = () => Promise<Credential>

/**
 * Asks for credentials in place of client-node, which reads files and runs shells while everything else waits, starts a credential plugin for
 * every request that comes meanwhile and ends none: here one runs at a time, and none for longer than its time limit.
 */
export class CredentialPlugins {
  readonly #env: Readonly<Record<string, string>>
  readonly #timeLimitMs: number
  /** The OIDC logins of this kubeconfig's users, kept over every reading of it, since a refresh token works once. */
  readonly #logins = new Map<string, OidcLogin>()
  #running: { readonly asked: string; readonly answer: Promise<Credential> } | undefined
  /** What each user of the config that is served got last. */
  #kept = new Map<string, Credential>()
  /** What the config itself states for its users. */
  #stated: readonly string[] = []

  constructor({ env, pluginTimeLimitMs = defaultTimeLimitMs }: CredentialPluginsOptions) {
    this.#env = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    )
    this.#timeLimitMs = pluginTimeLimitMs
  }

  /** From then on what they say for this config is kept until it expires. */
  serve(config: KubeConfig): void {
    const sources = new Map(config.users.map((user) => [user.name, this.#sourceOf(user)]))
    const kept = new Map<string, Credential>()
    this.#kept = kept
    this.#stated = config.users.flatMap(statedSecrets)
    // With them client-node would ask by itself.
    config.users = config.users.map((user) => ({ ...user, exec: null, authProvider: null }))
    config.addAuthenticator({
      isAuthProvider: ({ name }) => sources.get(name) !== undefined,
      applyAuthentication: async ({ name }, options: RequestOptions) => {
        const before = kept.get(name)
        const current = before && !isExpired(before) ? before : await sources.get(name)?.()
        if (!current) return
        kept.set(name, current)
        if (current.clientCertificateData) options.cert = current.clientCertificateData
        if (current.clientKeyData) options.key = current.clientKeyData
        if (current.token) Object.assign((options.headers ??= {}), { Authorization: `Bearer ${current.token}` })
      },
    })
  }

  /** All that is known of what its users log in with: nothing of it may be sent to others. */
  get secrets(): string[] {
    const got = [...this.#kept.values()].flatMap(({ token, clientKeyData }) => [token, clientKeyData])
    const logins = [...this.#logins.values()].flatMap((login) => login.secrets)
    return [...this.#stated, ...got, ...logins].flatMap((secret) => secret || [])
  }

  #sourceOf(user: User): Source | undefined {
    const { exec, authProvider } = userWithPlugin.safeParse(user).data ?? {}
    const plugin = exec ?? authProvider?.config?.exec ?? undefined
    if (plugin !== undefined) return () => this.#ask(user.name, plugin)
    const { tokenFile } = authProvider?.config ?? {}
    if (tokenFile !== undefined) return () => tokenIn(tokenFile)
    const login = authProvider?.name === 'oidc' ? oidcProvider.safeParse(authProvider.config).data : undefined
    return login && (() => this.#loginOf(login).credential())
  }

  #loginOf(provider: z.infer<typeof oidcProvider>): OidcLogin {
    const key = JSON.stringify(provider)
    const login = this.#logins.get(key) ?? new OidcLogin(provider)
    this.#logins.set(key, login)
    return login
  }

  /** Callers with the same question share one run of the plugin; another question waits until that run has ended. */
  async #ask(user: string, plugin: unknown): Promise<Credential> {
    const asked = JSON.stringify(plugin)
    while (this.#running !== undefined && this.#running.asked !== asked) {
      await this.#running.answer.catch(() => undefined)
    }
    this.#running ??= {
      asked,
      answer: this.#run(user, plugin).finally(() => {
        this.#running = undefined
      }),
    }
    return this.#running.answer
  }

  async #run(user: string, stated: unknown): Promise<Credential> {
    const plugin = pluginCommand.safeParse(stated)
    if (!plugin.success) throw new ProgramError(`The user "${user}" of the kubeconfig names no usable command in exec.`)
    const { command, args, env } = plugin.data
    const { exitCode, stdout, stderr } = await askProgram({
      command,
      args: args ?? [],
      env: { ...this.#env, ...variables(env) },
      timeLimitMs: this.#timeLimitMs,
    })
    const said = stderr.trim().slice(0, maxSaidLength)
    if (exitCode !== 0) throw new ProgramError(`The credential plugin ${command} of the kubeconfig failed: ${said}`)
    const answer = credential.safeParse(parseJson(stdout))
    if (answer.success) return answer.data.status
    throw new ProgramError(
      `The credential plugin ${command} of the kubeconfig printed no ExecCredential. ${said}`.trim(),
    )
  }
}

const variables = (env: PluginCommand['env']): Record<string, string> =>
  Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]))

/** The secrets in the settings of an auth provider and in the environment for a plugin; no plugin is given the rest of a kubeconfig. */
function statedSecrets(user: User): string[] {
  const { exec, authProvider } = userWithPlugin.safeParse(user).data ?? {}
  const { env } = pluginCommand.safeParse(exec ?? authProvider?.config?.exec).data ?? {}
  const named = [...Object.entries(authProvider?.config ?? {}), ...Object.entries(variables(env))]
  return named.flatMap(([name, value]) => (isSecretName(name) && typeof value === 'string' ? [value] : []))
}

const isExpired = ({ expirationTimestamp }: Credential): boolean =>
  expirationTimestamp !== undefined && Date.parse(expirationTimestamp) <= Date.now()

async function tokenIn(file: string): Promise<Credential> {
  const token = (await readNamedFile('token file', file)).toString('utf8').trim()
  if (token === '') throw new ProgramError(`The token file ${file} of the kubeconfig is empty.`)
  return { token, expirationTimestamp: new Date(Date.now() + tokenFileMs).toISOString() }
}

/** `exec`, and its older place among the auth providers. */
const userWithPlugin = z.object({
  exec: z.unknown().optional(),
  authProvider: z
    .object({
      name: z.string().nullish(),
      config: z.looseObject({ exec: z.unknown().optional(), tokenFile: z.string().optional() }).nullish(),
    })
    .nullish(),
})

const successors: Readonly<Record<string, string>> = {
  gcp: 'install gke-gcloud-auth-plugin and run gcloud container clusters get-credentials CLUSTER, which writes a kubeconfig that uses it',
  azure: 'install kubelogin and run kubelogin convert-kubeconfig -l azurecli, which writes a kubeconfig that uses it',
}

/** The program that the user logs in by, as the kubeconfig names it; undefined where there is none. */
export function loginProgramOf(user: User | null): string | undefined {
  const { exec, authProvider } = userWithPlugin.safeParse(user).data ?? {}
  return pluginCommand.safeParse(exec ?? authProvider?.config?.exec).data?.command
}

/** Completes "The context logs in by": undefined where its auth provider is not one that kubectl dropped. */
export function withdrawnProvider(user: User | null): string | undefined {
  const { exec, authProvider } = userWithPlugin.safeParse(user).data ?? {}
  const name = authProvider?.name ?? ''
  const instead = (exec ?? authProvider?.config?.exec) ? undefined : successors[name]
  return instead && `auth-provider ${name}, which kubectl dropped in version 1.26: ${instead}.`
}
