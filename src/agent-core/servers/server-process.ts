import { messageOf } from '../util/message-of.ts'
import { hangsMessage, stoppedMessage } from './crash-cause.ts'
import {
  defaultDrainLimitMs,
  defaultStopGraceMs,
  spawnServer,
  SpawnError,
  type RunningProcess,
  type ServerLaunch,
} from './launch.ts'
import { LedgerError, type Ledger } from './ledger.ts'
import { OutputError, type ServiceOutput } from './output.ts'
import { NoPortError } from './ports.ts'
import type { ServerRuntime } from './probe.ts'
import type { RunFolder } from './run-folder.ts'
import type { RunningModel, ServedModel, ServerFacts, StopOptions, StopReport } from './served-model.ts'
import { ServerRun, type RunContext, type RunEnd } from './server-run.ts'
import { isOver, type Exited, type Failure, type ServerState } from './server-state.ts'
import { longestStopMs } from './termination.ts'

export interface ServerProcessOptions extends RunContext {
  readonly key: string
  readonly facts: ServerFacts
  readonly output: ServiceOutput
  readonly origin: ServerOrigin
  readonly ledger: Ledger
  /** Asked once when the server failed for good; `servedMs` is 0 where it never got ready. */
  readonly onFailure: (servedMs: number) => Failure
}

export type ServerOrigin =
  | { readonly kind: 'launch'; readonly launch: ServerLaunch }
  | { readonly kind: 'found'; readonly server: FoundServer; readonly folder: RunFolder }

/** A server that an earlier agent started, which is provably the same. */
export interface FoundServer {
  readonly process: RunningProcess
  readonly port: number
  readonly outputOffset: number
  /** The executable and its arguments, where the ledger has them. */
  readonly command?: readonly string[] | undefined
  /** Absent where it was not ready yet, as far as is known. */
  readonly readySince?: number | undefined
}

/** A port that is taken between our test and the server's bind is rare; five in a row are something else. */
const maxPortTries = 5

/** One server from its start to its end, on whatever port it got. */
export class ServerProcess implements ServedModel {
  readonly facts: ServerFacts
  readonly needsEngine = false
  readonly #options: ServerProcessOptions
  readonly #onState: (state: ServerState) => void
  readonly #over = Promise.withResolvers<undefined>()
  #state: ServerState
  #folder: RunFolder | undefined
  #run: ServerRun | undefined
  /** The shortest grace that was asked for. */
  #stopWithin: number | undefined

  constructor(options: ServerProcessOptions) {
    this.facts = options.facts
    this.#options = { ...options, onState: (state) => this.#set(state) }
    this.#onState = options.onState
    this.#state = { kind: 'starting', since: options.now(), ...foundIn(options.origin) }
    this.#folder = options.origin.kind === 'found' ? options.origin.folder : undefined
  }

  /** Undefined until the folder is created. */
  get folder(): RunFolder | undefined {
    return this.#folder
  }

  /** The executable and its arguments; undefined before there is a process, and where an earlier agent did not note them. */
  get command(): readonly string[] | undefined {
    const { origin } = this.#options
    if (origin.kind === 'found') return origin.server.command
    return this.#run && [origin.launch.executable, ...origin.launch.argv(this.#run.port)]
  }

  get state(): ServerState {
    return this.#state
  }

  /** Its process, and how to ask what it does; undefined before there is one. */
  get run(): RunningModel | undefined {
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
   * shorter times count at once.
   */
  async stop({ graceMs, drainMs }: StopOptions = {}): Promise<StopReport> {
    const { stopGraceMs = defaultStopGraceMs, drainLimitMs = defaultDrainLimitMs } = this.#options.launch
    const times = { graceMs: graceMs ?? stopGraceMs, drainMs: drainMs ?? drainLimitMs }
    this.#askToStop(times)
    const limit = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => limit.resolve(undefined), longestStopMs(times.drainMs, times.graceMs))
    await Promise.race([this.#over.promise, limit.promise])
    clearTimeout(timer)
    if (!isOver(this.#state)) return { stopped: false, message: hangsMessage(this.#run?.pid, this.#options.launch) }
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
      const end = await (origin.kind === 'found' ? this.#follow(origin) : this.#launch(origin))
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

  async #follow({ server, folder }: Extract<ServerOrigin, { kind: 'found' }>): Promise<Exited | undefined> {
    const { ports, output } = this.#options
    using _ = ports.keep(server.port, this.#furtherPorts)
    const { host } = this.facts
    this.#run = new ServerRun({ ...this.#options, ...server, host, output: output.run(folder) })
    const end = await this.#run.untilOver()
    return end && this.#final(end)
  }

  /** On one port after the other, until one is not taken. Undefined where the server was let go. */
  async #launch({ launch }: Extract<ServerOrigin, { kind: 'launch' }>): Promise<Exited | undefined> {
    const { output, ports, log, now, key } = this.#options
    const { host } = this.facts
    const avoid = new Set<number>()
    const folder = await output.begin()
    this.#folder = folder
    for (let attempt = 1; ; attempt++) {
      const setting = launch.portFlag
      using reservation = await ports.reserve(launch.port, { key, host, avoid, setting, further: this.#furtherPorts })
      avoid.add(reservation.port)
      const run = await this.#spawn(launch, folder, reservation.port)
      if (!run) return this.#neverStarted()
      const end = await run.untilOver()
      if (!end) return undefined
      const triesAgain = launch.port.kind !== 'fixed' && attempt < maxPortTries && !this.#stopAsked()
      if (!end.portTaken || !triesAgain) return this.#final(end)
      log.info('the port of a server was taken, trying another', { port: run.port, pid: run.pid })
      this.#run = undefined
      this.#set({ kind: 'starting', since: now() })
    }
  }

  /** Undefined where it was stopped before there was a process. */
  async #spawn(launch: ServerLaunch, folder: RunFolder, port: number): Promise<ServerRun | undefined> {
    const { now, ledger, key } = this.#options
    const output = this.#options.output.run(folder)
    const outputOffset = (await output.extent())?.to ?? 0
    await using file = await output.open()
    if (this.#stopAsked()) return undefined
    await ledger.intend(folder, launch, { key, port, outputOffset })
    if (this.#stopAsked()) return undefined
    const process = await spawnServer(launch, { port, output: file.fd, workingDirectory: folder.workingDirectory })
    const { host } = this.facts
    this.#run = new ServerRun({ ...this.#options, output, process, host, port, outputOffset })
    void ledger.identify(folder.name, process.pid)
    if (this.#stopAsked()) this.#run.end('stopped', { graceMs: this.#stopWithin })
    else this.#set({ kind: 'starting', since: now(), pid: process.pid, port })
    return this.#run
  }

  get #furtherPorts(): readonly number[] {
    const { protocols, launch } = this.#options
    return protocols[launch.runtime ?? 'llama-server'].furtherPorts
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
    this.#onState(state)
  }
}

const foundIn = (origin: ServerOrigin) =>
  origin.kind === 'found' ? ({ pid: origin.server.process.pid, port: origin.server.port, unasked: true } as const) : {}
