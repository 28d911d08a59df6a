import { randomBytes } from 'node:crypto'
import { sentence } from '../../contract/clean-text.ts'
import type { Logger } from '../observability/logger.ts'
import { isApiError } from './api-error.ts'
import type { KubeApi } from './kube-api.ts'
import { apiVersionOf, resources, type ObjectMeta } from './resources.ts'

/** The component name that LLMKube's documentation tells people to look for. */
const component = 'llmkube-metal-agent'
/** The API server refuses longer messages. */
const maxMessageBytes = 1_024

export interface EventNote {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

/** A lasting trouble: reporting it again updates its one Event with the newest message and count. */
export interface EventSeries {
  tell(message: string, count: number): void
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
    this.#beside(about, note.reason, () => this.#create(about, nameFor(about), note))
  }

  series(about: ObjectMeta, { type, reason }: Omit<EventNote, 'message'>): EventSeries {
    const name = nameFor(about)
    let mayExist = false
    let writing = false
    let next: { readonly message: string; readonly count: number } | undefined
    const writeAll = async (): Promise<void> => {
      writing = true
      try {
        for (let news = next; news !== undefined; news = next) {
          next = undefined
          const note = { type, reason, ...news }
          const isThere = mayExist && (await this.#update(about, name, note))
          // Before the request: its answer may get lost, and a second one of the name would be refused from then on.
          mayExist = true
          if (!isThere) await this.#create(about, name, note)
        }
      } finally {
        writing = false
      }
    }
    return {
      tell: (message, count) => {
        next = { message, count }
        if (!writing) this.#beside(about, reason, writeAll)
      },
    }
  }

  #beside(about: ObjectMeta, reason: string, write: () => Promise<void>): void {
    const written = write()
      .catch((error: unknown) => this.#log.warn('event not written', { object: about.name, reason, error }))
      .finally(() => this.#underWay.delete(written))
    this.#underWay.add(written)
  }

  /** Resolves when every Event recorded so far is written or given up. */
  async flush(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  /** False where the cluster has forgotten it: Events live for an hour. */
  async #update({ namespace }: ObjectMeta, eventName: string, { message, count }: CountedNote): Promise<boolean> {
    const news = { message: sentence(message, maxMessageBytes), count, lastTimestamp: this.#timestamp() }
    try {
      await this.#api.mergePatch(resources.events, namespace, eventName, news)
      return true
    } catch (error) {
      if (isApiError(error, 404)) return false
      throw error
    }
  }

  async #create(
    { namespace, name, uid, resourceVersion }: ObjectMeta,
    eventName: string,
    note: EventNote & { readonly count?: number },
  ): Promise<void> {
    const now = this.#timestamp()
    await this.#api.create(resources.events, namespace, {
      metadata: { name: eventName, namespace },
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
      message: sentence(note.message, maxMessageBytes),
      source: { component, host: this.#host },
      reportingComponent: component,
      reportingInstance: this.#host,
      firstTimestamp: now,
      lastTimestamp: now,
      count: note.count ?? 1,
    })
  }

  #timestamp(): string {
    return `${new Date(this.#api.serverNow()).toISOString().slice(0, 19)}Z`
  }
}

interface CountedNote extends EventNote {
  readonly count: number
}

const nameFor = ({ name }: ObjectMeta): string => `${name}.${randomBytes(8).toString('hex')}`
