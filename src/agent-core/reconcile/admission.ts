import type { Memory, MemoryRefusal, SizedRequest } from '../memory/memory.ts'
import type { Logger } from '../observability/logger.ts'
import type { Narrator } from './narrator.ts'
import type { MemoryReason, Observation } from './plan/observation.ts'
import { desiredKey, type DesiredServer } from './reading.ts'
import type { Need } from './sizing.ts'

/** A sentence is read to its end where it names few. */
const waysNamed = 2

/** Why a server may not be started now, with what would make it fit. */
function refusalSentence({ message, ways }: MemoryRefusal): string {
  const named = ways.slice(0, waysNamed).map(({ sentence }) => sentence.charAt(0).toLowerCase() + sentence.slice(1))
  return named.length === 0 ? `${message}.` : `${message}. What would make it fit: ${named.join('; or ')}.`
}

/** Why a changed specification is not served yet. */
const insteadSentence = (refusal: MemoryRefusal): string =>
  `The specification changed, but the new server would not fit, so the previous one keeps serving: ${refusalSentence(refusal)}`

export interface AdmissionOptions {
  readonly memory: Memory
  readonly narrator: Pick<Narrator, 'notStarted' | 'mayStart'>
  readonly log: Logger
  /** Protected from eviction. */
  readonly isProtected: (key: string) => boolean
  /** The answer for this key may have changed. */
  readonly enqueue: (key: string) => void
  readonly now: () => number
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
}

/** What a pass needs to know of memory. */
interface AdmissionView {
  readonly instead: Observation['instead']
  /** Why the desired server may not be started now. */
  readonly noMemory: { readonly reason: MemoryReason; readonly message: string } | undefined
}

/** What people are shown. */
export interface AdmissionReport {
  readonly need: Need | undefined
  readonly place: number | undefined
  /** What would make it fit. */
  readonly ways: MemoryRefusal['ways']
  /** Other services that hold the same memory. */
  readonly sharedWith: readonly string[]
}

/** Whether the desired server fits in the place of the present one. */
interface Comparison {
  /** See `desiredKey`. */
  readonly of: string
  readonly request: SizedRequest
  readonly instead: MemoryRefusal | undefined
}

interface Entry {
  /** What the desired server will hold, as worked out last. */
  need: Need | undefined
  /** The answer to the start that was asked for last; gone when it may be asked again. */
  refusal: (MemoryRefusal & { readonly of: string }) | undefined
  /** As `refusal`. */
  comparison: Comparison | undefined
  /** Since when its requests for memory are refused. */
  waitingSince: number | undefined
  /** It has a place among those that wait for memory, or may have. */
  isQueued: boolean
}

/** Decides with the memory book which servers may start, and remembers each answer for as long as it holds. */
export class Admission implements Disposable {
  readonly #options: AdmissionOptions
  readonly #entries = new Map<string, Entry>()
  readonly #unsubscribe: () => void

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#unsubscribe = options.memory.listen({
      onFreed: (keys) => this.#askAgain(keys),
      onSample: () => this.#memorySeen(),
    })
  }

  /** What asks for memory elsewhere asks there again; nothing here waits behind it. */
  [Symbol.dispose](): void {
    this.#unsubscribe()
    for (const [key, { isQueued }] of this.#entries) if (isQueued) this.#options.memory.release(key)
  }

  /** The answer for this very spec: an answer for another one says nothing. */
  view(key: string, desiredServer: DesiredServer | undefined): AdmissionView {
    const { refusal, comparison } = this.#entry(key)
    const of = desiredServer && (refusal || comparison) ? desiredKey(desiredServer) : undefined
    const compared = comparison?.of === of ? comparison : undefined
    return {
      instead: compared && { refusal: compared.instead && insteadSentence(compared.instead) },
      noMemory:
        refusal && refusal.of === of ? { reason: refusal.reason, message: refusalSentence(refusal) } : undefined,
    }
  }

  report(key: string): AdmissionReport {
    const { need, refusal, comparison } = this.#entry(key)
    return {
      need,
      place: this.#options.memory.placeOf(key),
      ways: refusal?.ways ?? comparison?.instead?.ways ?? [],
      sharedWith: this.#options.memory.sharedWith(key),
    }
  }

  /** What its object says now of the key's servers. */
  know(key: string, rank: { readonly priority: SizedRequest['priority']; readonly isProtected: boolean }): void {
    this.#options.memory.know(key, rank)
  }

  /** What the server will hold; worked out once for each server. */
  async need(key: string, of: string, sizeUp: () => Promise<Need>): Promise<Need> {
    const entry = this.#entry(key)
    if (entry.need?.of === of) return entry.need
    entry.need = await sizeUp()
    this.#options.onChange()
    return entry.need
  }

  /** Before a start is answered by {@link admit}, which happens in one turn. */
  async prepare(key: string, desiredServer: DesiredServer, need: Need): Promise<void> {
    await this.#options.memory.prepare(this.#request(key, desiredServer, need))
  }

  /** Whether the desired server fits in the place of the one that runs. */
  async compare(key: string, desiredServer: DesiredServer, need: Need): Promise<void> {
    const { memory } = this.#options
    const request = this.#request(key, desiredServer, need)
    await memory.prepare(request)
    const instead = memory.instead(request, need.changeable)
    this.#entry(key).comparison = { of: desiredKey(desiredServer), request, instead }
  }

  /** In this turn: between the answer and the start nothing else is answered. */
  admit(key: string, desiredServer: DesiredServer, need: Need): boolean {
    const { memory, log, narrator } = this.#options
    const entry = this.#entry(key)
    const request = this.#request(key, desiredServer, need)
    const admission = memory.admit(request, need.changeable)
    if (entry.isQueued === admission.admitted) queueMicrotask(() => this.#placesMoved())
    entry.isQueued = !admission.admitted
    if (admission.admitted) {
      entry.refusal = undefined
      entry.waitingSince = undefined
      narrator.mayStart(key)
      if (admission.warning !== undefined) log.warn('memory not checked', { key, text: admission.warning })
      return true
    }
    entry.refusal = { ...admission, of: desiredKey(desiredServer) }
    entry.waitingSince = request.since
    narrator.notStarted(key, admission.reason, this.#eventSentence(admission))
    return false
  }

  /** It does not wait for memory: no other waits behind it, and the next answer is a new one. */
  leaveQueue(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    entry.refusal = undefined
    entry.waitingSince = undefined
    if (!entry.isQueued) return
    entry.isQueued = false
    this.#options.memory.release(key)
    this.#placesMoved()
  }

  forget(key: string): void {
    if (this.#entries.get(key)?.isQueued === true) this.#options.memory.release(key)
    this.#entries.delete(key)
  }

  /** A server has ended, so that there may be room for changes that did not fit. */
  serverEnded(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.comparison?.instead === undefined) continue
      entry.comparison = undefined
      this.#options.enqueue(key)
    }
  }

  /** Settings that decide about memory have changed: everything is asked again. */
  rulesChanged(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.refusal === undefined && entry.comparison === undefined) continue
      entry.refusal = undefined
      entry.comparison = undefined
      this.#options.enqueue(key)
    }
  }

  /** Forgets the answers about changes of the spec. */
  pressureChanged(): void {
    for (const entry of this.#entries.values()) entry.comparison = undefined
  }

  #request(key: string, { service, spec, model }: DesiredServer, need: Need): SizedRequest {
    const { memoryBudget: modelBudget, memoryFraction: modelFraction } = model.hardware ?? {}
    return {
      key,
      uid: service.metadata.uid,
      needBytes: need.estimate?.total,
      mappedBytes: need.estimate?.mappedBytes ?? 0,
      ...(need.whyUnknown !== undefined && { whyUnknown: need.whyUnknown }),
      ...need.daemonMemory,
      priority: spec.priority,
      isProtected: this.#options.isProtected(key),
      since: this.#entry(key).waitingSince ?? this.#options.now(),
      modelBudget,
      modelFraction,
    }
  }

  #eventSentence(refusal: MemoryRefusal): string {
    if (refusal.reason !== 'MemoryPressure') return refusalSentence(refusal)
    return `${refusal.message}. Memory pressure is ${this.#options.memory.view?.level ?? 'unknown'}.`
  }

  /** In the turn of the change: only noted here. */
  #askAgain(keys: readonly string[]): void {
    for (const key of keys) {
      const entry = this.#entries.get(key)
      if (entry) entry.refusal = undefined
      this.#options.enqueue(key)
    }
  }

  /** An answer about a change of the spec holds no longer where memory has changed, nor does a queue position that has. */
  #memorySeen(): void {
    const { memory, enqueue } = this.#options
    for (const [key, entry] of this.#entries) {
      const { comparison } = entry
      if (!comparison?.instead || memory.instead(comparison.request, {}) !== undefined) continue
      entry.comparison = undefined
      enqueue(key)
    }
    this.#placesMoved()
  }

  /** Requeues services whose queue position changed, so that what they report of it is true. */
  #placesMoved(): void {
    const places = new Map(this.#options.memory.book.places().map(({ key, place }) => [key, place]))
    for (const [key, entry] of this.#entries) {
      if (!entry.isQueued || entry.refusal === undefined || places.get(key) === entry.refusal.place) continue
      entry.refusal = undefined
      this.#options.enqueue(key)
    }
  }

  #entry(key: string): Entry {
    const known = this.#entries.get(key)
    if (known) return known
    const entry: Entry = {
      need: undefined,
      refusal: undefined,
      comparison: undefined,
      waitingSince: undefined,
      isQueued: false,
    }
    this.#entries.set(key, entry)
    return entry
  }
}
