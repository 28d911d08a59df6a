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
  /** The last answer, where that was no. */
  readonly refusal: MemoryRefusal | undefined
  /** Other services that hold the same memory. */
  readonly sharedWith: readonly string[]
}

/** What was asked of the memory book last. */
interface Asked {
  /** Whether it may start, or would fit in the place of the present one. */
  readonly what: 'start' | 'change'
  /** See `desiredKey`: the answer for another server says nothing. */
  readonly of: string
  readonly request: SizedRequest
  readonly refusal: MemoryRefusal | undefined
}

interface Entry {
  /** What the desired server will hold, as worked out last. */
  need: Need | undefined
  /** Gone when it may be asked again. */
  asked: Asked | undefined
  /** Since when its requests for memory are refused. */
  waitingSince: number | undefined
}

/** Decides with the memory book which servers may start, and remembers each answer for as long as it holds. */
export class Admission implements Disposable {
  readonly #options: AdmissionOptions
  readonly #entries = new Map<string, Entry>()
  readonly #unsubscribe: () => void

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#unsubscribe = options.memory.listen({
      onFreed: (keys) => {
        for (const key of keys) this.#askAgain(key)
      },
      onSample: () => this.#memorySeen(),
    })
  }

  /** What asks for memory elsewhere asks there again; nothing here waits behind it. */
  [Symbol.dispose](): void {
    const { book } = this.#options.memory
    this.#unsubscribe()
    for (const key of this.#entries.keys()) if (book.places.has(key)) book.release(key)
  }

  view(key: string, desiredServer: DesiredServer | undefined): AdmissionView {
    const { asked } = this.#entry(key)
    if (!asked || !desiredServer || asked.of !== desiredKey(desiredServer)) {
      return { instead: undefined, noMemory: undefined }
    }
    const { what, refusal } = asked
    return {
      instead: what === 'change' ? { refusal: refusal && insteadSentence(refusal) } : undefined,
      noMemory: what === 'start' && refusal ? { reason: refusal.reason, message: refusalSentence(refusal) } : undefined,
    }
  }

  report(key: string): AdmissionReport {
    const { need, asked } = this.#entry(key)
    const { book } = this.#options.memory
    return {
      need,
      place: book.places.get(key),
      refusal: asked?.refusal,
      sharedWith: book.sharedWith(key),
    }
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
    const refusal = memory.instead(request, need.changeable)
    this.#entry(key).asked = { what: 'change', of: desiredKey(desiredServer), request, refusal }
  }

  /** In this turn: between the answer and the start nothing else is answered. */
  admit(key: string, desiredServer: DesiredServer, need: Need): boolean {
    const { memory, log, narrator } = this.#options
    const entry = this.#entry(key)
    const request = this.#request(key, desiredServer, need)
    const wasWaiting = memory.book.places.has(key)
    const admission = memory.admit(request, need.changeable)
    if (wasWaiting !== memory.book.places.has(key)) queueMicrotask(() => this.#placesMoved())
    if (admission.admitted) {
      entry.asked = undefined
      entry.waitingSince = undefined
      narrator.mayStart(key)
      if (admission.warning !== undefined) log.warn('memory not checked', { key, text: admission.warning })
      return true
    }
    entry.asked = { what: 'start', of: desiredKey(desiredServer), request, refusal: admission }
    entry.waitingSince = request.since
    narrator.notStarted(key, admission.reason, this.#eventSentence(admission))
    return false
  }

  /** It does not wait for memory: no other waits behind it, and the next answer is a new one. */
  leaveQueue(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    if (entry.asked?.what === 'start') entry.asked = undefined
    entry.waitingSince = undefined
    if (!this.#release(key)) return
    this.#placesMoved()
  }

  forget(key: string): void {
    this.#release(key)
    this.#entries.delete(key)
  }

  /** Settings that decide about memory have changed: everything is asked again. */
  rulesChanged(): void {
    for (const [key, { asked }] of this.#entries) if (asked) this.#askAgain(key)
  }

  /** False where it does not wait. */
  #release(key: string): boolean {
    const { book } = this.#options.memory
    const isWaiting = book.places.has(key)
    if (isWaiting) book.release(key)
    return isWaiting
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

  /** Only noted here. */
  #askAgain(key: string): void {
    const entry = this.#entries.get(key)
    if (entry) entry.asked = undefined
    this.#options.enqueue(key)
  }

  /** An answer about a change of the spec holds no longer where memory has changed, nor does a queue position that has. */
  #memorySeen(): void {
    const { memory } = this.#options
    for (const [key, { asked }] of this.#entries) {
      if (asked?.what !== 'change') continue
      const isRefused = memory.instead(asked.request, {}) !== undefined
      if (isRefused !== (asked.refusal !== undefined)) this.#askAgain(key)
    }
    this.#placesMoved()
  }

  /** Requeues services whose queue position changed, so that what they report of it is true. */
  #placesMoved(): void {
    const { places } = this.#options.memory.book
    for (const [key, { asked }] of this.#entries) {
      if (asked?.what === 'start' && places.get(key) !== asked.refusal?.place) this.#askAgain(key)
    }
  }

  #entry(key: string): Entry {
    const known = this.#entries.get(key)
    if (known) return known
    const entry: Entry = { need: undefined, asked: undefined, waitingSince: undefined }
    this.#entries.set(key, entry)
    return entry
  }
}
