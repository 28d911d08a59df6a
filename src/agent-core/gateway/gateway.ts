import { spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import {
  frameReader,
  fromGateway,
  gatewayProtocol,
  heartbeatMs,
  type FromGateway,
  type GatewayCounts,
  type GatewayRoute,
  type OpenRequests,
  type ToGateway,
} from '../../contract/gateway.ts'
import { Doors, type DoorState } from './doors.ts'
import { changesSince } from './routes.ts'
import type { Logger } from '../observability/logger.ts'
import type { PortHolder } from '../platform/platform.ts'
import { launchEnvironment } from '../servers/launch.ts'
import { ensureSocketFolder, requireOwnSocket } from '../state/socket-path.ts'
import { backOffCeilingMs } from '../util/back-off.ts'
import { readIfThere } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import { refKey } from '../util/object-key.ts'
import { pause } from '../util/pause.ts'
import { holdersText } from '../util/port-holders.ts'
import { within } from '../util/within.ts'

/** The program and its arguments, to which those of the gateway are added. */
export type GatewayCommand = () => Promise<readonly [program: string, ...args: string[]]>

/**
 * V8 compiles without threads of its own, each of which keeps tens of MiB, and keeps little garbage: half the memory at the same speed. The
 * last two undo what keeps an agent small: a request would wait twice as long for code that is never optimised.
 */
export const nodeOptionsOfGateway = [
  ...['--max-semi-space-size=1', '--optimize-for-size', '--liftoff-only', '--single-threaded'],
  ...['--opt', '--invocation-count-for-maglev=400'],
]

export interface GatewayOptions {
  /** Port of the client proxy on 127.0.0.1; 0 = there is none, and a gateway only where services need it at the published address. */
  readonly port: number
  readonly stateDir: string
  readonly socketPath: string
  readonly command: GatewayCommand
  readonly routes: () => GatewayRoute[]
  /** Who has a port that is taken. Must not reject. */
  readonly holders: (port: number) => Promise<readonly PortHolder[]>
  readonly log: Logger
  readonly onChange: () => void
  /** Whether it listens at the published address may have changed. */
  readonly onDoors: () => void
}

/** A gateway that does not answer within this time is killed and started again; it usually takes a fraction of a second. */
const startMs = 15_000
const helloMs = 5_000
const lookEveryMs = 10
const countMs = 1_000
const reasonsMs = 1_000
const endMs = 5_000

/** A gateway that ran for this long resets the back-off: its next end counts as the first. */
const stableMs = 60_000
const backOff = { firstMs: 1_000, maxMs: 60_000 }

/**
 * Runs the gateway, the process that forwards requests of this machine's programs to engines. It outlives the agent, as servers do: the next
 * agent connects to its socket and uses the gateway that answers there. A gateway that ends is started again.
 */
export class Gateway implements AsyncDisposable {
  readonly #options: GatewayOptions
  readonly #leaving = new AbortController()
  readonly #doors: Doors
  #link: Link | undefined
  #isStarted = false
  /** It is started whenever it does not run. */
  #isKept = false
  #running: Promise<void> | undefined
  #door: Extract<FromGateway, { type: 'door' }> | undefined
  #problem: string | undefined
  #open: readonly OpenRequests[] = []
  #isWatched = false
  /** As the gateway knows it, by namespace/name. */
  #told = new Map<string, GatewayRoute>()
  #isTelling = false
  #reasonsTimer: NodeJS.Timeout | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#doors = new Doors(options.onDoors)
  }

  /** For programs on this machine; undefined while it does not listen. */
  get url(): string | undefined {
    const door = this.#link && this.#door
    return door && door.problem === undefined ? `http://127.0.0.1:${door.port}` : undefined
  }

  /** Of its process; undefined while there is none. */
  get pid(): number | undefined {
    return this.#link?.pid
  }

  /** What a person should know. */
  get notice(): string | undefined {
    return this.#problem
  }

  /** To be called once, when it is known what serves. */
  start(): void {
    this.#isStarted = true
    if (!this.#runWhereNeeded()) this.#running = this.#endEarlier()
  }

  /** Whether it listens there for a service. */
  door(address: string, port: number): DoorState {
    return this.#doors.at(address, port)
  }

  /** Told in the same turn of the event loop, once for all changes in it. */
  routesChanged(): void {
    if (this.#isTelling) return
    this.#isTelling = true
    queueMicrotask(() => {
      this.#isTelling = false
      this.#runWhereNeeded()
      this.#tellChanges()
    })
  }

  /** Why services do not serve changes all the time where many wait: nobody misses what is told within a second. */
  reasonsChanged(): void {
    this.#reasonsTimer ??= setTimeout(() => {
      this.#reasonsTimer = undefined
      this.#tellChanges()
    }, reasonsMs).unref()
  }

  /** What the gateway has counted since its start; undefined where it does not say. */
  counts(): Promise<GatewayCounts | undefined> {
    return this.#link?.counts() ?? Promise.resolve(undefined)
  }

  /** Whether anybody looks at {@link openOf}: what nobody sees is not told. */
  watch(isOn: boolean): void {
    if (isOn === this.#isWatched) return
    this.#isWatched = isOn
    this.#link?.send({ type: 'watch', isOn })
    if (!isOn) this.#open = []
  }

  /** Requests in flight for a service, while somebody looks. */
  openOf(key: string): readonly OpenRequests[] {
    return this.#open.filter((one) => refKey(one) === key)
  }

  /** In good order: it finishes what it forwards, and ends. */
  async end(): Promise<void> {
    this.#leaving.abort()
    clearTimeout(this.#reasonsTimer)
    this.#doors[Symbol.dispose]()
    await this.#link?.end()
    await this.#running
  }

  /** Disconnects; the gateway keeps running without this agent. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    clearTimeout(this.#reasonsTimer)
    this.#doors[Symbol.dispose]()
    this.#link?.close()
    await this.#running
  }

  /** False where nobody needs it. */
  #runWhereNeeded(): boolean {
    if (this.#isKept) return true
    const { port, routes } = this.#options
    if (!this.#isStarted || (port === 0 && !routes().some(({ published }) => published))) return false
    this.#isKept = true
    this.#doors.await()
    const ended = this.#running ?? Promise.resolve()
    this.#running = ended.then(() => this.#keepRunning())
    return true
  }

  async #endEarlier(): Promise<void> {
    try {
      await (await findGateway(this.#options))?.end()
    } catch (error) {
      this.#options.log.warn('the gateway of an earlier agent was not ended', { error })
    }
  }

  /** Never rejects. */
  async #keepRunning(): Promise<void> {
    const { log, port } = this.#options
    const { signal } = this.#leaving
    const hasLeft = (): boolean => signal.aborted
    for (let failures = 0; !hasLeft();) {
      const began = performance.now()
      try {
        await this.#follow()
        if (hasLeft()) return
        log.warn('the gateway ended', { text: await this.#lastWords() })
      } catch (error) {
        if (hasLeft()) return
        log.warn('no gateway', { error })
        const what = port === 0 ? 'no gateway' : `no client proxy on 127.0.0.1:${port}`
        this.#say(`There is ${what}: ${messageOf(error)}. It is tried again.`)
        this.#doors.failed(`the gateway could not be started (${messageOf(error)})`)
      }
      if (performance.now() - began >= stableMs) failures = 0
      // The first end is answered at once: its clients wait.
      if (failures > 0) await pause(backOffCeilingMs(backOff, failures), signal)
      failures += 1
    }
  }

  /** From its start, or from taking it over, to its end. Throws where there is none. */
  async #follow(): Promise<void> {
    const { log } = this.#options
    const found = await this.#connect()
    const link = found ?? (await this.#startOne())
    if (this.#leaving.signal.aborted) {
      link.close()
      return
    }
    log.info(found ? 'took over the gateway' : 'started the gateway', { pid: link.pid, version: link.version })
    this.#link = link
    this.#doors.there()
    const heartbeat = setInterval(() => link.send({ type: 'alive' }), heartbeatMs).unref()
    try {
      this.#tellAll(link)
      if (this.#isWatched) link.send({ type: 'watch', isOn: true })
      await link.closed
    } finally {
      clearInterval(heartbeat)
      this.#link = undefined
      this.#door = undefined
      this.#open = []
      this.#doors.lost()
      this.#options.onChange()
    }
  }

  /**
   * Connects to a gateway that runs. Undefined where none answers; one of another protocol is told to end. Throws where the socket may be
   * another user's.
   */
  async #connect(): Promise<Link | undefined> {
    const { socketPath, stateDir } = this.#options
    await requireOwnSocket(socketPath, stateDir)
    const link = await Link.to(socketPath, (news) => this.#hear(news))
    if (!link || link.protocol === gatewayProtocol) return link
    this.#options.log.info('replaces a gateway of another version', { pid: link.pid, version: link.version })
    await link.end()
    return undefined
  }

  async #startOne(): Promise<Link> {
    const { command, socketPath, stateDir } = this.#options
    await ensureSocketFolder(socketPath, stateDir)
    const [program, ...args] = await command()
    await using log = await open(this.#logFile, 'w', 0o600)
    const child = spawn(program, [...args, 'gateway', '--socket', socketPath], {
      ...{ detached: true, stdio: ['ignore', log.fd, log.fd], cwd: '/', env: launchEnvironment() },
    })
    const ended = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(messageOf(error)))
      child.once('exit', (code, signal) => resolve(`it ended at once with ${signal ?? `code ${code}`}`))
    })
    child.unref()
    const problem = { text: undefined as string | undefined }
    void ended.then((text) => (problem.text = text))
    const until = performance.now() + startMs
    while (
      problem.text === undefined &&
      performance.now() < until &&
      (await pause(lookEveryMs, this.#leaving.signal))
    ) {
      const link = await this.#connect()
      if (link) return link
    }
    if (problem.text === undefined) child.kill('SIGKILL')
    throw new Error(
      `${program} gateway: ${problem.text ?? 'it did not answer in time'} ${await this.#lastWords()}`.trim(),
    )
  }

  #tellAll(link: Link): void {
    this.#told = new Map()
    const { routes } = this.#changes()
    link.send({ type: 'routes', port: this.#options.port, routes })
  }

  #tellChanges(): void {
    if (!this.#link) return
    const { routes, gone } = this.#changes()
    if (routes.length > 0 || gone.length > 0) this.#link.send({ type: 'changes', routes, gone })
  }

  #changes(): { readonly routes: GatewayRoute[]; readonly gone: string[] } {
    const { routes, gone, isAll } = changesSince(this.#told, this.#options.routes())
    if (!isAll) this.reasonsChanged()
    for (const key of gone) this.#told.delete(key)
    for (const route of routes) this.#told.set(refKey(route), route)
    this.#doors.onlyAt(new Set([...this.#told.values()].flatMap(doorsOf)))
    return { routes, gone }
  }

  #hear(news: News): void {
    if (news.type === 'door') void this.#heard(news)
    else if (this.#isWatched && !isDeepStrictEqual(news.requests, this.#open)) {
      this.#open = news.requests
      this.#options.onChange()
    }
  }

  async #heard(door: Extract<FromGateway, { type: 'door' }>): Promise<void> {
    this.#doors.heard(door)
    if (door.host !== '127.0.0.1' || door.port !== this.#options.port) return
    this.#door = door
    if (door.problem === undefined) {
      this.#say(undefined)
      return
    }
    const where = `port ${door.port} on ${door.host}`
    const taken =
      door.problem === 'EADDRINUSE'
        ? `${where} is taken by ${holdersText(await this.#options.holders(door.port), 'another program')}: stop it or choose another port with --client-port`
        : `${where} cannot be used (${door.problem})`
    if (this.#door === door) this.#say(`There is no client proxy yet: ${taken}. It is tried again every few seconds.`)
  }

  #say(problem: string | undefined): void {
    if (problem !== undefined && problem !== this.#problem) this.#options.log.warn('client proxy', { text: problem })
    this.#problem = problem
    this.#options.onChange()
  }

  get #logFile(): string {
    return join(this.#options.stateDir, 'gateway.log')
  }

  /** What the gateway wrote last. */
  async #lastWords(): Promise<string> {
    const text = await readIfThere(this.#logFile, maxLogBytes).catch(messageOf)
    return (text ?? '').trim().slice(-1_000)
  }
}

const doorsOf = ({ published }: GatewayRoute): string[] =>
  published ? published.ports.map((port) => `${published.address}:${port}`) : []

const maxLogBytes = 1_048_576

/** The gateway that an agent of this state folder left running; undefined where there is none. Throws where the socket may be another user's. */
export async function findGateway({
  socketPath,
  stateDir,
}: Pick<GatewayOptions, 'socketPath' | 'stateDir'>): Promise<{ pid: number; end(): Promise<void> } | undefined> {
  await requireOwnSocket(socketPath, stateDir)
  const link = await Link.to(socketPath, () => undefined)
  if (link?.pid === undefined) return undefined
  return { pid: link.pid, end: () => link.end() }
}

type News = Extract<FromGateway, { type: 'door' | 'open' }>

/** One connection to a gateway. */
class Link {
  /** Resolves in the turn in which the end is known. */
  readonly closed: Promise<void>
  #hello: Extract<FromGateway, { type: 'hello' }> | undefined
  readonly #socket: Socket
  readonly #asked: ((counts: GatewayCounts | undefined) => void)[] = []

  /** Undefined where no gateway greets within {@link helloMs}. */
  static async to(path: string, onNews: (news: News) => void): Promise<Link | undefined> {
    const greeted = Promise.withResolvers<boolean>()
    const link = new Link(connect(path), onNews, () => greeted.resolve(true))
    const timer = setTimeout(() => greeted.resolve(false), helloMs)
    void link.closed.then(() => greeted.resolve(false))
    const isThere = await greeted.promise
    clearTimeout(timer)
    if (isThere) return link
    link.close()
    return undefined
  }

  private constructor(socket: Socket, onNews: (news: News) => void, onHello: () => void) {
    this.#socket = socket
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
    const read = frameReader(fromGateway, (frame) => {
      if (frame.type === 'door' || frame.type === 'open') onNews(frame)
      else if (frame.type === 'counts') this.#asked.shift()?.(frame)
      else {
        this.#hello = frame
        onHello()
      }
    })
    socket.setEncoding('utf8').on('data', (text: string) => {
      if (!read(text)) socket.destroy()
    })
    // 'close' follows.
    socket.on('error', () => socket.destroy())
    socket.once('close', () => {
      for (const answer of this.#asked.splice(0)) answer(undefined)
    })
  }

  get protocol(): number | undefined {
    return this.#hello?.protocol
  }

  get version(): string | undefined {
    return this.#hello?.version
  }

  get pid(): number | undefined {
    return this.#hello?.pid
  }

  send(frame: ToGateway): void {
    if (this.#socket.writable) this.#socket.write(`${JSON.stringify(frame)}\n`)
  }

  async counts(): Promise<GatewayCounts | undefined> {
    const { promise, resolve } = Promise.withResolvers<GatewayCounts | undefined>()
    this.#asked.push(resolve)
    this.send({ type: 'count' })
    const timer = setTimeout(() => resolve(undefined), countMs)
    const counts = await promise
    clearTimeout(timer)
    return counts
  }

  /** Tells it to end, and waits until it does so, or for as long as one that hangs is worth. */
  async end(): Promise<void> {
    this.send({ type: 'end' })
    await within(endMs, this.closed)
    this.close()
  }

  close(): void {
    this.#socket.destroy()
  }
}
