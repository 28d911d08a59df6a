import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { PortHolder } from '../platform/platform.ts'
import { holdersText } from '../util/port-holders.ts'
import { ownFailure } from '../util/error-code.ts'
import { messageOf } from '../util/message-of.ts'
import type { PortPolicy } from './launch.ts'
import { everyAddress, isEveryAddress, loopback } from './listening.ts'

/** One sentence why there is no port, for the person who set the policy. */
export class NoPortError extends Error {
  override readonly name = 'NoPortError'
}

export interface PortReservation extends Disposable {
  readonly port: number
}

/** The kernel hands out ports at random: to meet one that is reserved or to be avoided this often means something is wrong. */
const ephemeralTries = 50
/** Port 0 lets the kernel choose. */
const anyPort = Array.from({ length: ephemeralTries }, () => 0)

/** The kernel may need a moment to close what a dead process had open. */
const closingLimitMs = 2_000
const closingLookMs = 50

/** Where pods are sent to this machine, seen from one service. */
export interface PublishedPorts {
  /** For the service itself, whether or not a server is there. */
  readonly own: number | undefined
  /** For other services: a server there would answer requests that are not for its model. */
  readonly besides: ReadonlySet<number>
}

export const nothingPublished: PublishedPorts = { own: undefined, besides: new Set() }

export interface PortsOptions {
  readonly holders?: (port: number) => Promise<readonly PortHolder[]>
  readonly published?: (key: string) => PublishedPorts
}

interface ReserveOptions {
  /** The service it is for. */
  readonly key?: string
  /** Ports that turned out to be taken after all. */
  readonly avoid?: ReadonlySet<number>
  readonly setting?: string | undefined
  /** Where the server will listen; absent = everywhere. */
  readonly host?: string
  /** Further ports that it takes, each as what is added to its port. */
  readonly further?: readonly number[]
}

interface TakeOptions {
  readonly avoid?: ReadonlySet<number>
  /** Absent = everywhere. */
  readonly host?: string | undefined
  readonly further: readonly number[]
}

/** Hands out ports no other server of ours has and nothing else listens on, until they are given back. */
export class Ports {
  readonly #reserved = new Set<number>()
  /** Ports given back, the longest unused first: the cluster takes a moment to learn that a port is free. */
  readonly #givenBack = new Set<number>()
  readonly #holders: (port: number) => Promise<readonly PortHolder[]>
  readonly #published: (key: string) => PublishedPorts

  constructor({ holders = () => Promise.resolve([]), published = () => nothingPublished }: PortsOptions = {}) {
    this.#holders = holders
    this.#published = published
  }

  /** Where pods are still sent for the service, its next server listens if it can. Throws NoPortError. */
  async reserve(
    policy: PortPolicy,
    { key = '', avoid: taken = new Set(), setting, host, further = [] }: ReserveOptions = {},
  ): Promise<PortReservation> {
    const { own, besides } = this.#published(key)
    const avoid = new Set([...taken, ...besides])
    switch (policy.kind) {
      case 'fixed':
        if (besides.has(policy.port)) {
          throw new NoPortError(
            `Port ${policy.port}${by(setting)} is still published for another service of this machine: it can be used once that service is withdrawn.`,
          )
        }
        return this.#reserveFixed(policy.port, setting, { host, further })
      case 'range':
        for (const port of this.#inOrder(policy, own)) {
          const where = port === own ? host : undefined
          const reservation = await this.#take(port, { avoid, host: where, further })
          if (reservation !== undefined) return reservation
        }
        throw new NoPortError(
          `No port from ${policy.from} to ${policy.to} is free: widen the range${by(setting)} or stop the programs that use them.`,
        )
      case 'ephemeral':
        // Anybody who may write slices can write a port into one: only one that a server of ours had is taken again.
        if (own !== undefined && this.#givenBack.has(own)) {
          const reservation = await this.#take(own, { avoid, host, further })
          if (reservation !== undefined) return reservation
        }
        for (const wanted of [...(policy.first === undefined ? [] : [policy.first]), ...anyPort]) {
          const reservation = await this.#take(wanted, { avoid, further })
          if (reservation !== undefined) return reservation
        }
        throw new NoPortError('The system has no free port left: stop programs that use ports.')
    }
  }

  /** For a server that listens there already. */
  keep(port: number, further: readonly number[]): PortReservation {
    const ports = portsOf(port, further)
    for (const one of ports) this.#reserved.add(one)
    return this.#reservation(port, ports)
  }

  /** Can anything listen there now? */
  async isFree(port: number, host?: string): Promise<boolean> {
    return (await bind(port, { host })) !== undefined
  }

  /**
   * The processes that keep the port of a server that ended; undefined where it is free. A process that left the server's group may do so:
   * it is not ours to signal, but people are told.
   */
  async keepersOf(port: number, host?: string): Promise<readonly PortHolder[] | undefined> {
    const deadline = performance.now() + closingLimitMs
    for (;;) {
      if (await this.isFree(port, host)) return undefined
      const holders = await this.#holders(port)
      if (holders.some(({ pid }) => pid !== undefined)) return holders
      if (performance.now() >= deadline) return holders.length === 0 ? undefined : holders
      await delay(closingLookMs)
    }
  }

  async #reserveFixed(port: number, setting: string | undefined, options: TakeOptions): Promise<PortReservation> {
    if (this.#reserved.has(port)) {
      throw new NoPortError(
        `Port ${port} already belongs to another service of this agent: a fixed port${by(setting)} is for one service, so use a range of ports.`,
      )
    }
    const reservation = await this.#take(port, options)
    if (reservation !== undefined) return reservation
    throw new NoPortError(portTakenMessage(port, await this.#holders(port), setting))
  }

  /** Reserved before the test, so that two starts at the same time never test the same port. `wanted`: 0 = any that is free. */
  async #take(wanted: number, { avoid = new Set(), host, further }: TakeOptions): Promise<PortReservation | undefined> {
    let ports: readonly number[] = []
    const reserve = (port: number): boolean => {
      const all = portsOf(port, further)
      if (all.some((one) => one > lastPort || this.#reserved.has(one) || avoid.has(one))) return false
      for (const one of all) this.#reserved.add(one)
      ports = all
      return true
    }
    let reservation: PortReservation | undefined
    try {
      const isOurs = wanted === 0 || reserve(wanted)
      const port = isOurs ? await bind(wanted, { host, ...(wanted === 0 && { accept: reserve }) }) : undefined
      if (port !== undefined && (await this.#areFree(ports.slice(1)))) reservation = this.#reservation(port, ports)
      return reservation
    } finally {
      if (reservation === undefined) for (const one of ports) this.#reserved.delete(one)
    }
  }

  async #areFree(ports: readonly number[]): Promise<boolean> {
    for (const port of ports) if (!(await this.isFree(port))) return false
    return true
  }

  /** `first`, if it is one of them, then from below those that were never used, then the others, the longest unused first. */
  #inOrder({ from, to }: Extract<PortPolicy, { kind: 'range' }>, first: number | undefined): number[] {
    const all = Array.from({ length: to - from + 1 }, (_, index) => from + index)
    const used = [...this.#givenBack].filter((port) => port >= from && port <= to)
    const inOrder = [...all.filter((port) => !this.#givenBack.has(port)), ...used]
    return inOrder.toSorted((one, other) => Number(other === first) - Number(one === first))
  }

  #reservation(port: number, all: readonly number[]): PortReservation {
    return {
      port,
      [Symbol.dispose]: () => {
        for (const one of all) this.#reserved.delete(one)
        this.#givenBack.delete(port)
        this.#givenBack.add(port)
      },
    }
  }
}

const lastPort = 65_535

/** All ports of a server, its own first. */
export const portsOf = (port: number, further: readonly number[]): readonly number[] => [
  port,
  ...further.map((distance) => port + distance),
]

/** Names the holder of the port as far as the system tells. */
export function portTakenMessage(port: number, holders: readonly PortHolder[], setting: string | undefined): string {
  const whom = holdersText(holders, 'another process')
  return `Port ${port}${by(setting)} is taken by ${whom}: stop it, or choose another port.`
}

const by = (setting: string | undefined) => (setting === undefined ? '' : ` (${setting})`)

interface BindOptions {
  /** Absent = every address. */
  readonly host?: string | undefined
  /** Asked while the port is held. */
  readonly accept?: (port: number) => boolean
}

/**
 * Listens for an instant where the server will: at its own address, or on every address and then on loopback. macOS and the BSDs, with the
 * SO_REUSEADDR that Node.js sets, let somebody listen on all addresses of a port although another has one of them, who then gets what is
 * meant for us. A port that is new to a service is looked at on every address, so that the gateway can listen there too.
 */
async function bind(wanted: number, { host = everyAddress, accept }: BindOptions = {}): Promise<number | undefined> {
  if (!isEveryAddress(host)) return listenOnce(wanted, host, accept)
  const port = await listenOnce(wanted, host)
  if (port === undefined || (await listenOnce(port, loopback, accept)) === undefined) return undefined
  return port
}

async function listenOnce(
  wanted: number,
  host: string,
  accept: (port: number) => boolean = () => true,
): Promise<number | undefined> {
  const server = createServer()
  try {
    const listening = once(server, 'listening')
    server.listen({ port: wanted, host })
    await listening
  } catch (error) {
    if (isTaken(error)) return undefined
    const what = wanted === 0 ? 'No port can' : `Port ${wanted} cannot`
    throw new NoPortError(`${what} be used: ${ownFailure(error) ?? messageOf(error)}.`, { cause: error })
  }
  const address = server.address()
  const port = address !== null && typeof address === 'object' ? address.port : undefined
  const accepted = port !== undefined && accept(port)
  const closed = once(server, 'close')
  server.close()
  await closed
  return accepted ? port : undefined
}

const isTaken = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
