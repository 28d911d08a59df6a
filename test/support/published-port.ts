import { z } from 'zod'
import type { ClusterConnection } from './control-plane/admin-client.ts'
import { KubeHttp } from './controller-stand-in/kube-http.ts'
import { eventually } from './eventually.ts'
import { patienceMs } from './running-agent.ts'

const event = z.object({
  type: z.string(),
  object: z.object({
    metadata: z.object({ name: z.string() }),
    endpoints: z.array(z.object({ conditions: z.object({ ready: z.boolean().optional() }).optional() })).nullish(),
    ports: z.array(z.object({ port: z.number() })).nullish(),
  }),
})

/** Where a node of the cluster would send requests for one service, as its watch on the EndpointSlice last said. */
export class PublishedPort implements AsyncDisposable {
  readonly #http: KubeHttp
  readonly #name: string
  readonly #abort = new AbortController()
  readonly #ended: Promise<void>
  /** Of every change, oldest first; undefined = not ready. */
  readonly history: (number | undefined)[] = []

  constructor(connection: ClusterConnection, namespace: string, name: string) {
    this.#http = new KubeHttp(connection)
    this.#name = name
    this.#ended = this.#follow(`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?watch=true`)
  }

  get now(): number | undefined {
    return this.history.at(-1)
  }

  async until(port: number): Promise<void> {
    await eventually(() => this.now === port, {
      timeoutMs: patienceMs,
      what: `the address with port ${port} in the slice`,
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort()
    await this.#ended
    this.#http.close()
  }

  async #follow(path: string): Promise<void> {
    try {
      for await (const line of this.#http.watch(path, this.#abort.signal)) this.#see(line)
    } catch (error) {
      if (!this.#abort.signal.aborted) throw error
    }
  }

  #see(line: unknown): void {
    const { type, object } = event.parse(line)
    if (object.metadata.name !== this.#name) return
    const isReady = type !== 'DELETED' && object.endpoints?.some(({ conditions }) => conditions?.ready === true)
    const port = isReady === true ? object.ports?.[0]?.port : undefined
    if (this.history.length === 0 || port !== this.now) this.history.push(port)
  }
}
