import type { RequestOptions } from 'node:https'
import type { KubeConfig, User } from '@kubernetes/client-node'
import { z } from 'zod'
import { askProgram, ProgramError } from '../support/ask-program.ts'
import { parseJson } from '../support/files.ts'

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

/** How much of what a plugin says about its failure is told. */
const maxSaidLength = 500

export interface CredentialPluginsOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absent = long enough for a person to log in. */
  readonly pluginTimeLimitMs?: number
}

/**
 * Runs the credential plugins of a kubeconfig in place of client-node, which starts one for every request that comes
 * meanwhile and ends none: here one runs at a time, and none for longer than its time limit.
 */
export class CredentialPlugins {
  readonly #env: Readonly<Record<string, string>>
  readonly #timeLimitMs: number
  #running: { readonly asked: string; readonly answer: Promise<Credential> } | undefined

  constructor({ env, pluginTimeLimitMs = defaultTimeLimitMs }: CredentialPluginsOptions) {
    this.#env = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    )
    this.#timeLimitMs = pluginTimeLimitMs
  }

  /** From then on what plugins say for this config is kept until it expires. */
  serve(config: KubeConfig): void {
    const plugins = new Map(config.users.flatMap((user) => (isServed(user) ? [[user.name, pluginOf(user)]] : [])))
    const kept = new Map<string, Credential>()
    // With them client-node would run the plugins itself.
    config.users = config.users.map((user) => (isServed(user) ? { ...user, exec: null, authProvider: null } : user))
    config.addAuthenticator({
      isAuthProvider: ({ name }) => plugins.has(name),
      applyAuthentication: async ({ name }, options: RequestOptions) => {
        const before = kept.get(name)
        const current = before && !isExpired(before) ? before : await this.#ask(name, plugins.get(name))
        kept.set(name, current)
        if (current.clientCertificateData) options.cert = current.clientCertificateData
        if (current.clientKeyData) options.key = current.clientKeyData
        if (current.token) Object.assign((options.headers ??= {}), { Authorization: `Bearer ${current.token}` })
      },
    })
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

/** `exec`, and its older place among the auth providers. */
const userWithPlugin = z.object({
  exec: z.unknown(),
  authProvider: z.object({ config: z.object({ exec: z.unknown() }).nullish() }).nullish(),
})

function pluginOf(user: User): unknown {
  const { exec, authProvider } = userWithPlugin.safeParse(user).data ?? {}
  return exec ?? authProvider?.config?.exec ?? undefined
}

const isServed = (user: User): boolean => pluginOf(user) !== undefined
