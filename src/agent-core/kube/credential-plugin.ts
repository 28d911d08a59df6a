import type { RequestOptions } from 'node:https'
import type { KubeConfig, User } from '@kubernetes/client-node'
import { z } from 'zod'
import { askProgram, ProgramError } from '../util/ask-program.ts'
import { parseJson } from '../util/files.ts'
import { readNamedFile } from './kubeconfig-files.ts'
import { OidcLogin, oidcProvider } from './oidc-login.ts'

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

/** How much of what a plugin says about its failure is told. */
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

/** Completes "The context logs in by": undefined where its auth provider is not one that kubectl dropped. */
export function withdrawnProvider(user: User | null): string | undefined {
  const { exec, authProvider } = userWithPlugin.safeParse(user).data ?? {}
  const name = authProvider?.name ?? ''
  const instead = (exec ?? authProvider?.config?.exec) ? undefined : successors[name]
  return instead && `auth-provider ${name}, which kubectl has not had since version 1.26: ${instead}.`
}
