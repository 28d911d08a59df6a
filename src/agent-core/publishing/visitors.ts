import type { EndpointSlice } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { publishedBy } from './objects.ts'

/** One command of the system on a Mac, and two small files on Linux; a connection that was closed stays to be seen for about as long. */
const lookEveryMs = 30_000

export interface Visitor {
  /** The address of another host. */
  readonly address: string
  /** When it was seen last, in milliseconds. */
  readonly at: number
}

export interface VisitorsOptions {
  readonly platform: Pick<Platform, 'connectedPeers' | 'interfaces'>
  readonly nodeId: string
  /** As the cluster was last heard to have them. */
  readonly slices: () => Iterable<EndpointSlice>
  readonly log: Logger
  readonly onChange: () => void
  readonly now?: () => number
}

/** Who has come from other hosts to what this machine publishes, as far as connections that are open at a look or were a moment before tell. */
export class Visitors implements Disposable {
  readonly #options: VisitorsOptions
  readonly #timer: NodeJS.Timeout
  /** By service; with another port it begins again. */
  readonly #last = new Map<string, Visitor & { readonly port: number }>()
  #cannotAsk = false

  constructor(options: VisitorsOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.look(), lookEveryMs)
    this.#timer.unref()
  }

  /** Undefined where nobody was seen since it was published as it is. */
  of(key: string): Visitor | undefined {
    const { address, at } = this.#last.get(key) ?? {}
    return address === undefined || at === undefined ? undefined : { address, at }
  }

  /** Never rejects: where the system does not tell, what was seen before stays. */
  async look(): Promise<void> {
    const { platform, slices, nodeId, log, onChange, now = Date.now } = this.#options
    const published = new Map(publishedBy(nodeId, slices()).map(({ key, published: { port } }) => [key, port]))
    for (const [key, { port }] of this.#last) if (published.get(key) !== port) this.#last.delete(key)
    if (published.size === 0) return
    try {
      const peers = await platform.connectedPeers(new Set(published.values()))
      const own = new Set(platform.interfaces().map(({ address }) => address))
      let isNews = false
      for (const [key, port] of published) {
        const address = peers.get(port)?.find((one) => !own.has(one) && !one.startsWith('127.'))
        if (address === undefined) continue
        this.#last.set(key, { address, at: now(), port })
        isNews = true
      }
      this.#cannotAsk = false
      if (isNews) onChange()
    } catch (error) {
      if (!this.#cannotAsk) log.warn('connections from the cluster are not seen', { error })
      this.#cannotAsk = true
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}
