import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../observability/logger.ts'
import type { Platform, ProcessFacts } from '../platform/platform.ts'
import { pauseUntilNext } from '../util/pause.ts'
import { signalGroup } from '../util/signal-group.ts'
import type { Exit, MemoryAtEnd } from './server-state.ts'

/** A group that died is gone within a few milliseconds; one that hangs in the kernel is not worth a busy loop. */
const firstLookMs = 5
const maxLookMs = 100

/** On a Mac every look at memory starts a process: fifty servers must not cost a percent of a core. */
const memoryEveryMs = 60_000

export interface ProcessGroupOptions {
  readonly groupId: number
  readonly platform: Pick<Platform, 'process' | 'processGroup'>
  /** Given where the leader is not our child: only a look at the process tells whether the pid is still its own. */
  readonly leaderStartTime?: string | undefined
  readonly now?: () => number
  readonly log: Logger
}

/**
 * The processes that came from one spawn, and the memory they were last seen to have. A signal is only sent while it must reach ours: the
 * number of a group stays taken as long as its leader is not reaped or a member lives, and may be another group's afterwards.
 */
export class ProcessGroup {
  readonly groupId: number
  readonly #options: ProcessGroupOptions
  readonly #now: () => number
  #leaderReaped = false
  #pids: readonly number[] = []
  #memory: { readonly residentBytes: number; readonly at: number } | undefined

  constructor(options: ProcessGroupOptions) {
    this.groupId = options.groupId
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  leaderReaped(): void {
    this.#leaderReaped = true
  }

  /** Living members. */
  async members(): Promise<readonly ProcessFacts[]> {
    const { platform, leaderStartTime } = this.#options
    const members = await platform.processGroup(this.groupId)
    const leader = members.find(({ pid }) => pid === this.groupId)
    const isAnothers = leaderStartTime !== undefined && leader?.startTime !== leaderStartTime
    if (leader && (this.#leaderReaped || isAnothers)) return []
    this.#note(members)
    return members
  }

  /** Looks at its memory now and then, until the signal ends that. Never rejects. */
  async watchMemory(signal: AbortSignal): Promise<void> {
    const pid = this.groupId
    const look = (how: () => Promise<unknown>) =>
      how().catch((error: unknown) =>
        this.#options.log.debug('the memory of a server was not measured', { pid, error }),
      )
    await look(() => this.members())
    while (await pauseUntilNext(memoryEveryMs, signal)) await look(() => this.#lookAtKnown())
  }

  memoryAtEnd(endedAt: number): MemoryAtEnd | undefined {
    const { residentBytes, at } = this.#memory ?? {}
    return residentBytes === undefined || at === undefined
      ? undefined
      : { residentBytes, ageMs: Math.max(0, endedAt - at) }
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    if (!this.#isOurs() && (await this.members()).length === 0) return
    this.#send(signal)
  }

  /** For the time before the leader is reaped: at once where it is our child, else after a look whether it is still the same process. */
  signalNow(signal: NodeJS.Signals): void {
    if (this.#isOurs()) this.#send(signal)
    else if (!this.#leaderReaped) {
      const pid = this.groupId
      this.signal(signal).catch((error: unknown) => this.#options.log.warn('could not signal a server', { pid, error }))
    }
  }

  /** What still lives when all others are gone, or at the deadline (on the monotonic clock). */
  async gone(deadline: number): Promise<readonly ProcessFacts[]> {
    for (let lookMs = firstLookMs; ; lookMs = Math.min(lookMs * 2, maxLookMs)) {
      const members = await this.members()
      if (members.length === 0 || performance.now() >= deadline) return members
      await delay(lookMs)
    }
  }

  /** A child's number is its own until we reap it. */
  #isOurs(): boolean {
    return this.#options.leaderStartTime === undefined && !this.#leaderReaped
  }

  /** Whether it had an effect is told by `members`. */
  #send(signal: NodeJS.Signals): void {
    signalGroup(this.groupId, signal)
  }

  /** Without searching all processes of the machine for members. */
  async #lookAtKnown(): Promise<void> {
    const found = await Promise.all(this.#pids.map((pid) => this.#options.platform.process(pid)))
    this.#note(found.filter((facts) => facts !== undefined).filter(({ groupId }) => groupId === this.groupId))
  }

  #note(members: readonly ProcessFacts[]): void {
    const leader = members.find(({ pid }) => pid === this.groupId)
    // What is left without its leader is not what it had. The end of one that is not our child is seen some time later than it happens.
    if (this.#leaderReaped || (leader?.residentBytes ?? 0) === 0) return
    const residentBytes = residentBytesOf(members)
    this.#pids = members.map(({ pid }) => pid)
    this.#memory = { residentBytes, at: this.#now() }
  }
}

export const residentBytesOf = (members: readonly ProcessFacts[]): number =>
  members.reduce((sum, member) => sum + (member.residentBytes ?? 0), 0)

/** The processor time of all together; undefined where the system does not tell it of one of them. */
export const cpuMsOf = (processes: readonly { readonly cpuMs?: number }[]): number | undefined =>
  processes.reduce<number | undefined>(
    (sum, { cpuMs }) => (sum === undefined || cpuMs === undefined ? undefined : sum + cpuMs),
    0,
  )

export interface CpuSample {
  readonly cpuMs: number
  /** On the monotonic clock. */
  readonly at: number
}

/** Waiting for a GPU takes less than computing, but more than a process that only answers "not now" to a few connections. */
const workingShare = 0.01

/** The systems count processor time in steps of 10 ms. */
const finestCpuMs = 10

/** Did it use so much processor time between the samples that it must be at work? */
export const isWorking = (before: CpuSample, after: CpuSample): boolean =>
  after.cpuMs - before.cpuMs >= Math.max(finestCpuMs, (after.at - before.at) * workingShare)

/** SIGKILL takes effect at once unless the process hangs in the kernel. */
export const killLimitMs = 5_000

/** A process that hangs in the kernel ends as soon as the kernel lets go of it, so SIGKILL is repeated. */
export const killAgainMs = 1_000

interface GroupEnd {
  readonly group: Pick<ProcessGroup, 'gone' | 'signal'>
  /** When the rest of the group is killed, on the monotonic clock. */
  readonly killAt: number
  /** True as soon as another agent is to look after it. */
  readonly isLetGo: () => boolean
  /** Called with every new sentence about processes that do not end. */
  readonly onLeft: (sentence: string) => void
}

/** Ends what is left of the group of a dead leader. Resolves with a sentence where it was let go before all had ended. */
export async function endGroup({ group, killAt, isLetGo, onLeft }: GroupEnd): Promise<string | undefined> {
  let members = await group.gone(killAt)
  let left: string | undefined
  while (members.length > 0) {
    await group.signal('SIGKILL')
    members = await group.gone(performance.now() + (left === undefined ? killLimitMs : killAgainMs))
    if (members.length === 0) break
    const sentence = `Of its processes, ${members.map(({ pid }) => pid).join(', ')} were killed but have not exited.`
    if (isLetGo()) return sentence
    if (sentence !== left) onLeft(sentence)
    left = sentence
  }
  return undefined
}

/** Half a second is soon enough to withdraw an endpoint, and seldom enough to cost nothing. */
const exitLookEveryMs = 500

type Watched = Pick<ProcessFacts, 'pid' | 'startTime'>

/** Tells the end of processes that are not our children, which no event does: one timer looks at all of them. */
export class ExitWatch implements Disposable {
  readonly #options: { readonly platform: Pick<Platform, 'isRunning'>; readonly log: Logger }
  readonly #watched = new Map<Watched, (exit: Exit) => void>()
  #timer: NodeJS.Timeout | undefined
  #looking = false

  constructor(options: { readonly platform: Pick<Platform, 'isRunning'>; readonly log: Logger }) {
    this.#options = options
  }

  /** Code and signal of a process go to its parent alone: both are null. */
  exitOf(process: Watched): Promise<Exit> {
    this.#timer ??= setInterval(() => void this.#look(), exitLookEveryMs).unref()
    return new Promise((resolve) => this.#watched.set(process, resolve))
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#watched.clear()
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    await Promise.all([...this.#watched.keys()].map((process) => this.#lookAt(process)))
    this.#looking = false
    if (this.#watched.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #lookAt(process: Watched): Promise<void> {
    const { platform, log } = this.#options
    try {
      if (await platform.isRunning(process)) return
      this.#watched.get(process)?.({ code: null, signal: null })
      this.#watched.delete(process)
    } catch (error) {
      log.warn('could not tell whether a server still runs', { pid: process.pid, error })
    }
  }
}
