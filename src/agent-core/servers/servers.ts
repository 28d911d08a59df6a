import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { CountersReading } from './activity.ts'
import { BackOffs, type Failure } from './back-off.ts'
import { probeHealth, type HealthProbe } from './health-probe.ts'
import { ExitWatch } from './exit-watch.ts'
import type { GeneralRules, ServerLaunch } from './launch.ts'
import type { Ledger } from './ledger.ts'
import { livenessTimings, type LivenessTimings } from './liveness.ts'
import type { ReadableOutput } from './output-log.ts'
import { defaultOutputLimits, type OutputLimits } from './output-rotation.ts'
import { namesIn } from './output-pieces.ts'
import { nothingPublished, Ports, type PublishedPorts } from './ports.ts'
import { keyOfRun, serverFolders } from './run-folder.ts'
import type { StopOptions, StopReport } from './server-process.ts'
import type { Exited, ServerRole, ServerState } from './server-state.ts'
import { ServiceRuns } from './service-runs.ts'
import type { CountedServer } from './server-slot.ts'
import { ServiceServers, type AdoptableServer } from './service-servers.ts'
import { steadyNow } from '../util/steady-clock.ts'

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
  readonly published?: (key: string) => PublishedPorts
  /** Told of every health check of a server that was ready. */
  readonly onProbe?: (key: string, seconds: number, healthy: boolean) => void
  /** Told of the counters of a server that was asked for them to see whether it works. */
  readonly onCounters?: (server: CountedServer, reading: CountersReading) => void
  /** For each server's output, as they are when it is first written or read. */
  readonly outputLimits?: () => OutputLimits
}

/** `role`: of the server whose state it is, as of now. */
export type ServerListener = (key: string, state: ServerState, role: ServerRole) => void

/**
 * The servers of this agent, by the key of their InferenceService: one of each, and for the moment in which one takes over from
 * another, two. Restarts nothing by itself: `retryAt` says when it may be tried again.
 */
export class Servers implements AsyncDisposable {
  readonly #options: Required<ServersOptions>
  readonly #ports: Ports
  readonly #services = new Map<string, ServiceServers>()
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
      published: () => nothingPublished,
      onProbe: () => {},
      onCounters: () => {},
      outputLimits: () => defaultOutputLimits,
      ...options,
    }
    this.#backOffs = new BackOffs(this.#options)
    this.#exits = new ExitWatch(options)
    this.#ports = new Ports({
      holders: async (port) => (await options.platform.portListeners(port, noGroup)).others,
      published: this.#options.published,
    })
  }

  /**
   * Everything from here on is told by `get` and `onChange`. Throws while something of an earlier process is left.
   */
  start(key: string, launch: ServerLaunch): void {
    this.#service(key).start(launch)
  }

  /**
   * Another server for a key whose present one goes on: told by `successor`, until it takes over by `promote`. Throws where there is no
   * present one, or more than that.
   */
  startBeside(key: string, launch: ServerLaunch): void {
    this.#service(key).startBeside(launch)
  }

  /** The successor answers for its service from now on; the one before finishes its requests and stops. Throws where there is none. */
  promote(key: string): void {
    this.#service(key).promote()
  }

  /** Stops the successor, and forgets that there was one. Also right where there is none. */
  async dropSuccessor(key: string): Promise<StopReport> {
    return (await this.#services.get(key)?.dropSuccessor()) ?? { stopped: true }
  }

  /** Takes over the care for a server that an earlier agent started: from here on it is like one that was started here. */
  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    this.#service(entry.key).adopt(entry, rules)
  }

  /** The servers run on without this agent, and the ledger has what the next one needs. No listener is called any more. */
  async letGo(): Promise<void> {
    this.#listeners.clear()
    this.#exits[Symbol.dispose]()
    for (const service of this.#services.values()) service.letGo()
    await this.#options.ledger.close()
  }

  /** All servers of the key. Resolves when nothing of them is left, or with what is. Also right where there is no server. */
  async stop(key: string, options: StopOptions = {}): Promise<StopReport> {
    return (await this.#services.get(key)?.stop(options)) ?? { stopped: true }
  }

  /** Requests in flight are waited for no longer; false where nothing waits for them. */
  skipDrain(key: string): boolean {
    return this.#services.get(key)?.skipDrain() ?? false
  }

  /** All at the same time. */
  async stopAll(options: StopOptions = {}): Promise<ReadonlyMap<string, StopReport>> {
    const reports = [...this.#services.keys()].map(async (key) => [key, await this.stop(key, options)] as const)
    return new Map(await Promise.all(reports))
  }

  get(key: string): ServerState | undefined {
    return this.#services.get(key)?.state('current')
  }

  /** Of the server that was started beside the present one; kept when that failed, until it is dropped or another is started. */
  successor(key: string): ServerState | undefined {
    return this.#services.get(key)?.state('successor')
  }

  /** Of the server whose place was taken, until nothing of it is left. */
  retiring(key: string): ServerState | undefined {
    return this.#services.get(key)?.state('retiring')
  }

  /** Of what the last server of this key serves. */
  digestOf(key: string, role: ServerRole = 'current'): string | undefined {
    return this.#services.get(key)?.digest(role)
  }

  /** The estimate of its memory, in bytes; undefined where there is none. */
  needOf(key: string, role: ServerRole = 'current'): number | undefined {
    return this.#services.get(key)?.need(role).needBytes
  }

  /** The part of it that is mapped from files. */
  mappedBytesOf(key: string, role: ServerRole): number {
    return this.#services.get(key)?.need(role).mappedBytes ?? 0
  }

  /** Ends the server with this process at once, as one that failed; `why`: a sentence. */
  endForMemory(key: string, pid: number, why: string): void {
    this.#services.get(key)?.endForMemory(pid, why)
  }

  /** All that have counters to read. */
  counted(): CountedServer[] {
    return [...this.#services.values()].flatMap((service) => service.counted())
  }

  /** What each server that runs may load again; `files` undefined where an earlier agent started it and did not note that. */
  filesInUse(): { readonly service: string; readonly files: readonly string[] | undefined }[] {
    return [...this.#services].flatMap(([service, { files }]) => files.map((of) => ({ service, files: of })))
  }

  /** How many servers run, beside each other or alone. */
  get running(): number {
    return [...this.#services.values()].reduce((sum, { running }) => sum + running, 0)
  }

  /** What the servers of the key write and wrote, whether one runs or not. */
  outputOf(key: string): ReadableOutput {
    return this.#runsOf(key)
  }

  /** As the present server of the key was started; undefined where an earlier agent did that, or none was started. */
  commandOf(key: string): readonly string[] | undefined {
    return this.#services.get(key)?.command
  }

  /** Where the present server of the key writes, or the last one wrote; undefined where none was started yet. */
  logFileOf(key: string): string | undefined {
    return this.#services.get(key)?.logFile
  }

  /** How often it was started again since it is known. */
  restarts(key: string): number {
    return this.#services.get(key)?.restarts ?? 0
  }

  /** Of the present server of each key. */
  state(): ReadonlyMap<string, ServerState> {
    const states = [...this.#services].map(([key, service]) => [key, service.state('current')] as const)
    return new Map(states.filter((state): state is [string, ServerState] => state[1] !== undefined))
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

  /** Its service is gone, and what its servers wrote goes with it. Throws while something of them is left. */
  forget(key: string): void {
    this.#services.get(key)?.refuseWhileAlive()
    this.#services.delete(key)
    this.#backOffs.clear(key)
    void this.#clearRuns(key)
  }

  /** Removes what servers wrote of which nothing was heard for long: their services went while no agent ran. To be called after adoption. */
  async sweepRuns(): Promise<void> {
    const { runs } = serverFolders(this.#options.stateDir)
    for (const name of await namesIn(runs)) {
      const key = keyOfRun(name)
      if (this.#services.has(key)) continue
      const silentForMs = await this.#runsOf(key).silentForMs()
      // A server may have been started meanwhile, and what it writes stays.
      if (this.#services.has(key)) continue
      if (silentForMs > runsKeptMs) await this.#clearRuns(key)
      else this.#runs.delete(key)
    }
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

  #service(key: string): ServiceServers {
    const known = this.#services.get(key)
    if (known) return known
    const { stateDir, onProbe } = this.#options
    const service = new ServiceServers({
      ...this.#options,
      key,
      runs: this.#runsOf(key),
      ports: this.#ports,
      folders: serverFolders(stateDir),
      exits: this.#exits,
      onFailure: (servedMs) => this.countFailure(key, servedMs),
      onProbe: (seconds, healthy) => onProbe(key, seconds, healthy),
      onState: (state, role) => this.#tell(key, state, role),
    })
    this.#services.set(key, service)
    return service
  }

  /** Whoever starts a server of that key meanwhile waits for it, as that is the same object. */
  async #clearRuns(key: string): Promise<void> {
    await this.#runsOf(key).clear()
    if (!this.#services.has(key)) this.#runs.delete(key)
  }

  #runsOf(key: string): ServiceRuns {
    const { stateDir, outputLimits, log, now } = this.#options
    const newest = () => this.#services.get(key)?.newestRun
    const options = { key, folders: serverFolders(stateDir), limits: outputLimits(), log, now, newest }
    const runs = this.#runs.get(key) ?? new ServiceRuns(options)
    this.#runs.set(key, runs)
    return runs
  }

  #tell(key: string, state: ServerState, role: ServerRole): void {
    for (const listener of this.#listeners) {
      try {
        listener(key, state, role)
      } catch (error) {
        this.#options.log.error('a listener for servers failed', { service: key, error })
      }
    }
  }
}

/** How long the output of a service that is not known here is kept, since somebody may look for what its servers said last. */
const runsKeptMs = 7 * 86_400_000

/** No process group has this number, so that every listener counts as a stranger's. */
const noGroup = -1
