import { ingressHost, ingressHostForIpv6, type FromGateway } from '../../contract/gateway.ts'

/** Whether the gateway listens at an address. */
export type DoorState =
  | { readonly kind: 'open' }
  /** The gateway was asked to listen, and has not answered yet. */
  | { readonly kind: 'unknown'; readonly message: string }
  /** `message` is a sentence that says why. */
  | { readonly kind: 'closed'; readonly message: string }

/** A gateway that ended is restarted well within this time. */
const backWithinMs = 2_000
/** The agent finds or starts its first gateway within this time, or knows why it cannot. */
const foundWithinMs = 15_000

/** What is known of the addresses at which the gateway listens, besides the client proxy's. */
export class Doors implements Disposable {
  readonly #onChange: () => void
  readonly #states = new Map<string, string | undefined>()
  #is: 'awaited' | 'there' | 'away' = 'awaited'
  #why: string | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  at(host: string, port: number): DoorState {
    const where = `${host}:${port}`
    if (this.#is === 'away') {
      return {
        kind: 'closed',
        message: `Nothing is listening at ${where}: ${this.#why ?? 'the gateway is not running'}.`,
      }
    }
    const isTold = this.#is === 'there' && this.#states.has(where)
    if (!isTold) return { kind: 'unknown', message: `The agent is asking the gateway to listen at ${where}.` }
    const problem = this.#states.get(where)
    if (problem === undefined) return { kind: 'open' }
    const message = `The gateway cannot listen at ${where}: ${whyNot(host, problem)}. The agent tries again every few seconds.`
    return { kind: 'closed', message }
  }

  /** Call it when a gateway is about to be found or started. */
  await(): void {
    this.#awayAfter(foundWithinMs)
  }

  /** Call it once a gateway is connected; it reports the state of each address. */
  there(): void {
    clearTimeout(this.#timer)
    this.#is = 'there'
    this.#why = undefined
    this.#onChange()
  }

  heard({ host, port, problem }: Omit<Extract<FromGateway, { type: 'door' }>, 'type'>): void {
    this.#states.set(`${host}:${port}`, problem)
    this.#onChange()
  }

  /**
   * Forgets the state of every other address. A gateway that was taken over says once where it listens, which may be before this machine's address
   * is known: until then a port counts at every address.
   */
  onlyAt(wanted: readonly { readonly address?: string | undefined; readonly port: number }[]): void {
    const isWanted = (where: string): boolean =>
      wanted.some(({ address, port }) =>
        address === undefined ? where.endsWith(`:${port}`) : where === `${address}:${port}`,
      )
    for (const where of this.#states.keys()) if (!isWanted(where)) this.#states.delete(where)
  }

  /** Call it when the gateway has ended and another one is being started. */
  lost(): void {
    if (this.#is !== 'there') return
    this.#states.clear()
    this.#is = 'awaited'
    this.#awayAfter(backWithinMs)
    this.#onChange()
  }

  /** Call it when no gateway can be started. `why` is the end of the sentence "Nothing is listening at ADDRESS: …". */
  failed(why: string): void {
    this.#why = why
    this.#away()
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }

  #awayAfter(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#away(), ms).unref()
  }

  #away(): void {
    clearTimeout(this.#timer)
    this.#is = 'away'
    this.#onChange()
  }
}

function whyNot(host: string, problem: string): string {
  if (problem === 'EADDRNOTAVAIL') return 'this machine does not have that address'
  if (problem !== 'EADDRINUSE') return problem
  const isIngress = host === ingressHost || host === ingressHostForIpv6
  const other = isIngress ? 'another port with --ingress-port' : 'other ports with --port-range'
  return `another program listens there, so stop it or choose ${other}`
}
