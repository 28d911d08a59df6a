import type { X509Certificate } from 'node:crypto'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { shellWord } from '../../contract/shell.ts'
import { clientCertificate, Connection } from './connection.ts'
import { CredentialPlugins, type CredentialPluginsOptions } from './credential-plugin.ts'
import {
  type Access,
  type Cluster,
  type ExecConfig,
  type Kubeconfig,
  KubeconfigError,
  readKubeconfigs,
  type User,
} from './kubeconfig.ts'

export interface KubeconfigChoice extends CredentialPluginsOptions {
  /** `--kubeconfig`; wins over `$KUBECONFIG`. */
  readonly file?: string | undefined
  /** Absent = the file's current context. */
  readonly context?: string | undefined
}

interface StatedContext {
  readonly context: string
  readonly cluster: string
  /** URL of the API server. */
  readonly server: string
  /** The paths of files with certificates and keys; some tools keep them in folders of their own. */
  readonly files: readonly string[]
}

/** One cluster, one user, never another: every request of an agent goes through the same pinned context. */
export class PinnedContext {
  readonly name: string
  readonly server: string
  /** What the kubeconfig said of it when it was loaded, by which tools can be told that make clusters. */
  readonly stated: StatedContext
  #choice: KubeconfigChoice
  /** As the kubeconfig had it when this was loaded. */
  readonly #loaded: Access
  /** Shared by all renewals of this context, so that none starts a second plugin beside one that hangs. */
  readonly #plugins: CredentialPlugins
  #connection: Connection
  #renewing: Promise<void> | undefined

  private constructor(access: Access, choice: KubeconfigChoice) {
    const { name, clusterName, cluster, user } = access
    this.name = name
    this.server = cluster.server
    this.#choice = choice
    this.#loaded = access
    const named = [cluster['certificate-authority'], user['client-certificate'], user['client-key']]
    const files = named.filter((file) => file !== '')
    this.stated = { context: name, cluster: clusterName, server: cluster.server, files }
    this.#plugins = new CredentialPlugins(choice)
    this.#connection = new Connection(access, this.#plugins)
  }

  /**
   * Resolves a kubeconfig as kubectl does: flag, `$KUBECONFIG` (several files merge), `~/.kube/config`. Throws {@link KubeconfigError}.
   */
  static async load(choice: KubeconfigChoice): Promise<PinnedContext> {
    return new PinnedContext(pin(await readKubeconfigs(kubeconfigFiles(choice)), choice.context), choice)
  }

  /** By which a request is sent; another one after each renewal. */
  get connection(): Connection {
    return this.#connection
  }

  /** The certificate by which the kubeconfig itself logs in, as it was loaded. Throws {@link KubeconfigError}. */
  clientCertificate(): Promise<X509Certificate | undefined> {
    return clientCertificate(this.#loaded.user)
  }

  /** What a person should know of its login, as a sentence. */
  get notice(): string | undefined {
    return this.#plugins.notice
  }

  /** Closes every connection, which may be dead without having said so: requests under way fail, and later ones open new connections. */
  reconnect(): void {
    this.#connection.reconnect()
  }

  /** The kubeconfig it is read from. Absent = as kubectl looks for one. */
  get file(): string | undefined {
    return this.#choice.file
  }

  /** Whether both are the same cluster under the same name, whatever the credentials. */
  isAt(other: PinnedContext): boolean {
    return this.name === other.name && this.server === other.server
  }

  /** From the next renewal on its credentials are those of the kubeconfig that the other was read from. */
  readFrom(other: PinnedContext): void {
    this.#choice = other.#choice
    this.#renewing = undefined
  }

  /** Whether nothing of it was changed in the kubeconfig between the loading of the two. */
  isSameAs(other: PinnedContext): boolean {
    return JSON.stringify(this.#loaded) === JSON.stringify(other.#loaded)
  }

  /**
   * Reads the credentials again after the server refused them: a plugin is asked once more. Throws {@link KubeconfigError}, also where the
   * context's name now stands for another server. Calls join.
   */
  renew(): Promise<void> {
    if (this.#renewing) return this.#renewing
    const renewing = this.#renew().finally(() => {
      if (this.#renewing === renewing) this.#renewing = undefined
    })
    this.#renewing = renewing
    return renewing
  }

  /** As {@link renew}, with what the kubeconfig says now: a renewal that is under way may have read it before it changed. */
  async renewAfterChange(): Promise<void> {
    await this.#renewing?.catch(() => undefined)
    await this.renew()
  }

  async #renew(): Promise<void> {
    const choice = this.#choice
    const config = await readKubeconfigs(kubeconfigFiles(choice))
    // What another kubeconfig says by now is taken by the renewal that reads it.
    if (choice !== this.#choice) return
    const access = pin(config, this.name)
    if (access.cluster.server !== this.server) {
      throw new KubeconfigError(
        `Context "${this.name}" now points to ${access.cluster.server} instead of ${this.server}; metal-agent context use ${shellWord(this.name)} moves there.`,
      )
    }
    this.#connection = new Connection(access, this.#plugins, this.#connection)
  }
}

export interface ContextFacts {
  readonly name: string
  /** URL of its API server; empty where the kubeconfig does not say. */
  readonly server: string
  /** The kubeconfig's own current context. */
  readonly isDefault: boolean
}

/** Every context that could be chosen, without any credentials, and where they were read. Throws {@link KubeconfigError}. */
export async function listContexts(choice: KubeconfigChoice): Promise<{ source: string; contexts: ContextFacts[] }> {
  const files = kubeconfigFiles(choice)
  const config = await readKubeconfigs(files)
  const contexts = [...config.contexts].map(([name, { cluster }]) => ({
    name,
    server: config.clusters.get(cluster)?.server ?? '',
    isDefault: name === config.currentContext,
  }))
  return { source: files.join(delimiter), contexts }
}

/** The wanted one (or the file's current context), with all that it refers to. Throws {@link KubeconfigError}. */
function pin(config: Kubeconfig, wanted: string | undefined): Access {
  const name = wanted ?? config.currentContext
  const { cluster: clusterName = '', user: userName = '' } = config.contexts.get(name) ?? {}
  const [cluster, user] = [config.clusters.get(clusterName), config.users.get(userName)]
  if (!cluster || !user || name === '') throw new KubeconfigError(missingIn(config, name))
  const problem = problemOfCluster(cluster) ?? problemOf(cluster, user)
  if (problem !== undefined) throw new KubeconfigError(`Context "${name}" ${problem}.`)
  return { name, clusterName, cluster, user }
}

/** What a context lacks, as a sentence. */
function missingIn({ contexts, clusters }: Kubeconfig, name: string): string {
  const known = [...contexts.keys()].join(', ')
  if (contexts.size === 0) {
    return 'The kubeconfig has no contexts at all; copy one from your cluster there, or name another with --kubeconfig.'
  }
  if (name === '') return `The kubeconfig names no current context; choose one of ${known} with --context.`
  const context = contexts.get(name)
  if (!context) {
    return `The kubeconfig has no context "${name}"; it has ${known}. Bring it back, or choose one with metal-agent context use NAME, or with --context.`
  }
  const what = clusters.has(context.cluster) ? `the user "${context.user}"` : `the cluster "${context.cluster}"`
  return `Context "${name}" names ${what}, which the kubeconfig does not contain; add it or choose another context.`
}

/** Completes "The context". */
function problemOfCluster({ server, 'insecure-skip-tls-verify': isUnchecked }: Cluster): string | undefined {
  const protocol = URL.parse(server)?.protocol
  if (protocol === 'https:' || (protocol === 'http:' && isUnchecked)) return undefined
  return protocol === 'http:'
    ? `names the server "${server}", but over http:// anyone on the network could read its credentials; use https://, or set insecure-skip-tls-verify: true for that cluster in the kubeconfig`
    : `names the server "${server}", which is not an address such as https://HOST:6443; correct it in the kubeconfig or choose another context`
}

/** What kubectl refuses too: completes "The context". */
function problemOf(cluster: Cluster, user: User): string | undefined {
  const { exec, 'auth-provider': provider } = user
  const forms = (file: string, data: Buffer): number => Number(file !== '') + Number(data.length > 0)
  const authorities = forms(cluster['certificate-authority'], cluster['certificate-authority-data'])
  const certificates = forms(user['client-certificate'], user['client-certificate-data'])
  const keys = forms(user['client-key'], user['client-key-data'])
  const hasName = user.username + user.password !== ''
  const clash = [
    authorities > 1 && 'certificate-authority and certificate-authority-data',
    authorities > 0 && cluster['insecure-skip-tls-verify'] && 'a certificate authority and insecure-skip-tls-verify',
    certificates > 1 && 'client-certificate and client-certificate-data',
    certificates > 0 && keys > 1 && 'client-key and client-key-data',
    hasName && user.token !== '' && 'a token and a name with a password',
    hasName && user.tokenFile !== '' && 'a token file and a name with a password',
    exec && provider && 'exec and auth-provider',
  ].find(Boolean)
  if (clash) return `states both ${clash}: correct the kubeconfig`
  if (certificates > 0 && keys === 0) return 'has a client certificate without its key'
  const asWhom = [user['as-uid'], ...user['as-groups'], ...Object.keys(user['as-user-extra'])]
  if (user.as === '' && asWhom.some(Boolean)) return 'says as whom to ask, but not by as: correct the kubeconfig'
  if (exec) return problemOfPlugin(exec)
  if (!provider) return undefined
  if (provider.name !== 'oidc') {
    const instead = successors[provider.name] ?? 'use a login that kubectl knows'
    return `logs in with auth-provider ${provider.name}, which kubectl dropped in version 1.26: ${instead}`
  }
  const lacking = ['idp-issuer-url', 'client-id'].filter((name) => !provider.config[name])
  return lacking.length === 0 ? undefined : `logs in by oidc without ${lacking.join(' and ')}`
}

const successors: Readonly<Record<string, string>> = {
  gcp: 'install gke-gcloud-auth-plugin and run gcloud container clusters get-credentials CLUSTER, which writes a kubeconfig that uses it',
  azure: 'install kubelogin and run kubelogin convert-kubeconfig -l azurecli, which writes a kubeconfig that uses it',
}

const pluginVersion = /^client\.authentication\.k8s\.io\/v1(?:beta1)?$/

function problemOfPlugin({ command, apiVersion, interactiveMode: mode, env }: ExecConfig): string | undefined {
  if (command === '' || env.some(({ name }) => name === ''))
    return 'logs in by exec without a command or a name of a variable'
  if (!pluginVersion.test(apiVersion)) {
    return `logs in with ${command} by apiVersion "${apiVersion}", which kubectl does not take: update that program and let it write the kubeconfig again`
  }
  const isWithoutPerson = ['Never', 'IfAvailable'].includes(mode) || (mode === '' && apiVersion.endsWith('beta1'))
  return isWithoutPerson
    ? undefined
    : `logs in with ${command} by interactiveMode "${mode}", where nobody is at a terminal: it has to be Never or IfAvailable`
}

/** What a kubeconfig is made of, whether or not it is there. */
export function kubeconfigFiles({ file, env }: Pick<KubeconfigChoice, 'file' | 'env'>): string[] {
  const listed = env['KUBECONFIG']
  if (file) return [file]
  return listed
    ? listed.split(delimiter).filter((entry) => entry !== '')
    : [join(env['HOME'] ?? homedir(), '.kube', 'config')]
}
