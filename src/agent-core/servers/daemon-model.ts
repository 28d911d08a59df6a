import { mkdir } from 'node:fs/promises'
import { formatBytes, formatSpan } from '../../contract/format.ts'
import { messageOf } from '../util/message-of.ts'
import { pause } from '../util/pause.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import { DaemonError, type Daemon, type InMemory } from './daemon.ts'
import { defaultDrainLimitMs, defaultStopGraceMs, type DaemonLaunch, type LaunchRules } from './launch.ts'
import { LedgerError } from './ledger.ts'
import { loopback } from './listening.ts'
import { OutputError } from './output.ts'
import { Poller } from './poller.ts'
import { NoPortError } from './ports.ts'
import type { Activity, ProbeAnswer, ServerRuntime } from './probe.ts'
import type { RunFolder } from './run-folder.ts'
import type { ServedModel, ServerFacts, StopOptions, StopReport } from './served-model.ts'
import type { ServerProcessOptions } from './server-process.ts'
import { isOver, type Exited, type ServerState } from './server-state.ts'
import { longestStopMs, Termination, type EndOptions, type EndCause } from './termination.ts'

export type DaemonModelOrigin =
  | { readonly kind: 'launch'; readonly launch: DaemonLaunch }
  | {
      readonly kind: 'found'
      readonly port: number
      readonly folder: RunFolder
      readonly readySince?: number | undefined
    }

export interface DaemonModelOptions extends Pick<
  ServerProcessOptions,
  | 'key'
  | 'facts'
  | 'output'
  | 'ledger'
  | 'ports'
  | 'platform'
  | 'liveness'
  | 'log'
  | 'now'
  | 'onProbe'
  | 'onState'
  | 'onFailure'
> {
  readonly runtime: ServerRuntime
  readonly daemon: Daemon
  /** Names that other servers of this agent need in the daemon's memory. */
  readonly neededByOthers: () => ReadonlySet<string>
  readonly launch: LaunchRules
  readonly origin: DaemonModelOrigin
}

/** A model that the daemon itself drops is withdrawn within this time and a question more. */
const lookEveryMs = 5_000
/** While it leaves memory. */
const hurriedLookMs = 250
const looksPerUnload = 20

/** How a life of the model came to its end, and what is said of it. */
interface End {
  readonly cause: Exited['cause']
  readonly message: string
  readonly left?: string
  /** What was made there stays: nothing can be asked of the daemon, it is another program, or another service is to remove it. */
  readonly leavesMade?: boolean
}

/** One model in a daemon's memory, from its load until it is out of memory, dropped, or the daemon is gone. */
export class DaemonModel implements ServedModel {
  readonly runtime: ServerRuntime
  readonly command = undefined
  readonly sleepsWhenIdle = false
  readonly #options: DaemonModelOptions
  /** Tells this life from another where a process has its pid. */
  readonly #load: number
  readonly #over = Promise.withResolvers<undefined>()
  readonly #letGo = new AbortController()
  /** Aborted once it is to end, or has ended. */
  readonly #watching = new AbortController()
  #state: ServerState
  #facts: ServerFacts
  #folder: RunFolder | undefined
  #port: number | undefined
  #poller: Poller | undefined
  #memory: InMemory | undefined
  #readySince: number | undefined
  /** Who sends requests there is told of another one with the next state. */
  #toldKey: string | undefined
  #isHealthy = false
  #wasStopped = false
  /** It is over but for what it leaves behind. */
  #hasEnded = false
  /** False once it is to be unloaded: when several are stopped at the same time, the last one must find that no other needs the model. */
  #needsEngine = true
  #failure: DaemonError | undefined
  #termination: Termination | undefined
  /** Requests in flight are not waited for any longer. */
  #isCut = false
  /** Resolved once its requests have finished, or have had their time. */
  readonly #unload = Promise.withResolvers<undefined>()

  constructor(options: DaemonModelOptions) {
    const { facts, runtime, origin, now } = options
    this.#options = options
    this.#facts = facts
    this.runtime = runtime
    this.#load = nextLoad()
    this.#state = { kind: 'starting', since: now() }
    if (origin.kind === 'launch') return
    this.#folder = origin.folder
    this.#readySince = origin.readySince
    this.#isHealthy = true
    this.#listenAt(origin.port)
    this.#state = { kind: 'starting', since: now(), unasked: true, load: this.#load, port: origin.port }
  }

  get facts(): ServerFacts {
    return this.#facts
  }

  get folder() {
    return this.#folder
  }

  get state() {
    return this.#state
  }

  get run() {
    const [port, poller] = [this.#port, this.#poller]
    if (port === undefined || !poller) return undefined
    const { apiKey } = this.#options.daemon
    const answers = (timeLimitMs: number, signal: AbortSignal) => this.#answers(timeLimitMs, signal)
    return { pid: undefined, port, poller, toldBytes: this.#memory?.bytes, apiKey, answers }
  }

  get needsEngine(): boolean {
    return this.#needsEngine
  }

  get isFound(): boolean {
    return this.#options.origin.kind === 'found'
  }

  start(): void {
    this.#set(this.#state)
    void this.#live()
  }

  letGo(): void {
    this.#termination?.over()
    this.#letGo.abort()
    this.#watching.abort()
  }

  async stop({ graceMs, drainMs }: StopOptions = {}): Promise<StopReport> {
    const { stopGraceMs = defaultStopGraceMs, drainLimitMs = defaultDrainLimitMs } = this.#options.launch
    const times = { graceMs: graceMs ?? stopGraceMs, drainMs: drainMs ?? drainLimitMs }
    this.#end('stopped', times)
    const limit = new AbortController()
    await Promise.race([this.#over.promise, pause(longestStopMs(times.drainMs, times.graceMs), limit.signal)])
    limit.abort()
    if (!isOver(this.#state)) return { stopped: false, message: this.#busyMessage }
    const left = this.#state.kind === 'exited' ? this.#state.left : undefined
    return left === undefined ? { stopped: true } : { stopped: false, message: left }
  }

  skipDrain(): boolean {
    if (!this.#termination || this.#isCut || this.#hasEnded) return false
    this.#termination.skipDrain()
    this.#cut()
    return true
  }

  /** Asked again, the shorter times count. */
  #end(cause: EndCause, options: EndOptions): void {
    this.#wasStopped = true
    if (this.#hasEnded || isOver(this.#state)) return
    if (this.#termination) {
      this.#termination.hasten(cause, options)
      if (options.drainMs === 0) this.#cut()
      return
    }
    this.#watching.abort()
    const port = this.#port
    if (port === undefined || !this.#poller) {
      this.#set({ kind: 'stopping', since: this.#options.now(), cause })
      return
    }
    this.#poller.limitIdleness(undefined)
    const { launch: rules, log, now } = this.#options
    this.#termination = new Termination({
      ...options,
      ...{ cause, rules, log, now, port, poller: this.#poller, isServing: this.#isHealthy },
      ...{ life: { load: this.#load }, hangsMessage: this.#busyMessage },
      group: { signalNow: (signal) => this.#signalled(signal) },
      onState: (state) => this.#set(state),
    })
    this.#isCut = options.drainMs === 0
    void this.#note(`It will leave memory${this.#isCut ? '' : ' once its requests in flight have finished'}`)
    this.#termination.begin()
  }

  /** Where a process would be told to end it leaves memory, which Ollama does after its requests; where one would be killed they are cut. */
  #signalled(signal: NodeJS.Signals): void {
    this.#unload.resolve(undefined)
    if (signal === 'SIGKILL') this.#cut()
  }

  #cut(): void {
    if (this.#isCut) return
    this.#isCut = true
    void this.#note('Requests in flight are cut off')
    if (this.#state.kind === 'stopping') this.#set(this.#state)
  }

  async #live(): Promise<void> {
    const { now, onFailure, origin } = this.#options
    try {
      await (origin.kind === 'found' ? this.#follow(origin.port) : this.#launch(origin))
    } catch (error) {
      const known = error instanceof NoPortError || error instanceof OutputError || error instanceof LedgerError
      this.#set({
        kind: 'failedToSpawn',
        since: now(),
        message: known ? error.message : `The model could not be loaded: ${messageOf(error)}`,
        ...(this.#isStopAsked() ? { failures: 0 } : onFailure(0)),
      })
    } finally {
      this.#watching.abort()
      this.#poller?.[Symbol.dispose]()
      this.#over.resolve(undefined)
    }
  }

  async #follow(port: number): Promise<void> {
    using _ = this.#options.ports.keep(port, [])
    await this.#note(`A newly started agent adopts ${this.#engine.model} in ${this.#options.daemon.title}`)
    await this.#serve()
  }

  async #launch({ launch }: Extract<DaemonModelOrigin, { kind: 'launch' }>): Promise<void> {
    const { output, ports, ledger, key, now } = this.#options
    const folder = await output.begin()
    this.#folder = folder
    const setting = launch.portFlag
    using reservation = await ports.reserve(launch.port, { key, host: loopback, setting })
    const { port } = reservation
    if (this.#isLetGo()) return
    await mkdir(folder.workingDirectory, { recursive: true, mode: 0o700 })
    await this.#note(`${this.#options.daemon.title} will serve ${this.#engine.model}`)
    await ledger.intend(folder, launch, { key, port, outputOffset: 0 })
    if (this.#isStopAsked()) {
      await this.#exited({ cause: 'stopped', message: 'The model was stopped.' })
      return
    }
    this.#listenAt(port)
    this.#set({ kind: 'starting', since: now(), load: this.#load, port })
    await this.#hold(launch, port)
    await this.#serve()
  }

  /** A line of the log of the service, which no process writes. */
  async #note(line: string): Promise<void> {
    const { output, now } = this.#options
    if (this.#folder) await output.run(this.#folder).note(`${wallTimeOf(now()).toISOString()} ${line}`)
  }

  #listenAt(port: number): void {
    const { platform, log } = this.#options
    this.#port = port
    this.#poller = new Poller({
      ...{ port, sleepsWhenIdle: false, platform, log, onReading: () => undefined },
      activity: (_port, timeLimitMs, signal) => this.#activity(timeLimitMs, signal),
    })
  }

  /** A daemon tells when a model was used last, and at most of all its models together how many requests it has. */
  async #activity(timeLimitMs: number, signal: AbortSignal | undefined): Promise<Activity> {
    const limit = AbortSignal.timeout(timeLimitMs)
    const whole = signal ? AbortSignal.any([signal, limit]) : limit
    try {
      const memory = await this.#look(whole)
      const requests = await this.#options.daemon.requests?.(whole)
      return { kind: 'untold', work: memory?.used ?? 0, ...(requests !== undefined && { requests }) }
    } catch (error) {
      if (error instanceof DaemonError) return { kind: 'silent' }
      throw error
    }
  }

  /** The daemon, and that it has the model: at the port of the service only the gateway listens. */
  async #answers(timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> {
    try {
      const memory = await this.#look(AbortSignal.any([signal, AbortSignal.timeout(timeLimitMs)]))
      if (isThere(memory)) return { kind: 'answered', status: 200 }
      return { kind: 'silent', reason: `${this.#options.daemon.title} does not hold the model in memory` }
    } catch (error) {
      if (error instanceof DaemonError) return { kind: 'silent', reason: error.message }
      throw error
    }
  }

  /** Until the model is in memory. What fails is kept for {@link #serve}, which tells it. */
  async #hold(launch: DaemonLaunch, port: number): Promise<void> {
    const { daemon, now, log, key: service } = this.#options
    const { signal } = this.#watching
    const onStep = (line: string) => {
      log.debug('a model is loaded by a daemon', { service, line })
      void this.#note(line)
      if (!this.#isStopAsked()) this.#set({ kind: 'loading', since: now(), load: this.#load, port })
    }
    const begun = performance.now()
    const given = new AbortController()
    const whileLoading = AbortSignal.any([signal, given.signal])
    try {
      const silent = this.#untilSilent(whileLoading).then((error) => {
        given.abort()
        return error
      })
      try {
        this.#called(await daemon.hold(launch.content, { signal: whileLoading, onStep, needed: () => this.#needed }))
      } catch (error) {
        given.abort()
        throw (await silent) ?? error
      }
      given.abort()
      this.#memory = await this.#look(signal)
      if (!isThere(this.#memory)) throw new DaemonError('failed', 'It was loaded, but left memory again at once.')
      const took = formatSpan(performance.now() - begun)
      await this.#note(`It is loaded: ${formatBytes(this.#memory.bytes)} in memory, after ${took}`)
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof DaemonError)) throw error
      this.#failure = error
    }
  }

  /** The name by which requests have to ask for it is the daemon's to say. */
  #called(model: string): void {
    const engine = this.#engine
    if (model === engine.model) return
    this.#facts = { ...this.#facts, engine: { ...engine, model } }
    if (this.#folder) this.#options.ledger.called(this.#folder.name, model)
  }

  /** A load may take as long as it likes, while the daemon itself answers. Undefined where the signal ended the wait. */
  async #untilSilent(signal: AbortSignal): Promise<DaemonError | undefined> {
    const { daemon, liveness } = this.#options
    let missed = 0
    while (await pause(missed === 0 ? liveness.everyMs : liveness.followUpMs, signal)) {
      try {
        await daemon.version(signal)
        missed = 0
      } catch (error) {
        if (!(error instanceof DaemonError)) throw error
        // Every other trouble ends the load, which tells it.
        missed = error.trouble === 'silent' ? missed + 1 : 0
        if (missed >= liveness.hungMisses) return error
      }
    }
    return undefined
  }

  #isStopAsked(): boolean {
    return this.#wasStopped
  }

  #isLetGo(): boolean {
    return this.#letGo.signal.aborted
  }

  get #needed(): ReadonlySet<string> {
    return new Set([...this.#options.neededByOthers(), this.#name])
  }

  get #name(): string {
    return this.#options.daemon.canonical(this.#engine.model)
  }

  get #engine() {
    const { engine } = this.facts
    if (!engine) throw new TypeError('A daemon needs a name for each of its models.')
    return engine
  }

  /** From its readiness, or the failure of its load, until it is over. */
  async #serve(): Promise<void> {
    const end = this.#failure ? this.#endOf(this.#failure) : await this.#untilEnd(this.#watching.signal)
    if (this.#isLetGo()) return
    if (this.#termination) {
      await this.#release()
      return
    }
    if (end) await this.#exited(end)
  }

  /** Looks again and again. Undefined where it was let go or is to be stopped. */
  async #untilEnd(signal: AbortSignal): Promise<End | undefined> {
    const { liveness } = this.#options
    const everyMs = Math.min(lookEveryMs, liveness.everyMs)
    let missed = 0
    for (;;) {
      const begun = performance.now()
      try {
        const memory = await this.#look(signal)
        if (signal.aborted) return undefined
        this.#options.onProbe((performance.now() - begun) / 1_000, memory !== undefined)
        if (!isThere(memory))
          return {
            cause: 'itself',
            message: `${this.#options.daemon.title} no longer holds it in memory: another model took its place there, or somebody unloaded it.`,
          }
        this.#memory = memory
        missed = 0
        this.#ready(true)
      } catch (error) {
        if (signal.aborted) return undefined
        if (!(error instanceof DaemonError)) throw error
        this.#options.onProbe((performance.now() - begun) / 1_000, false)
        missed += 1
        if (error.trouble !== 'silent') return this.#endOf(error)
        if (missed >= liveness.hungMisses)
          return { cause: 'hung', message: `${error.message} It was asked ${missed} times.`, leavesMade: true }
        if (missed >= liveness.misses) this.#ready(false)
      }
      if (!(await pause(missed === 0 ? everyMs : liveness.followUpMs, signal))) return undefined
    }
  }

  #ready(healthy: boolean): void {
    const { now, ledger } = this.#options
    const port = this.#port ?? 0
    const before = this.#state
    const { apiKey } = this.#options.daemon
    const isSameKey = apiKey === this.#toldKey
    this.#toldKey = apiKey
    if (before.kind === 'ready' && before.healthy === healthy && isSameKey) return
    const readySince = this.#readySince ?? now()
    this.#readySince = readySince
    this.#isHealthy = healthy
    const trouble = healthy ? {} : { trouble: 'silent' as const }
    this.#set({ kind: 'ready', since: now(), readySince, load: this.#load, port, healthy, ...trouble })
    if (before.kind === 'ready') void this.#note(healthy ? 'It answers again' : 'It does not answer')
    if (this.#folder) ledger.held(this.#folder.name, wallTimeOf(readySince))
  }

  #look(signal: AbortSignal): Promise<InMemory | undefined> {
    return this.#options.daemon.look(this.#engine.model, signal)
  }

  #endOf({ message, trouble }: DaemonError): End {
    return { cause: 'itself', message, leavesMade: trouble === 'silent' || trouble === 'stranger' }
  }

  /** After the drain: it leaves memory, unless another service of this agent needs it there. */
  async #release(): Promise<void> {
    const { daemon } = this.#options
    const { model } = this.#engine
    const { signal } = this.#letGo
    await Promise.race([this.#unload.promise, aborted(signal)])
    this.#needsEngine = false
    const isNeeded = () => this.#options.neededByOthers().has(this.#name)
    let left: string | undefined
    let leavesMade = false
    let unloadAt = 0
    for (let looks = 0; !this.#isLetGo(); looks += 1) {
      try {
        if (isNeeded()) {
          // The other may be about to unload it, for which it needs its name.
          leavesMade = true
          await this.#note('It stays in memory for another service of this agent')
          break
        }
        const memory = await this.#look(signal)
        if (memory === undefined) {
          await this.#note('It has left memory')
          break
        }
        // A load that was begun may go on without us, and what a client asks meanwhile may have brought it back.
        if (isThere(memory) && looks >= unloadAt) {
          await daemon.unload(model, signal)
          unloadAt = looks + looksPerUnload
        }
      } catch (error) {
        if (this.#isLetGo()) return
        if (!(error instanceof DaemonError)) throw error
        // A daemon that is gone holds nothing.
        if (error.trouble === 'absent') break
        if (error.trouble !== 'silent') {
          left = `The agent cannot tell whether the model left memory: ${error.message}`
          break
        }
      }
      await pause(hurriedLookMs, signal)
    }
    if (this.#isLetGo()) return
    const termination = this.#termination
    termination?.over()
    const cause = termination?.cause ?? 'stopped'
    await this.#exited({
      cause,
      message: 'The model was stopped.',
      leavesMade,
      ...(left !== undefined && { left }),
    })
  }

  /** Nothing answers from now on; what only this agent needed there is removed before another start. */
  async #exited({ cause, message, left, leavesMade = false }: End): Promise<void> {
    const { now, onFailure } = this.#options
    const servedMs = this.#readySince === undefined ? 0 : now() - this.#readySince
    const exited = {
      kind: 'exited' as const,
      ...{ since: now(), code: null, signal: null, cause, message, tail: [] },
      outOf: this.#readySince === undefined ? ('start' as const) : ('serving' as const),
      ...(left !== undefined && { left }),
    }
    this.#hasEnded = true
    this.#needsEngine = false
    this.#set({ ...exited, settled: false, failures: 0 })
    await this.#note(left === undefined ? message : `${message} ${left}`)
    if (!leavesMade) await this.#removeOurs()
    if (this.#isLetGo()) return
    this.#set({ ...exited, settled: true, ...(cause === 'stopped' ? { failures: 0 } : onFailure(servedMs)) })
  }

  /** What cannot be removed now goes when something is loaded there again. */
  async #removeOurs(): Promise<void> {
    const { daemon, neededByOthers, log, key: service } = this.#options
    const { model, isOurs } = this.#engine
    if (!isOurs || neededByOthers().has(this.#name)) return
    try {
      await daemon.remove(model, this.#letGo.signal)
    } catch (error) {
      if (!(error instanceof DaemonError)) throw error
      log.debug('a model stays in its daemon', { service, model, error })
    }
  }

  get #busyMessage(): string {
    return `${this.#options.daemon.title} still holds the model in memory: it is answering requests, and unloads the model after them.`
  }

  #set(state: ServerState): void {
    this.#state = state.kind === 'stopping' && this.#isCut ? { ...state, isCut: true } : state
    this.#options.onState(this.#state)
  }
}

const isThere = (memory: InMemory | undefined): memory is InMemory => memory !== undefined && memory.isLoading !== true

let loads = 0
/** No other load has the same number, also by an agent before this one as far as clocks go. */
const nextLoad = (): number => Date.now() + (loads += 1)

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
