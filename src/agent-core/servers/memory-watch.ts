import type { Platform, ProcessFacts } from '../platform/platform.ts'
import { pauseUntilNext } from './pause.ts'

/** What the processes of a server had in memory when they were last looked at before their end. */
export interface MemoryAtEnd {
  readonly residentBytes: number
  /** Before the end. */
  readonly ageMs: number
}

export interface MemoryWatchOptions {
  readonly groupId: number
  readonly platform: Pick<Platform, 'process' | 'processGroup'>
  readonly now: () => number
  readonly onTrouble: (error: unknown) => void
}

/** On a Mac every look starts a process: fifty servers must not cost a percent of a core. */
const everyMs = 60_000

/** The latest known memory of a process group. A start is looked at anyway; what serves is looked at now and then. */
export class MemoryWatch {
  readonly #options: MemoryWatchOptions
  #pids: readonly number[] = []
  #last: { readonly residentBytes: number; readonly at: number } | undefined

  constructor(options: MemoryWatchOptions) {
    this.#options = options
  }

  /** The whole group, which it remembers the memory of. */
  async look(): Promise<readonly ProcessFacts[]> {
    const { platform, groupId } = this.#options
    const members = await platform.processGroup(groupId)
    this.#take(members)
    return members
  }

  /** Until the signal ends it. */
  async watch(signal: AbortSignal): Promise<void> {
    await this.#orTrouble(() => this.look())
    while (await pauseUntilNext(everyMs, signal)) await this.#orTrouble(() => this.#lookAtKnown())
  }

  atEnd(endedAt: number): MemoryAtEnd | undefined {
    if (!this.#last) return undefined
    const { residentBytes, at } = this.#last
    return { residentBytes, ageMs: Math.max(0, endedAt - at) }
  }

  /** Without searching all processes of the machine for members. */
  async #lookAtKnown(): Promise<void> {
    const { platform, groupId } = this.#options
    const found = await Promise.all(this.#pids.map((pid) => platform.process(pid)))
    this.#take(found.filter((facts) => facts !== undefined).filter((facts) => facts.groupId === groupId))
  }

  #take(members: readonly ProcessFacts[]): void {
    const residentBytes = members.reduce((sum, member) => sum + (member.residentBytes ?? 0), 0)
    if (residentBytes === 0) return
    this.#pids = members.map(({ pid }) => pid)
    this.#last = { residentBytes, at: this.#options.now() }
  }

  async #orTrouble(look: () => Promise<unknown>): Promise<void> {
    try {
      await look()
    } catch (error) {
      this.#options.onTrouble(error)
    }
  }
}
