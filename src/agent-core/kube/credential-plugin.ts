import { z } from 'zod'
import { type Cluster, type ExecConfig, parseYaml, readNamedFile } from './kubeconfig.ts'
import { OidcLogin } from './oidc-login.ts'
import { askProgram, ProgramError } from '../util/ask-program.ts'
import { errorCode } from '../util/error-code.ts'

const absent = z.null().transform(() => undefined)
const text = z.union([z.string(), absent]).optional()

const execCredential = z.object({
  apiVersion: z.string(),
  kind: z.literal('ExecCredential'),
  status: z.object({
    token: text,
    clientCertificateData: text,
    clientKeyData: text,
    expirationTimestamp: z.union([z.iso.datetime({ offset: true }), absent]).optional(),
  }),
})

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

/** What a request is sent with. */
export interface Credential {
  readonly token?: string | undefined
  /** PEM, both or none. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** Milliseconds since the epoch; absent = for ever. */
  readonly until?: number | undefined
}

/** Where credentials come from, other than from the kubeconfig itself: one plugin runs at a time, and none for longer than its time limit. */
export class CredentialPlugins {
  readonly env: Readonly<Record<string, string>>
  readonly #timeLimitMs: number
  #login: { readonly of: string; readonly login: OidcLogin } | undefined
  #running: { readonly asked: string; readonly answer: Promise<Credential> } | undefined

  constructor({ env, pluginTimeLimitMs = defaultTimeLimitMs }: CredentialPluginsOptions) {
    this.env = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    )
    this.#timeLimitMs = pluginTimeLimitMs
  }

  get secrets(): string[] {
    return this.#login?.login.secrets ?? []
  }

  get notice(): string | undefined {
    return this.#login?.login.notice
  }

  /** The login of an `auth-provider`, kept while the kubeconfig says the same of it, since a refresh token works once. */
  login(config: Readonly<Record<string, string>>): OidcLogin {
    const of = JSON.stringify(config)
    if (this.#login?.of !== of) this.#login = { of, login: new OidcLogin(config, this.env) }
    return this.#login.login
  }

  /** Callers with the same question share one run of the plugin; another question waits until that run has ended. */
  async ask(plugin: ExecConfig, cluster: Cluster): Promise<Credential> {
    const asked = JSON.stringify([plugin, cluster])
    while (this.#running !== undefined && this.#running.asked !== asked) {
      await this.#running.answer.catch(() => undefined)
    }
    this.#running ??= {
      asked,
      answer: this.#run(plugin, cluster).finally(() => {
        this.#running = undefined
      }),
    }
    return this.#running.answer
  }

  async #run(plugin: ExecConfig, cluster: Cluster): Promise<Credential> {
    const { command, args, apiVersion } = plugin
    const own = Object.fromEntries(plugin.env.map(({ name, value }) => [name, value]))
    const { exitCode, stdout, stderr } = await askProgram({
      ...{ command, args, timeLimitMs: this.#timeLimitMs },
      env: { ...this.env, ...own, KUBERNETES_EXEC_INFO: JSON.stringify(await execInfo(plugin, cluster)) },
    }).catch((error: unknown) => {
      throw errorCode(error) === 'ENOENT' ? new ProgramError(missing(plugin)) : error
    })
    const said = stderr.trim().split('\n').at(-1)?.slice(0, maxSaidLength) ?? ''
    const problem = (what: string) =>
      new ProgramError(`The credential plugin ${command} of the kubeconfig ${what} ${said}`.trim())
    if (exitCode !== 0) throw problem('failed:')
    const answer = execCredential.safeParse(documentOf(stdout)).data
    if (!answer) throw problem('printed no ExecCredential.')
    if (answer.apiVersion !== apiVersion) {
      throw problem(`answered as ${answer.apiVersion}, but the kubeconfig asks for ${apiVersion}.`)
    }
    const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = answer.status
    if (!token && !cert && !key) throw problem('printed neither a token nor a certificate.')
    if (!cert !== !key) throw problem('printed a certificate or a key, not both.')
    return { token, cert, key, until: expirationTimestamp === undefined ? undefined : Date.parse(expirationTimestamp) }
  }
}

const missing = ({ command, installHint }: ExecConfig): string =>
  `The kubeconfig logs in with ${command}, which is not installed, or not on the PATH of the agent: one that macOS starts does not read the profile of your shell, so that the kubeconfig should name the whole path. ${installHint.slice(0, maxSaidLength)}`.trim()

function documentOf(printed: string): unknown {
  try {
    return parseYaml(printed)
  } catch {
    return undefined
  }
}

/** The name under which a cluster's extensions hold what its plugin may need. */
const extensionOfPlugin = 'client.authentication.k8s.io/exec'

/** The value of KUBERNETES_EXEC_INFO, as kubectl gives it to a plugin that cannot ask a person. */
async function execInfo({ apiVersion, provideClusterInfo }: ExecConfig, cluster: Cluster): Promise<object> {
  const ca = await authorityOf(cluster)
  const stated = {
    server: cluster.server,
    'tls-server-name': cluster['tls-server-name'] || undefined,
    'insecure-skip-tls-verify': cluster['insecure-skip-tls-verify'] || undefined,
    'certificate-authority-data': ca?.toString('base64'),
    'proxy-url': cluster['proxy-url'] || undefined,
    'disable-compression': cluster['disable-compression'] || undefined,
    config: cluster.extensions.find(({ name }) => name === extensionOfPlugin)?.extension ?? null,
  }
  const spec = { interactive: false, ...(provideClusterInfo && { cluster: stated }) }
  return { kind: 'ExecCredential', apiVersion, spec }
}

/** The authority that a cluster is known by; undefined = those that the system trusts. */
export async function authorityOf(cluster: Cluster): Promise<Buffer | undefined> {
  const { 'certificate-authority': file, 'certificate-authority-data': data } = cluster
  if (data.length > 0) return data
  return file === '' ? undefined : readNamedFile('certificate authority', file)
}

/** `instead` is what is used where the file cannot be read; empty where there is nothing. */
export async function tokenIn(file: string, instead: string): Promise<Credential> {
  const read = await readNamedFile('token file', file).catch((error: unknown) => {
    if (instead === '') throw error
    return instead
  })
  const token = read.toString().trim() || instead
  if (token === '') throw new ProgramError(`The token file ${file} of the kubeconfig is empty.`)
  return { token, until: Date.now() + tokenFileMs }
}
