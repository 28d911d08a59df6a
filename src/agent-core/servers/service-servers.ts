import type { Logger } from '../observability/logger.ts'
import { jitteredMs, type BackOff } from '../util/back-off.ts'
import { DaemonModel, type DaemonModelOrigin } from './daemon-model.ts'
import { isOfDaemon, type GeneralRules, type Launch, type LaunchRules } from './launch.ts'
import { everyAddress, hostIn, loopback } from './listening.ts'
import type { Daemon, DaemonAddress, DaemonRuntimeName } from './daemon.ts'
import type { LedgerEntry } from './ledger.ts'
import type { LookOptions, Use } from './poller.ts'
import type { CountersReading } from './probe.ts'
import type { ExitWatch } from './process-group.ts'
import { runFolder, runOf, type RunFolder, type ServerFolders } from './run-folder.ts'
import { ServerProcess, type ServerOrigin, type ServerProcessOptions } from './server-process.ts'
import type { DaemonEngine, ServerFacts, StopOptions, StopReport, ServedModel } from './served-model.ts'
import { isOver, stableAfterMs, type Exited, type Failure, type ServerRole, type ServerState } from './server-state.ts'

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
  readonly role: ServerRole
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

export interface ServiceServersOptions extends Pick<
  ServerProcessOptions,
  'key' | 'output' | 'ledger' | 'ports' | 'platform' | 'protocols' | 'liveness' | 'log' | 'now' | 'onProbe'
> {
  readonly folders: ServerFolders
  /** Watches servers that an earlier agent started. */
  readonly exits: ExitWatch
  readonly random: () => number
  readonly daemons: (runtime: DaemonRuntimeName, address: DaemonAddress) => Daemon
  /** Engines that all servers of this agent need, but `but`. */
  readonly enginesBut: (but: ServedModel) => readonly DaemonEngine[]
  readonly onCounters: (server: CountedServer, reading: CountersReading) => void
  /** In the turn of the change; `role` is that of the server whose state it is. */
  readonly onState: (state: ServerState, role: ServerRole) => void
}

interface Beginning {
  readonly role: ServerRole
  readonly facts: ServerFacts
}

interface ProcessBeginning extends Beginning {
  readonly rules: LaunchRules
  readonly origin: ServerOrigin
}

interface ModelBeginning extends Beginning {
  readonly runtime: DaemonRuntimeName
  readonly rules: GeneralRules
  readonly engine: DaemonEngine
  readonly origin: DaemonModelOrigin
}

/**
 * How long no request may have come to a server whose successor is published before it ends: by then every node of the cluster knows the
 * new port. kube-proxy may take a second to tell the kernel (`--iptables-min-sync-period`), and the news must reach it first.
 */
const flipSettleMs = 3_000

/** A model that cannot run is tried twelve times an hour, and comes back within minutes when the cause goes away. */
const crashBackOff: BackOff = { firstMs: 1_000, maxMs: 5 * 60_000 }

/** The servers of one InferenceService: one, and for the moment in which one takes over from another, two. */
export class ServiceServers {
  readonly #options: ServiceServersOptions
  #current: ServedModel | undefined
  /** Kept when it failed, until it is dropped or another is started. */
  #successor: ServedModel | undefined
  /** The replaced server, kept until all its processes are gone. */
  #retiring: ServedModel | undefined
  #lastFailure: Exited | undefined
  #backOff: Failure | undefined

  constructor(options: ServiceServersOptions) {
    this.#options = options
  }

  /** Throws while something of an earlier process is left. */
  start(launch: Launch): void {
    this.refuseWhileAlive()
    this.#successor = undefined
    this.#launch('current', launch, undefined)
  }

  /** Throws where there is no present server, or more than that. */
  startBeside(launch: Launch): void {
    const { key } = this.#options
    const beside = this.#current?.folder
    if (!this.#current || !beside || isOver(this.#current.state))
      throw new Error(`${key} has no server to start another beside.`)
    for (const other of [this.#successor, this.#retiring]) {
      if (other && !isOver(other.state)) throw new Error(`${key} has two servers already.`)
    }
    this.#launch('successor', launch, beside)
  }

  /** Throws where there is no successor. */
  promote(): void {
    const { key, ledger, log } = this.#options
    const [successor, current] = [this.#successor, this.#current]
    if (!successor || isOver(successor.state)) throw new Error(`${key} has no successor.`)
    this.#current = successor
    this.#successor = undefined
    const [next, last] = [successor.folder, current?.folder]
    ledger.cast({ ...(next && { [next.name]: 'current' }), ...(last && { [last.name]: 'retiring' }) })
    log.info('successor takes over', { service: key })
    if (current && !isOver(current.state)) this.#retire(current)
  }

  async dropSuccessor(): Promise<StopReport> {
    if (!this.#successor) return { stopped: true }
    if (!isOver(this.#successor.state)) return await this.#successor.stop({ drainMs: 0 })
    this.#successor = undefined
    return { stopped: true }
  }

  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    const { key, exits, folders, log } = this.#options
    const { role = 'current', port, outputOffset, readySince } = entry
    const folder = runFolder(folders, runOf(entry.workingDirectory))
    if (isModel(entry)) {
      log.info('found a model in a daemon', { service: key, model: entry.daemon.model, port, role })
      const origin = { kind: 'found', port, folder, ...since(readySince) } as const
      const { runtime, ...engine } = entry.daemon
      const facts = factsIn({ ...entry, host: loopback, engine })
      const server = this.#beginModel({ role, facts, rules, origin, engine, runtime })
      if (role === 'retiring') this.#retire(server)
      return
    }
    const { runtime, executable, argv, sleepsWhenIdle } = entry
    const { pid, startTime } = entry.process
    const process = { pid, startTime, exited: exits.exitOf({ pid, startTime }) }
    const command = argv && [executable, ...argv]
    log.info('adopted server', { service: key, pid, port, role })
    const server = this.#begin({
      role,
      facts: factsIn(entry),
      rules: { ...rules, ...(runtime && { runtime }), executable, sleepsWhenIdle },
      origin: { kind: 'found', server: { process, port, outputOffset, command, ...since(readySince) }, folder },
    })
    if (role === 'retiring') this.#retire(server)
  }

  /** Leaves the servers running when this agent ends. */
  letGo(): void {
    for (const server of this.#all()) server.letGo()
  }

  async stop(options: StopOptions): Promise<StopReport> {
    const reports = await Promise.all(this.#all().map((server) => server.stop(options)))
    return reports.find(({ stopped }) => !stopped) ?? { stopped: true }
  }

  skipDrain(): boolean {
    return this.#all()
      .map((server) => server.skipDrain())
      .includes(true)
  }

  of(role: ServerRole): ServedModel | undefined {
    switch (role) {
      case 'current':
        return this.#current
      case 'successor':
        return this.#successor
      case 'retiring':
        return this.#retiring
    }
  }

  /** The run that was begun last. */
  get newestRun(): RunFolder | undefined {
    return this.#successor?.folder ?? this.#current?.folder
  }

  /** Those with counters to read. */
  counted(): CountedServer[] {
    return this.#all().flatMap((server) => {
      const { folder, state, run, facts, sleepsWhenIdle, isFound } = server
      if (!folder || !run || (state.kind !== 'ready' && state.kind !== 'stopping')) return []
      const { pid, port, poller } = run
      return [
        {
          ...{ key: this.#options.key, role: this.#roleOf(server), digest: facts.digest },
          ...{ run: folder.name, pid, port, sleepsWhenIdle, isFound },
          isWell: state.kind === 'ready' && state.healthy,
          look: (options) => poller.look(options),
        },
      ]
    })
  }

  /** What each server may load again; one that finishes its last requests loads nothing. */
  get files(): (readonly string[] | undefined)[] {
    return this.#all()
      .filter((server) => server !== this.#retiring && !isOver(server.state))
      .map(({ facts }) => facts.files)
  }

  get running(): number {
    return this.#all().filter(({ state }) => !isOver(state)).length
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
    const left = this.#all().find(({ state }) => !isOver(state))
    if (!left) return
    throw new Error(`${this.#options.key} still has a server (${left.state.kind}): stop it and wait until it is over.`)
  }

  /** What it has in daemons, or is to have. */
  get held(): ServedModel[] {
    return this.#all().filter(({ state, needsEngine }) => needsEngine && !isOver(state))
  }

  #all(): ServedModel[] {
    return [this.#current, this.#successor, this.#retiring].filter((server) => server !== undefined)
  }

  #roleOf(server: ServedModel): ServerRole {
    return server === this.#successor ? 'successor' : server === this.#retiring ? 'retiring' : 'current'
  }

  #launch(role: 'current' | 'successor', launch: Launch, beside: RunFolder | undefined): void {
    if (isOfDaemon(launch)) {
      const { runtime, daemon, content } = launch
      const { name: model, isOurs, cacheBits } = content
      const engine = { ...daemon, model, isOurs, ...(cacheBits !== undefined && { cacheBits }) }
      const facts = factsIn({ ...launch, host: loopback, engine })
      this.#beginModel({ role, facts, rules: launch, engine, runtime, origin: { kind: 'launch', launch, beside } })
      return
    }
    const facts = factsIn({ ...launch, host: launch.host ?? hostIn(launch.argv(0)) })
    this.#begin({ role, facts, rules: launch, origin: { kind: 'launch', launch, beside } })
  }

  #beginModel({ role, facts, rules, origin, engine, runtime }: ModelBeginning): ServedModel {
    const daemon = this.#options.daemons(runtime, engine)
    const needed = () =>
      this.#options.enginesBut(server).filter((one) => one.host === engine.host && one.port === engine.port)
    const server: ServedModel = new DaemonModel({
      ...this.#options,
      ...{ facts, origin, runtime, daemon, launch: { ...rules, executable: runtime } },
      role: () => this.#roleOf(server),
      neededByOthers: () => new Set(needed().map(({ model }) => daemon.canonical(model))),
      onFailure: (servedMs) => this.countFailure(servedMs),
      onState: (state) => this.#changed(server, state),
    })
    return this.#began(server, role)
  }

  #begin({ role, facts, rules, origin }: ProcessBeginning): ServedModel {
    const server: ServerProcess = new ServerProcess({
      ...this.#options,
      role: () => this.#roleOf(server),
      facts,
      origin,
      launch: rules,
      onCounters: (reading) => {
        const counted = this.counted().find(({ run }) => run === server.folder?.name)
        if (counted) this.#options.onCounters(counted, reading)
      },
      onFailure: (servedMs) => this.countFailure(servedMs),
      onState: (state) => this.#changed(server, state),
    })
    return this.#began(server, role)
  }

  #began(server: ServedModel, role: ServerRole): ServedModel {
    if (role === 'current') this.#current = server
    else if (role === 'successor') this.#successor = server
    else this.#retiring = server
    server.start()
    return server
  }

  /** Clients that still know the old port are answered until no request comes. Its state tells its end. */
  #retire(server: ServedModel): void {
    this.#retiring = server
    void server.stop({ quietMs: flipSettleMs })
  }

  #changed(server: ServedModel, state: ServerState): void {
    const { key, log, ledger, onState } = this.#options
    const role = this.#roleOf(server)
    logState(log, key, state)
    const run = server.folder?.name
    if (run !== undefined && isOver(state)) ledger.forget(run)
    if (run !== undefined && state.kind === 'ready' && state.healthy && state.pid !== undefined)
      void ledger.ready(run, state.pid, state.readySince)
    if (state.kind === 'exited' && state.settled && state.cause !== 'stopped') this.#lastFailure = state
    if (role === 'retiring' && isOver(state)) this.#retiring = undefined
    if (role === 'successor' && wasStopped(state)) this.#successor = undefined
    onState(state, role)
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

const wasStopped = (state: ServerState): boolean =>
  state.kind === 'exited' && state.settled && state.cause === 'stopped'

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
