import type { ConnectionState } from '../../contract/cluster.ts'
import type { Logger } from '../observability/logger.ts'
import { isApiError } from './api-error.ts'
import type { KubeApi } from './kube-api.ts'
import { explainAbsence } from './preflight.ts'
import type { Resource } from './resources.ts'
import { explainFailure, failureState } from './watch-failure.ts'

export interface ListWatchState {
  readonly state: ConnectionState
  readonly message: string
  /** Milliseconds since the epoch, like every time here. */
  readonly since: number
  readonly consecutiveFailures: number
  readonly retryAt: number | undefined
  readonly lastListAt: number | undefined
}

interface WatchHealthOptions {
  readonly api: KubeApi
  readonly resource: Resource
  readonly log: Logger
  /** Ends a question about an absent resource. */
  readonly signal: AbortSignal
  readonly now: () => number
  /** Called after every change of {@link WatchHealth.state}. */
  readonly onState: (state: ListWatchState) => void
}

/** How a list-watch fares, for people and for what must not trust an old cache. */
export class WatchHealth {
  readonly #options: WatchHealthOptions
  #state: ListWatchState

  constructor(options: WatchHealthOptions) {
    this.#options = options
    this.#state = {
      state: 'connecting',
      message: `Reading ${options.resource.plural}`,
      since: options.now(),
      consecutiveFailures: 0,
      retryAt: undefined,
      lastListAt: undefined,
    }
  }

  get state(): ListWatchState {
    return this.#state
  }

  /** A list was taken in, or a watch was opened. */
  alive(what: 'listed' | 'watching'): void {
    const { now, log, resource } = this.#options
    const wasLive = this.#state.state === 'live'
    // A watch that the server ended and that goes on where it was: nothing is new for anybody.
    if (wasLive && what === 'watching') return
    this.#set({
      state: 'live',
      message: 'Connected',
      since: wasLive ? this.#state.since : now(),
      consecutiveFailures: 0,
      retryAt: undefined,
      lastListAt: what === 'listed' ? now() : this.#state.lastListAt,
    })
    if (!wasLive) log.debug('watching', { resource: resource.plural })
  }

  /** It is tried again in `delayMs`. */
  async failed(error: unknown, delayMs: number): Promise<void> {
    const { log, resource, now, api } = this.#options
    const state = failureState(error, this.#state.lastListAt !== undefined)
    if (isApiError(error, 401)) {
      await api.context.renew().catch((cause: unknown) => log.warn('credentials not renewed', { error: cause }))
    }
    const failures = this.#state.consecutiveFailures + 1
    if (failures === 1) log.debug('watch failed', { resource: resource.plural, error, retryInMs: delayMs })
    this.#set({
      state,
      message: await this.#explain(state, error),
      since: this.#state.state === state ? this.#state.since : now(),
      consecutiveFailures: failures,
      retryAt: now() + delayMs,
      lastListAt: this.#state.lastListAt,
    })
  }

  async #explain(state: ConnectionState, error: unknown): Promise<string> {
    const { resource, api, signal } = this.#options
    if (state === 'absent') return explainAbsence(api, resource, signal)
    return explainFailure(state, resource, api.context.server, error)
  }

  #set(next: ListWatchState): void {
    this.#state = next
    this.#options.onState(next)
  }
}
