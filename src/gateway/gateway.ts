import { once } from 'node:events'
import { chmod, lstat, rename, rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  frameReader,
  fromGateway,
  gatewayProtocol,
  toGateway,
  type AllRoutes,
  type FromGateway,
  type GatewayRoute,
  type RelayIngressTold,
  type ToGateway,
} from '../contract/gateway.ts'
import { ClientDoor } from './client-door.ts'
import type { Door } from './door.ts'
import { Figures } from './figures.ts'
import { Listeners } from './listeners.ts'
import { PublishedDoor } from './published-door.ts'
import { RelayDoor } from './relay-door.ts'
import { serviceOf } from './routing.ts'

export interface GatewayOptions {
  /** Where agents reach it, in a folder of this user alone. */
  readonly socketPath: string
  readonly version: string
  readonly log: (text: string) => void
  /** It takes the place of one that answers there: it listens beside that socket, as `gw.PID`, until its agent moves it. */
  readonly isBeside?: boolean
  /** Called before anything is taken from anybody. */
  readonly onListening?: () => void
  /** For tests. */
  readonly timings?: Partial<GatewayTimings>
}

interface GatewayTimings {
  /** An agent that is silent for so long counts as gone. */
  readonly agentGoneMs: number
  /** How often engines are looked for while there is no agent. */
  readonly lookMs: number
  /** How long it stays without an agent and without an engine. */
  readonly lingerMs: number
}

const usualTimings: GatewayTimings = { agentGoneMs: 180_000, lookMs: 15_000, lingerMs: 600_000 }

/** How long requests may take that are in flight when it is told to end. */
const endLimitMs = 600_000

/** How long the agent is left waiting for that: it may have another gateway to start. */
const agentWaitsMs = 1_000

/** Requests come and go faster than a person can read. */
const openEveryMs = 500

/** One agent; the next one comes before the last one is known to be gone. */
const maxAgents = 4

/** Answers until it is told to end, or until nobody needs it. Resolves then; throws where its socket cannot be used. */
export async function runGateway(options: GatewayOptions): Promise<void> {
  const ended = Promise.withResolvers<string>()
  const agents = new AgentSocket({ ...options, onEnd: ended.resolve })
  if (!(await agents.listen())) {
    options.log('Another gateway answers on the socket.')
    return
  }
  const signals = ['SIGTERM', 'SIGINT'] as const
  for (const signal of signals) process.once(signal, ended.resolve)
  options.log(`ends: ${await ended.promise}`)
  for (const signal of signals) process.off(signal, ended.resolve)
  await agents.close()
}

/** The end of the socket that agents talk to, and what they have told. */
class AgentSocket {
  readonly #options: GatewayOptions & { readonly onEnd: (why: string) => void }
  readonly #timings: GatewayTimings
  readonly #figures: Figures
  readonly #door: ClientDoor
  readonly #published: PublishedDoor
  /** Undefined until an agent tells of it. */
  #relay: RelayDoor | undefined
  readonly #listeners: Listeners
  readonly #agents = new Set<Socket>()
  /** Those of them that somebody looks at requests in flight by. */
  readonly #watching = new Set<Socket>()
  #openTimer: NodeJS.Timeout | undefined
  readonly #server = createServer()
  #told: AllRoutes | undefined
  #routesTold: ReadonlyMap<string, GatewayRoute> = new Map()
  /** The same without engines that were seen to have ended while there was no agent. */
  #routes: ReadonlyMap<string, GatewayRoute> = new Map()
  /** Another one has its place: it takes no connection, and its agent still tells it what changes. */
  #isRetired = false
  #heardAt = performance.now()
  /** Since when there is neither an agent nor an engine. */
  #uselessSince: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: GatewayOptions & { readonly onEnd: (why: string) => void }) {
    this.#options = options
    this.#timings = { ...usualTimings, ...options.timings }
    const figures = new Figures(() => this.#openChanged())
    this.#figures = figures
    this.#door = new ClientDoor(options.log, figures)
    this.#published = new PublishedDoor(options.log, figures)
    this.#listeners = new Listeners((state) => {
      for (const agent of this.#agents) send(agent, { type: 'door', ...state })
    })
  }

  /** False where another gateway answers there. Throws where the folder is not this user's alone. */
  async listen(): Promise<boolean> {
    const { socketPath, isBeside = false } = this.#options
    const folder = await lstat(path.dirname(socketPath))
    if (!folder.isDirectory() || folder.uid !== process.geteuid?.() || (folder.mode & 0o077) !== 0)
      throw new Error(`${path.dirname(socketPath)} is not a folder of this user alone`)
    if (!isBeside && (await answers({ path: socketPath }))) return false
    // By its own name it would be removed when this process closes it, also where another one listens there then.
    const unnamed = path.join(path.dirname(socketPath), `gw.${process.pid}`)
    await rm(unnamed, { force: true })
    this.#server.maxConnections = maxAgents
    this.#server.on('connection', (socket) => this.#connected(socket))
    await listened(this.#server, unnamed)
    await chmod(unnamed, 0o600)
    if (!isBeside) await rename(unnamed, socketPath)
    this.#timer = setInterval(() => void this.#look(), this.#timings.lookMs)
    this.#options.onListening?.()
    return true
  }

  /** Nothing new is taken; resolves when what is in flight has ended. */
  async close(): Promise<void> {
    this.#stopListening()
    const closing = Promise.all(this.#doors.map((door) => door.close()))
    await within(this.#isRetired ? endLimitMs : agentWaitsMs, closing)
    for (const agent of this.#agents) {
      this.#tellCounts(agent)
      agent.end()
    }
    await within(endLimitMs, closing)
    clearTimeout(this.#openTimer)
  }

  #stopListening(): void {
    clearInterval(this.#timer)
    this.#server.close()
    this.#listeners.set([])
  }

  get #doors(): Door[] {
    return [this.#door, this.#published, ...(this.#relay ? [this.#relay] : [])]
  }

  #connected(socket: Socket): void {
    this.#agents.add(socket)
    // What an agent knows that was only silent counts again; one that comes now has to say which tokens count.
    if (!this.#isAgentThere) this.#relay?.forgetTokens()
    this.#heardAt = performance.now()
    const read = frameReader(toGateway, (frame) => this.#receive(socket, frame))
    socket.setEncoding('utf8').on('data', (text: string) => {
      if (read(text)) return
      this.#options.log('Closed the connection of an agent that sent no frame of this protocol.')
      socket.destroy()
    })
    // An agent that vanished is no event; 'close' follows.
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      this.#agents.delete(socket)
      this.#watching.delete(socket)
    })
    const { version } = this.#options
    const { keys } = this.#published
    send(socket, {
      type: 'hello',
      protocol: gatewayProtocol,
      version,
      pid: process.pid,
      ...(keys.length > 0 && { keys }),
    })
    for (const state of this.#listeners.states) send(socket, { type: 'door', ...state })
  }

  #receive(socket: Socket, frame: ToGateway): void {
    const wasAway = !this.#isAgentThere
    this.#heardAt = performance.now()
    // One that was only silent, as while the machine slept, may have nothing new to tell.
    if (wasAway) this.#know(this.#routesTold)
    switch (frame.type) {
      case 'routes':
        this.#hear(frame)
        return
      case 'changes': {
        const gone = new Set(frame.gone)
        const routes = [...this.#routesTold.values(), ...this.#understood(frame.routes)]
        this.#routesTold = byService(routes.filter((one) => !gone.has(serviceOf(one))))
        this.#know(this.#routesTold, frame.ingress)
        return
      }
      case 'watch':
        if (frame.isOn) this.#watching.add(socket)
        else this.#watching.delete(socket)
        if (frame.isOn) this.#tellOpen(socket)
        return
      case 'count':
        this.#tellCounts(socket)
        return
      case 'ping':
        send(socket, { type: 'pong' })
        return
      case 'retire':
        this.#retire(socket)
        return
      case 'end':
        this.#options.onEnd('an agent said so')
    }
  }

  #hear(told: AllRoutes): void {
    this.#told = told
    this.#routesTold = byService(this.#understood(told.routes))
    this.#know(this.#routesTold, told.ingress)
  }

  /** With what an agent that has only just started leaves as it was. */
  #understood(routes: readonly GatewayRoute[]): GatewayRoute[] {
    return routes.map((route) => {
      const { relay, ...rest } = route
      if (relay?.is !== 'unchanged') return route
      const before = this.#routes.get(serviceOf(route))?.relay
      return before ? { ...rest, relay: { ...relay, is: before.is } } : rest
    })
  }

  #retire(agent: Socket): void {
    this.#isRetired = true
    this.#stopListening()
    const told = this.#told && {
      ...{ type: 'routes' as const, port: this.#told.port, hosts: this.#told.hosts, ingress: this.#relay?.estate },
      routes: this.#published.completed([...this.#routes.values()]),
    }
    send(agent, { type: 'retired', ...(told && { told }) })
    this.#options.onEnd('another gateway takes its place')
  }

  #tellCounts(agent: Socket): void {
    send(agent, { type: 'counts', ...this.#door.counts, ...(this.#relay && { ingress: this.#relay.codes }) })
  }

  #openChanged(): void {
    if (this.#watching.size === 0) return
    this.#openTimer ??= setTimeout(() => {
      this.#openTimer = undefined
      for (const agent of this.#watching) this.#tellOpen(agent)
    }, openEveryMs).unref()
  }

  #tellOpen(agent: Socket): void {
    send(agent, { type: 'open', requests: this.#figures.open })
  }

  /** `ingress`: where there is something new of it. */
  #know(routes: ReadonlyMap<string, GatewayRoute>, ingress?: RelayIngressTold): void {
    this.#routes = routes
    const all = [...routes.values()]
    this.#door.routes = all
    this.#door.hosts = this.#told?.hosts ?? []
    for (const route of all) {
      if (route.cut) for (const door of this.#doors) door.cut(serviceOf(route), route.cut)
    }
    // Without an agent the cluster calls these services stale and sends nobody here.
    const isAlone = !this.#isAgentThere
    const published = this.#published.told(all, { isOpen: !isAlone })
    if (ingress) this.#relay ??= this.#relayDoor()
    const relayed = this.#relay?.told(all, ingress) ?? []
    if (this.#isRetired) return
    const client = {
      host: '127.0.0.1',
      port: this.#told?.port ?? 0,
      onConnection: (one: Socket) => this.#door.connect(one),
    }
    this.#listeners.set([...(client.port === 0 ? [] : [client]), ...published, ...relayed])
  }

  /** Made with the first relay: what nobody needs takes neither memory nor time. */
  #relayDoor(): RelayDoor {
    return new RelayDoor({
      ...{ log: this.#options.log, figures: this.#figures },
      keyOf: (service) => this.#published.askedOf(service),
      isAgentThere: () => this.#isAgentThere,
    })
  }

  /** Whether an agent was heard lately. */
  get #isAgentThere(): boolean {
    return performance.now() - this.#heardAt < this.#timings.agentGoneMs
  }

  /** While there is no agent: an engine that has ended is offered no more, and without any of them nobody needs the gateway. */
  async #look(): Promise<void> {
    const { lingerMs } = this.#timings
    const isThere = this.#agents.size > 0 && this.#isAgentThere
    const before = this.#routes
    const routes = isThere ? this.#routesTold : byService(await withEngines([...before.values()]))
    // An agent that has come meanwhile knows better.
    if (this.#routes === before) this.#know(routes)
    if (isThere || this.#routes.values().some(({ port }) => port !== undefined)) {
      this.#uselessSince = undefined
      return
    }
    this.#uselessSince ??= performance.now()
    if (performance.now() - this.#uselessSince >= lingerMs)
      this.#options.onEnd('there is neither an agent nor an engine')
  }
}

async function within(limitMs: number, work: Promise<unknown>): Promise<void> {
  const limit = new AbortController()
  await Promise.race([work, delay(limitMs, undefined, { signal: limit.signal }).catch(() => undefined)])
  limit.abort()
}

const send = (socket: Socket, frame: FromGateway): void => {
  if (socket.writable) socket.write(`${JSON.stringify(fromGateway.parse(frame))}\n`)
}

/** By namespace/name; the last one of a service counts. */
const byService = (routes: readonly GatewayRoute[]): Map<string, GatewayRoute> =>
  new Map(routes.map((route) => [serviceOf(route), route]))

const withEngines = (routes: readonly GatewayRoute[]): Promise<GatewayRoute[]> =>
  Promise.all(
    routes.map(async ({ port, ...route }) => {
      if (port === undefined) return { ...route, message: 'no agent runs that would start it.' }
      if (await answers({ host: route.host ?? '127.0.0.1', port })) return { ...route, port }
      return { ...route, message: 'its engine has ended, and no agent runs that would start another.' }
    }),
  )

/** Whether somebody takes a connection there. */
function answers(where: { path: string } | { host: string; port: number }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(where)
    const tell = (isThere: boolean) => {
      socket.destroy()
      resolve(isThere)
    }
    socket.once('connect', () => tell(true))
    socket.once('error', () => tell(false))
  })
}

async function listened(server: Server, socketPath: string): Promise<void> {
  // From its first moment on the socket is this user's alone.
  const before = process.umask(0o177)
  try {
    await once(server.listen(socketPath), 'listening')
  } finally {
    process.umask(before)
  }
}

/** What strangers' bytes pass through never runs as root. Throws where that cannot be left. */
export function dropRoot(): void {
  if (process.geteuid?.() !== 0) return
  process.setgroups?.([])
  process.setgid?.(process.platform === 'darwin' ? 'nobody' : 'nogroup')
  process.setuid?.('nobody')
}
