import type { Platform } from '../platform/platform.ts'
import { splitKey } from '../util/object-key.ts'
import type { BigApplications } from './big-applications.ts'
import type { BesideVerdict, MemoryBook } from './book.ts'
import { resolveBudget } from './budget.ts'
import type { CurrentBudget } from './current-budget.ts'
import type { GpuLimit } from './gpu-limit.ts'
import { memoryOutlook, type MemoryOutlook } from './memory-outlook.ts'
import type { Refusal } from './refusal.ts'
import { fits } from './room.ts'
import type { StartRequest } from './start-request.ts'
import { waysToFit, type Misfit, type WayToFit } from './ways-to-fit.ts'

/** As they are now. */
export interface MemorySettings {
  /** Of all memory; 0 = automatic. */
  readonly fraction: number
  readonly budgetBytes: number | undefined
  readonly enforcement: 'enforce' | 'warn'
  /** Whether a start of higher priority may evict servers of lower priority. */
  readonly mayEvict: boolean
}

export type SizedRequest = Omit<StartRequest, 'ownBudgetBytes' | 'enforcement' | 'mayEvict'> & {
  /** `Model.spec.hardware`. */
  readonly modelBudget?: string | undefined
  readonly modelFraction?: number | undefined
}

/** What could be proposed to make it fit. */
export type Changeable = Pick<Misfit, 'contextTokens' | 'slots' | 'estimateAt'>

export type MemoryRefusal = Refusal & { readonly ways: readonly WayToFit[] }

interface StartAnswersOptions {
  readonly platform: Platform['name']
  readonly settings: () => MemorySettings
  readonly book: MemoryBook
  readonly budget: CurrentBudget
  readonly gpu: Pick<GpuLimit, 'bytes'>
  readonly applications: Pick<BigApplications, 'found'>
  /** Undefined before the first look. */
  readonly totalBytes: () => number | undefined
}

/** What a start is told: whether its server may have the memory, whether beside another, and what would make it fit. */
export class StartAnswers {
  readonly #options: StartAnswersOptions

  constructor(options: StartAnswersOptions) {
    this.#options = options
  }

  /** Decides, in this turn, whether the server may start. */
  admit(request: SizedRequest, changeable: Changeable): { admitted: true; warning?: string } | RefusedAdmission {
    const complete = this.#complete(request)
    if ('message' in complete) {
      this.#options.book.release(request.key)
      return badBudget(request, complete.message, this.#options.budget.bytes)
    }
    const admission = this.#options.book.admit(complete)
    if (admission.admitted) return admission
    return { ...admission, ways: this.#ways(request, admission, changeable) }
  }

  /** Whether a second server of the key fits beside the first; with `reserve` its memory is taken where it does. */
  beside(request: SizedRequest, { reserve = false } = {}): BesideVerdict {
    const complete = this.#complete(request)
    if ('message' in complete) return { allowed: false, why: complete.message }
    return reserve ? this.#options.book.admitBeside(complete) : this.#options.book.canRunBeside(complete)
  }

  /** Why the key's new server would not fit even in place of the running one; undefined where it would. */
  instead(request: SizedRequest, changeable: Changeable): MemoryRefusal | undefined {
    const complete = this.#complete(request)
    if ('message' in complete) return badBudget(request, complete.message, this.#options.budget.bytes)
    const refusal = this.#options.book.refusalInstead(complete)
    return refusal && { ...refusal, ways: this.#ways(request, refusal, changeable) }
  }

  /**
   * What the settings would do, were they these: which waiting starts would be admitted, what would have to give way to the others, and
   * which of the running servers would not start again. Decides nothing.
   */
  outlook(settings: MemorySettings, running: readonly SizedRequest[]): MemoryOutlook | { readonly message: string } {
    const { enforcement, mayEvict } = settings
    const result = this.#options.budget.with(settings, this.#options.totalBytes() ?? 0, this.#options.gpu.bytes)
    if (!result.ok) return { message: result.message }
    const requests = running.flatMap((request) => {
      const complete = this.#complete(request)
      return 'message' in complete ? [] : [complete]
    })
    const { budget } = result
    const outlook = this.#options.book.outlook({ budgetBytes: budget.bytes, enforcement, mayEvict }, requests)
    return memoryOutlook(outlook, this.#options.book.held(), budget)
  }

  /** Whether it would be admitted as things are; true as well where that is not known. */
  fitsNow(request: SizedRequest): boolean {
    const complete = this.#complete(request)
    if ('message' in complete || complete.needBytes === undefined) return true
    return fits(complete.needBytes, this.#options.book.roomFor(complete))
  }

  #complete(request: SizedRequest): StartRequest | { readonly message: string } {
    const { modelBudget, modelFraction, ...given } = request
    const rest = { ...given, mappedBytes: leftOut(this.#options.platform, request) }
    const { enforcement, mayEvict } = this.#options.settings()
    const totalBytes = this.#options.totalBytes()
    const complete: StartRequest = { ...rest, enforcement, mayEvict }
    if ((modelBudget === undefined && modelFraction === undefined) || totalBytes === undefined) return complete
    const result = resolveBudget({
      totalBytes,
      ...(modelBudget !== undefined && { modelBudget }),
      ...(modelFraction !== undefined && { modelFraction }),
      ...(this.#options.gpu.bytes !== undefined && { gpuLimitBytes: this.#options.gpu.bytes }),
      platform: this.#options.platform,
    })
    if (!result.ok) return { message: result.message }
    return { ...complete, ownBudgetBytes: result.budget.bytes }
  }

  #ways(request: SizedRequest, refusal: Refusal, changeable: Changeable): readonly WayToFit[] {
    if (refusal.reason !== 'InsufficientMemory') return []
    const { platform } = this.#options
    return waysToFit({
      ...changeable,
      needBytes: refusal.needBytes,
      room: refusal.room,
      priority: request.priority,
      servers: this.#options.book
        .held()
        .filter(({ key }) => key !== request.key)
        .map((held) => ({ ...held, name: splitKey(held.key).name })),
      apps: this.#options.applications.found,
      totalBytes: this.#options.totalBytes() ?? 0,
      ...(this.#options.gpu.bytes !== undefined && { gpuLimitBytes: this.#options.gpu.bytes }),
      platform,
    })
  }
}

/** `phys_footprint` of macOS does not count pages of files; the proportional set size of Linux does. */
export const leftOut = (platform: Platform['name'], { mappedBytes = 0 }: { readonly mappedBytes?: number }): number =>
  platform === 'darwin' ? mappedBytes : 0

/** Whatever the mode: a budget that cannot be read is none. */
function badBudget(request: SizedRequest, message: string, budgetBytes: number): RefusedAdmission {
  return {
    admitted: false,
    reason: 'MemoryCheckFailed',
    message,
    needBytes: request.needBytes ?? 0,
    room: { budgetBytes, committedBytes: 0, promisedBytes: 0 },
    shortage: { own: 0, budget: 0, available: 0 },
    fitsAlone: false,
    evictFirst: [],
    ways: [],
  }
}

type RefusedAdmission = MemoryRefusal & { readonly admitted: false }
