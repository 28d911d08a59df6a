import { mkdir, stat } from 'node:fs/promises'
import type { DaemonStartSetting, ProgramSetting } from '../../contract/settings.ts'
import { adoptServers } from '../servers/adoption.ts'
import { DaemonError, type DaemonRuntimeName, daemonRuntimes } from '../servers/daemon.ts'
import { type GeneralRules, launchEnvironment, type ServerLaunch } from '../servers/launch.ts'
import { daemonHome, daemonsFolder, digestOf, Ledger, ledgersIn } from '../servers/ledger.ts'
import { loopback } from '../servers/listening.ts'
import { isOver, type ServerState } from '../servers/server-state.ts'
import { Servers, type ServersOptions } from '../servers/servers.ts'
import { hasCode } from '../util/files.ts'
import { type Executable, findExecutable } from '../util/find-executable.ts'
import { messageOf } from '../util/message-of.ts'
import { steadyNow } from '../util/steady-clock.ts'
import { type AbsentDaemon, askDaemon, type OwnDaemons } from './installed.ts'
import type { DaemonRuntime } from './runtime.ts'
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
export class StartedDaemons implements OwnDaemons {
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
    this.#keepers = new Map(daemonRuntimes.map((name) => [name, new Keeper(runtimes[name], this.#servers, options)]))
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
        return runtime.kind === 'daemon' ? rulesOf(runtime, settings()) : {}
      },
    })
  }

  /** Starts what is wanted, and ends what is not, from now on. To be called after {@link adopt}. */
  begin(): void {
    for (const keeper of this.#keepers.values()) keeper.begin()
  }

  /** A person set whether one is to be started, or which program it is. */
  settingsChanged(): void {
    for (const keeper of this.#keepers.values()) keeper.settingsChanged()
  }

  /** Undefined where it is not this agent that starts it. */
  whyAbsent(runtime: DaemonRuntimeName): AbsentDaemon | undefined {
    return this.#keepers.get(runtime)?.whyAbsent
  }

  /** The folder of the one that was started here and runs, also where it was switched off and has not ended yet. */
  homeOf(runtime: DaemonRuntimeName): string | undefined {
    return this.#keepers.get(runtime)?.runs === true ? daemonHome(this.#options.stateDir, runtime) : undefined
  }

  /** Sentences about those that are wanted and cannot be started. */
  notices(): string[] {
    return [...this.#keepers.values()].map(({ problem }) => problem).filter((problem) => problem !== undefined)
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

const rulesOf = (
  { product, portFlag, start: { isNeverKilled = false } }: DaemonRuntime,
  { startupStallMs }: Settings,
): GeneralRules => ({ isNeverKilled, startupStallMs, advice: { product, causes: [] }, portFlag })

const isThere = (folder: string): Promise<boolean> =>
  stat(folder).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT')) return false
      throw error
    },
  )

/** Keeps one daemon running as long as a person wants it. */
class Keeper {
  readonly key: string
  readonly #runtime: DaemonRuntime
  readonly #servers: Servers
  readonly #options: StartedDaemonsOptions
  /** Why there is none although one is wanted. */
  #problem: string | undefined
  /** It is being ended. */
  #isLeaving = false
  /** False while the models in it are not known yet, which are to leave it before it is ended. */
  #hasBegun = false
  #isOver = false
  /** Asked for since the look under way began. */
  #isAsked = false
  #looking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(runtime: DaemonRuntime, servers: Servers, options: StartedDaemonsOptions) {
    this.key = keyOf(runtime.name)
    this.#runtime = runtime
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

  get whyAbsent(): AbsentDaemon | undefined {
    const { product } = this.#runtime
    const { flag } = this.#runtime.start.setting
    // Also before the look that ends it: a look may be under way.
    if (this.#isLeaving || (this.runs && !this.#isWanted)) {
      const why = this.#isWanted ? 'to start it with other settings' : `${flag} was switched off`
      return { isLeaving: true, message: `${product} is being stopped: ${why}.` }
    }
    return this.#isWanted
      ? { isLeaving: false, message: this.#problem ?? `${product} is being started here (${flag}).` }
      : undefined
  }

  settingsChanged(): void {
    this.#servers.clearBackOff(this.key)
    this.tend()
  }

  serverChanged(): void {
    const state = this.#servers.get(this.key)
    if (!state || (state.kind !== 'ready' && !isOver(state))) return
    if (state.kind === 'ready') this.#problem = undefined
    this.#options.onChange(this.#runtime.name)
    this.tend()
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
    if (!this.#isWanted) this.#tell(undefined)
    if (runs && (!this.#isWanted || !(await this.#isAsWanted()))) await this.#leave()
    if (runs || !this.#isWanted) return undefined
    const waitMs = (this.#servers.backOff(this.key)?.retryAt ?? 0) - steadyNow()
    if (waitMs > 0) {
      this.#tell(failureIn(state))
      return waitMs
    }
    const { settings } = this.#options
    const port = settings()[this.#runtime.port]
    const found = await this.#lookAtPort(port)
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
    await mkdir(this.#home, { recursive: true, mode: 0o700 })
    await this.#runtime.start.prepare?.(this.#home)
    if (!this.#isOver) this.#servers.start(this.key, this.#launch(program.path, port))
    return undefined
  }

  /** Where it is taken and there is no problem, a person's own answers. */
  async #lookAtPort(port: number): Promise<{ readonly isFree: boolean; readonly problem?: string }> {
    try {
      await askDaemon(this.#runtime, port)
      return { isFree: false }
    } catch (error) {
      if (!(error instanceof DaemonError)) throw error
      return error.trouble === 'absent' ? { isFree: true } : { isFree: false, problem: error.message }
    }
  }

  #program(): Promise<Executable> {
    const { platform, env, settings } = this.#options
    const { program, setting } = this.#runtime.start
    const given = settings()[setting.program]
    return findExecutable(program, { given, system: platform.name, path: env['PATH'] })
  }

  /** What runs is compared with what is wanted now, by program, port, flags and environment. Where no program is found what runs is left. */
  async #isAsWanted(): Promise<boolean> {
    const { settings } = this.#options
    const program = await this.#program()
    if (program.kind === 'missing') return true
    return this.#launch(program.path, settings()[this.#runtime.port]).digest === this.#servers.factsOf(this.key)?.digest
  }

  #launch(executable: string, port: number): ServerLaunch {
    const { env, settings } = this.#options
    const { argv, environment } = this.#runtime.start.command({ host: loopback, port, home: this.#home, env })
    return {
      ...rulesOf(this.#runtime, settings()),
      ...{ uid: '', digest: digestOf(JSON.stringify([executable, argv, environment])) },
      ...{ runtime: this.#runtime.name, executable },
      argv: () => [...argv],
      env: launchEnvironment(environment, env),
      host: loopback,
      port: { kind: 'fixed', port },
    }
  }

  /** Its models finish their requests and are unloaded, then it ends. */
  async #leave(): Promise<void> {
    this.#isLeaving = true
    const { log, drain, onChange } = this.#options
    try {
      await drain(this.#runtime.name)
      // A person may have set it back meanwhile.
      if ((this.#isWanted && (await this.#isAsWanted())) || this.#isOver) return
      const report = await this.#servers.stop(this.key, { drainMs: 0 })
      if (!report.stopped) log.warn('a daemon did not end', { runtime: this.#runtime.name, reason: report.message })
    } catch (error) {
      log.warn('a daemon was not ended', { runtime: this.#runtime.name, reason: messageOf(error) })
    } finally {
      this.#isLeaving = false
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

  get #home(): string {
    return daemonHome(this.#options.stateDir, this.#runtime.name)
  }

  get #isWanted(): boolean {
    const settings = this.#options.settings()
    return settings[this.#runtime.start.setting.name] && settings[this.#runtime.port] > 0
  }

  get #lookEveryMs(): number {
    return this.#options.lookEveryMs ?? defaultLookEveryMs
  }
}
