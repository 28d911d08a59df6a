import { join } from 'node:path'
import { z } from 'zod'
import { shellWord } from '../../contract/shell.ts'
import { KubeApi } from '../kube/kube-api.ts'
import { KubeconfigError, type PinnedContext } from '../kube/pinned-context.ts'
import { objectMeta, resources } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { StateFile } from '../state/state-file.ts'
import { messageOf } from '../util/message-of.ts'

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

/**
 * Which cluster this machine serves, over restarts: otherwise a `kubectl config use-context` and a login later it would serve
 * another. What was reached first is kept until a person chooses anew.
 */
export class ContextPin {
  readonly #file: StateFile<z.infer<typeof pinFile>>
  readonly #log: Logger
  /** Of the context that may be another cluster: one credential plugin runs for all the looks at it, however long it takes. */
  #doubted: KubeApi | undefined

  private constructor(file: StateFile<z.infer<typeof pinFile>>, log: Logger) {
    this.#file = file
    this.#log = log
  }

  /** Throws StateFileError. */
  static async open({ stateDir, log }: { stateDir: string; log: Logger }): Promise<ContextPin> {
    const file = await StateFile.open<z.infer<typeof pinFile>>({
      file: join(stateDir, 'cluster.json'),
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
        ? `and nothing shows that it is the same cluster: if it is to be served, say metal-agent context use ${shellWord(context.name)}.`
        : `which is another cluster: serve it with metal-agent context use ${shellWord(context.name)}, or correct the kubeconfig.`
    throw new KubeconfigError(
      `Context "${context.name}" was ${kept.server} when this machine served it last, and now names ${context.server}, ${doubt}`,
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

const namespace = z.object({ metadata: objectMeta })

/** Undefined where the cluster does not answer, or not to these credentials. */
async function clusterUidOf(api: KubeApi, log: Logger): Promise<string | undefined> {
  try {
    return namespace.parse(
      await api.get(resources.namespaces, undefined, 'kube-system', AbortSignal.timeout(askLimitMs)),
    ).metadata.uid
  } catch (error) {
    log.debug('kube-system not read', { context: api.context.name, error })
    return undefined
  }
}
