import { totalmem } from 'node:os'
import type { Logger } from '../observability/logger.ts'
import type { Platform, PortHolder } from '../platform/platform.ts'
import { messageOf } from '../util/message-of.ts'
import { exitMessage, guessCause, hangsMessage, readEvidence, saysAddressInUse } from './crash-cause.ts'
import { defaultStartupStallMs, defaultStopGraceMs, type LaunchRules, type RunningProcess } from './launch.ts'
import { missedAfterMs, watchLiveness, type LivenessTimings } from './liveness.ts'
import { askedAt } from './listening.ts'
import type { RunOutput } from './output.ts'
import { Poller } from './poller.ts'
import { portsOf, portTakenMessage, type Ports } from './ports.ts'
import type { CountersReading, HealthProbe, ProbeAnswer, ServerProtocol, ServerRuntime } from './probe.ts'
import { cpuMsOf, endGroup, ProcessGroup, residentBytesOf } from './process-group.ts'
import { watchStart, type StartFigures } from './readiness.ts'
import type { Evidence, Exit, Exited, Hang, ServerState } from './server-state.ts'
import { Termination, type EndCause, type EndOptions } from './termination.ts'

/** What every run of a server needs from its surroundings. */
export interface RunContext {
  readonly launch: LaunchRules
  readonly ports: Ports
  readonly platform: Pick<Platform, 'name' | 'process' | 'processGroup' | 'portListeners' | 'establishedConnections'>
  readonly protocols: Readonly<Record<ServerRuntime, ServerProtocol>>
  readonly liveness: LivenessTimings
  readonly log: Logger
  readonly now: () => number
  readonly onState: (state: ServerState) => void
  readonly onProbe: (seconds: number, healthy: boolean) => void
  /** Told of each reading of its counters. */
  readonly onCounters: (reading: CountersReading) => void
}

export interface ServerRunOptions extends RunContext {
  readonly process: RunningProcess
  /** The address that it listens at. */
  readonly host: string
  readonly port: number
  readonly output: RunOutput
  /** Where in the output of the run its own begins. */
  readonly outputOffset: number
  /** Given for a server that was ready before this agent found it. */
  readonly readySince?: number | undefined
}

/** A run that is over, and what is known about why. */
export interface RunEnd {
  readonly exited: Omit<Exited, 'settled' | 'failures' | 'retryAt'>
  /** It ended because another process had its port. */
  readonly portTaken: boolean
  /** 0 where it never got ready. */
  readonly servedMs: number
}

/** A server that hangs will hardly hear SIGTERM. */
const hungGraceMs = 2_000

/** One process (with its group) from the spawn over its readiness and liveness until nothing of it is left. */
export class ServerRun {
  readonly pid: number
  readonly port: number
  readonly poller: Poller
  readonly toldBytes = undefined
  readonly #options: ServerRunOptions
  readonly #group: ProcessGroup
  readonly #letGo = Promise.withResolvers<undefined>()
  /** Aborted as soon as the run is to end, or has ended. */
  readonly #watching = new AbortController()
  /** Undefined where it never got ready. */
  #readySince: number | undefined
  #isHealthy: boolean
  #termination: Termination | undefined
  #reaped = false
  #isLetGo = false

  constructor(options: ServerRunOptions) {
    this.#options = options
    const { process, host, port, platform, launch, log, now, readySince, onCounters } = options
    this.pid = process.pid
    this.port = port
    this.#readySince = readySince
    this.#isHealthy = readySince !== undefined
    this.#group = new ProcessGroup({
      groupId: process.pid,
      platform,
      leaderStartTime: process.startTime,
      ...{ now, log },
    })
    const { sleepsWhenIdle = false } = launch
    const { activity } = this.#protocol
    this.poller = new Poller({
      ...{ host: askedAt(host), port, sleepsWhenIdle, platform, log, activity },
      onReading: onCounters,
    })
  }

  answers(timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> {
    return this.#at(this.#protocol.health)(this.port, timeLimitMs, signal)
  }

  /**
   * SIGTERM to the whole group, SIGKILL after the grace; before it, a server that is stopped while it serves may finish its requests.
   * Asked again, the shorter times count; a run that is over takes no further wish.
   */
  end(cause: EndCause, options: EndOptions = {}): void {
    if (this.#reaped) return
    if (this.#termination) {
      this.#termination.hasten(cause, options)
      return
    }
    this.#watching.abort()
    this.poller.limitIdleness(undefined)
    const { launch: rules, log, now, onState } = this.#options
    this.#termination = new Termination({
      ...options,
      ...{ cause, rules, log, now, onState },
      ...{ life: { pid: this.pid }, hangsMessage: hangsMessage(this.pid, rules) },
      ...{ port: this.port, group: this.#group, poller: this.poller, isServing: this.#isHealthy },
    })
    this.#termination.begin()
  }

  /** Requests in flight are cut: SIGTERM now. False where no wait for them is under way. */
  skipDrain(): boolean {
    return !this.#reaped && (this.#termination?.skipDrain() ?? false)
  }

  /** The process runs on, and this agent neither watches nor signals it from now on. */
  letGo(): void {
    this.#isLetGo = true
    this.#termination?.over()
    this.#letGo.resolve(undefined)
  }

  /** Undefined where it was let go. Never rejects. */
  async untilOver(): Promise<RunEnd | undefined> {
    const { process, output, now, onState } = this.#options
    await using _bounded = output.bounded()
    using _asking = this.poller
    const watching = this.#watch(this.#watching.signal)
    const exit = await Promise.race([process.exited, this.#letGo.promise])
    this.#reaped = true
    this.#termination?.over()
    this.#watching.abort()
    if (!exit) return undefined
    this.#group.leaderReaped()
    const at = now()
    onState({ ...this.#exited(exit, at), settled: false, failures: 0 })
    await watching
    return await this.#settle(exit, at)
  }

  /** From its start over its readiness to its liveness, until the signal, which an end of the run gives. Never rejects. */
  async #watch(signal: AbortSignal): Promise<void> {
    const { pid, port } = this
    const { now } = this.#options
    try {
      const verdict = await this.#untilReady(signal)
      if (verdict.kind === 'stalled') this.#endSilent()
      if (verdict.kind === 'failing' || verdict.kind === 'alone') this.#endHung(verdict.kind)
      if (verdict.kind === 'portTaken') this.end('portTaken', { holders: verdict.holders })
      if (verdict.kind !== 'ready' || signal.aborted) return
      const readySince = this.#readySince ?? now()
      this.#readySince = readySince
      this.#isHealthy = true
      this.#tell({ kind: 'ready', since: now(), readySince, pid, port, healthy: true })
      const measuring = this.#group.watchMemory(signal)
      const hang = await this.#untilHung(signal, readySince)
      if (hang) this.#endHung(hang)
      await measuring
    } catch (error) {
      this.#options.log.error('the watch over a server failed', { pid, port, error })
      this.end('stalled')
    }
  }

  /** A server that was ready before it was found does not start, so its silence is a hang. */
  #endSilent(): void {
    if (this.#readySince === undefined) this.end('stalled')
    else this.#endHung('silent')
  }

  #endHung(hang: Hang): void {
    const { stopGraceMs = defaultStopGraceMs } = this.#options.launch
    this.end('hung', { hang, graceMs: Math.min(hungGraceMs, stopGraceMs) })
  }

  async #untilReady(signal: AbortSignal) {
    const { pid, port } = this
    const { platform, liveness, now, process, host } = this.#options
    // A server that was found running counts as what it was until it has been silent for as long as makes any server unhealthy.
    const endTrust = () => {
      this.#isHealthy = false
      this.#tell({ kind: 'starting', since: now(), pid, port })
    }
    const isFound = process.startTime !== undefined
    const trust = isFound ? setTimeout(endTrust, liveness.misses * liveness.answerWithinMs) : undefined
    try {
      return await watchStart({
        port,
        // One that was ready before it was found may be busy, and would answer a question for a token late.
        probe: this.#at(this.#readySince === undefined ? this.#protocol.readiness() : this.#protocol.health),
        signal,
        stallMs: this.#readySince === undefined ? this.#stallMs : missedAfterMs(liveness, liveness.hungMisses),
        listeners: () => platform.portListeners(port, pid, host),
        figures: () => this.#startFigures(),
        isLauncher: this.#protocol.isLauncher,
        onLoading: () => {
          clearTimeout(trust)
          this.#tell({ kind: 'loading', since: now(), pid, port })
        },
        onBlindLook: () => {
          if (this.#isHealthy) trust?.refresh()
        },
        onTrouble: (message, error) => this.#warn(message, error),
      })
    } finally {
      clearTimeout(trust)
    }
  }

  async #startFigures(): Promise<StartFigures> {
    const [members, written] = await Promise.all([this.#group.members(), this.#options.output.extent()])
    return {
      ...{ residentBytes: residentBytesOf(members), cpuMs: cpuMsOf(members), outputBytes: written?.to ?? 0 },
      processes: members.length,
    }
  }

  /** Resolves with the kind of hang, or undefined when the signal ended the watch. */
  #untilHung(signal: AbortSignal, readySince: number): Promise<Hang | undefined> {
    const { pid, port, poller } = this
    const { launch, liveness: timings, onProbe, now } = this.#options
    return watchLiveness({
      ...{ port, signal, probe: this.#at(this.#protocol.health), poller, timings, onProbe },
      token: this.#protocol.token && this.#at(this.#protocol.token),
      members: () => this.#group.members(),
      asksForProgress: launch.sleepsWhenIdle !== true,
      onHealth: (healthy, trouble) => {
        this.#isHealthy = healthy
        this.#tell({ kind: 'ready', since: now(), readySince, pid, port, healthy, ...(trouble && { trouble }) })
      },
      onTrouble: (message, error) => this.#warn(message, error),
    })
  }

  /** The leader is reaped: ends the rest of its group and finds out what it left. */
  async #settle(exit: Exit, at: number): Promise<RunEnd> {
    const { onState, ports } = this.#options
    const membersLeft = await this.#orSentence(() =>
      endGroup({
        group: this.#group,
        killAt: this.#termination?.killAt ?? 0,
        isLetGo: () => this.#isLetGo,
        onLeft: (left) => onState({ ...this.#exited(exit, at), left, settled: false, failures: 0 }),
      }),
    )
    const evidence = await this.#evidence()
    const portTaken =
      this.#termination?.cause === 'portTaken' ||
      // Some stay although they have no port, and wait for ever.
      (this.#outOf === 'start' &&
        [undefined, 'stalled'].includes(this.#termination?.cause) &&
        saysAddressInUse(evidence))
    const portLeft = await this.#orSentence(async () => {
      for (const port of portsOf(this.port, this.#protocol.furtherPorts)) {
        const keepers = await ports.keepersOf(port, this.#options.host)
        if (keepers) return this.#portTakenMessage(keepers, port)
      }
      return undefined
    })
    const left = membersLeft ?? (portTaken ? undefined : portLeft)
    return {
      exited: {
        ...this.#exited(exit, at, evidence),
        ...(portTaken
          ? { cause: 'portTaken', message: portLeft ?? this.#portTakenMessage(this.#termination?.holders) }
          : {}),
        ...(left === undefined ? {} : { left }),
      },
      portTaken,
      servedMs: this.#readySince === undefined ? 0 : at - this.#readySince,
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
      return `The agent cannot tell whether any process of the server is left: ${messageOf(error)}`
    }
  }

  #exited(exit: Exit, at: number, evidence: Evidence = { tail: [] }): RunEnd['exited'] {
    const { launch, platform } = this.#options
    const memory = this.#group.memoryAtEnd(at)
    const how = { ...exit, cause: this.#termination?.cause ?? 'itself', outOf: this.#outOf } as const
    const { executable, advice } = launch
    const clues = { ...how, ...evidence, executable, advice, memory, system: platform.name, totalBytes: totalmem() }
    const saysWhy = how.cause === 'itself' || (how.cause === 'hung' && how.outOf === 'start')
    const guess = saysWhy ? guessCause(clues) : undefined
    const message = exitMessage({
      ...{ ...clues, guess, hang: this.#termination?.hang },
      stallMs: this.#stallMs,
    })
    return {
      ...{ kind: 'exited', since: at, ...how, ...evidence, message },
      ...(memory && { memory }),
      ...(guess !== undefined && { guess }),
    }
  }

  #portTakenMessage(holders: readonly PortHolder[] = [], port = this.port): string {
    return portTakenMessage(port, holders, this.#options.launch.portFlag)
  }

  /** Asks it where it listens. */
  #at(probe: HealthProbe): HealthProbe {
    const host = askedAt(this.#options.host)
    return (port, timeLimitMs, signal) => probe(port, timeLimitMs, signal, host)
  }

  get #protocol(): ServerProtocol {
    const { protocols, launch } = this.#options
    return protocols[launch.runtime ?? 'llama-server']
  }

  get #outOf(): 'start' | 'serving' {
    return this.#readySince === undefined ? 'start' : 'serving'
  }

  get #stallMs(): number {
    return this.#options.launch.startupStallMs ?? defaultStartupStallMs
  }

  /** A run that is being ended tells of that alone. */
  #tell(state: ServerState): void {
    if (!this.#termination) this.#options.onState(state)
  }

  #warn(message: string, error: unknown): void {
    this.#options.log.warn(message, { pid: this.pid, port: this.port, error })
  }
}
