import { mkdir } from 'node:fs/promises'
import { messageOf } from '../util/message-of.ts'
import { hangsMessage, stoppedMessage } from './crash-cause.ts'
import {
  defaultDrainLimitMs,
  defaultStopGraceMs,
  isOfDaemon,
  spawnServer,
  SpawnError,
  type Launch,
  type RunningProcess,
} from './launch.ts'
import { LedgerError, type Ledger } from './ledger.ts'
import { ModelDriver, type ModelSurroundings } from './model-driver.ts'
import { OutputError, type ServiceOutput } from './output.ts'
import { NoPortError } from './ports.ts'
import type { ServerProtocol, ServerRuntime } from './probe.ts'
import { ProcessDriver, type ProcessSurroundings } from './process-driver.ts'
import type { RunFolder } from './run-folder.ts'
import type { DaemonEngine, ServerFacts, StopOptions, StopReport } from './served-model.ts'
import { ServerRun, type RunContext, type RunEnd } from './server-run.ts'
import { isOver, type Exited, type Failure, type ServerState } from './server-state.ts'
import { longestStopMs } from './termination.ts'

export interface ServerOptions extends RunContext, ProcessSurroundings {
  readonly key: string
  readonly facts: ServerFacts
  readonly output: ServiceOutput
  readonly origin: ServerOrigin
  readonly ledger: Ledger
  readonly protocols: Readonly<Record<ServerRuntime, ServerProtocol>>
  /** Absent where it is a process. */
  readonly model?: ModelSurroundings | undefined
  /** Asked once when the server failed for good; `servedMs` is 0 where it never got ready. */
  readonly onFailure: (servedMs: number) => Failure
}

export type ServerOrigin =
  | { readonly kind: 'launch'; readonly launch: Launch }
  | { readonly kind: 'found'; readonly server: FoundServer; readonly folder: RunFolder }

/** A server that an earlier agent started, which is provably the same. */
export interface FoundServer {
  /** Absent where it is a daemon's model. */
  readonly process?: RunningProcess
  readonly port: number
  readonly outputOffset: number
  /** The executable and its arguments, where the ledger has them. */
  readonly command?: readonly string[] | undefined
  /** Absent where it was not ready yet, as far as is known. */
  readonly readySince?: number | undefined
}

/** A port that is taken between our test and the server's bind is rare; five in a row are something else. */
const maxPortTries = 5

/** What serves the model of a service, from its start to its end, on whatever port it got: a process of its own, or a model in a daemon. */
export class Server {
  readonly #options: ServerOptions
  readonly #over = Promise.withResolvers<undefined>()
  #facts: ServerFacts
  #state: ServerState
  #folder: RunFolder | undefined
  #run: ServerRun | undefined
  /** The shortest grace that was asked for. */
  #stopWithin: number | undefined

  constructor(options: ServerOptions) {
    const { origin, now, facts } = options
    this.#options = options
    this.#facts = facts
    this.#state = { kind: 'starting', since: now() }
    if (origin.kind === 'launch') return
    const { server, folder } = origin
    this.#folder = folder
    this.#run = this.#begin({ ...server, folder })
    this.#state = { ...this.#state, unasked: true, ...this.#run.driver.life, port: server.port }
  }

  /** By which name a daemon knows its model may turn out only when it is loaded. */
  get facts(): ServerFacts {
    return this.#facts
  }

  /** Undefined until the folder is created. */
  get folder(): RunFolder | undefined {
    return this.#folder
  }

  /** The executable and its arguments; undefined before there is a process, where an earlier agent did not note them, and for a daemon's model. */
  get command(): readonly string[] | undefined {
    const { origin } = this.#options
    if (origin.kind === 'found') return origin.server.command
    const { launch } = origin
    return this.#run && !isOfDaemon(launch) ? [launch.executable, ...launch.argv(this.#run.port)] : undefined
  }

  get state(): ServerState {
    return this.#state
  }

  /** What answers, and how to ask what it does; undefined before there is anything to ask. */
  get run(): ServerRun | undefined {
    return this.#run
  }

  /** An earlier agent started it. */
  get isFound(): boolean {
    return this.#options.origin.kind === 'found'
  }

  get runtime(): ServerRuntime {
    return this.#options.launch.runtime ?? 'llama-server'
  }

  get sleepsWhenIdle(): boolean {
    return this.#options.launch.sleepsWhenIdle === true
  }

  /** The model that a daemon is to keep for it. */
  get neededEngine(): DaemonEngine | undefined {
    return isOver(this.#state) || this.#run?.driver.needsEngine === false ? undefined : this.#facts.engine
  }

  start(): void {
    this.#set(this.#state)
    void this.#live()
  }

  /** What runs, runs on; what does not run yet is not started. */
  letGo(): void {
    if (this.#run) this.#run.letGo()
    else this.#stopWithin = 0
  }

  /**
   * Requests in flight may finish, then SIGTERM to the whole group, SIGKILL after the grace, and a look that nothing is left. Calls join;
   * shorter times count at once. Resolves when nothing of it is left, or with what is.
   */
  async stop({ graceMs, drainMs }: StopOptions = {}): Promise<StopReport> {
    const { stopGraceMs = defaultStopGraceMs, drainLimitMs = defaultDrainLimitMs } = this.#options.launch
    const times = { graceMs: graceMs ?? stopGraceMs, drainMs: drainMs ?? drainLimitMs }
    this.#askToStop(times)
    const limit = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => limit.resolve(undefined), longestStopMs(times.drainMs, times.graceMs))
    await Promise.race([this.#over.promise, limit.promise])
    clearTimeout(timer)
    const { driver } = this.#run ?? {}
    if (!isOver(this.#state))
      return { stopped: false, message: driver?.hangsMessage ?? hangsMessage(undefined, this.#options.launch) }
    const left = this.#state.kind === 'exited' ? this.#state.left : undefined
    return left === undefined ? { stopped: true } : { stopped: false, message: left }
  }

  /** Cuts the requests that are still in flight; false if the server is not draining. */
  skipDrain(): boolean {
    return this.#run?.skipDrain() ?? false
  }

  #askToStop(times: StopOptions & { readonly graceMs: number }): void {
    if (isOver(this.#state)) return
    this.#stopWithin = Math.min(times.graceMs, this.#stopWithin ?? times.graceMs)
    if (this.#run) this.#run.end('stopped', times)
    else if (this.#state.kind === 'starting')
      this.#set({ kind: 'stopping', since: this.#options.now(), cause: 'stopped' })
  }

  async #live(): Promise<void> {
    const { now, onFailure, origin } = this.#options
    try {
      const end = await (origin.kind === 'found' ? this.#follow(origin.server) : this.#launch(origin.launch))
      if (end) this.#set(end)
    } catch (error) {
      const known =
        error instanceof NoPortError ||
        error instanceof SpawnError ||
        error instanceof OutputError ||
        error instanceof LedgerError
      this.#set({
        kind: 'failedToSpawn',
        since: now(),
        message: known ? error.message : `The server could not be started: ${messageOf(error)}`,
        ...(this.#stopAsked() ? { failures: 0 } : onFailure(0)),
      })
    } finally {
      this.#over.resolve(undefined)
    }
  }

  async #follow({ port }: FoundServer): Promise<Exited | undefined> {
    using _ = this.#options.ports.keep(port, this.#protocol.furtherPorts)
    const end = await this.#run?.untilOver()
    return end && this.#final(end)
  }

  /** On one port after the other, until one is not taken. Undefined where the server was let go. */
  async #launch(launch: Launch): Promise<Exited | undefined> {
    const { output, ports, log, now, key } = this.#options
    const { host } = this.#facts
    const { furtherPorts: further } = this.#protocol
    const avoid = new Set<number>()
    const folder = await output.begin()
    this.#folder = folder
    for (let attempt = 1; ; attempt++) {
      const setting = launch.portFlag
      using reservation = await ports.reserve(launch.port, { key, host, avoid, setting, further })
      avoid.add(reservation.port)
      const run = await this.#spawn(launch, folder, reservation.port)
      if (!run) return this.#neverStarted()
      const end = await run.untilOver()
      if (!end) return undefined
      const triesAgain = launch.port.kind !== 'fixed' && attempt < maxPortTries && !this.#stopAsked()
      if (!end.portTaken || !triesAgain) return this.#final(end)
      log.info('the port of a server was taken, trying another', { port: run.port, ...run.driver.life })
      this.#run = undefined
      this.#set({ kind: 'starting', since: now() })
    }
  }

  /** Undefined where it was stopped before there was a process. */
  async #spawn(launch: Launch, folder: RunFolder, port: number): Promise<ServerRun | undefined> {
    const { now, ledger, key } = this.#options
    const output = this.#options.output.run(folder)
    const outputOffset = (await output.extent())?.to ?? 0
    await using file = await output.open()
    if (this.#stopAsked()) return undefined
    await ledger.intend(folder, launch, { key, port, outputOffset })
    if (this.#stopAsked()) return undefined
    const { workingDirectory } = folder
    let process: RunningProcess | undefined
    if (isOfDaemon(launch)) await mkdir(workingDirectory, { recursive: true, mode: 0o700 })
    else process = await spawnServer(launch, { port, output: file.fd, workingDirectory })
    const run = this.#begin({ port, outputOffset, folder, ...(process && { process }) })
    this.#run = run
    if (process) void ledger.identify(folder.name, process.pid)
    if (this.#stopAsked()) run.end('stopped', { graceMs: this.#stopWithin })
    else this.#set({ kind: 'starting', since: now(), ...run.driver.life, port })
    return run
  }

  #begin({ folder, process, port, outputOffset, readySince }: FoundServer & { readonly folder: RunFolder }): ServerRun {
    const { origin, model, ledger } = this.#options
    const output = this.#options.output.run(folder)
    const driver = process
      ? new ProcessDriver({
          ...{ ...this.#options, process, host: this.#facts.host, port, output, outputOffset },
          ...{ protocol: this.#protocol, wasReady: readySince !== undefined },
        })
      : model &&
        new ModelDriver({
          ...{ ...this.#options, ...model, port, output, life: { load: nextLoad() } },
          content: origin.kind === 'launch' && isOfDaemon(origin.launch) ? origin.launch.content : undefined,
          onCalled: (engine) => {
            this.#facts = { ...this.#facts, engine }
            ledger.called(folder.name, engine.model)
          },
          onKey: () => this.#set(this.#state),
        })
    if (!driver) throw new TypeError('What is no process is a model in a daemon.')
    return new ServerRun({
      ...{ ...this.#options, driver, port, output, readySince, isFound: origin.kind === 'found' },
      onState: (state) => this.#set(state),
    })
  }

  get #protocol(): ServerProtocol {
    return this.#options.protocols[this.runtime]
  }

  #final({ exited, servedMs }: RunEnd): Exited {
    const failure = exited.cause === 'stopped' ? { failures: 0 } : this.#options.onFailure(servedMs)
    return { ...exited, ...failure, settled: true }
  }

  #neverStarted(): Exited {
    const { launch, now } = this.#options
    const how = { code: null, signal: null, cause: 'stopped', outOf: 'start' } as const
    const message = stoppedMessage(launch.executable)
    return { kind: 'exited', since: now(), ...how, message, tail: [], settled: true, failures: 0 }
  }

  #stopAsked(): boolean {
    return this.#stopWithin !== undefined
  }

  #set(state: ServerState): void {
    this.#state = state
    this.#options.onState(state)
  }
}

let loads = 0
/** No other load has the same number, also by an agent before this one as far as clocks go. */
const nextLoad = (): number => Date.now() + (loads += 1)
