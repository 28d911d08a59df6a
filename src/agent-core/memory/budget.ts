import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { formatGib, formatMemory, formatShare } from '../../contract/format.ts'

const binarySuffixes: Readonly<Record<string, bigint>> = {
  Ki: 2n ** 10n,
  Mi: 2n ** 20n,
  Gi: 2n ** 30n,
  Ti: 2n ** 40n,
  Pi: 2n ** 50n,
  Ei: 2n ** 60n,
}

/** Powers of ten. */
const decimalSuffixes: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
}

const quantity = /^([+-]?)(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:([EPTGM]i|Ki|[numkMGTPE]?)|[eE]([+-]?\d{1,3}))$/

/**
 * The number that a Kubernetes quantity (24Gi, 24G, 1.5e9, 500m) stands for, a fraction rounded up as Kubernetes does;
 * undefined where the text is none, or stands for a number beyond 2^53. Suffixes are case-sensitive: 500m is half of one.
 */
export function parseQuantity(text: string): number | undefined {
  const match = quantity.exec(text)
  if (match === null) return undefined
  const [, sign, digits = '', suffix = '', exponent] = match
  const [whole = '', fraction = ''] = digits.split('.')
  const binary = binarySuffixes[suffix]
  const power = (exponent === undefined ? (decimalSuffixes[suffix] ?? 0) : Number(exponent)) - fraction.length
  const mantissa = BigInt(whole + fraction) * (binary ?? 1n)
  const size = power >= 0 ? mantissa * 10n ** BigInt(power) : ceilDivide(mantissa, 10n ** BigInt(-power), sign === '-')
  if (size > BigInt(Number.MAX_SAFE_INTEGER)) return undefined
  return sign === '-' && size > 0n ? -Number(size) : Number(size)
}

/** Divides magnitudes so that the signed result is rounded up: away from zero for a positive number, towards zero for a negative one. */
function ceilDivide(dividend: bigint, divisor: bigint, isNegative: boolean): bigint {
  const quotient = dividend / divisor
  return !isNegative && quotient * divisor < dividend ? quotient + 1n : quotient
}

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

const mib = 2 ** 20
const gib = 2 ** 30

/** How much memory the models on this machine may hold together. */
export interface Budget {
  readonly bytes: number
  /** One sentence: where the number comes from, and what keeps it from being larger. */
  readonly how: string
  readonly gpuLimitBytes?: number
  /** What a person runs to raise the GPU's limit as far as the budget would go; not kept over a restart of the Mac. */
  readonly raiseCommand?: string
}

export interface BudgetInputs {
  readonly totalBytes: number
  /** `Model.spec.hardware.memoryBudget`, a Kubernetes quantity. */
  readonly modelBudget?: string | undefined
  /** `Model.spec.hardware.memoryFraction`. */
  readonly modelFraction?: number | undefined
  /** The agent's own; where both are set the bytes count. A fraction of 0 means automatic. */
  readonly settingFraction?: number | undefined
  readonly settingBytes?: number | undefined
  /** What the GPU may keep in memory at most, where the system or llama-server says so. */
  readonly gpuLimitBytes?: number | undefined
  readonly platform: 'darwin' | 'linux'
}

export type BudgetResult =
  { readonly ok: true; readonly budget: Budget } | { readonly ok: false; readonly message: string }

/** The guide's table: the share of all memory that models may hold where no setting and no Model says otherwise. */
export function defaultFraction(totalBytes: number): number {
  if (totalBytes <= 36 * gib) return 0.67
  return totalBytes < 128 * gib ? 0.75 : 0.9
}

/** The most that a person is advised to give to models: a tenth, and 4 GiB at least, stay with the system. */
export function largestBudget(totalBytes: number): number {
  return Math.max(0, Math.floor(totalBytes - Math.max(4 * gib, totalBytes / 10)))
}

/** Where a budget comes from, in this order: the Model's bytes, the Model's fraction, the setting, the guide's table. */
export function resolveBudget(inputs: BudgetInputs): BudgetResult {
  const { totalBytes } = inputs
  if (!Number.isFinite(totalBytes) || totalBytes <= 0) {
    return { ok: false, message: 'No budget for models: this machine does not report how much memory it has' }
  }
  const wanted = wantedBudget(inputs)
  return 'message' in wanted ? { ok: false, message: wanted.message } : { ok: true, budget: capped(wanted, inputs) }
}

interface Wanted {
  readonly bytes: number
  readonly source: string
}

function wantedBudget(inputs: BudgetInputs): Wanted | { readonly message: string } {
  const { totalBytes, modelBudget, modelFraction, settingFraction, settingBytes } = inputs
  if (modelBudget !== undefined) {
    const message = quantityProblem('spec.hardware.memoryBudget', modelBudget)
    if (message !== undefined) return { message: `${message} in the Model` }
    return { bytes: parseQuantity(modelBudget) ?? 0, source: `memoryBudget ${modelBudget} of the Model` }
  }
  if (modelFraction !== undefined) {
    const message = fractionProblem('spec.hardware.memoryFraction', modelFraction)
    if (message !== undefined) return { message: `${message} in the Model` }
    return share(modelFraction, totalBytes, 'memoryFraction of the Model')
  }
  if (settingBytes !== undefined) {
    if (!Number.isFinite(settingBytes) || settingBytes < mib) {
      return {
        message: `The memory budget must be at least 1 MiB, not ${settingBytes} bytes: change it in the settings`,
      }
    }
    return { bytes: Math.floor(settingBytes), source: 'the setting' }
  }
  if (settingFraction !== undefined && settingFraction !== 0) {
    const message = fractionProblem('The memory fraction', settingFraction)
    if (message !== undefined) return { message: `${message} in the settings (0 = automatic)` }
    return share(settingFraction, totalBytes, 'the setting')
  }
  return share(defaultFraction(totalBytes), totalBytes, 'the default for this size')
}

function share(fraction: number, totalBytes: number, source: string): Wanted {
  return {
    bytes: Math.floor(totalBytes * fraction),
    source: `${formatShare(fraction, 1)} of ${formatGib(totalBytes)}, ${source}`,
  }
}

function quantityProblem(name: string, text: string): string | undefined {
  const bytes = parseQuantity(text)
  const ask = 'write a quantity such as 24Gi or 24G'
  if (bytes === undefined) return `${name} "${text}" is not a quantity of memory: ${ask}`
  if (bytes >= mib) return undefined
  const hint = text.endsWith('m') ? `${ask} (m means thousandths, M millions)` : ask
  return `${name} ${text} is ${bytes === 1 ? '1 byte' : `${bytes} bytes`}, less than 1 MiB: ${hint}`
}

function fractionProblem(name: string, fraction: number): string | undefined {
  if (Number.isFinite(fraction) && fraction > 0 && fraction <= 1) return undefined
  return `${name} must be more than 0 and at most 1, not ${fraction}: correct it`
}

/** Neither more than the machine has, nor more than its GPU may hold. */
function capped(wanted: Wanted, inputs: BudgetInputs): Budget {
  const { totalBytes, gpuLimitBytes, platform } = inputs
  const bytes = Math.min(wanted.bytes, totalBytes)
  const size = formatMemory(bytes)
  const origin = bytes < wanted.bytes ? `${wanted.source}, capped at all the memory of this machine` : wanted.source
  if (gpuLimitBytes === undefined) return { bytes, how: `${size}: ${origin}` }
  const limit = formatMemory(gpuLimitBytes)
  if (bytes <= gpuLimitBytes) {
    return { bytes, how: `${size}: ${origin}; the GPU may hold ${limit}`, gpuLimitBytes }
  }
  const advised = Math.min(bytes, largestBudget(totalBytes))
  const raiseCommand = platform === 'darwin' && advised > gpuLimitBytes ? raiseGpuLimit(advised) : undefined
  const raise = raiseCommand === undefined ? '' : `; ${raiseCommand} raises that until the Mac is restarted`
  return {
    bytes: gpuLimitBytes,
    how: `${limit}, as much as the GPU may hold, instead of ${size}: ${origin}${raise}`,
    gpuLimitBytes,
    ...(raiseCommand !== undefined && { raiseCommand }),
  }
}

/** The command that lets the GPU of a Mac hold so many bytes; the kernel forgets it at a restart and counts in MiB. */
export function raiseGpuLimit(bytes: number): string {
  return `sudo sysctl iogpu.wired_limit_mb=${Math.ceil(bytes / mib)}`
}
