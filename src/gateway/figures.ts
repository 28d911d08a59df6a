import {
  durationBounds,
  maxOpen,
  type CodeClass,
  type DoorName,
  type GatewayRoute,
  type HistogramCounts,
  type OpenRequests,
  type RequestReason,
  type ServiceCounts,
} from '../contract/gateway.ts'
import { serviceOf } from './routing.ts'

/** At most so many services are counted; the agent exports series for half of them. */
const maxServices = 200

/** Who asked, when and where. */
interface Caller {
  readonly at: number
  readonly address: string
  readonly door: DoorName
}

/** What was asked of each service since this process began. Nothing of a request or an answer is kept but times and counts. */
export class Figures {
  readonly #services = new Map<string, ServiceFigures>()
  readonly #open = new Map<string, OpenRequests>()
  readonly #onOpen: () => void

  /** `onOpen`: called when the requests in flight have changed. */
  constructor(onOpen: () => void = () => undefined) {
    this.#onOpen = onOpen
  }

  begin(route: GatewayRoute, { at, ...client }: Caller): Exchange {
    const key = serviceOf(route)
    const known = this.#services.get(key) ?? new ServiceFigures(route)
    if (this.#services.size < maxServices) this.#services.set(key, known)
    this.#count(route, client, 1)
    return new Exchange(known, at, () => this.#count(route, client, -1))
  }

  /** Requests in flight by service and client, in the order in which they began. */
  get open(): OpenRequests[] {
    return [...this.#open.values()].slice(0, maxOpen)
  }

  #count({ namespace, name }: GatewayRoute, { address, door }: Omit<Caller, 'at'>, more: number): void {
    const key = `${namespace}/${name} ${door} ${address}`
    const requests = (this.#open.get(key)?.requests ?? 0) + more
    if (requests > 0) this.#open.set(key, { namespace, name, door, address, requests })
    else this.#open.delete(key)
    this.#onOpen()
  }

  counts(): ServiceCounts[] {
    return [...this.#services.values()].map((service) => service.counts())
  }
}

class ServiceFigures {
  readonly #service: Pick<GatewayRoute, 'namespace' | 'name'>
  readonly #requests = new Map<string, { readonly code: CodeClass; readonly reason: RequestReason; count: number }>()
  readonly firstByte = new Histogram(durationBounds)
  readonly inTotal = new Histogram(durationBounds)
  waiting = 0
  streaming = 0

  constructor({ namespace, name }: GatewayRoute) {
    this.#service = { namespace, name }
  }

  ended(code: CodeClass, reason: RequestReason): void {
    const known = this.#requests.get(`${code} ${reason}`) ?? { code, reason, count: 0 }
    known.count += 1
    this.#requests.set(`${code} ${reason}`, known)
  }

  counts(): ServiceCounts {
    return {
      ...this.#service,
      waiting: this.waiting,
      streaming: this.streaming,
      requests: [...this.#requests.values()],
      firstByte: this.firstByte.counts(),
      inTotal: this.inTotal.counts(),
    }
  }
}

/** One request, from when its service is known until it has been answered. */
export class Exchange {
  readonly #figures: ServiceFigures
  readonly #at: number
  readonly #onEnd: () => void
  #isStreaming = false

  constructor(figures: ServiceFigures, at: number, onEnd: () => void) {
    this.#figures = figures
    this.#at = at
    this.#onEnd = onEnd
    figures.waiting += 1
  }

  /** The first bytes of the answer, or more of them, have come. */
  streams(): void {
    if (this.#isStreaming) return
    const figures = this.#figures
    this.#isStreaming = true
    figures.waiting -= 1
    figures.streaming += 1
    figures.firstByte.observe(this.#seconds)
  }

  ended(code: CodeClass, reason: RequestReason): void {
    const figures = this.#figures
    if (this.#isStreaming) figures.streaming -= 1
    else figures.waiting -= 1
    figures.ended(code, reason)
    if (reason === 'answered') figures.inTotal.observe(this.#seconds)
    this.#onEnd()
  }

  get #seconds(): number {
    return (performance.now() - this.#at) / 1_000
  }
}

class Histogram {
  readonly #bounds: readonly number[]
  /** The last one has no bound. */
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = [...bounds, Infinity].map(() => 0)
  }

  observe(value: number): void {
    const index = this.#bounds.findIndex((bound) => value <= bound)
    const bucket = index === -1 ? this.#bounds.length : index
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
  }

  counts(): HistogramCounts {
    return { counts: [...this.#counts], sum: this.#sum }
  }
}
