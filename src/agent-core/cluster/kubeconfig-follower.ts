import type { ClusterChoice } from './cluster-choice.ts'
import { KubeconfigError, type PinnedContext } from '../kube/pinned-context.ts'
import type { Logger } from '../observability/logger.ts'

export interface KubeconfigFollowerOptions {
  readonly choice: ClusterChoice
  readonly log: Logger
}

/** While a cluster is served: its credentials are those of the kubeconfig as it is now, and nothing else of it is taken. */
export class KubeconfigFollower {
  readonly #options: KubeconfigFollowerOptions
  /** Of the kubeconfig as it is now, while a session goes on with what it had: one sentence. */
  #problem: string | undefined

  constructor(options: KubeconfigFollowerOptions) {
    this.#options = options
  }

  get problem(): string | undefined {
    return this.#problem
  }

  /** Another context will be served. */
  forget(): void {
    this.#problem = undefined
  }

  /** False where the kubeconfig has no credentials for this context any more: {@link problem} says why. */
  async follow(present: PinnedContext, isServed: () => boolean): Promise<boolean> {
    const problem = await this.#takeCredentials(present)
    if (!isServed()) return false
    if (problem !== undefined && problem !== this.#problem) {
      this.#options.log.warn('kubeconfig changed', { reason: problem })
    }
    this.#problem = problem
    return problem === undefined
  }

  /** Why they are not taken: one sentence. */
  async #takeCredentials(present: PinnedContext): Promise<string | undefined> {
    try {
      const { server } = await this.#options.choice.loadContext(present.name)
      if (server !== present.server) {
        return `Context "${present.name}" now stands for ${server}, and the agent stays with ${present.server}: choose the context to move there.`
      }
      await present.renew()
      return undefined
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      return `The agent stays with "${present.name}" and the credentials it has: ${error.message}`
    }
  }
}
