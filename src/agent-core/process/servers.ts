import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { CountersReading } from './activity.ts'
import { BackOffs, type Failure } from './back-off.ts'
import { probeHealth, type HealthProbe } from './health-probe.ts'
import { ExitWatch } from './exit-watch.ts'
import type { GeneralRules, LaunchRules, ServerLaunch } from './launch.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { livenessTimings, type LivenessTimings } from './liveness.ts'
import { logState } from './log-state.ts'
import type { ReadableOutput } from './output-log.ts'
import { defaultOutputLimits, type OutputLimits } from './output-rotation.ts'
import { Ports } from './ports.ts'
import { runFolder, runOf, serverFolders, type RunFolder } from './run-folder.ts'
import { ServerProcess, type ServerOrigin, type StopOptions, type StopReport } from './server-process.ts'
import { isOver, type Exited, type ServerRole, type ServerState } from './server-state.ts'
import { ServiceRuns } from './service-runs.ts'
import { countedServers, roleOf, slotsOf, type CountedServer, type Service, type Slot } from './service-slots.ts'
import { steadyNow } from '../support/steady-clock.ts'

export interface ServersOptions {
  readonly platform: Pick<
    Platform,
    'name' | 'process' | 'processGroup' | 'portListeners' | 'establishedConnections' | 'isRunning'
  >
  readonly ledger: Ledger
  /** Each run of a server has its folder under it. */
  readonly stateDir: string
  readonly log: Logger
  readonly now?: () => number
  /** [0, 1) */
  readonly random?: () => number
  readonly liveness?: LivenessTimings
  readonly probe?: HealthProbe
  /** See {@link Ports}. */
  readonly publishedBesides?: (key: string) => ReadonlySet<number>
  /** Told of every health check of a server that was ready. */
  readonly onProbe?: (key: string, seconds: number, healthy: boolean) => void
  /** Told of the counters of a server that was asked for them to see whether it works. */
  readonly onCounters?: (server: CountedServer, reading: CountersReading) => void
  /** For each server's output, as they are when it is first written or read. */
  readonly outputLimits?: () => OutputLimits
}

/** What the ledger says of a server that is provably the same as when it was noted. */
export type AdoptableServer = LedgerEntry & { readonly process: NonNullable<LedgerEntry['process']> }

/** `role`: of the server whose state it is, as of now. */
export type ServerListener = (key: string, state: ServerState, role: ServerRole) => void

/**
 * How long no request may have come to a server whose successor is published before it ends: by then every node of the cluster knows the
 * new port. kube-proxy may take a second to tell the kernel (`--iptables-min-sync-period`), and the news must reach it first.
 */
const flipSettleMs = 3_000

/**
 * The servers of this agent, by the key of their InferenceService: one of each, and for the moment in which one takes over from
 * another, two. Restarts nothing by itself: `retryAt` says when it may be tried again.
 */
export class Servers implements AsyncDisposable {
  readonly #options: Required<ServersOptions>
  readonly #ports: Ports
  readonly #services = new Map<string, Service>()
  readonly #backOffs: BackOffs
  readonly #runs = new Map<string, ServiceRuns>()
  readonly #listeners = new Set<ServerListener>()
  readonly #exits: ExitWatch

  constructor(options: ServersOptions) {
    this.#options = {
      now: steadyNow,
      random: Math.random,
      liveness: livenessTimings,
      probe: probeHealth,
      publishedBesides: () => new Set(),
      onProbe: () => {},
      onCounters: () => {},
      outputLimits: () => defaultOutputLimits,
      ...options,
    }
    this.#backOffs = new BackOffs(this.#options)
    this.#exits = new ExitWatch(options)
    this.#ports = new Ports({
      holders: async (port) => (await options.platform.portListeners(port, noGroup)).others,
      publishedBesides: this.#options.publishedBesides,
    })
  }

  /**
   * Everything from here on is told by `get` and `onChange`. Throws while something of an earlier process is left.
   */
  start(key: string, launch: ServerLaunch): void {
    this.#refuseWhileAlive(key)
    const service = this.#service(key)
    service.successor = undefined
    this.#launch(service, 'current', launch, undefined)
  }

  /**
   * Another server for a key whose present one goes on: told by `successor`, until it takes over by `promote`. Throws where there is no
   * present one, or more than that.
   */
  startBeside(key: string, launch: ServerLaunch): void {
    const service = this.#services.get(key)
    const beside = service?.current?.process.folder
    if (!service?.current || !beside || isOver(service.current.process.state))
      throw new Error(`${key} has no server to start another beside.`)
    for (const other of [service.successor, service.retiring]) {
      if (other && !isOver(other.process.state)) throw new Error(`${key} has two servers already.`)
    }
    this.#launch(service, 'successor', launch, beside)
  }

  /** The successor answers for its service from now on; the one before finishes its requests and stops. Throws where there is none. */
  promote(key: string): void {
    const service = this.#services.get(key)
    const { current, successor } = service ?? {}
    if (!service || !successor || isOver(successor.process.state)) throw new Error(`${key} has no successor.`)
    service.current = successor
    service.successor = undefined
    const [next, last] = [successor.process.folder, current?.process.folder]
    this.#options.ledger.cast({ ...(next && { [next.name]: 'current' }), ...(last && { [last.name]: 'retiring' }) })
    this.#options.log.info('successor takes over', { service: key })
    if (current && !isOver(current.process.state)) this.#retire(service, current)
  }

  /** Stops the successor, and forgets that there was one. Also right where there is none. */
  async dropSuccessor(key: string): Promise<StopReport> {
    const service = this.#services.get(key)
    if (!service?.successor) return { stopped: true }
    const { process } = service.successor
    if (!isOver(process.state)) return await process.stop({ drainMs: 0 })
    service.successor = undefined
    return { stopped: true }
  }

  /** Takes over the care for a server that an earlier agent started: from here on it is like one that was started here. */
  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    const {
      key,
      role = 'current',
      digest,
      port,
      outputOffset,
      readySince,
      executable,
      workingDirectory,
      sleepsWhenIdle,
    } = entry
    const { pid, startTime } = entry.process
    const process = { pid, startTime, exited: this.#exits.exitOf({ pid, startTime }) }
    const ready = readySince === undefined ? {} : { readySince: Date.parse(readySince) }
    this.#options.log.info('adopted server', { service: key, pid, port, role })
    const service = this.#service(key)
    const folder = runFolder(serverFolders(this.#options.stateDir), runOf(workingDirectory))
    const slot = this.#begin(service, {
      role,
      digest,
      rules: { ...rules, executable, sleepsWhenIdle },
      origin: { kind: 'found', server: { process, port, outputOffset, ...ready }, folder },
      needBytes: entry.needBytes,
    })
    if (role === 'retiring') this.#retire(service, slot)
  }

  /** The servers run on without this agent, and the ledger has what the next one needs. No listener is called any more. */
  async letGo(): Promise<void> {
    this.#listeners.clear()
    this.#exits[Symbol.dispose]()
    for (const { process } of this.#slots()) process.letGo()
    await this.#options.ledger.close()
  }

  /** All servers of the key. Resolves when nothing of them is left, or with what is. Also right where there is no server. */
  async stop(key: string, options: StopOptions = {}): Promise<StopReport> {
    const slots = slotsOf(this.#services.get(key))
    const reports = await Promise.all(slots.map(({ process }) => process.stop(options)))
    return reports.find(({ stopped }) => !stopped) ?? { stopped: true }
  }

  /** Requests in flight are waited for no longer; false where nothing waits for them. */
  skipDrain(key: string): boolean {
    return slotsOf(this.#services.get(key))
      .map(({ process }) => process.skipDrain())
      .includes(true)
  }

  /** All at the same time. */
  async stopAll(options: StopOptions = {}): Promise<ReadonlyMap<string, StopReport>> {
    const reports = [...this.#services.keys()].map(async (key) => [key, await this.stop(key, options)] as const)
    return new Map(await Promise.all(reports))
  }

  get(key: string): ServerState | undefined {
    return this.#services.get(key)?.current?.process.state
  }

  /** Of the server that was started beside the present one; kept when that failed, until it is dropped or another is started. */
  successor(key: string): ServerState | undefined {
    return this.#services.get(key)?.successor?.process.state
  }

  /** Of the server whose place was taken, until nothing of it is left. */
  retiring(key: string): ServerState | undefined {
    return this.#services.get(key)?.retiring?.process.state
  }

  /** Of what the last server of this key serves. */
  digestOf(key: string, role: ServerRole = 'current'): string | undefined {
    return this.#services.get(key)?.[role]?.digest
  }

  /** The estimate of its memory, in bytes; undefined where there is none. */
  needOf(key: string, role: ServerRole = 'current'): number | undefined {
    return this.#services.get(key)?.[role]?.needBytes
  }

  /** All that have counters to read. */
  counted(): CountedServer[] {
    return [...this.#services.values()].flatMap(countedServers)
  }

  /** How many servers run, beside each other or alone. */
  get running(): number {
    return this.#slots().filter(({ process }) => !isOver(process.state)).length
  }

  /** What the servers of the key write and wrote, whether one runs or not. */
  outputOf(key: string): ReadableOutput {
    return this.#runsOf(key)
  }

  /** Where the present server of the key writes, or the last one wrote; undefined where none was started yet. */
  logFileOf(key: string): string | undefined {
    return this.#services.get(key)?.current?.process.folder?.logFile
  }

  /** How often it was started again since it is known. */
  restarts(key: string): number {
    return Math.max(0, (this.#services.get(key)?.starts ?? 0) - 1)
  }

  /** Of the present server of each key. */
  state(): ReadonlyMap<string, ServerState> {
    return new Map(
      [...this.#services].flatMap(([key, { current }]) => (current ? [[key, current.process.state] as const] : [])),
    )
  }

  /** How the latest server that was not stopped ended, with its last lines; kept while others take its place. */
  lastFailure(key: string): Exited | undefined {
    return this.#services.get(key)?.lastFailure
  }

  /** How often it failed in a row, and when it may be tried again; undefined where no start has failed. */
  backOff(key: string): Failure | undefined {
    return this.#backOffs.of(key)
  }

  /** For a start that failed before there was a process, as for one that failed after. */
  countFailure(key: string, servedMs = 0): Failure {
    return this.#backOffs.count(key, servedMs)
  }

  /** The next start need not wait, and the next failure counts as the first. */
  clearBackOff(key: string): void {
    this.#backOffs.clear(key)
  }

  /** Throws while something of it is left. */
  forget(key: string): void {
    this.#refuseWhileAlive(key)
    this.#services.delete(key)
    this.#backOffs.clear(key)
  }

  /** Calls on every change, in the turn in which it is known; for an exit that is the turn in which the process was reaped. */
  onChange(listener: ServerListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopAll()
    await this.#options.ledger.close()
    this.#exits[Symbol.dispose]()
  }

  #service(key: string): Service {
    const known = this.#services.get(key)
    if (known) return known
    const service: Service = { key, starts: 0 }
    this.#services.set(key, service)
    return service
  }

  #slots(): Slot[] {
    return [...this.#services.values()].flatMap(slotsOf)
  }

  #refuseWhileAlive(key: string): void {
    const left = slotsOf(this.#services.get(key)).find(({ process }) => !isOver(process.state))
    if (left)
      throw new Error(`${key} still has a server (${left.process.state.kind}): stop it and wait until it is over.`)
  }

  #runsOf(key: string): ServiceRuns {
    const { stateDir, outputLimits, log, now } = this.#options
    const newest = () => {
      const { current, successor } = this.#services.get(key) ?? {}
      return successor?.process.folder ?? current?.process.folder
    }
    const options = { key, folders: serverFolders(stateDir), limits: outputLimits(), log, now, newest }
    const runs = this.#runs.get(key) ?? new ServiceRuns(options)
    this.#runs.set(key, runs)
    return runs
  }

  #launch(service: Service, role: ServerRole, launch: ServerLaunch, beside: RunFolder | undefined): void {
    const { digest, needBytes } = launch
    this.#begin(service, { role, digest, rules: launch, origin: { kind: 'launch', launch, beside }, needBytes })
  }

  #begin(service: Service, { role, digest, rules, origin, needBytes }: Beginning): Slot {
    const { key } = service
    const { platform, probe, liveness, log, now, ledger, onProbe, onCounters } = this.#options
    const process = new ServerProcess({
      key,
      role: () => roleOf(service, slot),
      runs: this.#runsOf(key),
      origin,
      ledger,
      launch: rules,
      ports: this.#ports,
      platform,
      probe,
      liveness,
      log,
      now,
      onFailure: (servedMs) => this.countFailure(key, servedMs),
      onProbe: (seconds, healthy) => onProbe(key, seconds, healthy),
      onCounters: (reading) => {
        const server = countedServers(service).find(({ run }) => run === process.folder?.name)
        if (server) onCounters(server, reading)
      },
      onState: (state) => this.#changed(service, slot, state),
    })
    const { sleepsWhenIdle = false } = rules
    const slot: Slot = { process, digest, needBytes, sleepsWhenIdle, isFound: origin.kind === 'found' }
    service[role] = slot
    service.starts += 1
    process.start()
    return slot
  }

  /** Clients that still know the old port are answered until no request comes any more. Its state tells its end. */
  #retire(service: Service, slot: Slot): void {
    service.retiring = slot
    void slot.process.stop({ quietMs: flipSettleMs })
  }

  #changed(service: Service, slot: Slot, state: ServerState): void {
    const { key } = service
    const role = roleOf(service, slot)
    logState(this.#options.log, key, state)
    this.#note(slot.process.folder, state)
    if (state.kind === 'exited' && state.settled && state.cause !== 'stopped') service.lastFailure = state
    if (role === 'retiring' && isOver(state)) service.retiring = undefined
    if (role === 'successor' && wasStopped(state)) service.successor = undefined
    for (const listener of this.#listeners) {
      try {
        listener(key, state, role)
      } catch (error) {
        this.#options.log.error('a listener for servers failed', { service: key, error })
      }
    }
  }

  #note(folder: RunFolder | undefined, state: ServerState): void {
    if (!folder) return
    const { ledger } = this.#options
    if (isOver(state)) ledger.forget(folder.name)
    if (state.kind === 'ready' && state.healthy) void ledger.ready(folder.name, state.pid, state.readySince)
  }
}

/** No process group has this number, so that every listener counts as a stranger's. */
const noGroup = -1

interface Beginning {
  readonly role: ServerRole
  readonly digest: string
  readonly rules: LaunchRules
  readonly origin: ServerOrigin
  readonly needBytes: number | undefined
}

const wasStopped = (state: ServerState): boolean =>
  state.kind === 'exited' && state.settled && state.cause === 'stopped'
