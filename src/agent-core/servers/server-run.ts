import { totalmem } from 'node:os'
import type { PortHolder } from '../platform/platform.ts'
import { messageOf } from '../util/message-of.ts'
import { saysAddressInUse } from './crash-cause.ts'
import { exitMessage, guessedCause } from './exit-message.ts'
import { defaultStartupStallMs } from './launch.ts'
import { MemoryWatch } from './memory-watch.ts'
import { readEvidence } from './output-evidence.ts'
import { portTakenMessage } from './ports.ts'
import { ProcessGroup } from './process-group.ts'
import { endGroup, keepersOfPort } from './remains.ts'
import type { RunContext } from './run-context.ts'
import { RunWatch } from './run-watch.ts'
import type { Evidence, Exit, Exited, ServerState } from './server-state.ts'
import type { RunningProcess } from './spawn.ts'
import { Termination, type EndCause, type EndOptions } from './termination.ts'

export interface ServerRunOptions extends RunContext {
  readonly process: RunningProcess
  readonly port: number
  /** Where in the output of the run its own begins. */
  readonly outputOffset: number
  /** Of a server that was ready before this agent found it. */
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

/** One process (with its group) from the spawn until nothing of it is left. */
export class ServerRun {
  readonly pid: number
  readonly port: number
  readonly #options: ServerRunOptions
  readonly #group: ProcessGroup
  readonly #memory: MemoryWatch
  readonly #letGo = Promise.withResolvers<undefined>()
  /** Aborted as soon as the run is to end, or has ended. */
  readonly #watching = new AbortController()
  readonly #watch: RunWatch
  #termination: Termination | undefined
  #reaped = false
  #isLetGo = false

  constructor(options: ServerRunOptions) {
    this.#options = options
    const { process, port, platform, log, now } = options
    this.pid = process.pid
    this.port = port
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
    this.#watch = new RunWatch({
      context: options,
      ...{ pid: this.pid, port, readySince: options.readySince, isFound: process.startTime !== undefined },
      ...{ group: this.#group, memory: this.#memory },
      tell: (state) => this.#tell(state),
      end: (cause, times) => this.end(cause, times),
    })
  }

  /**
   * SIGTERM to the whole group, SIGKILL after the grace; before it, a server that is stopped while it serves may finish its requests.
   * Asked again, the shorter times count; of a run that is over nothing can be asked any more.
   */
  end(cause: EndCause, options: EndOptions = {}): void {
    if (this.#reaped) return
    if (this.#termination) {
      this.#termination.hasten(cause, options)
      return
    }
    this.#watching.abort()
    const about = { pid: this.pid, port: this.port, group: this.#group, isServing: this.#watch.isHealthy }
    this.#termination = new Termination({ ...options, ...about, cause, context: this.#options })
    this.#termination.begin()
  }

  /** Requests in flight are cut: SIGTERM now. False where no wait for them is under way. */
  skipDrain(): boolean {
    return !this.#reaped && (this.#termination?.skipDrain() ?? false)
  }

  /** The process runs on, and this agent neither watches nor signals it any more. */
  letGo(): void {
    this.#isLetGo = true
    this.#termination?.over()
    this.#letGo.resolve(undefined)
  }

  /** Undefined where it was let go. Never rejects. */
  async untilOver(): Promise<RunEnd | undefined> {
    const { process, output, now, onState } = this.#options
    await using _bounded = output.bounded()
    const watching = this.#watch.watch(this.#watching.signal)
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

  /** The leader is reaped: ends the rest of its group and finds out what it left. */
  async #settle(exit: Exit, at: number): Promise<RunEnd> {
    const { onState } = this.#options
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
      (this.#termination === undefined && this.#outOf === 'start' && saysAddressInUse(evidence))
    const portLeft = await this.#orSentence(() => this.#portHeld())
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
      servedMs: this.#watch.readySince === undefined ? 0 : at - this.#watch.readySince,
    }
  }

  async #portHeld(): Promise<string | undefined> {
    const keepers = await keepersOfPort(this, this.#options)
    return keepers && this.#portTakenMessage(keepers)
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
    const how = { ...exit, cause: this.#termination?.cause ?? 'itself', outOf: this.#outOf } as const
    const story = {
      ...how,
      ...{ executable, evidence, memory },
      ...{ system: platform.name, totalBytes: totalmem() },
      ...{
        hang: this.#termination?.hang,
        why: this.#termination?.why,
        stallMs: this.#stallMs,
        stallSetting: settingNames?.startupStall,
      },
    }
    const guess = guessedCause(story)
    return {
      ...{ kind: 'exited', since: at, ...how, ...evidence, message: exitMessage(story) },
      ...(memory && { memory }),
      ...(guess !== undefined && { guess }),
    }
  }

  #portTakenMessage(holders: readonly PortHolder[] = []): string {
    return portTakenMessage(this.port, holders, this.#options.launch.settingNames?.port)
  }

  get #outOf(): 'start' | 'serving' {
    return this.#watch.readySince === undefined ? 'start' : 'serving'
  }

  get #stallMs(): number {
    return this.#options.launch.startupStallMs ?? defaultStartupStallMs
  }

  /** Of a run that is being ended only that is told. */
  #tell(state: ServerState): void {
    if (!this.#termination) this.#options.onState(state)
  }
}
