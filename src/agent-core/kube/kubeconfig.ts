import { createHash } from 'node:crypto'
import { existsSync, type FSWatcher, watch } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { dirname, relative, resolve, sep } from 'node:path'
import { type Cluster, dumpYaml, KubeConfig, loadYaml, type RequestContext, type User } from '@kubernetes/client-node'
import { Agent } from 'undici'
import { z } from 'zod'
import type { Logger } from '../observability/logger.ts'
import { ownFailure } from '../util/error-code.ts'
import { hasCode, readBounded } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'

/** A thousand contexts with their certificates. Parsed in one go, so that more would hold the agent up. */
const maxKubeconfigBytes = 4 * 1024 * 1024
/** Several times what all authorities of an operating system take. */
const maxNamedFileBytes = 1024 * 1024

export const kubeconfigText = async (file: string): Promise<string> =>
  (await readBounded(file, maxKubeconfigBytes)).toString('utf8')

/** The bytes of a file that a kubeconfig names. `what` says as what: "client key". */
export async function readNamedFile(what: string, file: string): Promise<Buffer> {
  try {
    return await readBounded(file, maxNamedFileBytes)
  } catch (error) {
    throw new Error(`the ${what} that the kubeconfig names cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

/** One kubeconfig, its paths absolute. Throws where it is not valid. */
export function parseKubeconfig(text: string, file: string): KubeConfig {
  const config = new KubeConfig()
  config.loadFromString(/token-?file/i.test(text) ? withTokenProviders(text, dirname(file)) : text)
  config.makePathsAbsolute(dirname(file))
  return config
}

const usersWithTokenFiles = z.looseObject({
  users: z.array(
    z.looseObject({
      user: z.looseObject({ tokenFile: z.string().optional(), 'token-file': z.string().optional() }).nullish(),
    }),
  ),
})

/** client-node does not know kubectl's `tokenFile`, and reads `token-file` of every user at once, where a pipe would hold it up for ever. */
function withTokenProviders(text: string, folder: string): string {
  const kubeconfig = usersWithTokenFiles.safeParse(loadYaml(text))
  if (!kubeconfig.success) throw new Error('its users are not valid')
  const users = kubeconfig.data.users.map((entry) => {
    const { tokenFile, 'token-file': older, ...rest } = entry.user ?? {}
    const named = tokenFile ?? older
    if (named === undefined) return entry
    const provider = { name: 'tokenFile', config: { tokenFile: resolve(folder, named) } }
    return { ...entry, user: { ...rest, token: undefined, 'auth-provider': provider } }
  })
  return dumpYaml({ ...kubeconfig.data, users }, { skipInvalid: true })
}

/** A cluster and who asks it. */
interface StatedAccess {
  readonly cluster: Cluster
  readonly user: User | null
}

/** With the certificates and keys themselves in place of the names of their files, which client-node reads at each request. */
async function withFilesRead({ cluster: { caFile, ...cluster }, user }: StatedAccess): Promise<StatedAccess> {
  const read = async (what: string, file: string | undefined, data: string | undefined): Promise<string | undefined> =>
    data || !file ? data : (await readNamedFile(what, file)).toString('base64')
  const caData = await read('certificate authority', caFile, cluster.caData)
  if (user === null) return { cluster: { ...cluster, ...(caData && { caData }) }, user }
  const { certFile, keyFile, ...rest } = user
  const certData = await read('client certificate', certFile, user.certData)
  const keyData = await read('client key', keyFile, user.keyData)
  return {
    cluster: { ...cluster, ...(caData && { caData }) },
    user: { ...rest, ...(certData && { certData }), ...(keyData && { keyData }) },
  }
}

/**
 * client-node makes a new undici agent for every request; reusing the first keeps connections, and one handshake, alive. HTTP/2 stays off:
 * when the last stream of a session has ended, undici 8 throws "socket idle timeout" from a timer, where it cannot be caught.
 */
export class ReusingKubeConfig extends KubeConfig {
  /** Where no proxy is between. */
  #connect: Extract<DispatcherOptions, { type: 'agent' }>['connect'] | undefined
  #dispatcher: ReturnType<RequestContext['getDispatcher']>
  /** The present cluster and user as the kubeconfig has them, with the names of files. */
  #stated: StatedAccess | undefined

  constructor() {
    super()
    this.currentContext = ''
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    // Each new connection reads the certificate files again: they may have been replaced.
    if (!this.#dispatcher) await this.#readFiles()
    await super.applySecurityAuthentication(context)
    this.#dispatcher ??= this.#connect ? keepingAgent(this.#connect) : context.getDispatcher()
    if (this.#dispatcher) context.setDispatcher(this.#dispatcher)
  }

  /** Requests under way fail; later ones open new connections. */
  reconnect(): void {
    const before = this.#dispatcher
    this.#dispatcher = undefined
    before?.destroy(new Error('the connection was dropped, because this machine may have slept'), () => undefined)
  }

  async #readFiles(): Promise<void> {
    const [cluster, user] = [this.getCurrentCluster(), this.getCurrentUser()]
    if (!cluster) return
    this.#stated ??= { cluster, user }
    const read = await withFilesRead(this.#stated)
    this.clusters = this.clusters.map((one) => (one.name === read.cluster.name ? read.cluster : one))
    this.users = this.users.map((one) => (one.name === read.user?.name ? read.user : one))
  }

  override createDispatcherOptions(...given: DispatcherArguments): DispatcherOptions {
    const options = super.createDispatcherOptions(...given)
    switch (options.type) {
      case 'none':
      case 'agent':
        this.#connect = { keepAlive: true, ...(options.type === 'agent' && options.connect), ...http1Only }
        return { type: 'agent', connect: this.#connect }
      case 'proxy':
      case 'socks':
        return { ...options, requestTls: { ...options.requestTls, ...http1Only } }
    }
  }
}

type DispatcherArguments = Parameters<KubeConfig['createDispatcherOptions']>
type DispatcherOptions = ReturnType<KubeConfig['createDispatcherOptions']>

/**
 * Heartbeats come every 45 s or oftener and need no new handshake; API servers close idle connections after 90 s, some load balancers after
 * 60 s.
 */
const keepIdleMs = 50_000

/** The types disagree about options that are there and undefined, which undici reads as absent. */
const keepingAgent = (connect: object): Agent =>
  new Agent({ connect: connect as NonNullable<Agent.Options['connect']>, keepAliveTimeout: keepIdleMs })

/** An option of undici's connector that client-node's types do not know. */
const http1Only = { allowH2: false }

/** A file that is replaced makes several events, and one that is written in pieces many. */
const settleMs = 150

interface KubeconfigWatchOptions {
  /** As chosen now; none where there is no file to watch. */
  readonly files: () => readonly string[]
  /** They were written again, say something else than before, or one came or went. */
  readonly onChange: () => void
  readonly log: Logger
}

/**
 * Tells when a kubeconfig is not what it was: written in place or replaced by a rename, behind a link, gone and back. Folders are watched,
 * since a watch on a file ends with the file.
 */
export class KubeconfigWatch {
  readonly #options: KubeconfigWatchOptions
  readonly #watchers = new Map<string, FSWatcher>()
  /** What matters in each folder that is watched. */
  #names: ReadonlyMap<string, ReadonlySet<string>> = new Map()
  #digest: string | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void>
  #isClosed = false

  constructor(options: KubeconfigWatchOptions) {
    this.#options = options
    this.#looking = this.#look()
  }

  /** Other files may be chosen by now. */
  lookAgain(): void {
    this.#due()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const watcher of this.#watchers.values()) watcher.close()
    await this.#looking
  }

  #due(): void {
    // Never put off: in a busy folder there would be no end of it.
    if (this.#isClosed || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#looking = this.#looking.then(() => this.#look())
    }, settleMs)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    const files = this.#options.files()
    // Watched before it is read: what is written in between is seen.
    await this.#watchFolders(files)
    const digest = await digestOf(files).catch((error: unknown) => {
      this.#options.log.warn('kubeconfig not checked', { error })
      return this.#digest
    })
    const before = this.#digest
    this.#digest = digest
    if (before !== undefined && before !== digest && !this.#isClosed) this.#options.onChange()
  }

  async #watchFolders(files: readonly string[]): Promise<void> {
    const real = await Promise.all(files.map((file) => realpath(file).catch(() => file)))
    if (this.#isClosed) return
    const wanted = new Map<string, Set<string>>()
    for (const file of [...files, ...real]) {
      const folder = nearestFolder(file)
      const [name = ''] = relative(folder, file).split(sep)
      wanted.set(folder, (wanted.get(folder) ?? new Set()).add(name))
    }
    this.#names = wanted
    for (const [folder, watcher] of this.#watchers) {
      if (wanted.has(folder)) continue
      watcher.close()
      this.#watchers.delete(folder)
    }
    for (const folder of wanted.keys()) if (!this.#watchers.has(folder)) this.#watchFolder(folder)
  }

  /** Kubernetes changes what it mounts into a Pod by way of names that begin with two dots. */
  #concerns(folder: string, name: string): boolean {
    return name.startsWith('..') || this.#names.get(folder)?.has(name) === true
  }

  #watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name === null || this.#concerns(folder, name)) this.#due()
      })
      this.#watchers.set(folder, watcher)
      watcher.on('error', (error) => {
        this.#options.log.debug('kubeconfig not watched', { folder, error })
        watcher.close()
        this.#watchers.delete(folder)
        this.#due()
      })
    } catch (error) {
      // Where a system has no more watches to give, `reloadKubeconfig` does the same.
      this.#options.log.warn('kubeconfig not watched', { folder, error })
    }
  }
}

/** The folder that a file is in, or would be in once that is made. */
function nearestFolder(file: string): string {
  let folder = dirname(file)
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder)
  return folder
}

/** Throws where this process cannot look, such as for want of a file descriptor. */
async function digestOf(files: readonly string[]): Promise<string> {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\0${await versionOf(file)}\0`)
  return hash.digest('hex')
}

/**
 * When the file was last written, and its text. The time makes a file that was changed and changed back differ too: the agent may have read it
 * in between. Empty for a file that is not there or that this user may not read.
 */
async function versionOf(file: string): Promise<string> {
  try {
    const { ctimeNs } = await stat(file, { bigint: true })
    return `${ctimeNs}\0${await kubeconfigText(file)}`
  } catch (error) {
    if (ownFailure(error) === undefined || hasCode(error, 'EACCES') || hasCode(error, 'EPERM')) return ''
    throw error
  }
}
