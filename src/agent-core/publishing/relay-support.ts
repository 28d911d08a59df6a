import { z } from 'zod'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { resources } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'

/** LLMKube may be updated or set back without anybody telling this machine. */
const usualLookEveryMs = 30_000

/** The part of an OpenAPI document that says which runtimes an InferenceService may name. */
const document = z.object({ components: z.object({ schemas: z.record(z.string(), z.unknown()) }) })
const withRuntimes = z.object({
  properties: z.object({
    spec: z.object({ properties: z.object({ runtime: z.object({ enum: z.array(z.string()) }) }) }),
  }),
})

/** The CRDs name this runtime since the version of LLMKube that has relays. */
const runtimeOfRelays = 'tensorfold'

interface RelaySupportOptions {
  readonly api: KubeApi
  readonly log: Logger
  readonly onChange: () => void
  readonly lookEveryMs?: number | undefined
}

/** Says by the CRDs that the cluster serves whether its LLMKube can have relays; what cannot be read changes nothing. */
export class RelaySupport implements Disposable {
  readonly #options: RelaySupportOptions
  readonly #stopped = new AbortController()
  /** Undefined until the CRDs were read. */
  #isThere: boolean | undefined
  /** Another text once the CRDs are others. */
  #schema: string | undefined
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(options: RelaySupportOptions) {
    this.#options = options
  }

  get isThere(): boolean | undefined {
    return this.#isThere
  }

  /** Looks now, and from time to time from now on. */
  look(): void {
    if (this.#stopped.signal.aborted || this.#isLooking) return
    clearTimeout(this.#timer)
    this.#isLooking = true
    void this.#read().finally(() => {
      this.#isLooking = false
      this.#timer = setTimeout(() => this.look(), this.#options.lookEveryMs ?? usualLookEveryMs).unref()
    })
  }

  [Symbol.dispose](): void {
    this.#stopped.abort()
    clearTimeout(this.#timer)
  }

  async #read(): Promise<void> {
    const { api, log, onChange } = this.#options
    const { signal } = this.#stopped
    try {
      const schema = await api.schemaOf(resources.inferenceServices, signal)
      if (schema === undefined || schema === this.#schema) return
      const isThere = namesRuntime(await api.schemaAt(schema, signal))
      this.#schema = schema
      if (isThere === this.#isThere) return
      this.#isThere = isThere
      log.info(isThere ? 'CRDs of a LLMKube with relays' : 'CRDs of a LLMKube without relays', {
        server: api.context.server,
      })
      onChange()
    } catch (error) {
      if (!isApiError(error) && !(error instanceof z.ZodError)) throw error
      if (!signal.aborted) log.debug('CRDs not read', { error })
    }
  }
}

function namesRuntime(found: unknown): boolean {
  const { schemas } = document.parse(found).components
  return Object.entries(schemas).some(
    ([name, schema]) =>
      name.endsWith('.InferenceService') &&
      withRuntimes.safeParse(schema).data?.properties.spec.properties.runtime.enum.includes(runtimeOfRelays) === true,
  )
}
