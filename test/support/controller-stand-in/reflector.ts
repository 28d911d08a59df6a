import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { KubeHttp } from './kube-http.ts'

/** Time before the next try after a list or watch failed. */
const retryMs = 250
/** The server ends a quiet watch after this time, so that a dead connection is noticed. */
const watchSeconds = 240

const meta = z.looseObject({
  metadata: z.looseObject({ name: z.string(), namespace: z.string().default(''), resourceVersion: z.string() }),
})
const list = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string() }),
  items: z.array(z.unknown()).nullable(),
})
const event = z.object({ type: z.string(), object: z.unknown() })

export interface ReflectorOptions<T> {
  readonly http: KubeHttp
  /** Collection path. */
  readonly path: string
  readonly schema: z.ZodType<T>
  readonly signal: AbortSignal
  /** Called for every object that came, changed or went. */
  readonly onChange: (object: T) => void
}

/** A copy of one collection that follows the API server until the signal aborts. */
export class Reflector<T extends { metadata: { name: string; namespace: string; resourceVersion: string } }> {
  readonly #options: ReflectorOptions<T>
  readonly #objects = new Map<string, T>()
  readonly #synced = Promise.withResolvers<undefined>()
  readonly #loop: Promise<void>

  constructor(options: ReflectorOptions<T>) {
    this.#options = options
    this.#loop = this.#follow()
  }

  /** Resolves with the first list. */
  get synced(): Promise<undefined> {
    return this.#synced.promise
  }

  get(key: string): T | undefined {
    return this.#objects.get(key)
  }

  values(): T[] {
    return [...this.#objects.values()]
  }

  /**
   * Takes the answer to a write, which may run ahead of the watch. What the watch brought since `written` was read may be newer, and a copy
   * that went back would make each later write a conflict.
   */
  assume(written: T, answer: T): void {
    if (this.#objects.get(keyOf(written)) === written) this.#objects.set(keyOf(answer), answer)
  }

  async ended(): Promise<void> {
    await this.#loop
  }

  async #follow(): Promise<void> {
    const { signal } = this.#options
    while (!signal.aborted) {
      try {
        await this.#watch(await this.#list())
      } catch {
        // Whatever it was, a new list a little later heals it; an abort ends the loop.
        await delay(retryMs, undefined, { signal }).catch(() => undefined)
      }
    }
    this.#synced.resolve(undefined)
  }

  async #list(): Promise<string> {
    const { http, path, signal, onChange } = this.#options
    const { status, body } = await http.request({ path, signal })
    if (status !== 200) throw new Error(`GET ${path}: ${status}`)
    const { metadata, items } = list.parse(body)
    const listed = new Map((items ?? []).flatMap((item) => this.#parse(item)).map((object) => [keyOf(object), object]))
    const gone = [...this.#objects].filter(([key]) => !listed.has(key)).map(([, object]) => object)
    this.#objects.clear()
    for (const [key, object] of listed) this.#objects.set(key, object)
    this.#synced.resolve(undefined)
    for (const object of [...listed.values(), ...gone]) onChange(object)
    return metadata.resourceVersion
  }

  async #watch(resourceVersion: string): Promise<void> {
    const { http, path, signal, onChange } = this.#options
    const query = new URLSearchParams({ watch: 'true', resourceVersion, timeoutSeconds: String(watchSeconds) })
    for await (const line of http.watch(`${path}?${query.toString()}`, signal)) {
      const { type, object: raw } = event.parse(line)
      if (type === 'ERROR') return
      for (const object of this.#parse(raw)) {
        if (type === 'DELETED') this.#objects.delete(keyOf(object))
        else this.#objects.set(keyOf(object), object)
        onChange(object)
      }
    }
  }

  /** An object that is not of the expected shape is left out: the schema that refuses it is not ours. */
  #parse(raw: unknown): T[] {
    if (!meta.safeParse(raw).success) return []
    const parsed = this.#options.schema.safeParse(raw)
    return parsed.success ? [parsed.data] : []
  }
}

export const keyOf = ({ metadata }: { metadata: { name: string; namespace: string } }): string =>
  `${metadata.namespace}/${metadata.name}`
