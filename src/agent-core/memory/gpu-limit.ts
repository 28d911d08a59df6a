import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * How many bytes Metal recommends to keep in GPU memory at most, in bytes, as llama-server writes it: in the log of a
 * start (`ggml_metal_device_init: recommendedMaxWorkingSetSize  = 103079.22 MB`, millions of bytes) or in the answer to
 * `--list-devices` (`Metal: Apple M4 Max (98304 MiB, 98303 MiB free)`; newer ones call the device `MTL0`). The smallest
 * where several are named; undefined where none is, since macOS publishes no rule from which it could be worked out.
 */
export function parseRecommendedWorkingSet(text: string): number | undefined {
  const fromLog = [...text.matchAll(/\brecommendedMaxWorkingSetSize\s*=\s*(\d+(?:\.\d+)?) MB\b/g)].map(
    ([, megabytes]) => Math.round(Number(megabytes) * 1e6),
  )
  const fromList = [...text.matchAll(/^[ \t-]*(?:Metal|MTL)\d*\s*: .*\((\d+) MiB, \d+ MiB free\)[ \t\r]*$/gm)].map(
    ([, mebibytes]) => Number(mebibytes) * 2 ** 20,
  )
  const found = [...fromLog, ...fromList].filter((bytes) => Number.isSafeInteger(bytes) && bytes > 0)
  return found.length === 0 ? undefined : Math.min(...found)
}

interface GpuLimitOptions {
  readonly platform: Pick<Platform, 'gpuMemoryLimit'>
  /** What llama-server says the GPU may hold, where the system does not. */
  readonly recommendedGpuBytes?: () => Promise<number | undefined>
  readonly log: Logger
  readonly now: () => number
}

/** A person may change what the GPU may hold at any time, by a command that notifies nothing. */
const currentForMs = 60_000

/** What the GPU may hold, as of the latest answer. */
export class GpuLimit {
  readonly #options: GpuLimitOptions
  #bytes: number | undefined
  /** What of that the system says. */
  #setBytes: number | undefined
  #readAt = 0
  #isUnread = false

  constructor(options: GpuLimitOptions) {
    this.#options = options
  }

  get bytes(): number | undefined {
    return this.#bytes
  }

  get isStale(): boolean {
    return this.#options.now() - this.#readAt >= currentForMs
  }

  /** True where the answer is another one. Where it cannot be read, the latest stays. Never rejects. */
  async read(): Promise<boolean> {
    const { platform, recommendedGpuBytes, log, now } = this.#options
    const before = this.#bytes
    this.#readAt = now()
    try {
      const set = await platform.gpuMemoryLimit()
      // What llama-server says follows from it, and asking costs a process.
      const isKnown = set === this.#setBytes && this.#bytes !== undefined
      if (set !== undefined || !isKnown) this.#bytes = set ?? (await recommendedGpuBytes?.())
      this.#setBytes = set
      this.#isUnread = false
    } catch (error) {
      if (!this.#isUnread) log.warn('limit of the GPU not known', { error })
      this.#isUnread = true
    }
    return this.#bytes !== before
  }
}
