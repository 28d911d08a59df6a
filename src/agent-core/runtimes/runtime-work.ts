import { randomUUID } from 'node:crypto'
import { cleanText, sentence } from '../../contract/clean-text.ts'
import { type Installer, type RuntimeDeed, runtimeDeed } from '../../contract/commands.ts'
import { maxWorkLines, type RuntimePlanView, type RuntimeWorkView } from '../../contract/queries.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { type ServerRuntime, serverRuntimes } from '../servers/probe.ts'
import { messageOf } from '../util/message-of.ts'
import { carryOut, GettingError, type GettingOptions, type GettingPlan, isHere, planFor } from './getting.ts'

interface RuntimeWorkOptions extends GettingOptions {
  readonly platform: Platform
  readonly log: Logger
  /** The view is another. */
  readonly onChange: () => void
  /** A runtime may be there now, or be another. */
  readonly onDone: () => void
}

/** Questions that windows have open; the oldest is forgotten. */
const maxPlans = 50
const maxLineBytes = 300
const maxMessageBytes = 1_000

/** What a person has done with runtimes from a window: shown first, one after the other, and told while it goes on. */
export class RuntimeWork implements AsyncDisposable {
  readonly #options: RuntimeWorkOptions
  /** Shown to a person, who has not said yes. */
  readonly #plans = new Map<string, GettingPlan>()
  #view: RuntimeWorkView | undefined
  #underWay: { readonly cancelled: AbortController; readonly over: Promise<void> } | undefined

  constructor(options: RuntimeWorkOptions) {
    this.#options = options
  }

  /** The work that is under way, or else the last one. */
  get view(): RuntimeWorkView | undefined {
    return this.#view
  }

  /** What could be done with the runtime now. */
  async deeds(name: string): Promise<RuntimeDeed[]> {
    const runtime = serverRuntimes.find((one) => one === name)
    if (runtime === undefined) return []
    const isThere = await isHere(runtime, this.#options)
    const wanted = runtimeDeed.options.filter((deed) => (deed === 'install') !== isThere)
    const possible = await Promise.all(wanted.map((deed) => this.#isPossible(runtime, deed)))
    return wanted.filter((_deed, index) => possible[index] === true)
  }

  /** Throws {@link GettingError}. */
  async plan(name: string, deed: RuntimeDeed, by?: Installer): Promise<RuntimePlanView> {
    const runtime = serverRuntimes.find((one) => one === name)
    if (runtime === undefined) throw new GettingError(`There is no runtime ${JSON.stringify(name)}.`)
    const plan = await planFor(runtime, deed, this.#options, by)
    const id = randomUUID()
    this.#plans.set(id, plan)
    const [oldest] = this.#plans.keys()
    if (this.#plans.size > maxPlans && oldest !== undefined) this.#plans.delete(oldest)
    return { id, runtime, deed, commands: [...plan.commands], ...(plan.environment && { folder: plan.environment }) }
  }

  /** Does what was shown. Returns a sentence: undefined where it has begun. */
  begin(id: string): string | undefined {
    const plan = this.#plans.get(id)
    if (!plan) return 'The agent no longer knows which commands you agreed to: view them again.'
    if (this.#underWay && this.#view)
      return `${this.#view.runtime} is already being changed: wait until that has finished, or cancel it.`
    this.#plans.delete(id)
    const { runtime, deed, commands } = plan
    const cancelled = new AbortController()
    const since = new Date().toISOString()
    this.#show({ id, runtime, deed, state: 'running', commands: [...commands], lines: [], since })
    this.#underWay = { cancelled, over: this.#carryOut(plan, cancelled.signal) }
    return undefined
  }

  /** What was there before stays. False where nothing is under way. */
  cancel(): boolean {
    this.#underWay?.cancelled.abort(new GettingError('It was cancelled.'))
    return this.#underWay !== undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cancel()
    await this.#underWay?.over
  }

  async #isPossible(runtime: ServerRuntime, deed: RuntimeDeed): Promise<boolean> {
    try {
      await planFor(runtime, deed, this.#options)
      return true
    } catch (error) {
      if (error instanceof GettingError) return false
      throw error
    }
  }

  /** Never rejects. */
  async #carryOut(plan: GettingPlan, signal: AbortSignal): Promise<void> {
    const { log, onDone } = this.#options
    const { runtime, deed } = plan
    log.info('a runtime is changed', { runtime, deed, commands: plan.commands })
    const output = new LastLines()
    const onOutput = (text: string) => {
      output.add(text)
      this.#change({ lines: output.lines() })
    }
    const end = await carryOut(plan, { ...this.#options, onOutput, signal }).then(
      (message) => ({ state: 'done' as const, message }),
      (error: unknown) => {
        const isKnown = error instanceof GettingError
        if (!isKnown) log.error('a runtime could not be changed', { runtime, deed, error })
        const message = isKnown ? error.message : `It failed: ${messageOf(error)}`
        return { state: signal.aborted ? ('cancelled' as const) : ('failed' as const), message }
      },
    )
    this.#underWay = undefined
    this.#change({ ...end, message: sentence(end.message, maxMessageBytes) })
    log.info('a runtime was changed', { runtime, deed, ...end })
    onDone()
  }

  #change(change: Partial<RuntimeWorkView>): void {
    if (this.#view) this.#show({ ...this.#view, ...change })
  }

  #show(view: RuntimeWorkView): void {
    this.#view = view
    this.#options.onChange()
  }
}

/** The last lines of a text that comes in pieces. A progress bar writes its line again and again: its last state counts. */
class LastLines {
  #lines: string[] = ['']

  add(text: string): void {
    const [rest = '', ...more] = text.split('\n')
    const last = (this.#lines.pop() ?? '') + rest
    this.#lines = [...this.#lines, last, ...more].slice(-maxWorkLines - 1).map((line) => line.slice(-4 * maxLineBytes))
  }

  lines(): string[] {
    return this.#lines
      .map((line) => sentence(cleanText(line.trimEnd().split('\r').at(-1) ?? ''), maxLineBytes))
      .filter((line) => line !== '')
      .slice(-maxWorkLines)
  }
}
