import type { ContextPin } from './context-pin.ts'
import { KubeconfigError, PinnedContext } from '../kube/pinned-context.ts'

export interface ClusterChoiceOptions {
  /** As chosen now. Absent = as kubectl looks for one. */
  readonly kubeconfig: () => string | undefined
  /** As a flag says or a person chose. Absent = the pinned one, at first the kubeconfig's current context. */
  readonly context: () => string | undefined
  /** By a flag, which chooses anew at each start. */
  readonly isContextStated: () => boolean
  readonly pin: ContextPin
  readonly env: NodeJS.ProcessEnv
}

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
    const context = await PinnedContext.load({ file: this.kubeconfig, context: this.name, isKept, env })
    return isKept ? await pin.check(context) : context
  }

  /** A context of the kubeconfig as it is now. Throws KubeconfigError. */
  loadContext(name: string): Promise<PinnedContext> {
    return PinnedContext.load({ file: this.kubeconfig, context: name, env: this.#options.env })
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
