import { z } from 'zod'
import type { ClusterConnection } from './control-plane/admin-client.ts'
import { KubeHttp } from './controller-stand-in/kube-http.ts'

const event = z.object({
  type: z.string(),
  object: z.object({
    metadata: z.object({ name: z.string() }),
    endpoints: z
      .array(z.object({ conditions: z.object({ ready: z.boolean().optional() }).optional() }))
      .nullish()
      .transform((endpoints) => endpoints ?? []),
  }),
})

export type Shown = 'ready' | 'not ready' | 'gone'

interface Sight {
  readonly shown: Shown
  readonly at: number
}

interface Waiting {
  readonly name: string
  readonly shown: readonly Shown[]
  readonly resolve: (at: number) => void
  readonly reject: (error: unknown) => void
}

/** Nothing that is measured takes longer while the agent works as it should. */
const limitMs = 60_000

/** What pods are told, stamped at the moment the API server's event arrives. */
export class SliceWatch implements AsyncDisposable {
  readonly #http: KubeHttp
  readonly #abort = new AbortController()
  readonly #sights = new Map<string, Sight>()
  readonly #history: { readonly name: string; readonly shown: Shown }[] = []
  readonly #ended: Promise<void>
  #waiting: Waiting[] = []
  #failure: unknown

  constructor(connection: ClusterConnection, namespace: string) {
    this.#http = new KubeHttp(connection)
    this.#ended = this.#follow(`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?watch=true`)
  }

  /** When (of `performance.now()`) the slice of this name began to show what is waited for; at once where it does so now. */
  until(name: string, ...shown: readonly Shown[]): Promise<number> {
    const sight = this.#sights.get(name)
    if (sight && shown.includes(sight.shown)) return Promise.resolve(sight.at)
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    if (this.#failure !== undefined) reject(this.#failure)
    const timer = setTimeout(
      () => reject(new Error(`The EndpointSlice ${name} was not ${shown.join(' or ')} within ${limitMs / 1_000} s.`)),
      limitMs,
    )
    this.#waiting.push({ name, shown, resolve, reject })
    return promise.finally(() => clearTimeout(timer))
  }

  /** What the slice of this name has shown since the watch began, one entry per change. */
  history(name: string): Shown[] {
    return this.#history.filter((one) => one.name === name).map(({ shown }) => shown)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort()
    await this.#ended
    this.#http.close()
  }

  async #follow(path: string): Promise<void> {
    try {
      for await (const line of this.#http.watch(path, this.#abort.signal)) this.#see(line)
      throw new Error('The watch on EndpointSlices ended.')
    } catch (error) {
      if (this.#abort.signal.aborted) return
      this.#failure = error
      for (const { reject } of this.#waiting) reject(error)
    }
  }

  #see(line: unknown): void {
    const at = performance.now()
    const { type, object } = event.parse(line)
    const ready = object.endpoints.some(({ conditions }) => conditions?.ready === true)
    const shown: Shown = type === 'DELETED' ? 'gone' : ready ? 'ready' : 'not ready'
    const { name } = object.metadata
    if (this.#sights.get(name)?.shown !== shown) {
      this.#sights.set(name, { shown, at })
      this.#history.push({ name, shown })
    }
    const isMet = (one: Waiting): boolean => one.name === name && one.shown.includes(shown)
    for (const { resolve } of this.#waiting.filter(isMet)) resolve(at)
    this.#waiting = this.#waiting.filter((one) => !isMet(one))
  }
}
