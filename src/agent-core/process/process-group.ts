import { setTimeout as delay } from 'node:timers/promises'
import type { ProcessFacts } from '../platform/platform.ts'

/** What we need to know about processes; the platform knows it. */
export interface ProcessTable {
  processGroup(groupId: number): Promise<readonly ProcessFacts[]>
}

/** A group that died is gone within a few milliseconds; one that hangs in the kernel is not worth a busy loop. */
const firstLookMs = 5
const maxLookMs = 100

/**
 * The processes that came from one spawn. A signal is only sent while it must reach ours: the number of a group stays taken as long as
 * its leader is not reaped or a member lives, and may be anybody's afterwards.
 */
export class ProcessGroup {
  readonly groupId: number
  readonly #table: ProcessTable
  #leaderReaped = false

  constructor({ groupId, table }: { groupId: number; table: ProcessTable }) {
    this.groupId = groupId
    this.#table = table
  }

  leaderReaped(): void {
    this.#leaderReaped = true
  }

  /** Living members. */
  async members(): Promise<readonly ProcessFacts[]> {
    const members = await this.#table.processGroup(this.groupId)
    const recycled = this.#leaderReaped && members.some(({ pid }) => pid === this.groupId)
    return recycled ? [] : members
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    if (this.#leaderReaped && (await this.members()).length === 0) return
    this.#send(signal)
  }

  /** Without looking first: for the time before the leader is reaped. */
  signalNow(signal: NodeJS.Signals): void {
    if (!this.#leaderReaped) this.#send(signal)
  }

  /** What still lives when nothing does any more, or at the deadline (on the monotonic clock). */
  async gone(deadline: number): Promise<readonly ProcessFacts[]> {
    for (let lookMs = firstLookMs; ; lookMs = Math.min(lookMs * 2, maxLookMs)) {
      const members = await this.members()
      if (members.length === 0 || performance.now() >= deadline) return members
      await delay(lookMs)
    }
  }

  /** macOS answers EPERM where only zombies are left: what lives is told by `members`, not by this. */
  #send(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.groupId, signal)
    } catch (error) {
      if (error instanceof Error && 'code' in error && (error.code === 'ESRCH' || error.code === 'EPERM')) return
      throw error
    }
  }
}
