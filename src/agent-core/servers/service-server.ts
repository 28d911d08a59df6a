import type { Logger } from '../observability/logger.ts'
import { jitteredMs, type BackOff } from '../util/back-off.ts'
import { isOfDaemon, type GeneralRules, type Launch, type LaunchRules } from './launch.ts'
import { everyAddress, hostIn, loopback } from './listening.ts'
import { daemonRuntimes, type Daemon, type DaemonAddress, type DaemonRuntimeName } from './daemon.ts'
import type { LedgerEntry } from './ledger.ts'
import type { LookOptions, Use } from './poller.ts'
import type { CountersReading, ServerRuntime } from './probe.ts'
import type { ExitWatch } from './process-group.ts'
import { runFolder, runOf, type ServerFolders } from './run-folder.ts'
import type { DaemonEngine, ServerFacts } from './served-model.ts'
import { Server, type ServerOptions, type ServerOrigin } from './server.ts'
import { isOver, stableAfterMs, type Exited, type Failure, type ServerState } from './server-state.ts'

/** What the ledger says of a server that is provably the same as when it was noted. */
export type AdoptableProcess = LedgerEntry & {
  readonly process: NonNullable<LedgerEntry['process']>
  /** The address that it listens at; absent = all. */
  readonly host?: string
}
/** A daemon says itself whether it still has the model. */
export type AdoptableModel = LedgerEntry & { readonly daemon: NonNullable<LedgerEntry['daemon']> }
export type AdoptableServer = AdoptableProcess | AdoptableModel

/** A server that runs and has been ready, with how to ask what it does. */
export interface CountedServer {
  readonly key: string
  readonly digest: string
  /** Identifies this start of the server. */
  readonly run: string
  /** The pid of its first process, which is the number of its process group; undefined for a daemon's model. */
  readonly pid: number | undefined
  readonly port: number
  readonly sleepsWhenIdle: boolean
  /** An earlier agent started it. */
  readonly isFound: boolean
  /** Neither stopping nor silent. */
  readonly isWell: boolean
  /** See Poller. */
  readonly look: (options?: LookOptions) => Promise<Use>
}

export interface ServiceServerOptions extends Pick<
  ServerOptions,
  'key' | 'output' | 'ledger' | 'ports' | 'platform' | 'protocols' | 'liveness' | 'log' | 'now' | 'onProbe'
> {
  readonly folders: ServerFolders
  /** Watches servers that an earlier agent started. */
  readonly exits: ExitWatch
  readonly random: () => number
  readonly daemons: (runtime: DaemonRuntimeName, address: DaemonAddress) => Daemon
  readonly atGateway: (key: string) => Promise<number | undefined>
  /** Engines that all servers of this agent need, but `but`. */
  readonly enginesBut: (but: Server) => readonly DaemonEngine[]
  readonly onCounters: (server: CountedServer, reading: CountersReading) => void
  /** In the turn of the change. */
  readonly onState: (state: ServerState) => void
}

interface Beginning {
  readonly facts: ServerFacts
  readonly rules: LaunchRules
  readonly origin: ServerOrigin
}

/** A model that cannot run is tried twelve times an hour, and comes back within minutes when the cause goes away. */
const crashBackOff: BackOff = { firstMs: 1_000, maxMs: 5 * 60_000 }

/** The server of one InferenceService, and how often it failed. */
export class ServiceServer {
  readonly #options: ServiceServerOptions
  #server: Server | undefined
  #lastFailure: Exited | undefined
  #backOff: Failure | undefined

  constructor(options: ServiceServerOptions) {
    this.#options = options
  }

  /** Throws while something of an earlier process is left. */
  start(launch: Launch): void {
    this.refuseWhileAlive()
    const origin = { kind: 'launch', launch } as const
    if (isOfDaemon(launch)) {
      const { runtime, daemon, content } = launch
      const { name: model, isOurs } = content
      const facts = factsIn({ ...launch, host: loopback, engine: { ...daemon, model, isOurs } })
      this.#begin({ facts, rules: { ...launch, executable: runtime }, origin })
      return
    }
    const facts = factsIn({ ...launch, host: launch.host ?? hostIn(launch.argv(0)) })
    this.#begin({ facts, rules: launch, origin })
  }

  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    const { key, exits, folders, log } = this.#options
    const { port, outputOffset, readySince } = entry
    const folder = runFolder(folders, runOf(entry.workingDirectory))
    const server = { port, outputOffset, ...since(readySince) }
    if (isModel(entry)) {
      log.info('found a model in a daemon', { service: key, model: entry.daemon.model, port })
      const { runtime, ...engine } = entry.daemon
      const facts = factsIn({ ...entry, host: loopback, engine })
      this.#begin({
        facts,
        rules: { ...rules, runtime, executable: runtime },
        origin: { kind: 'found', server, folder },
      })
      return
    }
    const { runtime, executable, argv, sleepsWhenIdle } = entry
    const { pid, startTime } = entry.process
    const process = { pid, startTime, exited: exits.exitOf({ pid, startTime }) }
    const command = argv && [executable, ...argv]
    log.info('adopted server', { service: key, pid, port })
    this.#begin({
      facts: factsIn(entry),
      rules: { ...rules, ...(runtime && { runtime }), executable, sleepsWhenIdle },
      origin: { kind: 'found', server: { ...server, process, command }, folder },
    })
  }

  /** It runs, or ended last; undefined where none was started. */
  get server(): Server | undefined {
    return this.#server
  }

  /** Undefined where it has no counters to read. */
  get counted(): CountedServer | undefined {
    if (!this.#server) return undefined
    const { folder, state, run, facts, sleepsWhenIdle, isFound } = this.#server
    if (!folder || !run || (state.kind !== 'ready' && state.kind !== 'stopping')) return undefined
    const { port, driver } = run
    const { life, poller } = driver
    return {
      ...{
        key: this.#options.key,
        digest: facts.digest,
        run: folder.name,
        pid: life.pid,
        port,
        sleepsWhenIdle,
        isFound,
      },
      isWell: state.kind === 'ready' && state.healthy,
      look: (options) => poller.look(options),
    }
  }

  get isRunning(): boolean {
    return this.#server !== undefined && !isOver(this.#server.state)
  }

  get lastFailure(): Exited | undefined {
    return this.#lastFailure
  }

  get backOff(): Failure | undefined {
    return this.#backOff
  }

  /** `servedMs`: how long it was ready before it failed, 0 if it never was. */
  countFailure(servedMs: number): Failure {
    const { now, random } = this.#options
    const failures = servedMs >= stableAfterMs ? 1 : (this.#backOff?.failures ?? 0) + 1
    this.#backOff = { failures, retryAt: now() + retryDelayMs(failures, servedMs, random) }
    return this.#backOff
  }

  clearBackOff(): void {
    this.#backOff = undefined
  }

  refuseWhileAlive(): void {
    if (!this.#server || isOver(this.#server.state)) return
    const { kind } = this.#server.state
    throw new Error(`${this.#options.key} still has a server (${kind}): stop it and wait until it is over.`)
  }

  #begin({ facts, rules, origin }: Beginning): void {
    const { engine } = facts
    const server: Server = new Server({
      ...{ ...this.#options, facts, origin, launch: rules },
      model: engine && this.#modelOf(engine, rules.runtime, () => this.#options.enginesBut(server)),
      onCounters: (reading) => {
        const { counted } = this
        if (counted && counted.run === server.folder?.name) this.#options.onCounters(counted, reading)
      },
      onFailure: (servedMs) => this.countFailure(servedMs),
      onState: (state) => this.#changed(server, state),
    })
    this.#server = server
    server.start()
  }

  #modelOf(engine: DaemonEngine, runtime: ServerRuntime | undefined, others: () => readonly DaemonEngine[]) {
    const { host, port } = engine
    const name = daemonRuntimes.find((one) => one === runtime)
    if (!name) throw new TypeError(`${runtime} is no daemon.`)
    const daemon = this.#options.daemons(name, engine)
    const needed = () => others().filter((one) => one.host === host && one.port === port)
    const { key, atGateway } = this.#options
    const neededByOthers = () => new Set(needed().map(({ model }) => daemon.canonical(model)))
    return { daemon, engine, neededByOthers, atGateway: () => atGateway(key) }
  }

  #changed(server: Server, state: ServerState): void {
    const { key, log, ledger, onState } = this.#options
    logState(log, key, state)
    const run = server.folder?.name
    if (run !== undefined && isOver(state)) ledger.forget(run)
    if (run !== undefined && state.kind === 'ready' && state.healthy)
      void ledger.ready(run, state.pid, state.readySince)
    if (state.kind === 'exited' && state.settled && state.cause !== 'stopped') this.#lastFailure = state
    onState(state)
  }
}

/** The first crash of a server that served is restarted at once: what ends in the same way again waits. */
const retryDelayMs = (failures: number, servedMs: number, random: () => number): number =>
  failures === 1 && servedMs > 0 ? 0 : jitteredMs(crashBackOff, failures, random)

type FactsNoted = Pick<LedgerEntry, 'digest' | 'needBytes' | 'mappedBytes'> & {
  readonly host?: string
  readonly files?: readonly string[] | undefined
  readonly engine?: DaemonEngine
}

const isModel = (entry: AdoptableServer): entry is AdoptableModel => entry.daemon !== undefined

const since = (readySince: string | undefined) =>
  readySince === undefined ? {} : { readySince: Date.parse(readySince) }

const factsIn = ({ digest, host = everyAddress, files, engine, ...need }: FactsNoted): ServerFacts => ({
  digest,
  host,
  needBytes: need.needBytes,
  mappedBytes: need.mappedBytes ?? 0,
  files,
  ...(engine && { engine }),
})

function logState(log: Logger, key: string, state: ServerState): void {
  const { pid, port }: Pick<ServerState, 'kind'> & { readonly pid?: number; readonly port?: number } = state
  const about = { service: key, pid, port }
  switch (state.kind) {
    case 'starting':
      if (state.pid !== undefined) log.debug('started server', about)
      return
    case 'loading':
      log.debug('server is loading', about)
      return
    case 'ready':
      if (state.healthy) log.debug('server is ready', about)
      else log.warn('server does not answer', { ...about, trouble: state.trouble })
      return
    case 'stopping':
      if (state.drain) log.info('requests are finishing', { service: key, pid: state.pid, ...state.drain })
      else log.info('stopping server', { ...about, cause: state.cause })
      return
    case 'failedToSpawn':
      log.warn('server could not be started', { service: key, reason: state.message })
      return
    case 'exited': {
      if (!state.settled) return
      const { code, signal, message: reason, cause, left } = state
      const level = cause === 'stopped' && left === undefined ? 'info' : 'warn'
      log[level]('server exited', { service: key, code, signal, reason, left })
    }
  }
}
