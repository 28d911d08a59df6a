import { totalmem } from 'node:os'
import type { Logger } from '../observability/logger.ts'
import type { Platform, PortHolder, PortListeners, ProcessFacts } from '../platform/platform.ts'
import { messageOf } from '../util/message-of.ts'
import { exitMessage, guessCause, hangsMessage, readEvidence, saysAddressInUse } from './crash-cause.ts'
import { defaultStartupStallMs, type LaunchRules, type RunningProcess } from './launch.ts'
import type { LivenessTimings } from './liveness.ts'
import { askedAt } from './listening.ts'
import type { RunOutput } from './output.ts'
import { Poller } from './poller.ts'
import { portsOf, portTakenMessage, type Ports } from './ports.ts'
import type { CountersReading, HealthProbe, ProbeAnswer, ServerProtocol } from './probe.ts'
import { cpuMsOf, endGroup, ProcessGroup, residentBytesOf } from './process-group.ts'
import type { StartFigures } from './readiness.ts'
import type { Account, Driver, Ending, Settled } from './driver.ts'
import type { Evidence, Life } from './server-state.ts'

export interface ProcessSurroundings {
  readonly launch: LaunchRules
  readonly ports: Ports
  readonly platform: Pick<Platform, 'name' | 'process' | 'processGroup' | 'portListeners' | 'establishedConnections'>
  readonly liveness: LivenessTimings
  readonly log: Logger
  readonly now: () => number
  /** Told of each reading of its counters. */
  readonly onCounters: (reading: CountersReading) => void
}

interface ProcessDriverOptions extends ProcessSurroundings {
  readonly protocol: ServerProtocol
  readonly process: RunningProcess
  /** The address that it listens at. */
  readonly host: string
  readonly port: number
  readonly output: RunOutput
  /** Where in the output of the run its own begins. */
  readonly outputOffset: number
  /** It was ready before it was found. */
  readonly wasReady: boolean
}

/** A process with its group, seen by a run. */
export class ProcessDriver implements Driver {
  readonly life: Life
  readonly poller: Poller
  readonly exited: RunningProcess['exited']
  readonly readiness: HealthProbe
  readonly health: HealthProbe
  readonly token: HealthProbe | undefined
  readonly timings: LivenessTimings
  readonly isLauncher: boolean
  readonly hangsMessage: string
  readonly finishesLate = false
  readonly needsEngine = false
  readonly #options: ProcessDriverOptions
  readonly #group: ProcessGroup
  #isLetGo = false

  constructor(options: ProcessDriverOptions) {
    const { process, protocol, host, port, platform, launch, log, now, liveness, onCounters } = options
    const { pid, exited, startTime } = process
    const { health, token, activity, isLauncher } = protocol
    this.#options = options
    this.life = { pid }
    this.exited = exited
    this.timings = liveness
    this.isLauncher = isLauncher
    this.hangsMessage = hangsMessage(pid, launch)
    const at =
      (probe: HealthProbe): HealthProbe =>
      (asked, timeLimitMs, signal) =>
        probe(asked, timeLimitMs, signal, askedAt(host))
    this.health = at(health)
    // One that was ready before it was found may be busy, and would answer a question for a token late.
    this.readiness = options.wasReady ? this.health : at(protocol.readiness())
    this.token = token && at(token)
    this.#group = new ProcessGroup({ groupId: pid, platform, leaderStartTime: startTime, now, log })
    const { sleepsWhenIdle = false } = launch
    this.poller = new Poller({
      ...{ host: askedAt(host), port, sleepsWhenIdle, platform, log, activity },
      onReading: onCounters,
    })
  }

  answers(timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> {
    return this.health(this.#options.port, timeLimitMs, signal)
  }

  listeners(): Promise<PortListeners> {
    const { platform, port, process, host } = this.#options
    return platform.portListeners(port, process.pid, host)
  }

  async figures(): Promise<StartFigures> {
    const [members, written] = await Promise.all([this.#group.members(), this.#options.output.extent()])
    return {
      ...{ residentBytes: residentBytesOf(members), cpuMs: cpuMsOf(members), outputBytes: written?.to ?? 0 },
      processes: members.length,
    }
  }

  members(): Promise<readonly ProcessFacts[]> {
    return this.#group.members()
  }

  watchMemory(signal: AbortSignal): Promise<void> {
    return this.#group.watchMemory(signal)
  }

  signalNow(signal: NodeJS.Signals): void {
    this.#group.signalNow(signal)
  }

  reaped(): void {
    this.#group.leaderReaped()
  }

  letGo(): void {
    this.#isLetGo = true
  }

  account({ exit, at, cause, outOf, hang }: Ending, evidence: Evidence = { tail: [] }): Account {
    const { launch, platform } = this.#options
    const { executable, advice, startupStallMs: stallMs = defaultStartupStallMs } = launch
    const memory = this.#group.memoryAtEnd(at)
    const how = { ...exit, cause, outOf, ...evidence }
    const clues = { ...how, executable, advice, memory, system: platform.name, totalBytes: totalmem() }
    const saysWhy = cause === 'itself' || (cause === 'hung' && outOf === 'start')
    const guess = saysWhy ? guessCause(clues) : undefined
    return {
      ...{ ...evidence, message: exitMessage({ ...clues, guess, hang, stallMs }) },
      ...(memory && { memory }),
      ...(guess !== undefined && { guess }),
    }
  }

  /** The leader is reaped: ends the rest of its group and finds out what it left. */
  async settle(ending: Ending, onLeft: (sentence: string) => void): Promise<Settled> {
    const { ports, port: own, host, protocol } = this.#options
    const { killAt, cause, outOf, holders } = ending
    const membersLeft = await orSentence(() =>
      endGroup({ group: this.#group, killAt, onLeft, isLetGo: () => this.#isLetGo }),
    )
    const evidence = await this.#evidence(outOf)
    const portTaken =
      cause === 'portTaken' ||
      // Some stay although they have no port, and wait for ever.
      (outOf === 'start' && ['itself', 'stalled'].includes(cause) && saysAddressInUse(evidence))
    const portLeft = await orSentence(async () => {
      for (const port of portsOf(own, protocol.furtherPorts)) {
        const keepers = await ports.keepersOf(port, host)
        if (keepers) return this.#portTakenMessage(keepers, port)
      }
      return undefined
    })
    const account = this.account(ending, evidence)
    return {
      account: portTaken ? { ...account, message: portLeft ?? this.#portTakenMessage(holders) } : account,
      left: membersLeft ?? (portTaken ? undefined : portLeft),
      portTaken,
    }
  }

  async #evidence(outOf: Ending['outOf']): Promise<Evidence> {
    const { output, outputOffset, log } = this.#options
    try {
      return await readEvidence(output, { offset: outputOffset, outOf })
    } catch (error) {
      log.warn('the output of a server could not be read', { ...this.life, file: output.file, error })
      return { tail: [] }
    }
  }

  #portTakenMessage(holders: readonly PortHolder[] = [], port = this.#options.port): string {
    return portTakenMessage(port, holders, this.#options.launch.portFlag)
  }
}

async function orSentence(look: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await look()
  } catch (error) {
    return `The agent cannot tell whether any process of the server is left: ${messageOf(error)}`
  }
}
