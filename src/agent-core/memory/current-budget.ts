import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { resolveBudget, type Budget, type BudgetResult } from './budget.ts'

interface BudgetSettings {
  readonly fraction: number
  readonly budgetBytes: number | undefined
}

interface CurrentBudgetOptions {
  readonly platform: Pick<Platform, 'name'>
  readonly settings: () => BudgetSettings
  readonly log: Logger
}

/** More than any machine has: where the memory of the machine is not known, the budget decides nothing. */
export const unlimited = Number.MAX_SAFE_INTEGER

/** What all servers together may hold, by the settings and by what the machine has, as of the latest `resolve`. */
export class CurrentBudget {
  readonly #options: CurrentBudgetOptions
  #budget: Budget | undefined
  #problem: string | undefined

  constructor(options: CurrentBudgetOptions) {
    this.#options = options
  }

  get budget(): Budget | undefined {
    return this.#budget
  }

  get bytes(): number {
    return this.#budget?.bytes ?? unlimited
  }

  /** Why there is no budget, or what is wrong with what was set. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** What the budget would be with these settings. */
  with({ fraction, budgetBytes }: BudgetSettings, totalBytes: number, gpuLimitBytes: number | undefined): BudgetResult {
    return resolveBudget({
      totalBytes,
      settingFraction: fraction,
      ...(budgetBytes !== undefined && { settingBytes: budgetBytes }),
      ...(gpuLimitBytes !== undefined && { gpuLimitBytes }),
      platform: this.#options.platform.name,
    })
  }

  resolve(totalBytes: number, gpuLimitBytes: number | undefined): void {
    const { settings, log } = this.#options
    // What the machine has does not change; a look that failed does not unsay it.
    if (totalBytes === 0 && this.#budget) return
    const result = this.with(settings(), totalBytes, gpuLimitBytes)
    const before = this.#problem ?? this.#budget?.how
    this.#budget = result.ok ? result.budget : undefined
    this.#problem = result.ok ? undefined : `${result.message}.`
    if (before === (this.#problem ?? this.#budget?.how)) return
    if (result.ok) log.info('memory budget', { bytes: result.budget.bytes, text: result.budget.how })
    else log.warn('no memory budget', { text: this.#problem })
  }
}
