import { totalmem } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../observability/logger.ts'
import type { Platform, PortHolder } from '../platform/platform.ts'
import { messageOf } from '../support/message-of.ts'
import { saysAddressInUse } from './crash-cause.ts'
import { drain } from './drain.ts'
import { exitMessage, hangsMessage } from './exit-message.ts'
import type { HealthProbe } from './health-probe.ts'
import { defaultDrainLimitMs, defaultStartupStallMs, defaultStopGraceMs, type LaunchRules } from './launch.ts'
import { missedAfterMs, type LivenessTimings } from './liveness.ts'
import { watchLiveness } from './liveness-watch.ts'
import { MemoryWatch } from './memory-watch.ts'
import { readEvidence } from './output-evidence.ts'
import type { OutputLog } from './output-log.ts'
import { portTakenMessage, type Ports } from './ports.ts'
import { ProcessGroup } from './process-group.ts'
import { watchStart, type StartFigures } from './readiness.ts'
import type { Evidence, Exit, ExitCause, Exited, Hang, ServerState } from './server-state.ts'
import type { RunningProcess } from './spawn.ts'

export interface RunContext {
  readonly launch: LaunchRules
  readonly output: OutputLog
  readonly ports: Ports
  readonly platform: Pick<Platform, 'name' | 'process' | 'processGroup' | 'portListeners' | 'establishedConnections'>
  readonly probe: HealthProbe
  readonly liveness: LivenessTimings
  readonly log: Logger
  readonly now: () => number
  readonly onState: (state: ServerState) => void
  readonly onProbe: (seconds: number, healthy: boolean) => void
}

export interface ServerRunOptions extends RunContext {
  readonly process: RunningProcess
  readonly port: number
  /** Where in the output of the run its own begins. */
  readonly outputOffset: number
  /** Of one that was ready before we came. */
  readonly readySince?: number | undefined
}

export interface EndOptions {
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs?: number | undefined
  /** How long requests in flight may take to finish; 0 = they are cut. */
  readonly drainMs?: number | undefined
  /** How long no request may have come before it ends; see drain. */
  readonly quietMs?: number | undefined
  readonly holders?: readonly PortHolder[]
  readonly hang?: Hang
}

/** A run that is over, and what is known about why. */
export interface RunEnd {
  readonly exited: Omit<Exited, 'settled' | 'failures' | 'retryAt'>
  /** It ended because somebody else had its port. */
  readonly portTaken: boolean
  /** 0 where it never got ready. */
  readonly servedMs: number
}

/** What hangs will hardly hear SIGTERM. */
const hungGraceMs = 2_000

/** SIGKILL takes effect at once unless the process hangs in the kernel. */
export const killLimitMs = 5_000

/** What hangs in the kernel ends as soon as that lets go of it. */
const killAgainMs = 1_000

/** The kernel may need a moment to close what a dead process had open. */
const portLimitMs = 2_000
const portLookMs = 50

/** One process (with its group) from the spawn until nothing of it is left. */
export class ServerRun {
  readonly pid: number
  readonly port: number
  readonly #options: ServerRunOptions
  readonly #group: ProcessGroup
  readonly #memory: MemoryWatch
  readonly #letGo = Promise.withResolvers<undefined>()
  /** Ends with its own end, or as soon as that is wanted. */
  readonly #watching = new AbortController()
  #readySince: number | undefined
  #healthy = false
  #ending: Ending | undefined
  #reaped = false
  #isLetGo = false

  constructor(options: ServerRunOptions) {
    this.#options = options
    const { process, port, platform, log, now } = options
    this.pid = process.pid
    this.port = port
    this.#readySince = options.readySince
    this.#healthy = options.readySince !== undefined
    this.#group = new ProcessGroup({
      groupId: process.pid,
      table: platform,
      leaderStartTime: process.startTime,
      onTrouble: (error) => log.warn('could not signal a server', { pid: process.pid, error }),
    })
    this.#memory = new MemoryWatch({
      groupId: process.pid,
      platform,
      now,
      onTrouble: (error) => log.debug('the memory of a server was not measured', { pid: process.pid, error }),
    })
  }

  /**
   * SIGTERM to the whole group, SIGKILL after the grace; before it, a server that is stopped while it serves may finish its requests.
   * Asked again, the shorter times count; an exit cannot be asked for any more.
   */
  end(cause: Ending['cause'], options: EndOptions = {}): void {
    if (this.#reaped) return
    if (this.#ending) this.#hasten(this.#ending, cause, options)
    else this.#begin(cause, options)
  }

  /** Requests in flight are cut: SIGTERM now. False where no wait for them is under way. */
  skipDrain(): boolean {
    if (!this.#ending || this.#ending.killAt !== undefined || this.#reaped) return false
    this.#ending.drain.abort()
    return true
  }

  #begin(cause: Ending['cause'], options: EndOptions): void {
    const { launch } = this.#options
    const { graceMs = this.#stopGraceMs, drainMs = launch.drainLimitMs ?? defaultDrainLimitMs, hang } = options
    this.#watching.abort()
    const ending: Ending = {
      cause,
      graceMs,
      holders: options.holders ?? [],
      hang,
      drain: new AbortController(),
      drainUntil: performance.now() + drainMs,
      quietMs: options.quietMs,
      killAt: undefined,
      tellsRequests: false,
      hangs: false,
      timer: undefined,
    }
    this.#ending = ending
    this.#tellStopping(ending)
    if (cause === 'stopped' && this.#healthy && drainMs > 0) void this.#drain(ending)
    else this.#terminate(ending)
  }

  #hasten(ending: Ending, cause: Ending['cause'], { graceMs, drainMs }: EndOptions): void {
    if (cause === 'stopped' && ending.cause !== cause) {
      ending.cause = cause
      this.#tellStopping(ending)
    }
    if (drainMs === 0) ending.drain.abort()
    if (drainMs !== undefined) ending.drainUntil = Math.min(ending.drainUntil, performance.now() + drainMs)
    if (graceMs === undefined || graceMs >= ending.graceMs) return
    ending.graceMs = graceMs
    if (ending.killAt !== undefined) this.#killAt(ending, Math.min(ending.killAt, performance.now() + graceMs))
  }

  /** Nobody sends new requests by now. Never rejects. */
  async #drain(ending: Ending): Promise<void> {
    const { platform, log } = this.#options
    const left = await drain({
      port: this.port,
      platform,
      until: () => ending.drainUntil,
      signal: ending.drain.signal,
      quietMs: ending.quietMs,
      onRequests: (requests) => this.#tellStopping(ending, requests),
      onTrouble: (message, error) => log.warn(message, { pid: this.pid, port: this.port, error }),
    })
    if (this.#reaped) return
    if (left > 0) log.warn('requests in flight are cut', { pid: this.pid, port: this.port, requests: left })
    if (ending.tellsRequests) this.#tellStopping(ending)
    this.#terminate(ending)
  }

  #terminate(ending: Ending): void {
    this.#group.signalNow('SIGTERM')
    this.#killAt(ending, performance.now() + ending.graceMs)
  }

  #killAt(ending: Ending, at: number): void {
    clearTimeout(ending.timer)
    ending.killAt = at
    ending.timer = setTimeout(() => this.#kill(ending, killLimitMs), Math.max(0, at - performance.now()))
  }

  /** Again and again: nothing may take its place before it is gone. */
  #kill(ending: Ending, nextMs: number): void {
    this.#group.signalNow('SIGKILL')
    ending.timer = setTimeout(() => {
      if (!ending.hangs) {
        ending.hangs = true
        this.#tellStopping(ending)
      }
      this.#kill(ending, killAgainMs)
    }, nextMs)
  }

  #tellStopping(ending: Ending, requestsInFlight?: number): void {
    const { now, onState } = this.#options
    const { cause, drainUntil } = ending
    ending.tellsRequests = requestsInFlight !== undefined
    const endsAt = now() + Math.max(0, Math.round(drainUntil - performance.now()))
    const drain = requestsInFlight === undefined ? {} : { drain: { requestsInFlight, endsAt } }
    const hangs = ending.hangs ? { hangs: hangsMessage(this.pid) } : {}
    onState({ kind: 'stopping', since: now(), cause, pid: this.pid, port: this.port, ...drain, ...hangs })
  }

  /** It runs on, and nobody here looks after it any more. */
  letGo(): void {
    this.#isLetGo = true
    clearTimeout(this.#ending?.timer)
    this.#letGo.resolve(undefined)
  }

  /** Undefined where it was let go. Never rejects. */
  async untilOver(): Promise<RunEnd | undefined> {
    const { process, output, now, onState } = this.#options
    await using _bounded = output.bounded()
    const watching = this.#watch(this.#watching.signal)
    const exit = await Promise.race([process.exited, this.#letGo.promise])
    this.#reaped = true
    clearTimeout(this.#ending?.timer)
    this.#ending?.drain.abort()
    this.#watching.abort()
    if (!exit) return undefined
    this.#group.leaderReaped()
    const at = now()
    onState({ ...this.#exited(exit, at), settled: false, failures: 0 })
    await watching
    return await this.#settle(exit, at)
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { now, log } = this.#options
    const { pid, port } = this
    try {
      const verdict = await this.#watchStart(signal)
      if (verdict.kind === 'stalled') this.#endSilent()
      if (verdict.kind === 'portTaken') this.end('portTaken', { holders: verdict.holders })
      if (verdict.kind !== 'ready' || signal.aborted) return
      const readySince = this.#readySince ?? now()
      this.#readySince = readySince
      this.#healthy = true
      this.#tell({ kind: 'ready', since: now(), readySince, pid, port, healthy: true })
      const measuring = this.#memory.watch(signal)
      const hang = await this.#watchLiveness(signal, readySince)
      if (hang) this.end('hung', { hang, graceMs: Math.min(hungGraceMs, this.#stopGraceMs) })
      await measuring
    } catch (error) {
      log.error('the watch over a server failed', { pid, port, error })
      this.end('stalled')
    }
  }

  /** One that served before we came does not start any more, so it hangs. */
  #endSilent(): void {
    if (this.#readySince === undefined) this.end('stalled')
    else this.end('hung', { hang: 'silent', graceMs: Math.min(hungGraceMs, this.#stopGraceMs) })
  }

  async #watchStart(signal: AbortSignal) {
    const { platform, probe, liveness, now, log, process } = this.#options
    const { pid, port } = this
    // One that was found running counts as what it was until it has been silent for as long as makes any server unhealthy.
    const endTrust = () => {
      this.#healthy = false
      this.#tell({ kind: 'starting', since: now(), pid, port })
    }
    const trustMs = liveness.misses * liveness.answerWithinMs
    const trust = process.startTime === undefined ? undefined : setTimeout(endTrust, trustMs)
    try {
      return await watchStart({
        port,
        probe,
        signal,
        stallMs: this.#readySince === undefined ? this.#stallMs : missedAfterMs(liveness, liveness.hungMisses),
        listeners: () => platform.portListeners(port, pid),
        figures: () => this.#startFigures(),
        onLoading: () => {
          clearTimeout(trust)
          this.#tell({ kind: 'loading', since: now(), pid, port })
        },
        onTrouble: (message, error) => log.warn(message, { pid, port, error }),
      })
    } finally {
      clearTimeout(trust)
    }
  }

  async #startFigures(): Promise<StartFigures> {
    const [members, written] = await Promise.all([this.#memory.look(), this.#options.output.extent()])
    const sum = (figure: 'residentBytes' | 'cpuMs') => members.reduce((total, member) => total + member[figure], 0)
    return { residentBytes: sum('residentBytes'), cpuMs: sum('cpuMs'), outputBytes: written?.to ?? 0 }
  }

  #watchLiveness(signal: AbortSignal, readySince: number): Promise<Hang | undefined> {
    const { launch, probe, liveness, onProbe, now, log } = this.#options
    const { pid, port } = this
    return watchLiveness({
      port,
      signal,
      probe,
      timings: liveness,
      members: () => this.#group.members(),
      asksForProgress: launch.sleepsWhenIdle !== true,
      onHealth: (healthy, trouble) => {
        this.#healthy = healthy
        this.#tell({ kind: 'ready', since: now(), readySince, pid, port, healthy, ...(trouble && { trouble }) })
      },
      onProbe,
      onTrouble: (message, error) => log.warn(message, { pid, port, error }),
    })
  }

  /** The leader is reaped: ends the rest of its group and finds out what it left. */
  async #settle(exit: Exit, at: number): Promise<RunEnd> {
    const membersLeft = await this.#orSentence(() => this.#endGroup(exit, at))
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

  /** A sentence where it was let go before all had ended. */
  async #endGroup(exit: Exit, at: number): Promise<string | undefined> {
    let members = await this.#group.gone(this.#ending?.killAt ?? 0)
    let left: string | undefined
    while (members.length > 0) {
      await this.#group.signal('SIGKILL')
      members = await this.#group.gone(performance.now() + (left === undefined ? killLimitMs : killAgainMs))
      if (members.length === 0) break
      const sentence = `Of its processes ${members.map(({ pid }) => pid).join(', ')} did not end although they were killed.`
      if (this.#isLetGo) return sentence
      if (sentence !== left)
        this.#options.onState({ ...this.#exited(exit, at), left: sentence, settled: false, failures: 0 })
      left = sentence
    }
    return undefined
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
    const { output, outputOffset, log } = this.#options
    try {
      return await readEvidence(output, { offset: outputOffset, outOf: this.#outOf })
    } catch (error) {
      log.warn('the output of a server could not be read', { pid: this.pid, file: output.file, error })
      return { tail: [] }
    }
  }

  async #orSentence(look: () => Promise<string | undefined>): Promise<string | undefined> {
    try {
      return await look()
    } catch (error) {
      return `Whether anything of the server is left could not be told: ${messageOf(error)}`
    }
  }

  #exited(exit: Exit, at: number, evidence: Evidence = { tail: [] }): RunEnd['exited'] {
    const { launch, platform } = this.#options
    const { executable, settingNames } = launch
    const memory = this.#memory.atEnd(at)
    const how = { ...exit, cause: this.#ending?.cause ?? 'itself', outOf: this.#outOf } as const
    const message = exitMessage({
      ...how,
      ...{ executable, evidence, memory },
      ...{ system: platform.name, totalBytes: totalmem() },
      ...{ hang: this.#ending?.hang, stallMs: this.#stallMs, stallSetting: settingNames?.startupStall },
    })
    return { kind: 'exited', since: at, ...how, ...evidence, ...(memory && { memory }), message }
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
  cause: Exclude<ExitCause, 'itself'>
  graceMs: number
  readonly holders: readonly PortHolder[]
  readonly hang: Hang | undefined
  /** Aborted = no longer wait for requests. */
  readonly drain: AbortController
  /** On the monotonic clock. */
  drainUntil: number
  readonly quietMs: number | undefined
  /** On the monotonic clock; undefined until SIGTERM is sent. */
  killAt: number | undefined
  /** Readers were told last how many requests it waits for. */
  tellsRequests: boolean
  /** It did not end although it was killed. */
  hangs: boolean
  timer: NodeJS.Timeout | undefined
}
