import { spawn } from 'node:child_process'
import { open, rename, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import {
  frameReader,
  fromGateway,
  gatewayProtocol,
  heartbeatMs,
  type AllRoutes,
  type FromGateway,
  type GatewayCounts,
  type GatewayRoute,
  type OpenRequests,
  type RelayIngressTold,
  type ServiceKey,
  type ToGateway,
} from '../../contract/gateway.ts'
import { sumOf } from './counts.ts'
import { Doors, type DoorState } from './doors.ts'
import { changesSince } from './routes.ts'
import writeFileAtomic from 'write-file-atomic'
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
import { signalGroup } from '../util/signal-group.ts'
import { within } from '../util/within.ts'

/** The program and its arguments, to which those of the gateway are added. */
export type GatewayCommand = () => Promise<readonly [program: string, ...args: string[]]>

/**
 * V8 keeps little garbage and compiles without threads of its own, each of which keeps tens of MiB. Of its compilers only the last one is used,
 * and soon: what the others make takes memory too, and a request takes a third longer with them.
 */
export const nodeOptionsOfGateway = [
  ...['--max-semi-space-size=1', '--optimize-for-size', '--liftoff-only', '--single-threaded'],
  ...['--no-sparkplug', '--no-maglev', '--invocation-count-for-turbofan=400'],
]

/** The self-contained command takes the same options in a flag of its own. */
export const ofOneFile = (program: string): [string, string] => [
  program,
  `--node-options=${nodeOptionsOfGateway.join(' ')}`,
]

export interface GatewayOptions {
  /** Port of the client proxy on 127.0.0.1; 0 = there is none, and a gateway only where services need it at the published address. */
  readonly port: number
  /** Names in `Host` that the client proxy answers to besides this machine's own. */
  readonly hosts?: string[]
  readonly stateDir: string
  readonly socketPath: string
  readonly command: GatewayCommand
  /** The version of this agent. A gateway of another one that an earlier agent started is replaced. */
  readonly version: string
  readonly routes: () => GatewayRoute[]
  /** The ingress for relays of the cluster; absent = this agent has none. */
  readonly ingress?: { readonly host: string; readonly port: number; readonly told: RelayIngressTold | undefined }
  /** Which processes hold a port that is taken. Must not reject. */
  readonly holders: (port: number) => Promise<readonly PortHolder[]>
  /** The command line of a process; undefined if it does not exist. */
  readonly commandLine: (pid: number) => Promise<string | undefined>
  readonly log: Logger
  readonly onChange: () => void
  /** Whether it listens at the published address may have changed. */
  readonly onDoors: () => void
  /** The API keys that the gateway asks for; called before the routes are sent. */
  readonly onKeys: (keys: readonly ServiceKey[]) => void
  /** For tests. */
  readonly timings?: Partial<typeof usualTimings>
}

/** A gateway that does not answer within this time is killed and started again; it usually takes a fraction of a second. */
const startMs = 15_000
const replaceAgain = { firstMs: 10_000, maxMs: 600_000 }
const usualTimings = { heartbeatMs, helloMs: 5_000, replaceAgain }
/** A gateway that leaves this many heartbeats in a row unanswered is taken to hang and is killed. A busy machine alone does not delay an answer that long. */
const maxUnanswered = 4
const lookEveryMs = 10
/** The wait for a greeting is counted in so many steps, as a time in which this process stood still says nothing of the gateway. */
const helloSteps = 5
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
  readonly #timings: typeof usualTimings
  readonly #leaving = new AbortController()
  readonly #doors: Doors
  #link: Link | undefined
  #isStarted = false
  /** Whether it is restarted whenever it ends. */
  #isKept = false
  #running: Promise<void> | undefined
  #door: Door | undefined
  #problem: string | undefined
  /** Why a gateway of another version runs, and how often its replacement has failed. */
  #notReplaced = { problem: undefined as string | undefined, failures: 0 }
  /** Gateways of another version that finish what they are answering. */
  readonly #retiring = new Set<Link>()
  /** What those had counted that have ended. */
  #countedBefore: readonly GatewayCounts[] = []
  #isWatched = false
  /** As the gateway knows it, by namespace/name. */
  #told = new Map<string, GatewayRoute>()
  #toldIngress: RelayIngressTold | undefined
  #isTelling = false
  #reasonsTimer: NodeJS.Timeout | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#doors = new Doors(options.onDoors)
    this.#timings = { ...usualTimings, ...options.timings }
  }

  /** For programs on this machine; undefined while it does not listen. */
  get url(): string | undefined {
    const door = this.#link && this.#door
    return door && door.problem === undefined ? `http://127.0.0.1:${door.port}` : undefined
  }

  /** The pid of the gateway; undefined while none is connected. */
  get pid(): number | undefined {
    return this.#link?.pid
  }

  /** Whether the process is a gateway of this state folder: the connected one, one that is being started, or one that hangs. */
  isOwn(pid: number): Promise<boolean> {
    return isGateway(pid, this.#options)
  }

  /** What a person should know. */
  get notice(): string | undefined {
    return this.#problem ?? (this.#link && this.#notReplaced.problem)
  }

  /** To be called once, when it is known what serves. */
  start(): void {
    this.#isStarted = true
    if (!this.#runWhereNeeded()) this.#running = this.#endEarlier()
  }

  /** Whether the gateway listens at this address. */
  door(address: string, port: number): DoorState {
    return this.#doors.at(address, port)
  }

  /** Sends the changed routes in this turn of the event loop, once for all changes in it. */
  routesChanged(): void {
    if (this.#isTelling) return
    this.#isTelling = true
    queueMicrotask(() => {
      this.#isTelling = false
      this.#runWhereNeeded()
      this.#tellChanges()
    })
  }

  /** Sends changed reasons within a second: where many services wait, they change all the time. */
  reasonsChanged(): void {
    this.#reasonsTimer ??= setTimeout(() => {
      this.#reasonsTimer = undefined
      this.#tellChanges()
    }, reasonsMs).unref()
  }

  /** What the gateway has counted since its start, with those that it has replaced meanwhile; undefined where it does not say. */
  async counts(): Promise<GatewayCounts | undefined> {
    const counts = await Promise.all(this.#links.map((link) => link.counts()))
    return counts[0] && sumOf([...counts, ...this.#countedBefore].filter((one) => one !== undefined))
  }

  /** How many requests for a service it works at, whatever door they came by; undefined where it does not say. */
  async inFlight(key: string): Promise<number | undefined> {
    const counts = await this.counts()
    const service = counts?.services.find((one) => refKey(one) === key)
    return counts && (service ? service.waiting + service.streaming : 0)
  }

  /** Asks the gateway to report requests in flight ({@link openOf}) while a menu or window shows them. */
  watch(isOn: boolean): void {
    if (isOn === this.#isWatched) return
    this.#isWatched = isOn
    for (const link of this.#links) {
      link.send({ type: 'watch', isOn })
      if (!isOn) link.open = []
    }
  }

  /** Requests in flight for a service, while somebody looks. */
  openOf(key: string): readonly OpenRequests[] {
    return this.#links.flatMap(({ open }) => open.filter((one) => refKey(one) === key))
  }

  /** In good order: it finishes what it forwards, and ends. */
  async end(): Promise<void> {
    this.#leaving.abort()
    clearTimeout(this.#reasonsTimer)
    this.#doors[Symbol.dispose]()
    const link = this.#link
    if (link && !(await link.end())) await this.#kill(link.pid)
    await this.#running
    // Where root started it, it is another user by now, and may not. No other agent has this state folder yet.
    if (link) await rm(this.#options.socketPath, { force: true })
  }

  /** Disconnects; the gateway keeps running without this agent. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort()
    clearTimeout(this.#reasonsTimer)
    this.#doors[Symbol.dispose]()
    for (const link of this.#links) link.close()
    await this.#running
  }

  /** False where nobody needs it. */
  #runWhereNeeded(): boolean {
    if (this.#isKept) return true
    if (!this.#isStarted || !this.#isNeeded) return false
    this.#isKept = true
    this.#doors.await()
    const ended = this.#running ?? Promise.resolve()
    this.#running = ended.then(() => this.#keepRunning())
    return true
  }

  get #isNeeded(): boolean {
    const { port, routes, ingress } = this.#options
    return port !== 0 || ingress?.told !== undefined || routes().some(({ published }) => published)
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
        this.#say(`There is ${what}: ${messageOf(error)}. The agent tries again.`)
        this.#doors.failed(`the gateway could not be started (${messageOf(error)})`)
      }
      if (performance.now() - began >= stableMs) failures = 0
      // The first end is answered at once: its clients wait.
      if (failures > 0) await pause(backOffCeilingMs(backOff, failures), signal)
      failures += 1
    }
  }

  /** From its start, or from taking it over, to its end, or to that of the last one that has taken its place. Throws where there is none. */
  async #follow(): Promise<void> {
    const found = await this.#connect()
    const link = found ?? (await this.#startOne())
    this.#options.log.info(found ? 'took over the gateway' : 'started the gateway', {
      pid: link.pid,
      version: link.version,
    })
    this.#options.onKeys(link.keys)
    try {
      const next = await this.#use(link, { isFound: found !== undefined })
      if (next) await this.#use(next, { isFound: false })
    } finally {
      this.#link = undefined
      this.#door = undefined
      this.#doors.lost()
      this.#options.onChange()
    }
  }

  /**
   * Resolves when it ends, or with the one that has its place. One that this agent has started is kept, whatever version it says: the program may
   * have been updated on the disk, and another start would bring the same.
   */
  async #use(link: Link, { isFound }: { readonly isFound: boolean }): Promise<Link | undefined> {
    if (this.#leaving.signal.aborted) {
      link.close()
      return undefined
    }
    this.#link = link
    this.#doors.there()
    const heartbeat = setInterval(() => {
      if (!link.ping()) void this.#kill(link.pid)
    }, this.#timings.heartbeatMs).unref()
    void link.closed.then(() => clearInterval(heartbeat))
    this.#tellAll()
    if (this.#isWatched) link.send({ type: 'watch', isOn: true })
    const isKept = !isFound || link.version === this.#options.version
    // Before anything is waited for: who sees this gateway must not read that another version runs.
    if (isKept) this.#notReplaced = { problem: undefined, failures: 0 }
    await this.#notePid(link.pid)
    if (!isKept) return this.#replace(link)
    await link.closed
    return undefined
  }

  /** The current one first. */
  get #links(): readonly Link[] {
    return [...(this.#link ? [this.#link] : []), ...this.#retiring]
  }

  /**
   * Starts a gateway of this version beside the one that runs, and lets it take over all that is listened at; the other one finishes what it is
   * answering. One that cannot be started is tried again with growing waits. Resolves with it, or when the other one has ended. Never rejects.
   */
  async #replace(link: Link): Promise<Link | undefined> {
    const { log, version, socketPath } = this.#options
    const over = new AbortController()
    void link.closed.then(() => over.abort())
    while (await pause(backOffCeilingMs(this.#timings.replaceAgain, this.#notReplaced.failures), over.signal)) {
      try {
        const next = await this.#startOne({ isBeside: true })
        const told = await link.retire()
        if (told) next.send(told)
        await rename(this.#besidePath(next.pid), socketPath)
        this.#retiring.add(link)
        void link.closed.then(() => this.#hasEnded(link))
        log.info('replaced the gateway', { pid: link.pid, version: link.version })
        log.info('started the gateway', { pid: next.pid, version: next.version })
        return next
      } catch (error) {
        if (over.signal.aborted || this.#leaving.signal.aborted) break
        const text = `The client proxy still runs version ${link.version}, because version ${version} could not be started: ${messageOf(error)}. The agent tries again later.`
        if (text !== this.#notReplaced.problem) log.warn('gateway not replaced', { text })
        this.#notReplaced = { problem: text, failures: this.#notReplaced.failures + 1 }
        this.#options.onChange()
      }
    }
    return undefined
  }

  #hasEnded(link: Link): void {
    this.#retiring.delete(link)
    if (link.counted) this.#countedBefore = [sumOf([link.counted, ...this.#countedBefore])]
    if (link.open.length > 0) this.#options.onChange()
  }

  /**
   * Connects to a gateway that runs. Undefined where none answers; one of another protocol is told to end, and one that hangs is killed. Throws
   * where the socket may be another user's.
   */
  async #connect(): Promise<Link | undefined> {
    const { socketPath, stateDir, log } = this.#options
    await requireOwnSocket(socketPath, stateDir)
    const link = await this.#linkTo(socketPath)
    if (link === 'silent') {
      await this.#kill(await notedPid(stateDir))
      return undefined
    }
    if (!link || link.protocol === gatewayProtocol) return link
    log.info('replaces a gateway of another protocol', { pid: link.pid, version: link.version })
    await link.end()
    return undefined
  }

  /** For the agent that finds this gateway hanging. Never rejects. */
  async #notePid(pid: number): Promise<void> {
    try {
      await writeFileAtomic(pidFile(this.#options.stateDir), `${pid}\n`, { mode: 0o600 })
    } catch (error) {
      this.#options.log.warn('pid of the gateway not noted', { error })
    }
  }

  /** Kills a gateway of this state folder that hangs, and no process that has got its number since. Never rejects. */
  async #kill(pid: number): Promise<void> {
    const { log } = this.#options
    try {
      if (!(await isGateway(pid, this.#options))) return
      log.warn('kills a gateway that hangs', { pid })
      signalGroup(pid, 'SIGKILL')
    } catch (error) {
      log.warn('a gateway that hangs was not killed', { pid, error })
    }
  }

  #linkTo(path: string): Promise<Link | 'silent' | undefined> {
    return Link.to(path, { onNews: (news, link) => this.#hear(news, link), ...this.#timings })
  }

  /** `isBeside`: one that does not listen anywhere yet, while another has the socket. Throws where it does not start. */
  async #startOne({ isBeside = false } = {}): Promise<Link> {
    const { command, socketPath, stateDir } = this.#options
    await ensureSocketFolder(socketPath, stateDir)
    const [program, ...args] = await command()
    if (!isBeside) await rm(this.#logFile, { force: true })
    await using log = await open(this.#logFile, 'a', 0o600)
    const child = spawn(program, [...args, 'gateway', '--socket', socketPath, ...(isBeside ? ['--beside'] : [])], {
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
      const link = isBeside ? await this.#linkTo(this.#besidePath(child.pid)) : await this.#connect()
      if (link === 'silent') break
      if (link) return link
    }
    if (problem.text === undefined) child.kill('SIGKILL')
    throw new Error(
      `${program} gateway: ${problem.text ?? 'it did not answer in time'} ${await this.#lastWords()}`.trim(),
    )
  }

  #besidePath(pid: number | undefined): string {
    return join(dirname(this.#options.socketPath), `gw.${pid}`)
  }

  #tellAll(): void {
    this.#told = new Map()
    this.#toldIngress = undefined
    const { routes, ingress } = this.#changes()
    this.#send({
      type: 'routes',
      port: this.#options.port,
      hosts: this.#options.hosts,
      routes,
      ...(ingress && { ingress }),
    })
  }

  #tellChanges(): void {
    if (!this.#link) return
    const { routes, gone, ingress } = this.#changes()
    if (routes.length > 0 || gone.length > 0 || ingress)
      this.#send({ type: 'changes', routes, gone, ...(ingress && { ingress }) })
  }

  #send(frame: ToGateway): void {
    for (const link of this.#links) link.send(frame)
  }

  #changes(): { readonly routes: GatewayRoute[]; readonly gone: string[]; readonly ingress?: RelayIngressTold } {
    const { routes, gone, isAll } = changesSince(this.#told, this.#options.routes())
    if (!isAll) this.reasonsChanged()
    for (const key of gone) this.#told.delete(key)
    for (const route of routes) this.#told.set(refKey(route), route)
    const { ingress } = this.#options
    const atIngress = ingress ? [{ address: ingress.host, port: ingress.port }] : []
    this.#doors.onlyAt([...atIngress, ...[...this.#told.values()].flatMap(enginesOf)])
    const told = ingress?.told
    if (!told || isDeepStrictEqual(told, this.#toldIngress)) return { routes, gone }
    this.#toldIngress = told
    return { routes, gone, ingress: told }
  }

  #hear(news: News, link: Link | undefined): void {
    if (news.type === 'door') void this.#heard(news)
    else if (link && this.#isWatched && !isDeepStrictEqual(news.requests, link.open)) {
      link.open = news.requests
      this.#options.onChange()
    }
  }

  async #heard(door: Door): Promise<void> {
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
    if (this.#door === door)
      this.#say(`There is no client proxy yet: ${taken}. The agent tries again every few seconds.`)
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

const enginesOf = ({ published }: GatewayRoute) =>
  published?.engine ? [{ address: published.address, port: published.engine.port }] : []

const maxLogBytes = 1_048_576
const maxPidBytes = 20

/** The number of the gateway that an agent used last: one that hangs does not say it. */
const pidFile = (stateDir: string): string => join(stateDir, 'gateway.pid')

/** NaN where none is noted. */
const notedPid = async (stateDir: string): Promise<number> =>
  Number((await readIfThere(pidFile(stateDir), maxPidBytes)) ?? 'none')

/** Whether this process is a gateway at this socket, also one that no agent is connected to, and no other one that has got its number since. */
export const isGateway = async (
  pid: number,
  { commandLine, socketPath }: Pick<GatewayOptions, 'commandLine' | 'socketPath'>,
): Promise<boolean> => pid > 0 && ((await commandLine(pid)) ?? '').includes(`gateway --socket ${socketPath}`)

export interface FoundGateway {
  readonly pid: number
  /** It finishes what it forwards; one that hangs is killed. */
  end(): Promise<void>
}

/**
 * The gateway that an agent of this state folder left running, also one that hangs; undefined where there is none. Throws where the socket may
 * be another user's.
 */
export async function findGateway(
  options: Pick<GatewayOptions, 'socketPath' | 'stateDir' | 'commandLine'>,
): Promise<FoundGateway | undefined> {
  const { socketPath, stateDir } = options
  await requireOwnSocket(socketPath, stateDir)
  const link = await Link.to(socketPath, { onNews: () => undefined, ...usualTimings })
  const answering = link === 'silent' ? undefined : link
  const pid = answering?.pid ?? (await notedPid(stateDir))
  if (!answering && !(await isGateway(pid, options))) return undefined
  return {
    pid,
    end: async () => {
      const hasEnded = await answering?.end()
      if (hasEnded !== true && (await isGateway(pid, options))) signalGroup(pid, 'SIGKILL')
    },
  }
}

type Hello = Extract<FromGateway, { type: 'hello' }>
type Door = Extract<FromGateway, { type: 'door' }>
type News = Extract<FromGateway, { type: 'door' | 'open' }>

/** One connection to a gateway. */
class Link {
  readonly protocol: number
  readonly version: string
  readonly pid: number
  readonly keys: readonly ServiceKey[]
  /** Resolves in the turn in which the end is known. */
  readonly closed: Promise<void>
  readonly #socket: Socket
  /** Requests in flight, as it said last. */
  open: readonly OpenRequests[] = []
  /** What it said last. */
  counted: GatewayCounts | undefined
  readonly #asked: ((counts: GatewayCounts | undefined) => void)[] = []
  readonly #retired = Promise.withResolvers<AllRoutes | undefined>()
  /** Pings since the last pong. */
  #unanswered = 0

  /** Undefined where nobody listens, and `silent` where who listens does not greet in time. */
  static async to(
    path: string,
    { onNews, helloMs }: { readonly onNews: (news: News, link: Link | undefined) => void; readonly helloMs: number },
  ): Promise<Link | 'silent' | undefined> {
    const socket = connect(path)
    const { promise, resolve } = Promise.withResolvers<Link | 'silent' | undefined>()
    let link: Link | undefined
    const read = frameReader(fromGateway, (frame) => {
      if (frame.type === 'hello') resolve((link = new Link(socket, frame)))
      else if (frame.type === 'door' || frame.type === 'open') onNews(frame, link)
      else if (link) link.#heard(frame)
    })
    socket.setEncoding('utf8').on('data', (text: string) => {
      if (!read(text)) socket.destroy()
    })
    // 'close' follows.
    socket.on('error', () => socket.destroy())
    socket.once('close', () => resolve(undefined))
    let steps = 0
    const timer = setInterval(() => (steps += 1) === helloSteps && resolve('silent'), helloMs / helloSteps)
    const found = await promise
    clearInterval(timer)
    if (!(found instanceof Link)) socket.destroy()
    return found
  }

  private constructor(socket: Socket, { protocol, version, pid, keys = [] }: Hello) {
    this.protocol = protocol
    this.version = version
    this.pid = pid
    this.keys = keys
    this.#socket = socket
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
    socket.once('close', () => {
      for (const answer of this.#asked.splice(0)) answer(undefined)
      this.#retired.resolve(undefined)
    })
  }

  #heard(frame: Exclude<FromGateway, Hello | News>): void {
    if (frame.type === 'pong') this.#unanswered = 0
    else if (frame.type === 'retired') this.#retired.resolve(frame.told)
    else {
      const { type: _, ...counts } = frame
      this.counted = counts
      this.#asked.shift()?.(counts)
    }
  }

  /** False where it has not answered several times, and was not asked again. */
  ping(): boolean {
    if (this.#unanswered >= maxUnanswered) return false
    this.#unanswered += 1
    this.send({ type: 'ping' })
    return true
  }

  /** Makes it stop listening and finish. Resolves with all that it knows; undefined where that is nothing, or it has ended. */
  retire(): Promise<AllRoutes | undefined> {
    this.send({ type: 'retire' })
    return this.#retired.promise
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

  /** Tells the gateway to end and waits for its end, up to {@link endMs}. Returns whether it ended. */
  async end(): Promise<boolean> {
    this.send({ type: 'end' })
    let hasEnded = false
    void this.closed.then(() => (hasEnded = true))
    await within(endMs, this.closed)
    this.close()
    return hasEnded
  }

  close(): void {
    this.#socket.destroy()
  }
}
