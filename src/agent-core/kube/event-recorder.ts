import { randomBytes } from 'node:crypto'
import type { Logger } from '../observability/logger.ts'
import type { KubeApi } from './kube-api.ts'
import { apiVersionOf, resources, type ObjectMeta } from './resources.ts'

/** The component name that LLMKube's documentation tells people to look for. */
const component = 'llmkube-metal-agent'
/** The API server refuses longer messages. */
const maxMessageLength = 1_024

export interface EventNote {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

/** Writes core/v1 Events on InferenceServices, beside the caller's work: an Event that cannot be written is a log line, never a failure. */
export class EventRecorder {
  readonly #api: KubeApi
  readonly #log: Logger
  readonly #host: string
  readonly #underWay = new Set<Promise<void>>()

  constructor({ api, log, host }: { api: KubeApi; log: Logger; host: string }) {
    this.#api = api
    this.#log = log
    this.#host = host
  }

  record(about: ObjectMeta, note: EventNote): void {
    const written = this.#write(about, note)
      .catch((error: unknown) =>
        this.#log.warn('event not written', { object: about.name, reason: note.reason, error }),
      )
      .finally(() => this.#underWay.delete(written))
    this.#underWay.add(written)
  }

  /** Resolves when every Event recorded so far is written or given up. */
  async flush(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  async #write({ namespace, name, uid, resourceVersion }: ObjectMeta, note: EventNote): Promise<void> {
    const now = `${new Date(this.#api.serverNow()).toISOString().slice(0, 19)}Z`
    await this.#api.create(resources.events, namespace, {
      metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace },
      involvedObject: {
        apiVersion: apiVersionOf(resources.inferenceServices),
        kind: resources.inferenceServices.kind,
        namespace,
        name,
        uid,
        resourceVersion,
      },
      type: note.type,
      reason: note.reason,
      message: note.message.slice(0, maxMessageLength),
      source: { component, host: this.#host },
      reportingComponent: component,
      reportingInstance: this.#host,
      firstTimestamp: now,
      lastTimestamp: now,
      count: 1,
    })
  }
}
