import { foreseenStarts, type ForeseenStarts } from './foreseen-starts.ts'
import { Holds, type HeldMemory, type HeldServer, type HeldRole } from './holds.ts'
import { Judgement, type MachineMemory, type WaitingStart } from './judgement.ts'
import { describeRefusalBeside, type Refusal } from './refusal.ts'
import type { Room } from './room.ts'
import { waitingRequest, type StartRequest, type WaitingRequest } from './start-request.ts'

export type Admission =
  /** `warning` says what could not be checked. */
  { readonly admitted: true; readonly warning?: string } | ({ readonly admitted: false } & Refusal)

/** `why`: the second half of a sentence. */
export type BesideVerdict = { readonly allowed: true } | { readonly allowed: false; readonly why: string }

/** What a person may set about admission. */
export type BookRules = Pick<MachineMemory, 'budgetBytes'> & Required<Pick<StartRequest, 'enforcement' | 'mayEvict'>>

export interface BookOutlook extends ForeseenStarts {
  readonly committedBytes: number
  /** They run now, and would not be admitted again beside the others. */
  readonly unfit: readonly (Refusal & { readonly key: string })[]
}

export interface MemoryBookState {
  readonly machine: MachineMemory
  readonly committedBytes: number
  readonly promisedBytes: number
  readonly held: readonly HeldMemory[]
  readonly waiting: readonly WaitingStart[]
}

/**
 * The one place that says which server may start. Every method decides and writes down its decision in the same turn,
 * so that two starts can never be promised the same memory.
 *
 * Whenever room may have appeared, `onFreed` is called with the waiting starts that would be admitted now, in order; each of them must
 * then ask again by `admit`, or leave by `release`.
 */
export class MemoryBook {
  readonly #onFreed: (keys: readonly string[]) => void
  readonly #holds = new Holds()
  readonly #waiting = new Map<string, WaitingRequest>()
  #machine: MachineMemory

  /** `onFreed` is called in the turn of the change and must not throw. */
  constructor(machine: MachineMemory, onFreed: (keys: readonly string[]) => void) {
    this.#machine = machine
    this.#onFreed = onFreed
  }

  /**
   * A fresh look at the machine. Footprints handed in by `measured` before this call count as part of what is no longer
   * available, and so does everything of a server that was ready before it.
   */
  observe(
    machine: Partial<Pick<MachineMemory, 'budgetBytes' | 'pressure'>> & { availableBytes?: number | undefined },
  ): void {
    const { budgetBytes = this.#machine.budgetBytes, pressure = this.#machine.pressure } = machine
    if ('availableBytes' in machine) {
      const { availableBytes } = machine
      this.#machine = { budgetBytes, pressure, ...(availableBytes !== undefined && { availableBytes }) }
      this.#holds.seen()
    } else {
      this.#machine = { ...this.#machine, budgetBytes, pressure }
    }
    this.#tell()
  }

  /** Asks for the start of a server whose predecessor, if any, is gone: what the key held before is given back first. */
  admit(request: StartRequest): Admission {
    this.#holds.drop(request.key)
    const known = this.#waiting.get(request.key)
    this.#waiting.delete(request.key)
    const since = known?.uid === request.uid ? Math.min(known.since, request.since) : request.since
    const entry = { ...waitingRequest(request), since }
    const unchecked = this.#judgement().whyUnchecked(request)
    const reason = this.#judgement().reasonAgainst(entry, unchecked)
    if (reason === undefined) this.#holds.reserve(request, 'current')
    // Without an estimate it waits for other news than freed memory.
    else if (request.needBytes !== undefined || reason === 'MemoryPressure') this.#waiting.set(request.key, entry)
    const refusal = reason === undefined ? undefined : this.#judgement().refusal(entry, reason, unchecked)
    this.#tell()
    if (refusal !== undefined) return { admitted: false, ...refusal }
    return unchecked === undefined ? { admitted: true } : { admitted: true, warning: unchecked }
  }

  /**
   * Counts a server that was found running. It is never refused, even beyond the budget. A current one is to be adopted before the one
   * beside it.
   */
  adopt(server: HeldServer & Partial<Pick<HeldMemory, 'role' | 'phase'>>): void {
    const { key, role = 'current', phase = 'running' } = server
    if (role === 'current') {
      this.#waiting.delete(key)
      this.#holds.drop(key)
    }
    this.#holds.adopt(server, role, phase)
    this.#tell()
  }

  /** What its object says now of the key's servers; false where nothing of that is new, or nothing is held. */
  know(...about: Parameters<Holds['know']>): boolean {
    return this.#holds.know(...about)
  }

  /** The server has loaded: what it holds is no longer promised, once the next `observe` has seen it. */
  ready(key: string, role: HeldRole = 'current'): void {
    this.#holds.ready(key, role)
  }

  /** What its processes really hold. */
  measured(key: string, footprintBytes: number, role: HeldRole = 'current'): void {
    if (this.#holds.measured(key, role, footprintBytes)) this.#tell()
  }

  /** The key neither holds memory nor waits for any: its servers are gone, or it is not wanted any more. */
  release(key: string): void {
    this.#waiting.delete(key)
    this.#holds.drop(key)
    this.#tell()
  }

  /** Whether a second server of this key, with a changed spec, fits beside the one that serves. */
  canRunBeside(request: StartRequest): BesideVerdict {
    if (!this.#holds.has(request.key)) return { allowed: false, why: 'no server of this service is known to run' }
    if (this.#holds.has(request.key, 'beside')) {
      return { allowed: false, why: 'a second server of this service already starts' }
    }
    const judgement = this.#judgement()
    const unchecked = judgement.whyUnchecked(request)
    const entry: WaitingRequest = { ...waitingRequest(request), enforcement: 'enforce' }
    const reason = judgement.reasonAgainst(entry, unchecked)
    if (reason === undefined) return { allowed: true }
    return { allowed: false, why: lowerFirst(unchecked) ?? describeRefusalBeside(judgement.refusal(entry, reason)) }
  }

  /** As `canRunBeside`, and where it is allowed the memory is reserved. */
  admitBeside(request: StartRequest): BesideVerdict {
    const verdict = this.canRunBeside(request)
    if (verdict.allowed) this.#holds.reserve(request, 'beside')
    return verdict
  }

  /** Why a new server would not fit even if what runs for its key were gone; undefined where it would. */
  refusalInstead(request: StartRequest): Refusal | undefined {
    return this.#refusalInstead(request, this.#machine)
  }

  /** What other rules would mean for what waits and for what runs. Changes nothing. */
  outlook({ budgetBytes, ...rules }: BookRules, running: readonly StartRequest[]): BookOutlook {
    const machine = { ...this.#machine, budgetBytes }
    const waiting = [...this.#waiting.values()].map((entry) => ({ ...entry, ...rules }))
    return {
      committedBytes: this.#holds.committedBytes,
      ...foreseenStarts({ machine, holds: this.#holds, waiting }),
      unfit: running.flatMap((request) => {
        const refusal = this.#refusalInstead(request, machine)
        return refusal !== undefined && refusal.shortage.budget > 0 ? [{ key: request.key, ...refusal }] : []
      }),
    }
  }

  #refusalInstead(request: StartRequest, now: MachineMemory): Refusal | undefined {
    const { holds, freedBytes } = this.#holds.without([request.key])
    const { availableBytes } = now
    const available = availableBytes === undefined ? {} : { availableBytes: availableBytes + freedBytes }
    const machine = { ...now, ...available }
    const judgement = new Judgement({ machine, holds, waiting: this.#waiting.values() })
    const unchecked = judgement.whyUnchecked(request)
    const entry = waitingRequest(request)
    const reason = judgement.reasonAgainst(entry, unchecked)
    return reason === undefined ? undefined : judgement.refusal(entry, reason, unchecked)
  }

  /** The second server failed or is not wanted any more, and is gone; the first one stays. */
  releaseBeside(key: string): void {
    this.#holds.dropBeside(key)
    this.#tell()
  }

  /** The old server is gone, the second one is the service's server now. */
  promoteBeside(key: string): void {
    if (this.#holds.promoteBeside(key)) this.#tell()
  }

  /** The waiting starts in order, with their places. */
  places(): readonly WaitingStart[] {
    return this.#judgement().places()
  }

  state(): MemoryBookState {
    const { committedBytes, promisedBytes } = this.#holds
    return { machine: this.#machine, committedBytes, promisedBytes, held: this.held(), waiting: this.places() }
  }

  held(): readonly HeldMemory[] {
    return this.#holds.list()
  }

  /** The room a start would meet if it asked now, without regard to those that wait. */
  roomFor(request: Pick<StartRequest, 'ownBudgetBytes'>): Room {
    return this.#judgement().roomFor(request)
  }

  /** Names the waiting starts that would be admitted if all asked now. */
  #tell(): void {
    const keys = this.#judgement().admissible()
    if (keys.length > 0) this.#onFreed(keys)
  }

  /** Of the situation as it is now. */
  #judgement(): Judgement {
    return new Judgement({ machine: this.#machine, holds: this.#holds, waiting: this.#waiting.values() })
  }
}

const lowerFirst = (sentence: string | undefined): string | undefined =>
  sentence && sentence.charAt(0).toLowerCase() + sentence.slice(1)
