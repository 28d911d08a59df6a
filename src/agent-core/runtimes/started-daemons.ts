import { mkdir, stat } from 'node:fs/promises'
import type { DaemonStartSetting, ProgramSetting } from '../../contract/settings.ts'
import { adoptServers } from '../servers/adoption.ts'
import { DaemonError, type DaemonRuntimeName, daemonRuntimes, type OwnDaemon } from '../servers/daemon.ts'
import { defaultDrainLimitMs, type GeneralRules, launchEnvironment, type ServerLaunch } from '../servers/launch.ts'
import { daemonHome, daemonsFolder, Ledger, ledgersIn } from '../servers/ledger.ts'
import { daemonAt } from '../servers/daemons.ts'
import { loopback } from '../servers/listening.ts'
import { type Exited, isOver, type ServerState } from '../servers/server-state.ts'
import { Servers, type ServersOptions } from '../servers/servers.ts'
import { hasCode } from '../util/files.ts'
import { type Executable, findExecutable } from '../util/find-executable.ts'
import { messageOf } from '../util/message-of.ts'
import { steadyNow } from '../util/steady-clock.ts'
import { type AbsentDaemon, askDaemon, ownDaemon, stampOf } from './installed.ts'
import type { DaemonRuntime, DaemonStart } from './runtime.ts'
import { runtimes } from './runtimes.ts'

type Settings = Readonly<
  Record<DaemonStartSetting, boolean> &
    Record<DaemonRuntime['port'], number> & {
      readonly startupStallMs?: number | undefined
    } & Partial<Record<ProgramSetting, string | undefined>>
>

interface StartedDaemonsOptions extends Pick<ServersOptions, 'log' | 'liveness' | 'random'> {
  readonly platform: ServersOptions['platform'] &
    Parameters<typeof adoptServers>[0]['platform'] &
    ConstructorParameters<typeof Ledger>[0]['platform']
  readonly stateDir: string
  readonly env: NodeJS.ProcessEnv
  readonly settings: () => Settings
  /** Flags for which services ask now, in the order of {@link DaemonStart.serviceFlags}; undefined while that is not known, as before the cluster is. */
  readonly asked?: (runtime: DaemonRuntimeName) => Promise<ReadonlyMap<string, string> | undefined>
  /** Resolves when no service of this agent has a model in it. */
  readonly drain: (runtime: DaemonRuntimeName) => Promise<void>
  /** It answers now, or does not, or for another reason. */
  readonly onChange: (runtime: DaemonRuntimeName) => void
  /** For tests: how often one that a person may start or end is asked whether it runs. */
  readonly lookEveryMs?: number
}

const keyOf = (runtime: DaemonRuntimeName): string => `daemons/${runtime}`

/**
 * The daemons that this agent starts itself where a person says so, each kept running like a server: noted before it is spawned, started
 * again after a crash with the same waits, taken over by the next agent. One that answers already is a person's, and left alone.
 */
export class StartedDaemons {
  readonly #options: StartedDaemonsOptions
  readonly #ledger: Ledger
  readonly #servers: Servers
  readonly #keepers: ReadonlyMap<DaemonRuntimeName, Keeper>

  constructor(options: StartedDaemonsOptions) {
    const { platform, log, liveness, random } = options
    const stateDir = daemonsFolder(options.stateDir)
    this.#options = options
    this.#ledger = new Ledger({ file: ledgersIn(options.stateDir).daemons, platform, log })
    this.#servers = new Servers({
      ...{ platform, log, stateDir, ledger: this.#ledger },
      ...(liveness && { liveness }),
      ...(random && { random }),
    })
    this.#keepers = new Map(
      daemonRuntimes.flatMap((name) => {
        const { start } = runtimes[name]
        return start ? [[name, new Keeper(runtimes[name], start, this.#servers, options)]] : []
      }),
    )
    this.#servers.onChange((key) => {
      for (const keeper of this.#keepers.values()) if (keeper.key === key) keeper.serverChanged()
    })
  }

  /**
   * Takes over what an earlier agent started. To be called before the models in them are taken over, which are asked for with the daemon's own
   * key where it is known to be one that was started here. Answers what a person should know.
   */
  async adopt(): Promise<string[]> {
    const { platform, log, settings } = this.#options
    const stateDir = daemonsFolder(this.#options.stateDir)
    // Looking at all processes of the machine takes long, and most agents never started any.
    if (!(await isThere(stateDir))) return []
    return adoptServers({
      ...{ ledger: this.#ledger, servers: this.#servers, platform, log, stateDir },
      rules: (name) => {
        const runtime = runtimes[name]
        return runtime.kind === 'daemon' && runtime.start ? rulesOf(runtime, runtime.start, settings()) : {}
      },
    })
  }

  /** Starts what is wanted, and ends what is not. To be called after {@link adopt}, and when services ask for other flags. */
  tend(): void {
    for (const keeper of this.#keepers.values()) keeper.begin()
  }

  /** A person set whether one is to be started, or which program it is. */
  settingsChanged(): void {
    for (const keeper of this.#keepers.values()) keeper.settingsChanged()
  }

  /** By what services ask for now. Undefined where it is not this agent that starts it. */
  async whyAbsent(runtime: DaemonRuntimeName): Promise<AbsentDaemon | undefined> {
    return this.#keepers.get(runtime)?.whyAbsent()
  }

  /** Whether the one that answers was started here. */
  runs(runtime: DaemonRuntimeName): boolean {
    return this.#keepers.get(runtime)?.runs === true
  }

  /** Undefined where it is not this agent that starts it. One that was switched off and still runs has its own key until it has ended. */
  own(runtime: DaemonRuntimeName): OwnDaemon | undefined {
    const { settings, stateDir } = this.#options
    const { start } = runtimes[runtime]
    if (!start || (!settings()[start.setting.name] && !this.runs(runtime))) return undefined
    return {
      home: daemonHome(stateDir, runtime),
      runs: () => this.runs(runtime),
      output: this.#servers.outputOf(keyOf(runtime)),
    }
  }

  /** Whether what listens there is, or is to be, one that is started here. */
  starts(runtime: DaemonRuntimeName): boolean {
    return this.#keepers.get(runtime)?.isOwn === true
  }

  /** The flags for which services asked that the one that runs here was started with; undefined where none runs. */
  flagsOf(runtime: DaemonRuntimeName): ReadonlyMap<string, string> | undefined {
    return this.#keepers.get(runtime)?.flags
  }

  /** Sentences about those that are wanted and cannot be started, or not as services ask. */
  notices(): string[] {
    return [...this.#keepers.values()].flatMap(({ problem, leftOut }) =>
      [problem, leftOut].filter((one) => one !== undefined),
    )
  }

  /** After the last model left them: those that this agent or an earlier one started end. */
  async stop(): Promise<void> {
    await this.#endKeepers()
    await this.#servers.stopAll({ drainMs: 0 })
    await this.#servers.letGo()
  }

  /** They run on, for the next agent. */
  async letGo(): Promise<void> {
    await this.#endKeepers()
    await this.#servers.letGo()
  }

  async #endKeepers(): Promise<void> {
    await Promise.all([...this.#keepers.values()].map((keeper) => keeper.end()))
  }
}

/** One sentence why its last start failed; a crash that it recovers from is in the log alone. */
function failureIn(state: ServerState | undefined): string | undefined {
  if (state?.kind === 'failedToSpawn') return state.message
  if (state?.kind !== 'exited' || state.cause === 'stopped') return undefined
  return state.outOf === 'start' || state.failures > 1 ? state.message : undefined
}

/** What a person starts or ends is noticed within this. */
const defaultLookEveryMs = 5_000

function rulesOf(
  { product, portFlag }: DaemonRuntime,
  { isNeverKilled }: DaemonStart,
  settings: Settings,
): GeneralRules {
  return {
    ...(isNeverKilled === true && { isNeverKilled }),
    startupStallMs: settings.startupStallMs,
    advice: { product, causes: [] },
    portFlag,
  }
}

/** Those of the flags that stand in the command line, each with its value. */
const flagsIn = (command: readonly string[], flags: readonly string[] = []): ReadonlyMap<string, string> =>
  new Map(
    flags.flatMap((flag) => {
      const at = command.indexOf(flag)
      return at === -1 ? [] : [[flag, command[at + 1] ?? '']]
    }),
  )

const shownFlags = (flags: ReadonlyMap<string, string>): string => [...flags].flat().join(' ')

/** The time limit of the question whether it answers requests. */
const busyWithinMs = 5_000

const isThere = (folder: string): Promise<boolean> =>
  stat(folder).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT')) return false
      throw error
    },
  )

/** Flags that services ask for, and a start with them that failed. */
interface Suspicion {
  readonly flags: string
  /** Tells the program that was started from one that was installed since. */
  readonly program: string
  readonly failure: string
  /** It did not start without any flags either, before. */
  readonly isDoubtful: boolean
}

/**
 * Whether a daemon does not start because of flags that services ask for: what strangers ask for must not keep it from running, and what it has of itself
 * must not be blamed on them. They are blamed at once where it says so, else once it has started without them.
 */
class FlagTrial {
  #suspicion: Suspicion | undefined
  #isProven = false
  /** It did not start without any flags, and has not started since. */
  #failsWithout = false

  /** What it is started without, and why. */
  get blamed(): Suspicion | undefined {
    return this.#isProven ? this.#suspicion : undefined
  }

  get isUnderWay(): boolean {
    return this.#suspicion !== undefined
  }

  failed(flags: ReadonlyMap<string, string>, program: string, { code, message, tail }: Exited): void {
    if (flags.size === 0) {
      this.#failsWithout = true
      if (!this.#isProven) this.#suspicion = undefined
      return
    }
    this.#suspicion = { flags: shownFlags(flags), program, failure: message, isDoubtful: this.#failsWithout }
    this.#isProven = code === unknownFlagCode || tail.some((line) => isFault(flags, line))
  }

  started(flags: ReadonlyMap<string, string>): void {
    if (flags.size === 0 && this.#suspicion?.isDoubtful === false) this.#isProven = true
    if (!this.#isProven) this.#suspicion = undefined
    this.#failsWithout = false
  }

  /** Whether it is to be started without these. */
  isAgainst(flags: ReadonlyMap<string, string>, program: string): boolean {
    if (this.#suspicion?.flags === shownFlags(flags) && this.#suspicion.program === program) return true
    this.forget()
    return false
  }

  forget(): void {
    this.#suspicion = undefined
    this.#isProven = false
  }
}

/** What a program exits with that does not understand its command line. */
const unknownFlagCode = 2

/** Many programs repeat their command line when they start, which says nothing about why they end. */
const saysError = /error\b|\binvalid\b/i

/** Whether a line of output says that a flag is wrong, named as in the command line or as in a file of settings. */
const isFault = (flags: ReadonlyMap<string, string>, line: string): boolean =>
  saysError.test(line) &&
  [...flags.keys()].some((flag) =>
    [flag, flag.replace(/^-+/, '').replaceAll('-', '_')].some((name) => line.includes(name)),
  )

interface Ending {
  /** Nobody wants it; else it is started again at once. */
  readonly isUnwanted: boolean
  readonly message: string
}

/** Keeps one daemon running as long as a person wants it. */
class Keeper {
  readonly key: string
  readonly #runtime: DaemonRuntime
  readonly #start: DaemonStart
  readonly #servers: Servers
  readonly #options: StartedDaemonsOptions
  /** Why there is none although one is wanted. */
  #problem: string | undefined
  /** Why it is being ended, or is about to be. */
  #ending: Ending | undefined
  readonly #trial = new FlagTrial()
  /** Tells the program of the latest start from one that is installed later. */
  #startedProgram = ''
  /** One that a person started answers at its port. */
  #isPersons = false
  /** Since when a start with other flags waits for requests to end. */
  #busySince: number | undefined
  /** False while the models in it are not known yet, which are to leave it before it is ended. */
  #hasBegun = false
  #isOver = false
  /** Asked for since the look under way began. */
  #isAsked = false
  #looking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(runtime: DaemonRuntime, start: DaemonStart, servers: Servers, options: StartedDaemonsOptions) {
    this.key = keyOf(runtime.name)
    this.#runtime = runtime
    this.#start = start
    this.#servers = servers
    this.#options = options
  }

  get problem(): string | undefined {
    return this.#problem
  }

  get runs(): boolean {
    const state = this.#servers.get(this.key)
    return state !== undefined && !isOver(state) && state.kind !== 'exited'
  }

  get isOwn(): boolean {
    return this.runs || (this.#isWanted && !this.#isPersons)
  }

  get flags(): ReadonlyMap<string, string> | undefined {
    return this.runs ? this.#latestFlags : undefined
  }

  /** The flags of services in the command line of the latest start. */
  get #latestFlags(): ReadonlyMap<string, string> | undefined {
    const command = this.#servers.commandOf(this.key)
    return command && flagsIn(command, this.#start.serviceFlags)
  }

  get leftOut(): string | undefined {
    const { blamed } = this.#trial
    return (
      blamed &&
      `${this.#runtime.product} does not start with ${blamed.flags}, which services ask for, so it runs without: ${blamed.failure}`
    )
  }

  async whyAbsent(): Promise<AbsentDaemon | undefined> {
    const { product } = this.#runtime
    const { flag } = this.#start.setting
    if (this.#ending && this.#isWanted !== this.#ending.isUnwanted)
      return { isLeaving: true, message: this.#ending.message }
    if (!this.#isWanted) return undefined
    const lacks = this.runs ? await this.#lacks() : undefined
    if (lacks?.size) return { isLeaving: true, message: this.#startAgainMessage(lacks) }
    return { isLeaving: false, message: this.#problem ?? `${product} is being started here (${flag}).` }
  }

  settingsChanged(): void {
    this.#servers.clearBackOff(this.key)
    this.#trial.forget()
    this.tend()
  }

  serverChanged(): void {
    const state = this.#servers.get(this.key)
    if (!state || (state.kind !== 'ready' && !isOver(state))) return
    if (state.kind === 'ready') {
      this.#problem = undefined
      this.#trial.started(this.#latestFlags ?? new Map())
    } else {
      this.#ending = undefined
      this.#busySince = undefined
      if (state.kind === 'exited') this.#ended(state)
    }
    this.#options.onChange(this.#runtime.name)
    this.tend()
  }

  #ended(state: Exited): void {
    const isOfItself = state.cause === 'itself' || state.cause === 'stalled'
    if (isOfItself && state.outOf === 'start')
      this.#trial.failed(this.#latestFlags ?? new Map(), this.#startedProgram, state)
  }

  /** Every model is known that an earlier agent left in it. */
  begin(): void {
    this.#hasBegun = true
    this.tend()
  }

  /** Looks what is to be done, and does it; one look after the other. */
  tend(): void {
    if (!this.#hasBegun) return
    this.#isAsked = true
    this.#looking ??= this.#lookAsAsked().finally(() => (this.#looking = undefined))
  }

  /** Nothing is started or ended from now on. */
  async end(): Promise<void> {
    this.#isOver = true
    clearTimeout(this.#timer)
    await this.#looking
  }

  async #lookAsAsked(): Promise<void> {
    let againMs: number | undefined
    while (this.#isAsked && !this.#isOver) {
      this.#isAsked = false
      clearTimeout(this.#timer)
      try {
        againMs = await this.#look()
      } catch (error) {
        this.#options.log.error('upkeep of a daemon failed', { runtime: this.#runtime.name, error })
        againMs = this.#lookEveryMs
      }
    }
    if (againMs !== undefined && !this.#isOver) this.#timer = setTimeout(() => this.tend(), againMs).unref()
  }

  /** Answers when to look again; undefined = at the next change. */
  async #look(): Promise<number | undefined> {
    const state = this.#servers.get(this.key)
    const runs = state !== undefined && !isOver(state)
    if (!this.#isWanted) {
      this.#tell(undefined)
      const message = `${this.#runtime.product} is being stopped: ${this.#start.setting.flag} was switched off.`
      if (runs) await this.#leave({ isUnwanted: true, message }, () => Promise.resolve(!this.#isWanted))
      return undefined
    }
    if (runs) return state.kind === 'ready' ? this.#startAgainAsAsked() : undefined
    const waitMs = (this.#servers.backOff(this.key)?.retryAt ?? 0) - steadyNow()
    if (waitMs > 0) {
      this.#tell(failureIn(state))
      return waitMs
    }
    const { settings } = this.#options
    const port = settings()[this.#runtime.port]
    const found = await this.#lookAtPort(port)
    this.#meet(!found.isFree && found.problem === undefined)
    if (!found.isFree) {
      this.#tell(found.problem)
      return this.#lookEveryMs
    }
    const program = await this.#program()
    if (program.kind === 'missing') {
      this.#tell(program.message)
      return this.#lookEveryMs
    }
    this.#tell(failureIn(state))
    const launch = await this.#launch(program.path, port)
    if (!this.#isOver) this.#servers.start(this.key, launch)
    return undefined
  }

  #meet(isPersons: boolean): void {
    if (this.#isPersons === isPersons) return
    this.#isPersons = isPersons
    this.#options.onChange(this.#runtime.name)
  }

  /** It keeps running while it has what services ask for, whatever else it has. */
  async #startAgainAsAsked(): Promise<number | undefined> {
    const { name } = this.#runtime
    const lacks = await this.#lacks()
    if (lacks.size === 0) {
      this.#busySince = undefined
      if (this.#ending) {
        this.#ending = undefined
        this.#options.onChange(name)
      }
      return this.#trial.isUnderWay ? this.#lookEveryMs : undefined
    }
    const message = this.#startAgainMessage(lacks)
    if (this.#ending?.message !== message) {
      this.#ending = { isUnwanted: false, message }
      this.#options.onChange(name)
    }
    this.#busySince ??= performance.now()
    // Who asks all the time keeps nobody from it for longer than that.
    const isPatient = performance.now() - this.#busySince < defaultDrainLimitMs
    if (isPatient && (await this.#isBusy())) return this.#lookEveryMs
    this.#busySince = undefined
    await this.#leave(this.#ending, async () => !this.#isWanted || (await this.#lacks()).size > 0)
    return undefined
  }

  #startAgainMessage(lacks: ReadonlyMap<string, string>): string {
    return `${this.#runtime.product} restarts with ${shownFlags(lacks)}, which services ask for, once it has no requests in flight.`
  }

  /** What services ask for and the one that runs was not started with. */
  async #lacks(): Promise<ReadonlyMap<string, string>> {
    const { flags } = this
    const asked = (await this.#asked()) ?? []
    return new Map([...asked].filter(([flag, value]) => flags?.get(flag) !== value))
  }

  async #asked(): Promise<ReadonlyMap<string, string> | undefined> {
    const asked = await this.#options.asked?.(this.#runtime.name)
    if (!asked || !this.#trial.isUnderWay) return asked
    const program = await this.#program()
    return this.#trial.isAgainst(asked, program.kind === 'found' ? await stampOf(program.path) : '') ? new Map() : asked
  }

  /** Also where it does not say. */
  async #isBusy(): Promise<boolean> {
    const { settings, stateDir } = this.#options
    const { name, port } = this.#runtime
    const daemon = daemonAt(
      name,
      { host: loopback, port: settings()[port] },
      ownDaemon(this.#runtime, stateDir, settings()),
    )
    try {
      return ((await daemon.requests?.(AbortSignal.timeout(busyWithinMs))) ?? 0) > 0
    } catch (error) {
      if (error instanceof DaemonError) return true
      throw error
    }
  }

  /** Where it is taken and there is no problem, a person's own answers. */
  async #lookAtPort(port: number): Promise<{ readonly isFree: boolean; readonly problem?: string }> {
    try {
      const { stateDir, settings } = this.#options
      await askDaemon(this.#runtime, port, ownDaemon(this.#runtime, stateDir, settings()))
      return { isFree: false }
    } catch (error) {
      if (!(error instanceof DaemonError)) throw error
      return error.trouble === 'absent' ? { isFree: true } : { isFree: false, problem: error.message }
    }
  }

  #program(): Promise<Executable> {
    const { platform, env, settings } = this.#options
    const { program, setting } = this.#start
    const given = settings()[setting.program]
    return findExecutable(program, { given, system: platform.name, path: env['PATH'] })
  }

  async #launch(executable: string, port: number): Promise<ServerLaunch> {
    const { stateDir, env, settings } = this.#options
    const home = daemonHome(stateDir, this.#runtime.name)
    await mkdir(home, { recursive: true, mode: 0o700 })
    await this.#start.prepare?.(home)
    const { argv, environment } = this.#start.command({ host: loopback, port, home, env })
    const asked = [...((await this.#asked()) ?? [])].flat()
    this.#startedProgram = await stampOf(executable)
    return {
      ...rulesOf(this.#runtime, this.#start, settings()),
      ...{ uid: '', digest: '', runtime: this.#runtime.name, executable },
      argv: () => [...argv, ...asked],
      env: launchEnvironment(environment, env),
      host: loopback,
      port: { kind: 'fixed', port },
    }
  }

  /** Its models finish their requests and are unloaded, then it ends. */
  async #leave(ending: Ending, isStillMeant: () => Promise<boolean>): Promise<void> {
    this.#ending = ending
    const { log, drain, onChange } = this.#options
    try {
      await drain(this.#runtime.name)
      // A person may have switched it on again meanwhile.
      if (!(await isStillMeant()) || this.#isOver) return
      const report = await this.#servers.stop(this.key, { drainMs: 0 })
      if (!report.stopped) log.warn('a daemon did not end', { runtime: this.#runtime.name, reason: report.message })
    } catch (error) {
      log.warn('a daemon was not ended', { runtime: this.#runtime.name, reason: messageOf(error) })
    } finally {
      this.#ending = undefined
      onChange(this.#runtime.name)
    }
  }

  #tell(problem: string | undefined): void {
    if (this.#problem === problem) return
    this.#problem = problem
    if (problem !== undefined)
      this.#options.log.warn('a daemon is not started', { runtime: this.#runtime.name, problem })
    this.#options.onChange(this.#runtime.name)
  }

  get #isWanted(): boolean {
    const settings = this.#options.settings()
    return settings[this.#start.setting.name] && settings[this.#runtime.port] > 0
  }

  get #lookEveryMs(): number {
    return this.#options.lookEveryMs ?? defaultLookEveryMs
  }
}
