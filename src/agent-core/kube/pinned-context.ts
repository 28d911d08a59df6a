import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { KubeConfig } from '@kubernetes/client-node'
import { shellWord } from '../../contract/shell.ts'
import { messageOf } from '../util/message-of.ts'
import {
  CredentialPlugins,
  loginProgramOf,
  withdrawnProvider,
  type CredentialPluginsOptions,
} from './credential-plugin.ts'
import { kubeconfigText, parseKubeconfig, ReusingKubeConfig } from './kubeconfig.ts'

/** A kubeconfig that cannot be used; the message is one sentence that says what to do. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError'
}

export interface KubeconfigChoice extends CredentialPluginsOptions {
  /** `--kubeconfig`; wins over `$KUBECONFIG`. */
  readonly file?: string | undefined
  /** Absent = the file's current context. */
  readonly context?: string | undefined
  /** It was served before, and no flag names it. */
  readonly isKept?: boolean
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
  /** That its user logs in by, as the kubeconfig named it when it was loaded; undefined where there is none. */
  readonly loginProgram: string | undefined
  /** What the kubeconfig said of it when it was loaded, by which tools can be told that make clusters. */
  readonly stated: StatedContext
  #choice: KubeconfigChoice
  /** Its clusters and users as the kubeconfig stated them, plugins included. */
  readonly #stated: string
  /** Shared by all renewals of this context, so that none starts a second plugin beside one that hangs. */
  readonly #plugins: CredentialPlugins
  #config: ReusingKubeConfig
  #renewing: Promise<void> | undefined

  private constructor(name: string, server: string, config: ReusingKubeConfig, choice: KubeconfigChoice) {
    this.name = name
    this.server = server
    this.#config = config
    this.#choice = choice
    this.#stated = JSON.stringify([config.clusters, config.users])
    this.loginProgram = loginProgramOf(config.getCurrentUser())
    const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()]
    const files = [cluster?.caFile, user?.certFile, user?.keyFile].filter((file) => file !== undefined)
    this.stated = { context: name, cluster: cluster?.name ?? '', server, files }
    this.#plugins = new CredentialPlugins(choice)
    this.#plugins.serve(config)
  }

  /**
   * Resolves a kubeconfig as kubectl does: flag, `$KUBECONFIG` (several files merge), in-cluster, `~/.kube/config`.
   * Throws {@link KubeconfigError}.
   */
  static async load(choice: KubeconfigChoice): Promise<PinnedContext> {
    const config = await readKubeconfig(choice)
    const { name, server } = pin(config, choice)
    return new PinnedContext(name, server, config, choice)
  }

  get config(): KubeConfig {
    return this.#config
  }

  /** All that is known of what it logs in with: nothing of it may be sent to others. */
  get secrets(): string[] {
    const { token, password, keyData, certData } = this.#config.getCurrentUser() ?? {}
    return [token, password, keyData, certData, ...this.#plugins.secrets].filter((secret) => secret !== undefined)
  }

  /** Closes every connection, which may be dead without having said so: requests under way fail, and later ones open new connections. */
  reconnect(): void {
    this.#config.reconnect()
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
    return this.name === other.name && this.server === other.server && this.#stated === other.#stated
  }

  /**
   * Reads the credentials again after the server refused them: client-node never runs an exec plugin again by itself.
   * Throws {@link KubeconfigError}, also where the context's name now stands for another server. Calls join.
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
    const config = await readKubeconfig(choice)
    // What another kubeconfig says by now is taken by the renewal that reads it.
    if (choice !== this.#choice) return
    const { server } = pin(config, { ...this.#choice, context: this.name })
    if (server !== this.server) {
      throw new KubeconfigError(
        `Context "${this.name}" now points to ${server} instead of ${this.server}; metal-agent context use ${shellWord(this.name)} moves there.`,
      )
    }
    this.#plugins.serve(config)
    this.#config = config
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
  const config = await readKubeconfig(choice)
  const contexts = config.getContexts().map(({ name, cluster }) => ({
    name,
    server: config.getCluster(cluster)?.server ?? '',
    isDefault: name === config.getCurrentContext(),
  }))
  return { source: sourceOf(choice), contexts }
}

/** Makes the wanted one (or the file's current context) the current one, after checking that all it refers to is there. */
function pin(
  config: KubeConfig,
  { context: wanted, isKept = false }: Pick<KubeconfigChoice, 'context' | 'isKept'>,
): { name: string; server: string } {
  const name = wanted ?? config.getCurrentContext()
  const known = config.getContexts().map((context) => context.name)
  if (known.length === 0) {
    throw new KubeconfigError(
      'The kubeconfig has no contexts at all; copy one from your cluster there, or name another with --kubeconfig.',
    )
  }
  if (!name) {
    throw new KubeconfigError(
      `The kubeconfig names no current context; choose one of ${known.join(', ')} with --context.`,
    )
  }
  if (!known.includes(name)) {
    if (isKept && wanted !== undefined) {
      throw new KubeconfigError(
        `This machine serves context "${name}", which the kubeconfig no longer has (it has ${known.join(', ')}): bring it back, or choose another with metal-agent context use NAME.`,
      )
    }
    throw new KubeconfigError(
      `The kubeconfig has no context "${name}"; it has ${known.join(', ')}. Choose one with --context.`,
    )
  }
  config.setCurrentContext(name)
  const context = config.getContextObject(name)
  const cluster = config.getCurrentCluster()
  if (!cluster) {
    throw new KubeconfigError(
      `Context "${name}" names a cluster that the kubeconfig does not contain; add it or choose another context.`,
    )
  }
  if (context?.user && !config.getUser(context.user)) {
    throw new KubeconfigError(
      `Context "${name}" names the user "${context.user}" that the kubeconfig does not contain; add it or choose another context.`,
    )
  }
  const withdrawn = withdrawnProvider(config.getCurrentUser())
  if (withdrawn) throw new KubeconfigError(`Context "${name}" logs in with ${withdrawn}`)
  const protocol = URL.parse(cluster.server)?.protocol
  if (protocol === 'http:' && !cluster.skipTLSVerify) {
    throw new KubeconfigError(
      `Context "${name}" names the server "${cluster.server}", but over http:// anyone on the network could read its credentials; use https://, or set insecure-skip-tls-verify: true for that cluster in the kubeconfig.`,
    )
  }
  if (protocol !== 'https:' && protocol !== 'http:') {
    throw new KubeconfigError(
      `Context "${name}" names the server "${cluster.server}", which is not an address such as https://HOST:6443; correct it in the kubeconfig or choose another context.`,
    )
  }
  return { name, server: cluster.server }
}

async function readKubeconfig({ file, env }: KubeconfigChoice): Promise<ReusingKubeConfig> {
  const files = filesOf({ file, env })
  if (files !== undefined) return mergeFiles(files)
  const config = new ReusingKubeConfig()
  config.loadFromCluster()
  return config
}

/** Undefined in a Pod, which has a service account instead. */
function filesOf({ file, env }: Pick<KubeconfigChoice, 'file' | 'env'>): string[] | undefined {
  if (file) return [file]
  const listed = env['KUBECONFIG']
  if (listed) return listed.split(delimiter).filter((entry) => entry !== '')
  return env['KUBERNETES_SERVICE_HOST'] ? undefined : [join(env['HOME'] ?? homedir(), '.kube', 'config')]
}

/** What a kubeconfig is made of, whether or not it is there. */
export const kubeconfigFiles = (choice: Pick<KubeconfigChoice, 'file' | 'env'>): readonly string[] =>
  filesOf(choice) ?? []

const sourceOf = (choice: KubeconfigChoice): string =>
  filesOf(choice)?.join(delimiter) ?? 'the service account of this Pod'

async function mergeFiles(files: readonly string[]): Promise<ReusingKubeConfig> {
  const merged = new ReusingKubeConfig()
  let found = 0
  for (const file of files) {
    const text = await kubeconfigText(file).catch((error: unknown) => {
      // kubectl also skips files of a KUBECONFIG list that do not exist.
      if (isMissing(error)) return undefined
      throw new KubeconfigError(`The kubeconfig ${file} cannot be read: ${messageOf(error)}.`, { cause: error })
    })
    if (text === undefined) continue
    found += 1
    try {
      merged.mergeConfig(parseKubeconfig(text, file), merged.getCurrentContext() !== '')
    } catch (error) {
      // Without the parser's error as cause: it quotes the lines around the mistake, tokens included.
      throw new KubeconfigError(
        `The kubeconfig ${file} is not valid: ${messageOf(error).split('\n')[0] ?? ''}. Correct it or choose another with --kubeconfig.`,
      )
    }
  }
  if (found === 0) {
    throw new KubeconfigError(
      `There is no kubeconfig at ${files.join(' or ')}; copy one from your cluster there, or name one with --kubeconfig.`,
    )
  }
  return merged
}

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT'
