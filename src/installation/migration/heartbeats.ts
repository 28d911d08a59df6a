import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { FoundService } from './cluster-look.ts'
import { renewHeartbeat } from './hand-over.ts'

/** As the Go agent writes them. */
const usualEveryMs = 30_000

/** Writes the heartbeats of services whose Go agent is paused. */
export class Heartbeats implements AsyncDisposable {
  readonly #api: KubeApi
  readonly #services: Set<FoundService>
  readonly #tell: (sentence: string) => void
  readonly #timer: NodeJS.Timeout
  #round: Promise<void> = Promise.resolve()

  constructor(
    api: KubeApi,
    services: Iterable<FoundService>,
    tell: (sentence: string) => void,
    everyMs = usualEveryMs,
  ) {
    this.#api = api
    this.#services = new Set(services)
    this.#tell = tell
    this.#timer = setInterval(() => {
      this.#round = this.#round.then(() => this.#renewAll())
    }, everyMs)
  }

  /** From now on somebody else writes them. */
  async leave(service: FoundService): Promise<void> {
    this.#services.delete(service)
    await this.#round
  }

  async #renewAll(): Promise<void> {
    for (const service of [...this.#services]) {
      try {
        await renewHeartbeat(this.#api, service)
      } catch (error) {
        this.#tell(`The heartbeat of ${service.namespace}/${service.name} was not renewed: ${messageOf(error)}`)
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    await this.#round
  }
}
