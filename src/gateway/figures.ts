import type { IncomingHttpHeaders } from 'node:http'
import {
  firstByteBounds,
  maxOpen,
  perTokenBounds,
  tokenBounds,
  type CodeClass,
  type DoorName,
  type GatewayRoute,
  type GenAiOperation,
  type HistogramCounts,
  type OpenRequests,
  type RequestReason,
  type ServiceCounts,
} from '../contract/gateway.ts'
import { serviceOf } from './routing.ts'
import { AnswerEnds, operationOf } from './usage.ts'

/** At most so many services are counted; the agent exports series for half of them. */
const maxServices = 200

/** Who asked, when and where. */
interface Caller {
  readonly at: number
  readonly address: string
  readonly door: DoorName
}

/** What was asked of each service since this process began. Nothing of a request or an answer is kept but sizes, times and counts. */
export class Figures {
  readonly #services = new Map<string, ServiceFigures>()
  readonly #open = new Map<string, OpenRequests>()
  readonly #onOpen: () => void

  /** `onOpen`: called when the requests in flight have changed. */
  constructor(onOpen: () => void = () => undefined) {
    this.#onOpen = onOpen
  }

  begin(route: GatewayRoute, path: string, { at, ...client }: Caller): Exchange {
    const key = serviceOf(route)
    const known = this.#services.get(key) ?? new ServiceFigures(route)
    if (this.#services.size < maxServices) this.#services.set(key, known)
    this.#count(route, client, 1)
    return new Exchange(known, operationOf(path), { at, onEnd: () => this.#count(route, client, -1) })
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
  readonly firstByte = new Histogram(firstByteBounds)
  readonly perToken = new Histogram(perTokenBounds)
  readonly #tokens = new Map<
    string,
    { readonly operation: GenAiOperation; readonly type: 'input' | 'output'; readonly tokens: Histogram }
  >()
  received = 0
  sent = 0
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

  used(operation: GenAiOperation, type: 'input' | 'output', tokens: number | undefined): void {
    if (tokens === undefined) return
    const known = this.#tokens.get(`${operation} ${type}`) ?? { operation, type, tokens: new Histogram(tokenBounds) }
    known.tokens.observe(tokens)
    this.#tokens.set(`${operation} ${type}`, known)
  }

  counts(): ServiceCounts {
    const { received, sent, waiting, streaming, firstByte, perToken } = this
    return {
      ...this.#service,
      ...{ received, sent, waiting, streaming },
      requests: [...this.#requests.values()],
      firstByte: firstByte.counts(),
      perToken: perToken.counts(),
      tokens: [...this.#tokens.values()].map((one) => ({ ...one, tokens: one.tokens.counts() })),
    }
  }
}

/** One request, from when its service is known until it has been answered. */
export class Exchange {
  readonly #figures: ServiceFigures
  readonly #operation: GenAiOperation | undefined
  readonly #at: number
  readonly #onEnd: () => void
  #ends: AnswerEnds | undefined
  #isStreaming = false

  constructor(
    figures: ServiceFigures,
    operation: GenAiOperation | undefined,
    { at, onEnd }: { readonly at: number; readonly onEnd: () => void },
  ) {
    this.#onEnd = onEnd
    this.#figures = figures
    this.#operation = operation
    this.#at = at
    figures.waiting += 1
  }

  received(bytes: number): void {
    this.#figures.received += bytes
  }

  answered(status: number, { 'content-encoding': encoding }: IncomingHttpHeaders): void {
    if (this.#operation && status === 200 && encoding === undefined) this.#ends = new AnswerEnds()
  }

  sent(piece: Buffer): void {
    const figures = this.#figures
    if (!this.#isStreaming) {
      this.#isStreaming = true
      figures.waiting -= 1
      figures.streaming += 1
      figures.firstByte.observe((performance.now() - this.#at) / 1_000)
    }
    figures.sent += piece.length
    this.#ends?.push(piece)
  }

  ended(code: CodeClass, reason: RequestReason): void {
    const figures = this.#figures
    if (this.#isStreaming) figures.streaming -= 1
    else figures.waiting -= 1
    figures.ended(code, reason)
    this.#onEnd()
    // A client may leave with the last event of a stream, before its end: the engine has said how many tokens it took.
    const usage = reason === 'answered' || reason === 'client_left' ? this.#ends?.usage() : undefined
    if (!usage || !this.#operation) return
    figures.used(this.#operation, 'input', usage.input)
    figures.used(this.#operation, 'output', usage.output)
    if (usage.secondsPerOutputToken !== undefined) figures.perToken.observe(usage.secondsPerOutputToken)
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
