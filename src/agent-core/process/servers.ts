import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { afterCrash, noCrashes, retryDelayMs } from './back-off.ts'
import { probeHealth, type HealthProbe } from './health-probe.ts'
import { ExitWatch } from './exit-watch.ts'
import type { GeneralRules, LaunchRules, ServerLaunch } from './launch.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { livenessTimings, type LivenessTimings } from './liveness.ts'
import { OutputLog } from './output-log.ts'
import { defaultOutputLimits, type OutputLimits } from './output-rotation.ts'
import { Ports } from './ports.ts'
import { ServerProcess, type Failure, type ServerOrigin, type StopOptions, type StopReport } from './server-process.ts'
import { isOver, type Exited, type ServerState } from './server-state.ts'

export interface ServersOptions {
  readonly platform: Pick<
    Platform,
    'name' | 'process' | 'processGroup' | 'portListeners' | 'establishedConnections' | 'isRunning'
  >
  readonly ledger: Ledger
  readonly log: Logger
  readonly now?: () => number
  /** [0, 1) */
  readonly random?: () => number
  readonly liveness?: LivenessTimings
  readonly probe?: HealthProbe
  /** Told of every health check of a server that was ready. */
  readonly onProbe?: (key: string, seconds: number, healthy: boolean) => void
  /** For each server's output, as they are when it is first written or read. */
  readonly outputLimits?: () => OutputLimits
}

/** What the ledger says of a server that is provably the same as when it was noted. */
export type AdoptableServer = LedgerEntry & { readonly process: NonNullable<LedgerEntry['process']> }

export type ServerListener = (key: string, state: ServerState) => void

/** Every server of this agent, by the key of its InferenceService. Restarts nothing by itself: `retryAt` says when it may be tried again. */
export class Servers implements AsyncDisposable {
  readonly #options: Required<ServersOptions>
  readonly #ports: Ports
  readonly #records = new Map<string, ServerRecord>()
  /** Of keys whose latest starts failed. */
  readonly #backOffs = new Map<string, Failure>()
  readonly #outputs = new Map<string, OutputLog>()
  readonly #listeners = new Set<ServerListener>()
  readonly #exits: ExitWatch

  constructor(options: ServersOptions) {
    this.#options = {
      now: Date.now,
      random: Math.random,
      liveness: livenessTimings,
      probe: probeHealth,
      onProbe: () => {},
      outputLimits: () => defaultOutputLimits,
      ...options,
    }
    this.#exits = new ExitWatch(options)
    this.#ports = new Ports({ holders: async (port) => (await options.platform.portListeners(port, noGroup)).others })
  }

  /** Everything from here on is told by `get` and `onChange`. Throws while something of the previous process is left. */
  start(key: string, launch: ServerLaunch): void {
    const record = this.#records.get(key)
    if (record && !isOver(record.process.state)) {
      throw new Error(`${key} still has a server (${record.process.state.kind}): stop it and wait until it is over.`)
    }
    this.#begin(key, { digest: launch.digest, rules: launch, origin: { kind: 'launch', launch } })
  }

  /** Takes over the care for a server that an earlier agent started: from here on it is like one that was started here. */
  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    const { key, digest, port, outputOffset, readySince, executable, logFile, sleepsWhenIdle } = entry
    const { pid, startTime } = entry.process
    const process = { pid, startTime, exited: this.#exits.exitOf({ pid, startTime }) }
    const ready = readySince === undefined ? {} : { readySince: Date.parse(readySince) }
    this.#options.log.info('adopted server', { service: key, pid, port })
    this.#begin(key, {
      digest,
      rules: { ...rules, executable, logFile, sleepsWhenIdle },
      origin: { kind: 'found', server: { process, port, outputOffset, ...ready } },
    })
  }

  /** They run on without us; the ledger has what another agent needs to know. Nothing is told of them any more. */
  async letGo(): Promise<void> {
    this.#listeners.clear()
    this.#exits[Symbol.dispose]()
    for (const { process } of this.#records.values()) process.letGo()
    await this.#options.ledger.close()
  }

  /** Resolves when nothing of it is left, or with what is. Also right where there is no server. */
  async stop(key: string, options: StopOptions = {}): Promise<StopReport> {
    return (await this.#records.get(key)?.process.stop(options)) ?? { stopped: true }
  }

  /** Requests in flight are waited for no longer; false where nothing waits for them. */
  skipDrain(key: string): boolean {
    return this.#records.get(key)?.process.skipDrain() ?? false
  }

  /** All at the same time. */
  async stopAll(options: StopOptions = {}): Promise<ReadonlyMap<string, StopReport>> {
    const reports = [...this.#records.keys()].map(async (key) => [key, await this.stop(key, options)] as const)
    return new Map(await Promise.all(reports))
  }

  get(key: string): ServerState | undefined {
    return this.#records.get(key)?.process.state
  }

  /** Of what the last server of this key serves. */
  digestOf(key: string): string | undefined {
    return this.#records.get(key)?.digest
  }

  /** What the servers with this log file write and wrote, whether one runs or not. */
  output(file: string): OutputLog {
    const { outputLimits, log } = this.#options
    const known = this.#outputs.get(file) ?? new OutputLog({ file, limits: outputLimits(), log })
    this.#outputs.set(file, known)
    return known
  }

  /** How often it was started again since it is known. */
  restarts(key: string): number {
    return Math.max(0, (this.#records.get(key)?.starts ?? 0) - 1)
  }

  state(): ReadonlyMap<string, ServerState> {
    return new Map([...this.#records].map(([key, { process }]) => [key, process.state]))
  }

  /** How its last server ended that nobody had asked to, with its last lines; kept while others take its place. */
  lastFailure(key: string): Exited | undefined {
    return this.#records.get(key)?.lastFailure
  }

  /** How often it failed in a row, and when it may be tried again; undefined when nothing speaks against a start. */
  backOff(key: string): Failure | undefined {
    return this.#backOffs.get(key)
  }

  /** For a start that failed before there was a process, as for one that failed after. */
  countFailure(key: string, servedMs = 0): Failure {
    const { now, random } = this.#options
    const crashes = afterCrash(this.#backOffs.get(key) ?? noCrashes, servedMs)
    const failure = { ...crashes, retryAt: now() + retryDelayMs(crashes, random) }
    this.#backOffs.set(key, failure)
    return failure
  }

  /** What failed is no measure for what comes now: it may be tried at once, and the next failure counts as the first. */
  clearBackOff(key: string): void {
    this.#backOffs.delete(key)
  }

  /** Throws while something of it is left. */
  forget(key: string): void {
    const record = this.#records.get(key)
    if (record && !isOver(record.process.state)) throw new Error(`${key} still has a server: stop it first.`)
    this.#records.delete(key)
    this.#backOffs.delete(key)
  }

  /** Calls on every change, in the turn in which it is known; an exit in the one in which it was reaped. */
  onChange(listener: ServerListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopAll()
    await this.#options.ledger.close()
    this.#exits[Symbol.dispose]()
  }

  #begin(key: string, { digest, rules, origin }: Beginning): void {
    const { platform, probe, liveness, log, now, ledger, onProbe } = this.#options
    const record = this.#records.get(key)
    const process = new ServerProcess({
      key,
      origin,
      ledger,
      launch: rules,
      output: this.output(rules.logFile),
      ports: this.#ports,
      platform,
      probe,
      liveness,
      log,
      now,
      onFailure: (servedMs) => this.countFailure(key, servedMs),
      onProbe: (seconds, healthy) => onProbe(key, seconds, healthy),
      onState: (state) => this.#changed(key, state),
    })
    this.#records.set(key, {
      process,
      digest,
      starts: (record?.starts ?? 0) + 1,
      lastFailure: record?.lastFailure,
    })
    process.start()
  }

  #changed(key: string, state: ServerState): void {
    this.#logChange(key, state)
    this.#note(key, state)
    const record = this.#records.get(key)
    if (record && state.kind === 'exited' && state.settled && state.cause !== 'stopped') record.lastFailure = state
    for (const listener of this.#listeners) {
      try {
        listener(key, state)
      } catch (error) {
        this.#options.log.error('a listener for servers failed', { service: key, error })
      }
    }
  }

  #note(key: string, state: ServerState): void {
    const { ledger } = this.#options
    if (isOver(state)) ledger.forget(key)
    if (state.kind === 'ready' && state.healthy) void ledger.ready(key, state.pid, state.readySince)
  }

  #logChange(key: string, state: ServerState): void {
    const { log } = this.#options
    switch (state.kind) {
      case 'starting':
        if (state.pid !== undefined) log.debug('started server', { service: key, pid: state.pid, port: state.port })
        return
      case 'loading':
        log.debug('server is loading', { service: key, pid: state.pid, port: state.port })
        return
      case 'ready':
        if (!state.healthy)
          log.warn('server does not answer', { service: key, pid: state.pid, port: state.port, trouble: state.trouble })
        else log.debug('server is ready', { service: key, pid: state.pid, port: state.port })
        return
      case 'stopping':
        if (state.drain) log.info('requests are finishing', { service: key, pid: state.pid, ...state.drain })
        else log.info('stopping server', { service: key, pid: state.pid, port: state.port, cause: state.cause })
        return
      case 'failedToSpawn':
        log.warn('server could not be started', { service: key, reason: state.message })
        return
      case 'exited': {
        if (!state.settled) return
        const { code, signal, message: reason, cause, left } = state
        log[cause === 'stopped' && left === undefined ? 'info' : 'warn']('server exited', {
          service: key,
          code,
          signal,
          reason,
          left,
        })
      }
    }
  }
}

/** Whoever listens is somebody else: no group has this number. */
const noGroup = -1

interface Beginning {
  readonly digest: string
  readonly rules: LaunchRules
  readonly origin: ServerOrigin
}

interface ServerRecord {
  readonly process: ServerProcess
  readonly digest: string
  readonly starts: number
  lastFailure: Exited | undefined
}
