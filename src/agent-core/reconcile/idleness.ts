import type { ObjectMeta } from '../kube/resources.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import { unloadTarget } from './unload-reasons.ts'
import { annotationKeys, type Desired } from './desired.ts'
import type { Observation, Plan } from './plan/observation.ts'
import type { ServiceRooms } from './service-rooms.ts'

/** Takes one service out of memory when it had no request for as long as its annotation says, and back when a request is expected. */
export class Idleness {
  readonly #key: string
  readonly #rooms: ServiceRooms

  constructor(key: string, rooms: ServiceRooms) {
    this.#key = key
    this.#rooms = rooms
  }

  /** Ends with the annotation, and where the service is not asked for: when it is again, it is wanted in memory. */
  heed(desired: Desired, uid: string | undefined): void {
    const ends = desired.kind === 'serve' ? desired.idleMinutes === undefined : notAskedFor.has(desired.kind)
    if (ends) this.#end(uid)
  }

  /** Only a server that serves, and is to be stopped when idle, is watched for it. */
  watch({ state }: Plan, { desired }: Observation, onIdle: () => void): void {
    const { servers, settings } = this.#rooms
    const isWatched = state === 'ready' && servers.get(this.#key)?.kind === 'ready'
    const minutes = isWatched && desired.kind === 'serve' ? desired.idleMinutes : undefined
    const limit = minutes === undefined ? undefined : { idleMs: minutes * settings.idleMinuteMs, onIdle }
    servers.limitIdleness(this.#key, limit)
  }

  /** Whether it serves is decided without this agent, or by another session, from now on. */
  stop(): void {
    this.#rooms.servers.limitIdleness(this.#key, undefined)
  }

  /** No request came for as long as its annotation says. */
  begin(metadata: ObjectMeta, desired: Desired): void {
    const { cluster, unloadReasons, narrator, enqueue, now } = this.#rooms
    if (desired.kind !== 'serve' || desired.idleMinutes === undefined) return
    const { idleMinutes } = desired
    const minutes = `${idleMinutes} ${idleMinutes === 1 ? 'minute' : 'minutes'}`
    const message = `Unloaded after ${minutes} without a request (${annotationKeys.idleMinutes}).`
    const since = wallTimeOf(now()).toISOString()
    unloadReasons.unload(unloadTarget(cluster, metadata), { kind: 'idle', since, message })
    narrator.tell(this.#key, { kind: 'idle', idleMinutes })
    enqueue(this.#key)
  }

  /** A request is expected. False where it had not left memory for want of requests. */
  wake(uid: string | undefined): boolean {
    if (!this.#end(uid)) return false
    this.#rooms.enqueue(this.#key)
    return true
  }

  #end(uid: string | undefined): boolean {
    const { unloadReasons } = this.#rooms
    if (uid === undefined || unloadReasons.of(uid)?.kind !== 'idle') return false
    unloadReasons.end(uid)
    return true
  }
}

const notAskedFor: ReadonlySet<Desired['kind']> = new Set(['gone', 'stopped', 'held', 'notOurs'])
