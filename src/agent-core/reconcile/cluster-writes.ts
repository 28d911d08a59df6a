import { isApiError, rootMessage } from '../kube/api-error.ts'
import type { WriteResult } from '../publishing/writes.ts'
import { nextClusterRetry, type ClusterRetry } from './status-report.ts'
import type { PublicationView, Step } from './plan/observation.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import type { Reading } from './reading.ts'
import type { ServiceRooms } from './service-rooms.ts'

/** The steps that write to the cluster. */
type ClusterStep = Extract<
  Step,
  { do: 'claim' | 'ensureService' | 'publish' | 'withdraw' | 'withdrawDead' | 'release' | 'unpublish' | 'remove' }
>

type ExplainedRetry = ClusterRetry & { readonly message: string }

type Rooms = Pick<ServiceRooms, 'publisher' | 'narrator' | 'log' | 'now' | 'random'>

/** The writes of one service, and when the cluster is asked again that did not take one. */
export class ClusterWrites {
  readonly #key: string
  readonly #rooms: Rooms
  #retry: ExplainedRetry | undefined
  #serviceRetry: ExplainedRetry | undefined

  constructor(key: string, rooms: Rooms) {
    this.#key = key
    this.#rooms = rooms
  }

  /** Set while the cluster does not take our writes for this service. */
  get retry(): ExplainedRetry | undefined {
    return this.#retry
  }

  /** Set while it does not take those of the Service. */
  get serviceRetry(): ExplainedRetry | undefined {
    return this.#serviceRetry
  }

  /** Pods are sent where no server answers: what puts that right waits a second at most. Whether it had to wait longer. */
  hurry(): boolean {
    if (!this.#retry || this.#retry.at === this.#retry.urgentAt) return false
    this.#retry = { ...this.#retry, at: this.#retry.urgentAt }
    return true
  }

  retryNow(): void {
    this.#retry = undefined
    this.#serviceRetry = undefined
  }

  /** A retry that is due is dropped when there is nothing to write. */
  nothingIsLeft(now: number): void {
    if (this.#retry && this.#retry.at <= now) this.#retry = undefined
    if (this.#serviceRetry && this.#serviceRetry.at <= now) this.#serviceRetry = undefined
  }

  /** A cluster that refuses a write holds up the steps that need it, not the local ones. */
  async perform(step: ClusterStep, target: Reading['target'], publication: PublicationView): Promise<void> {
    const { log, now, random } = this.#rooms
    const isService = step.do === 'ensureService'
    const before = isService ? this.#serviceRetry : this.#retry
    try {
      const result = await this.#write(step, target, publication)
      this.#waitUntil(isService, undefined)
      if (result.kind !== 'done') log.info('not written', { key: this.#key, ...result })
    } catch (error) {
      if (!isApiError(error)) throw error
      const retry = nextClusterRetry(error, before, { now: now(), random })
      const what = isService ? 'the Service' : 'the last change'
      const message = `The cluster did not accept ${what} (${rootMessage(error)}); the agent tries again.`
      this.#waitUntil(isService, { ...retry, message })
      if (retry.failures > 1) return
      log.warn('cluster write failed', { key: this.#key, error, retryAt: wallTimeOf(retry.at).toISOString() })
    }
  }

  /** The Service has a wait of its own, so that where traffic goes can be put right beside it. */
  #waitUntil(isService: boolean, retry: ExplainedRetry | undefined): void {
    if (isService) this.#serviceRetry = retry
    else this.#retry = retry
  }

  async #write(step: ClusterStep, target: Reading['target'], publication: PublicationView): Promise<WriteResult> {
    const { publisher, narrator } = this.#rooms
    switch (step.do) {
      case 'claim': {
        const isTakenOver = publication.claim === 'dead'
        const result = await (isTakenOver ? publisher.takeOver(target) : publisher.claim(target))
        if (result.kind === 'done') narrator.tell(this.#key, { kind: 'claimed', isTakenOver })
        return result
      }
      case 'publish': {
        const result = await publisher.publish(target, { address: step.address, port: step.port, ready: true })
        if (result.kind === 'done') narrator.published(this.#key, step)
        return result
      }
      case 'ensureService':
        return publisher.ensureService(target)
      case 'withdraw':
        return publisher.withdraw(target)
      case 'withdrawDead':
        return publisher.withdrawDead(target)
      case 'release':
        return publisher.release(target)
      case 'unpublish':
        return publisher.unpublish(target)
      case 'remove':
        return publisher.remove(target)
    }
  }
}
