import { setTimeout as delay } from 'node:timers/promises'
import type { ProcessFacts } from '../platform/platform.ts'
import { signalGroup } from '../util/signal-group.ts'

/** What we need to know about processes; the platform knows it. */
export interface ProcessTable {
  processGroup(groupId: number): Promise<readonly ProcessFacts[]>
}

/** A group that died is gone within a few milliseconds; one that hangs in the kernel is not worth a busy loop. */
const firstLookMs = 5
const maxLookMs = 100

export interface ProcessGroupOptions {
  readonly groupId: number
  readonly table: ProcessTable
  /** Of a leader that is not our child: only a look at the process tells whether the pid is still its own. */
  readonly leaderStartTime?: string | undefined
  readonly onTrouble: (error: unknown) => void
}

/**
 * The processes that came from one spawn. A signal is only sent while it must reach ours: the number of a group stays taken as long as its
 * leader is not reaped or a member lives, and may be another group's afterwards.
 */
export class ProcessGroup {
  readonly groupId: number
  readonly #options: ProcessGroupOptions
  #leaderReaped = false

  constructor(options: ProcessGroupOptions) {
    this.groupId = options.groupId
    this.#options = options
  }

  leaderReaped(): void {
    this.#leaderReaped = true
  }

  /** Living members. */
  async members(): Promise<readonly ProcessFacts[]> {
    const { table, leaderStartTime } = this.#options
    const members = await table.processGroup(this.groupId)
    const leader = members.find(({ pid }) => pid === this.groupId)
    const isAnothers = leaderStartTime !== undefined && leader?.startTime !== leaderStartTime
    return leader && (this.#leaderReaped || isAnothers) ? [] : members
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    if (!this.#isOurs() && (await this.members()).length === 0) return
    this.#send(signal)
  }

  /** For the time before the leader is reaped: at once where it is our child, else after a look whether it is still the same process. */
  signalNow(signal: NodeJS.Signals): void {
    if (this.#isOurs()) this.#send(signal)
    else if (!this.#leaderReaped) this.signal(signal).catch(this.#options.onTrouble)
  }

  /** What still lives when nothing does any more, or at the deadline (on the monotonic clock). */
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

  /** What lives is told by `members`, not by this. */
  #send(signal: NodeJS.Signals): void {
    signalGroup(this.groupId, signal)
  }
}
