import { exitMessage } from './exit-message.ts'
import { defaultStopGraceMs, defaultStartupStallMs } from './launch.ts'
import { keepPreviousOutput, openOutput, OutputError, outputSize } from './output-log.ts'
import { NoPortError } from './ports.ts'
import { drainLimitMs, killLimitMs, ServerRun, type RunContext, type RunEnd } from './server-run.ts'
import { isOver, type Exited, type ServerState } from './server-state.ts'
import { spawnServer, SpawnError } from './spawn.ts'

export interface ServerProcessOptions extends RunContext {
  /** Asked once when the server failed for good; `servedMs` is 0 where it never got ready. */
  readonly onFailure: (servedMs: number) => Failure
}

export interface Failure {
  /** In a row. */
  readonly failures: number
  readonly retryAt: number
}

export type StopReport = { readonly stopped: true } | { readonly stopped: false; readonly message: string }

/** A port that is taken between our test and the server's bind is rare; five in a row are something else. */
const maxPortTries = 5

/** One server from its start to its end, on whatever port it got. */
export class ServerProcess {
  readonly #options: ServerProcessOptions
  readonly #onState: (state: ServerState) => void
  readonly #over = Promise.withResolvers<undefined>()
  #state: ServerState
  #run: ServerRun | undefined
  /** The shortest grace anybody asked for. */
  #stopWithin: number | undefined

  constructor(options: ServerProcessOptions) {
    this.#options = { ...options, onState: (state) => this.#set(state) }
    this.#onState = options.onState
    this.#state = { kind: 'starting', since: options.now() }
  }

  get state(): ServerState {
    return this.#state
  }

  start(): void {
    this.#set(this.#state)
    void this.#live()
  }

  /**
   * SIGTERM to the whole group, SIGKILL after the grace, then a look that nothing is left. Calls join; a shorter grace counts at once.
   */
  async stop(graceMs: number = this.#options.launch.stopGraceMs ?? defaultStopGraceMs): Promise<StopReport> {
    this.#askToStop(graceMs)
    const limit = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => limit.resolve(undefined), drainLimitMs + graceMs + 2 * killLimitMs)
    await Promise.race([this.#over.promise, limit.promise])
    clearTimeout(timer)
    if (!isOver(this.#state)) return { stopped: false, message: hangs(this.#run?.pid) }
    const left = this.#state.kind === 'exited' ? this.#state.left : undefined
    return left === undefined ? { stopped: true } : { stopped: false, message: left }
  }

  /** False where it does not drain. */
  skipDrain(): boolean {
    return !isOver(this.#state) && (this.#run?.skipDrain() ?? false)
  }

  #askToStop(graceMs: number): void {
    if (isOver(this.#state)) return
    this.#stopWithin = Math.min(graceMs, this.#stopWithin ?? graceMs)
    if (this.#run) this.#run.end('stopped', graceMs)
    else if (this.#state.kind === 'starting')
      this.#set({ kind: 'stopping', since: this.#options.now(), cause: 'stopped' })
  }

  async #live(): Promise<void> {
    const { now, onFailure } = this.#options
    try {
      this.#set(await this.#tryPorts())
    } catch (error) {
      const known = error instanceof NoPortError || error instanceof SpawnError || error instanceof OutputError
      this.#set({
        kind: 'failedToSpawn',
        since: now(),
        message: known ? error.message : `The server could not be started: ${String(error)}`,
        ...(this.#stopAsked() ? { failures: 0 } : onFailure(0)),
      })
    } finally {
      this.#over.resolve(undefined)
    }
  }

  async #tryPorts(): Promise<Exited> {
    const { launch, log, now } = this.#options
    const avoid = new Set<number>()
    await keepPreviousOutput(launch.logFile)
    for (let attempt = 1; ; attempt++) {
      const end = await this.#tryPort(avoid)
      if (end === undefined) return this.#neverStarted()
      const triesAgain = launch.port.kind !== 'fixed' && attempt < maxPortTries && !this.#stopAsked()
      if (!end.portTaken || !triesAgain) return this.#final(end)
      log.info('the port of a server was taken, trying another', { port: this.#run?.port, pid: this.#run?.pid })
      this.#run = undefined
      this.#set({ kind: 'starting', since: now() })
    }
  }

  /** Adds its port to `avoid`. Undefined when it was stopped before there was a process. */
  async #tryPort(avoid: Set<number>): Promise<RunEnd | undefined> {
    const { launch, ports } = this.#options
    using reservation = await ports.reserve(launch.port, { avoid, setting: launch.settingNames?.port })
    avoid.add(reservation.port)
    const run = await this.#spawn(reservation.port)
    return run && (await run.untilOver())
  }

  async #spawn(port: number): Promise<ServerRun | undefined> {
    const { launch, now } = this.#options
    const outputOffset = await outputSize(launch.logFile)
    await using output = await openOutput(launch.logFile)
    if (this.#stopAsked()) return undefined
    const child = await spawnServer(launch, { port, output: output.fd })
    this.#run = new ServerRun({ ...this.#options, child, port, outputOffset })
    if (this.#stopAsked()) this.#run.end('stopped', this.#stopWithin)
    else this.#set({ kind: 'starting', since: now(), pid: child.pid, port })
    return this.#run
  }

  #final({ exited, servedMs }: RunEnd): Exited {
    const failure = exited.cause === 'stopped' ? { failures: 0 } : this.#options.onFailure(servedMs)
    return { ...exited, ...failure, settled: true }
  }

  #neverStarted(): Exited {
    const { launch, now } = this.#options
    const how = { code: null, signal: null, cause: 'stopped', outOf: 'start' } as const
    const message = exitMessage({ ...how, executable: launch.executable, stallMs: defaultStartupStallMs })
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

const hangs = (pid: number | undefined) =>
  `Process ${pid ?? 'unknown'} did not end although it was killed: it hangs in the kernel, and only a restart of the machine may help.`
