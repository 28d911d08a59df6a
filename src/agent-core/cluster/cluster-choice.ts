import { join } from 'node:path'
import { z } from 'zod'
import { KubeApi } from '../kube/kube-api.ts'
import { KubeconfigError } from '../kube/kubeconfig.ts'
import { PinnedContext } from '../kube/pinned-context.ts'
import { objectMeta, resources } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { StateFile } from '../state/state-file.ts'
import { messageOf } from '../util/message-of.ts'
import { shellWord } from '../../contract/shell.ts'

export interface ClusterChoiceOptions {
  /** As chosen now. Absent = as kubectl looks for one. */
  readonly kubeconfig: () => string | undefined
  /** As a flag says or a person chose. Absent = the pinned one, at first the kubeconfig's current context. */
  readonly context: () => string | undefined
  /** True if a flag names the context: it decides at each start. */
  readonly isContextStated: () => boolean
  readonly pin: ContextPin
  readonly env: NodeJS.ProcessEnv
}

/** What became of credentials that were to be read again. */
export type Renewal =
  | { readonly kind: 'renewed' }
  /** The name now stands for another cluster, where only a person takes the agent. `message` is a sentence without its full stop. */
  | { readonly kind: 'otherServer'; readonly server: string; readonly message: string }
  | { readonly kind: 'unusable'; readonly message: string }

/** Which context of which kubeconfig is to be served: what a flag says, else what a person chose, else what was served last. */
export class ClusterChoice {
  readonly #options: ClusterChoiceOptions

  constructor(options: ClusterChoiceOptions) {
    this.#options = options
  }

  /** Undefined = the current one of the kubeconfig. */
  get name(): string | undefined {
    return this.#options.context() ?? this.#options.pin.context
  }

  get kubeconfig(): string | undefined {
    return this.#options.kubeconfig()
  }

  /** What a start serves by itself. Throws KubeconfigError, also where that would be another cluster than before. */
  async load(): Promise<PinnedContext> {
    const { env, isContextStated, pin } = this.#options
    const isKept = !isContextStated()
    const context = await PinnedContext.load({ file: this.kubeconfig, context: this.name, env })
    return isKept ? await pin.check(context) : context
  }

  /** A context of the kubeconfig as it is now. Throws KubeconfigError. */
  loadContext(name: string): Promise<PinnedContext> {
    return PinnedContext.load({ file: this.kubeconfig, context: name, env: this.#options.env })
  }

  /** Takes the credentials that the kubeconfig has by now for the context that is served, and nothing else of it. */
  async renew(present: PinnedContext): Promise<Renewal> {
    try {
      const { server } = await this.loadContext(present.name)
      if (server !== present.server) {
        const message = `Context "${present.name}" now stands for ${server}, and the agent stays with ${present.server}`
        return { kind: 'otherServer', server, message }
      }
      await present.renewAfterChange()
      return { kind: 'renewed' }
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      const message = `The agent stays with "${present.name}" and the credentials it has: ${error.message}`
      return { kind: 'unusable', message }
    }
  }

  /**
   * What another kubeconfig would have it serve: the context of the present name, or its own current one. Absent = as kubectl looks for one.
   * Throws KubeconfigError.
   */
  async loadKubeconfig(file: string | undefined): Promise<PinnedContext> {
    const { env, isContextStated } = this.#options
    const context = this.name
    try {
      return await PinnedContext.load({ file, context, env })
    } catch (error) {
      if (!(error instanceof KubeconfigError) || context === undefined || isContextStated()) throw error
      return PinnedContext.load({ file, env })
    }
  }
}

/** A start waits no longer for an address that may be dead. */
const askLimitMs = 3_000

const pin = z.object({
  context: z.string(),
  server: z.string(),
  /** Uid of its namespace kube-system, which no other cluster has; absent where these credentials may not read it. */
  clusterUid: z.string().optional(),
})
type Pin = z.infer<typeof pin>

const pinFile = z.object({ schema: z.literal(1), pin: pin.nullable() })

interface PinOptions {
  readonly stateDir: string
  readonly log: Logger
  /** As for a StateFile. */
  readonly isOnlyLookedAt?: boolean
}

/**
 * Which cluster this machine serves, over restarts: otherwise a `kubectl config use-context` and a login later it would serve
 * another. The first cluster that was reached is kept until a person chooses another.
 */
export class ContextPin {
  readonly #file: StateFile<z.infer<typeof pinFile>>
  readonly #log: Logger
  /** Connection to the context whose cluster is in doubt; kept, so that one credential plugin serves all checks, however long it takes. */
  #doubted: KubeApi | undefined

  private constructor(file: StateFile<z.infer<typeof pinFile>>, log: Logger) {
    this.#file = file
    this.#log = log
  }

  /** Throws StateFileError. */
  static async open({ stateDir, log, isOnlyLookedAt = false }: PinOptions): Promise<ContextPin> {
    const file = await StateFile.open<z.infer<typeof pinFile>>({
      ...{ file: join(stateDir, 'cluster.json'), isOnlyLookedAt },
      schema: pinFile,
      initial: { schema: 1, pin: null },
      keeps: 'which cluster this machine serves',
    })
    return new ContextPin(file, log)
  }

  get notice(): string | undefined {
    return this.#file.notice
  }

  /** Name of the context that is kept. */
  get context(): string | undefined {
    return this.#file.value.pin?.context
  }

  /**
   * The context to be served: this one, or the same of an earlier check, which has its credential by now. Throws
   * {@link KubeconfigError} where its name stands, or may stand, for another cluster than the kept one.
   */
  async check(context: PinnedContext): Promise<PinnedContext> {
    const { pin: kept } = this.#file.value
    const before = this.#doubted?.context.isSameAs(context) === true ? this.#doubted : undefined
    this.#doubted = undefined
    if (kept?.context !== context.name || kept.server === context.server) return context
    const api = before ?? new KubeApi(context)
    const uid = kept.clusterUid === undefined ? undefined : await clusterUidOf(api, this.#log)
    if (uid !== undefined && uid === kept.clusterUid) return api.context
    this.#doubted = api
    const doubt =
      uid === undefined
        ? `and nothing shows that it is the same cluster: to serve it, run metal-agent context use ${shellWord(context.name)}.`
        : `which is another cluster: serve it with metal-agent context use ${shellWord(context.name)}, or correct the kubeconfig.`
    throw new KubeconfigError(
      `Context "${context.name}" pointed to ${kept.server} when this machine last served it, and now points to ${context.server}, ${doubt}`,
    )
  }

  /** A person chose it. Its cluster need not answer yet. */
  choose({ name, server }: PinnedContext): Promise<void> {
    return this.#keep({ context: name, server })
  }

  /** Called when the cluster answers: its context becomes the pinned one. */
  async reached(api: KubeApi): Promise<void> {
    const { name, server } = api.context
    const clusterUid = await clusterUidOf(api, this.#log)
    await this.#keep({ context: name, server, ...(clusterUid !== undefined && { clusterUid }) })
  }

  /** A disk that says no costs the memory of the choice, and nothing that runs. */
  async #keep(next: Pin): Promise<void> {
    const { pin: kept } = this.#file.value
    const isSame =
      kept?.context === next.context &&
      kept.server === next.server &&
      (next.clusterUid === undefined || kept.clusterUid === next.clusterUid)
    if (isSame) return
    try {
      await this.#file.update(() => ({ schema: 1, pin: next }))
    } catch (error) {
      this.#log.warn('cluster not pinned', { context: next.context, reason: messageOf(error) })
    }
  }
}

const kubeSystem = z.object({ metadata: objectMeta })

/** Undefined where the cluster does not answer, or not to these credentials. */
async function clusterUidOf(api: KubeApi, log: Logger): Promise<string | undefined> {
  try {
    return kubeSystem.parse(
      await api.get(resources.namespaces, undefined, 'kube-system', AbortSignal.timeout(askLimitMs)),
    ).metadata.uid
  } catch (error) {
    log.debug('kube-system not read', { context: api.context.name, error })
    return undefined
  }
}
