import { setTimeout as delay } from 'node:timers/promises'
import type { Platform } from '../../platform/platform.ts'
import { cpuMsOf, isWorking, type CpuSample } from '../../servers/process-group.ts'

/** A server and its process group, whose number is the pid. */
export interface WatchedProcess {
  readonly run: string
  readonly pid: number
}

export interface LatelyWorkingOptions {
  readonly processGroup: Platform['processGroup']
  /** On the monotonic clock. */
  readonly now?: () => number
}

/** The GPU may compute one long batch while the processor only waits for it. */
const latelyMs = 10_000
/** Over a longer time a request that has just begun does not show, so that the next moment is looked at as well. */
const longestSampleMs = 5_000
const sampleMs = 1_000

/** Which servers used the processor lately: of those that do not count their requests, an open connection alone says little. */
export class LatelyWorking {
  readonly #processGroup: Platform['processGroup']
  readonly #now: () => number
  readonly #samples = new Map<string, CpuSample>()
  readonly #workedAt = new Map<string, number>()

  constructor({ processGroup, now = () => performance.now() }: LatelyWorkingOptions) {
    this.#processGroup = processGroup
    this.#now = now
  }

  /** True where the system does not tell processor time. Throws PlatformError. */
  async has(server: WatchedProcess): Promise<boolean> {
    const { run } = server
    const before = this.#samples.get(run)
    const first = await this.#sample(server)
    if (!first) return true
    // Over a moment nothing can be told: the earlier sample is compared with the next one.
    if (before && first.at - before.at < sampleMs) this.#samples.set(run, before)
    let worked = before !== undefined && isWorking(before, first)
    if (!worked && (before === undefined || first.at - before.at > longestSampleMs)) {
      await delay(sampleMs, undefined, { ref: false })
      const second = await this.#sample(server)
      worked = second !== undefined && isWorking(first, second)
    }
    if (worked) this.#workedAt.set(run, this.#now())
    return this.#now() - (this.#workedAt.get(run) ?? -Infinity) < latelyMs
  }

  /** Of all others nothing is kept. */
  keepOnly(runs: ReadonlySet<string>): void {
    for (const kept of [this.#samples, this.#workedAt]) {
      for (const run of kept.keys()) if (!runs.has(run)) kept.delete(run)
    }
  }

  async #sample({ run, pid }: WatchedProcess): Promise<CpuSample | undefined> {
    const cpuMs = cpuMsOf(await this.#processGroup(pid))
    if (cpuMs === undefined) return undefined
    const sample = { cpuMs, at: this.#now() }
    this.#samples.set(run, sample)
    return sample
  }
}
