import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { steadyNow } from '../util/steady-clock.ts'
import type { Daemon, DaemonAddress, DaemonRuntimeName } from './daemon.ts'
import type { GeneralRules, Launch } from './launch.ts'
import type { Ledger } from './ledger.ts'
import { livenessTimings, type LivenessTimings } from './liveness.ts'
import { usualOutputBytes, namesIn, ServiceOutput, type ReadableOutput } from './output.ts'
import type { IdleLimit } from './poller.ts'
import { nothingPublished, Ports, type PublishedPorts } from './ports.ts'
import {
  serverProtocols,
  type CountersReading,
  type ProbeAnswer,
  type ServerProtocol,
  type ServerRuntime,
} from './probe.ts'
import { ExitWatch } from './process-group.ts'
import { keyOfRun, serverFolders } from './run-folder.ts'
import { daemonAt } from './daemons.ts'
import type { ServerFacts, StopOptions, StopReport } from './served-model.ts'
import type { Server } from './server.ts'
import type { Exited, Failure, ServerState } from './server-state.ts'
import { ServiceServer, type AdoptableServer, type CountedServer } from './service-server.ts'

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
  readonly protocols?: Readonly<Record<ServerRuntime, ServerProtocol>>
  readonly daemons?: (runtime: DaemonRuntimeName, address: DaemonAddress) => Daemon
  /** Requests in flight that the gateway forwards for a service; undefined where it does not say. */
  readonly atGateway?: (key: string) => Promise<number | undefined>
  /** See {@link Ports}. */
  readonly published?: (key: string) => PublishedPorts
  /** Told of every health check of a server that was ready. */
  readonly onProbe?: (key: string, seconds: number, healthy: boolean) => void
  /** Told of every reading of a server's counters, whoever asked for it. */
  readonly onCounters?: (server: CountedServer, reading: CountersReading) => void
  /** Counts for a server's output from when that is first written or read. */
  readonly outputBytes?: number
}

export type ServerListener = (key: string, state: ServerState) => void

/** The servers of this agent, one by each key of an InferenceService. Restarts nothing by itself: `retryAt` says when it may be tried again. */
export class Servers implements AsyncDisposable {
  readonly #options: Required<ServersOptions>
  readonly #ports: Ports
  readonly #services = new Map<string, ServiceServer>()
  readonly #outputs = new Map<string, ServiceOutput>()
  readonly #listeners = new Set<ServerListener>()
  readonly #exits: ExitWatch
  #areDrainsCut = false

  constructor(options: ServersOptions) {
    this.#options = {
      now: steadyNow,
      random: Math.random,
      liveness: livenessTimings,
      protocols: serverProtocols,
      daemons: (runtime, address) => daemonAt(runtime, address),
      atGateway: () => Promise.resolve(undefined),
      published: () => nothingPublished,
      onProbe: () => {},
      onCounters: () => {},
      outputBytes: usualOutputBytes,
      ...options,
    }
    this.#exits = new ExitWatch(options)
    this.#ports = new Ports({
      holders: async (port) => (await options.platform.portListeners(port, noGroup)).others,
      published: this.#options.published,
    })
  }

  /** What becomes of it is told by `get` and `onChange`. Throws while something of an earlier process is left. */
  start(key: string, launch: Launch): void {
    this.#service(key).start(launch)
  }

  /** Takes over the care for a server that an earlier agent started: from here on it is like one that was started here. */
  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    this.#service(entry.key).adopt(entry, rules)
  }

  /** The servers run on without this agent, and the ledger has what the next one needs. No listener is called from now on. */
  async letGo(): Promise<void> {
    this.#listeners.clear()
    this.#exits[Symbol.dispose]()
    for (const { server } of this.#services.values()) server?.letGo()
    await this.#options.ledger.close()
  }

  /** Resolves when nothing of the server is left, or with what is. Also right where there is none. */
  async stop(key: string, options: StopOptions = {}): Promise<StopReport> {
    const wanted = this.#areDrainsCut ? { ...options, drainMs: 0 } : options
    return (await this.#of(key)?.stop(wanted)) ?? { stopped: true }
  }

  /** Requests in flight are waited for no longer; false where nothing waits for them. */
  skipDrain(key: string): boolean {
    return this.#of(key)?.skipDrain() ?? false
  }

  /** No stop waits for requests in flight, also none that is asked for later. */
  cutDrains(): void {
    this.#areDrainsCut = true
    for (const { server } of this.#services.values()) server?.skipDrain()
  }

  /** Stops all servers at the same time. */
  async stopAll(options: StopOptions = {}): Promise<ReadonlyMap<string, StopReport>> {
    const reports = [...this.#services.keys()].map(async (key) => [key, await this.stop(key, options)] as const)
    return new Map(await Promise.all(reports))
  }

  get(key: string): ServerState | undefined {
    return this.#of(key)?.state
  }

  /** What the last server of this key serves, where, and with what. */
  factsOf(key: string): ServerFacts | undefined {
    return this.#of(key)?.facts
  }

  /** The API key that the daemon asks requests for; it goes to the gateway and nowhere else. */
  apiKeyOf(key: string): string | undefined {
    return this.#of(key)?.run?.driver.apiKey
  }

  /** Whether the present server of the key answers now; undefined where there is none to ask. */
  answers(key: string, timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> | undefined {
    return this.#of(key)?.run?.driver.answers(timeLimitMs, signal)
  }

  /** What the daemon says that its model holds, in bytes; undefined for a process. */
  toldBytesOf(key: string): number | undefined {
    return this.#of(key)?.run?.driver.toldBytes
  }

  /** All that run and have been ready, with how to ask what they do. */
  counted(): CountedServer[] {
    return [...this.#services.values()].flatMap(({ counted }) => counted ?? [])
  }

  /**
   * Calls `onIdle` once when the present server had no request for so long, counted from now on; undefined = no longer. Asked again with the
   * same time, it is the same wait; with a server that takes its place it begins again.
   */
  limitIdleness(key: string, limit: IdleLimit | undefined): void {
    this.#of(key)?.run?.driver.poller.limitIdleness(limit)
  }

  /** What each server that runs may load again; `files` undefined where an earlier agent started it and did not note that. */
  filesInUse(): { readonly service: string; readonly files: readonly string[] | undefined }[] {
    return [...this.#services].flatMap(([service, { isRunning, server }]) =>
      isRunning ? [{ service, files: server?.facts.files }] : [],
    )
  }

  /** What the servers of the key write and wrote, whether one runs or not. */
  outputOf(key: string): ReadableOutput {
    return this.#outputOf(key)
  }

  /** Which runtime the server is of. */
  runtimeOf(key: string): ServerRuntime {
    return this.#of(key)?.runtime ?? 'llama-server'
  }

  /** Undefined where no process of it runs, also after a crash. */
  runningRuntimeOf(key: string): ServerRuntime | undefined {
    const state = this.get(key)
    return state && state.kind !== 'exited' ? this.runtimeOf(key) : undefined
  }

  /** The command line of the present server of the key; undefined where none was started, or an earlier agent did not note it. */
  commandOf(key: string): readonly string[] | undefined {
    return this.#of(key)?.command
  }

  /** Where the present server of the key writes, or the last one wrote; undefined where none was started yet. */
  logFileOf(key: string): string | undefined {
    return this.#of(key)?.folder?.logFile
  }

  /** The present server of each key. */
  state(): ReadonlyMap<string, ServerState> {
    const found = [...this.#services.keys()].map((key) => [key, this.get(key)] as const)
    return new Map(found.flatMap(([key, state]) => (state ? [[key, state]] : [])))
  }

  /** How the latest server that was not stopped ended, with its last lines; kept while others take its place. */
  lastFailure(key: string): Exited | undefined {
    return this.#services.get(key)?.lastFailure
  }

  /** How often it failed in a row, and when it may be tried again; undefined where no start has failed. */
  backOff(key: string): Failure | undefined {
    return this.#services.get(key)?.backOff
  }

  /** For a start that failed before there was a process, as for one that failed after. */
  countFailure(key: string, servedMs = 0): Failure {
    return this.#service(key).countFailure(servedMs)
  }

  /** The next start need not wait, and the next failure counts as the first. */
  clearBackOff(key: string): void {
    this.#services.get(key)?.clearBackOff()
  }

  /** Its service is gone, and what its servers wrote goes with it. Throws while something of them is left. */
  forget(key: string): void {
    this.#services.get(key)?.refuseWhileAlive()
    this.#services.delete(key)
    void this.#clearOutput(key)
  }

  /** Removes what servers wrote of which nothing was heard for long: their services went while no agent ran. To be called after adoption. */
  async sweepRuns(): Promise<void> {
    const { runs } = serverFolders(this.#options.stateDir)
    for (const name of await namesIn(runs)) {
      const key = keyOfRun(name)
      if (this.#services.has(key)) continue
      const silentForMs = await this.#outputOf(key).silentForMs()
      // A server may have been started meanwhile, and what it writes stays.
      if (this.#services.has(key)) continue
      if (silentForMs > runsKeptMs) await this.#clearOutput(key)
      else this.#outputs.delete(key)
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

  #service(key: string): ServiceServer {
    const known = this.#services.get(key)
    if (known) return known
    const { stateDir, onProbe } = this.#options
    const service = new ServiceServer({
      ...this.#options,
      key,
      output: this.#outputOf(key),
      ports: this.#ports,
      folders: serverFolders(stateDir),
      exits: this.#exits,
      enginesBut: (but) =>
        [...this.#services.values()].flatMap(({ isRunning, server }) =>
          isRunning && server !== but ? (server?.neededEngine ?? []) : [],
        ),
      onProbe: (seconds, healthy) => onProbe(key, seconds, healthy),
      onState: (state) => this.#tell(key, state),
    })
    this.#services.set(key, service)
    return service
  }

  #of(key: string): Server | undefined {
    return this.#services.get(key)?.server
  }

  /** A server of that key that is started meanwhile waits for this, as its output is the same object. */
  async #clearOutput(key: string): Promise<void> {
    await this.#outputOf(key).clear()
    if (!this.#services.has(key)) this.#outputs.delete(key)
  }

  #outputOf(key: string): ServiceOutput {
    const known = this.#outputs.get(key)
    if (known) return known
    const { stateDir, outputBytes: limitBytes, log, now } = this.#options
    const newest = () => this.#of(key)?.folder
    const output = new ServiceOutput({
      ...{ key, log, now, newest, limitBytes },
      folders: serverFolders(stateDir),
    })
    this.#outputs.set(key, output)
    return output
  }

  #tell(key: string, state: ServerState): void {
    for (const listener of this.#listeners) {
      try {
        listener(key, state)
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
