import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../observability/logger.ts'
import type { Platform, PortHolder } from '../platform/platform.ts'
import { exitMessage, saysAddressInUse } from './exit-message.ts'
import type { HealthProbe } from './health-probe.ts'
import { defaultStartupStallMs, defaultStopGraceMs, type ServerLaunch } from './launch.ts'
import { watchLiveness, type LivenessTimings } from './liveness.ts'
import { requestsInFlight } from './idle.ts'
import { outputSize, readEvidence } from './output-log.ts'
import { portTakenMessage, type Ports } from './ports.ts'
import { ProcessGroup } from './process-group.ts'
import { watchStart, type StartFigures } from './readiness.ts'
import type { Evidence, Exit, ExitCause, Exited, ServerState } from './server-state.ts'
import type { Child } from './spawn.ts'

export interface RunContext {
  readonly launch: ServerLaunch
  readonly ports: Ports
  readonly platform: Pick<Platform, 'processGroup' | 'portListeners'>
  readonly probe: HealthProbe
  readonly liveness: LivenessTimings
  readonly log: Logger
  readonly now: () => number
  readonly onState: (state: ServerState) => void
}

export interface ServerRunOptions extends RunContext {
  readonly child: Child
  readonly port: number
  /** Where in the file its output begins. */
  readonly outputOffset: number
}

/** A run that is over, and what is known about why. */
export interface RunEnd {
  readonly exited: Omit<Exited, 'settled' | 'failures' | 'retryAt'>
  /** It ended because somebody else had its port. */
  readonly portTaken: boolean
  /** 0 where it never got ready. */
  readonly servedMs: number
}

/** llama-server cuts answers short on SIGTERM: requests in flight get this long to end before it. */
export const drainLimitMs = 8_000
const drainLookMs = 100

/** SIGKILL takes effect at once unless the process hangs in the kernel. */
export const killLimitMs = 5_000

/** The kernel may need a moment to close what a dead process had open. */
const portLimitMs = 2_000
const portLookMs = 50

/** One process (with its group) from the spawn until nothing of it is left. */
export class ServerRun {
  readonly pid: number
  readonly port: number
  readonly #options: ServerRunOptions
  readonly #group: ProcessGroup
  #readySince: number | undefined
  #ending: Ending | undefined
  #reaped = false
  #isDraining = false

  constructor(options: ServerRunOptions) {
    this.#options = options
    this.pid = options.child.pid
    this.port = options.port
    this.#group = new ProcessGroup({ groupId: options.child.pid, table: options.platform })
  }

  /** SIGTERM to the whole group, SIGKILL after the grace. Asked again, the shorter grace counts; an exit cannot be asked for any more. */
  end(cause: Ending['cause'], graceMs: number = this.#stopGraceMs, holders: readonly PortHolder[] = []): void {
    if (this.#reaped) return
    const drains = cause === 'stopped' && this.#ending === undefined && this.#readySince !== undefined
    const killAt = performance.now() + graceMs + (drains ? drainLimitMs : 0)
    const previous = this.#ending
    const ending: Ending = {
      cause: cause === 'stopped' ? cause : (previous?.cause ?? cause),
      killAt: Math.min(killAt, previous?.killAt ?? killAt),
      holders: previous?.holders ?? holders,
      timer: undefined,
    }
    clearTimeout(previous?.timer)
    ending.timer = setTimeout(() => this.#group.signalNow('SIGKILL'), Math.max(0, ending.killAt - performance.now()))
    this.#ending = ending
    if (previous?.cause !== ending.cause) {
      const { now, onState } = this.#options
      onState({ kind: 'stopping', since: now(), cause: ending.cause, pid: this.pid, port: this.port })
    }
    if (drains) void this.#drain(ending, graceMs)
    else if (previous === undefined) this.#group.signalNow('SIGTERM')
  }

  /** False where it does not drain. */
  skipDrain(): boolean {
    if (!this.#isDraining || this.#reaped) return false
    this.#isDraining = false
    return true
  }

  /** Requests that are in flight may finish; nobody sends new ones by now. Never rejects. */
  async #drain(ending: Ending, graceMs: number): Promise<void> {
    const until = performance.now() + drainLimitMs
    this.#isDraining = true
    while (this.#mayDrain(until)) {
      const requests = await requestsInFlight(this.port)
      if (requests === undefined || requests === 0) break
      await delay(drainLookMs)
    }
    this.#isDraining = false
    if (this.#reaped) return
    if (this.#ending === ending) {
      clearTimeout(ending.timer)
      ending.timer = setTimeout(() => this.#group.signalNow('SIGKILL'), graceMs)
    }
    this.#group.signalNow('SIGTERM')
  }

  #mayDrain(until: number): boolean {
    return !this.#reaped && this.#isDraining && performance.now() < until
  }

  /** Never rejects. */
  async untilOver(): Promise<RunEnd> {
    const { child, now, onState } = this.#options
    const life = new AbortController()
    const watching = this.#watch(life.signal)
    const exit = await child.exited
    this.#reaped = true
    this.#group.leaderReaped()
    clearTimeout(this.#ending?.timer)
    life.abort()
    const at = now()
    onState({ ...this.#exited(exit, at), settled: false, failures: 0 })
    await watching
    return this.#settle(exit, at)
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { now, log } = this.#options
    const { pid, port } = this
    try {
      const verdict = await this.#watchStart(signal)
      if (verdict.kind === 'stalled') this.end('stalled')
      if (verdict.kind === 'portTaken') this.end('portTaken', undefined, verdict.holders)
      if (verdict.kind !== 'ready' || signal.aborted || this.#ending) return
      const readySince = now()
      this.#readySince = readySince
      this.#tell({ kind: 'ready', since: readySince, readySince, pid, port, healthy: true })
      await watchLiveness({
        port,
        signal,
        probe: this.#options.probe,
        timings: this.#options.liveness,
        onHealth: (healthy) => this.#tell({ kind: 'ready', since: now(), readySince, pid, port, healthy }),
      })
    } catch (error) {
      log.error('the watch over a server failed', { pid, port, error })
      this.end('stalled')
    }
  }

  #watchStart(signal: AbortSignal) {
    const { launch, platform, probe, now, log } = this.#options
    const { pid, port } = this
    return watchStart({
      port,
      probe,
      signal,
      stallMs: this.#stallMs,
      listeners: () => platform.portListeners(port, pid),
      figures: async (): Promise<StartFigures> => {
        const [members, outputBytes] = await Promise.all([this.#group.members(), outputSize(launch.logFile)])
        return { residentBytes: members.reduce((sum, { residentBytes }) => sum + residentBytes, 0), outputBytes }
      },
      onLoading: () => this.#tell({ kind: 'loading', since: now(), pid, port }),
      onTrouble: (message, error) => log.warn(message, { pid, port, error }),
    })
  }

  /** The leader is reaped: ends the rest of its group and finds out what it left. */
  async #settle(exit: Exit, at: number): Promise<RunEnd> {
    const membersLeft = await this.#orSentence(() => this.#endGroup())
    const evidence = await this.#evidence()
    const portTaken =
      this.#ending?.cause === 'portTaken' ||
      (this.#ending === undefined && this.#outOf === 'start' && saysAddressInUse(evidence))
    const portLeft = await this.#orSentence(() => this.#portHeld())
    const left = membersLeft ?? (portTaken ? undefined : portLeft)
    return {
      exited: {
        ...this.#exited(exit, at, evidence),
        ...(portTaken
          ? { cause: 'portTaken', message: portLeft ?? this.#portTakenMessage(this.#ending?.holders) }
          : {}),
        ...(left === undefined ? {} : { left }),
      },
      portTaken,
      servedMs: this.#readySince === undefined ? 0 : at - this.#readySince,
    }
  }

  async #endGroup(): Promise<string | undefined> {
    const graceEnds = this.#ending?.killAt ?? 0
    if ((await this.#group.gone(graceEnds)).length > 0) await this.#group.signal('SIGKILL')
    const members = await this.#group.gone(performance.now() + killLimitMs)
    if (members.length === 0) return undefined
    return `Of its processes ${members.map(({ pid }) => pid).join(', ')} did not end although they were killed.`
  }

  /** A process that left the group may keep the port: it is not ours to signal, but it is to be told. */
  async #portHeld(): Promise<string | undefined> {
    const { ports, platform } = this.#options
    const deadline = performance.now() + portLimitMs
    for (;;) {
      if (await ports.isFree(this.port)) return undefined
      const { others } = await platform.portListeners(this.port, this.pid)
      if (others.some(({ pid }) => pid !== undefined)) return this.#portTakenMessage(others)
      if (performance.now() >= deadline) return others.length === 0 ? undefined : this.#portTakenMessage(others)
      await delay(portLookMs)
    }
  }

  async #evidence(): Promise<Evidence> {
    const { launch, outputOffset, log } = this.#options
    try {
      return await readEvidence(launch.logFile, { offset: outputOffset, outOf: this.#outOf })
    } catch (error) {
      log.warn('the output of a server could not be read', { pid: this.pid, file: launch.logFile, error })
      return { tail: [] }
    }
  }

  async #orSentence(look: () => Promise<string | undefined>): Promise<string | undefined> {
    try {
      return await look()
    } catch (error) {
      return `Whether anything of the server is left could not be told: ${error instanceof Error ? error.message : String(error)}`
    }
  }

  #exited(exit: Exit, at: number, evidence: Evidence = { tail: [] }): RunEnd['exited'] {
    const { executable, settingNames } = this.#options.launch
    const how = { ...exit, cause: this.#ending?.cause ?? 'itself', outOf: this.#outOf } as const
    const story = { ...how, executable, evidence, stallMs: this.#stallMs, stallSetting: settingNames?.startupStall }
    return { kind: 'exited', since: at, ...how, ...evidence, message: exitMessage(story) }
  }

  #portTakenMessage(holders: readonly PortHolder[] = []): string {
    return portTakenMessage(this.port, holders, this.#options.launch.settingNames?.port)
  }

  get #outOf(): 'start' | 'serving' {
    return this.#readySince === undefined ? 'start' : 'serving'
  }

  get #stallMs(): number {
    return this.#options.launch.startupStallMs ?? defaultStartupStallMs
  }

  get #stopGraceMs(): number {
    return this.#options.launch.stopGraceMs ?? defaultStopGraceMs
  }

  /** What is on its way to an end has no other news. */
  #tell(state: ServerState): void {
    if (!this.#ending) this.#options.onState(state)
  }
}

/** We want it to end. */
interface Ending {
  readonly cause: Exclude<ExitCause, 'itself'>
  /** On the monotonic clock. */
  readonly killAt: number
  readonly holders: readonly PortHolder[]
  timer: NodeJS.Timeout | undefined
}
