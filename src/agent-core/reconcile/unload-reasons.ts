import { join } from 'node:path'
import { z } from 'zod'
import type { EvictionRecord } from '../memory/eviction.ts'
import type { Logger } from '../observability/logger.ts'
import { StateFile } from '../state/state-file.ts'
import { type Hold, holdCauses } from '../../contract/service.ts'

const why = {
  since: z.iso.datetime(),
  /** One sentence. */
  message: z.string(),
}

/** A person keeps it off this machine: another machine may take it. */
const held = z.object({
  kind: z.literal('held'),
  cause: z.enum(holdCauses),
  ...why,
})
/** Memory was critically short: another machine may take it, and it comes back by itself. */
const evicted = z.object({ kind: z.literal('evicted'), ...why })
/** No request came for as long as its annotation says: it would be as idle elsewhere, so the claim stays. */
const idle = z.object({ kind: z.literal('idle'), ...why })

/** Why a service is out of memory on this machine although the cluster wants it; kept over restarts of the agent. */
const unloadReason = z.discriminatedUnion('kind', [held, evicted, idle])
export type UnloadReason = z.infer<typeof unloadReason>

/** The reason as clients see it; only for services that another machine may take meanwhile. */
export function holdOf(reason: UnloadReason | undefined): Hold | undefined {
  if (reason?.kind === 'held') {
    const { cause, since, message } = reason
    return { cause, since, message, by: 'person' }
  }
  if (reason?.kind === 'evicted') {
    const { since, message } = reason
    return { cause: 'evicted', since, message, by: 'pressure' }
  }
  return undefined
}

/** Memory is short, so its requests get less time to finish. */
export const isShedding = (reason: UnloadReason | undefined): boolean => reason?.kind === 'evicted'

const place = {
  namespace: z.string(),
  name: z.string(),
  /** URL of the API server: the same names mean other objects elsewhere. */
  cluster: z.string(),
}

const target = { uid: z.string(), ...place }

const evictionRecord = z.object({
  evictions: z.int().positive(),
  evictedAt: z.number(),
  broughtBackAt: z.number().optional(),
})

const reasonFile = z.object({
  schema: z.literal(1),
  /** Since when this machine is paused; null = it is not. */
  pausedSince: z.iso.datetime().nullable(),
  absences: z.array(z.object({ ...target, absence: unloadReason })),
  /** Services that a person protects from eviction on this machine. */
  protected: z.array(z.object(target)),
  /** By uid. */
  evictions: z.record(z.string(), evictionRecord),
})
type ReasonFile = z.infer<typeof reasonFile>

const noReasons: ReasonFile = {
  schema: 1,
  pausedSince: null,
  absences: [],
  protected: [],
  evictions: {},
}

interface Place {
  readonly namespace: string
  readonly name: string
  /** URL of the API server. */
  readonly cluster: string
}

/** One InferenceService of one cluster. */
export interface UnloadTarget extends Place {
  readonly uid: string
}

export const unloadTarget = (
  { api }: { readonly api: { readonly context: { readonly server: string } } },
  { uid, namespace, name }: Pick<UnloadTarget, 'uid' | 'namespace' | 'name'>,
): UnloadTarget => ({ uid, namespace, name, cluster: api.context.server })

/** An eviction this long ago says nothing about the next one: its record is dropped. */
const rememberedMs = 24 * 3_600_000

/** Services of clusters and namespaces that are not looked at again may be gone without a word: the earliest are given up first. */
const mostProtected = 1_000

interface UnloadReasonsOptions {
  readonly stateDir: string
  readonly log: Logger
}

/**
 * Which services are out of memory on this machine and why, which are protected, and whether the machine is paused; kept over restarts
 * of the agent in one file. What a person asks for is on disk before it counts, so that the answer is true; what memory or idleness ask
 * for counts at once, also where the disk takes nothing.
 */
export class UnloadReasons {
  readonly notices: readonly string[]
  readonly #file: StateFile<ReasonFile>
  readonly #log: Logger
  #value: ReasonFile
  #isUnwritten = false

  private constructor(file: StateFile<ReasonFile>, { log }: UnloadReasonsOptions) {
    this.#file = file
    this.#value = file.value
    this.notices = file.notice === undefined ? [] : [file.notice]
    this.#log = log
  }

  /** Throws StateFileError. */
  static async open(options: UnloadReasonsOptions): Promise<UnloadReasons> {
    const { stateDir } = options
    const file = await StateFile.open<ReasonFile>({
      file: join(stateDir, 'absences.json'),
      schema: reasonFile,
      initial: noReasons,
      keeps: 'what was stopped, evicted, protected or paused only on this machine',
    })
    return new UnloadReasons(file, options)
  }

  of(uid: string | undefined): UnloadReason | undefined {
    if (uid === undefined) return undefined
    return this.#value.absences.find((one) => one.uid === uid)?.absence
  }

  /** As a person asks. Throws StateFileError; then nothing has changed. */
  hold(target: UnloadTarget, reason: Extract<UnloadReason, { kind: 'held' }>): Promise<void> {
    return this.#change(withReason(target, reason))
  }

  /** As {@link hold}. `now` by the wall clock, in milliseconds. */
  bringBack(uid: string, now = Date.now()): Promise<void> {
    return this.#change((value) => {
      const record = value.evictions[uid]
      const evictions = record ? { ...value.evictions, [uid]: { ...record, broughtBackAt: now } } : value.evictions
      return { ...without(uid)(value), evictions }
    })
  }

  /** At once; on disk where the disk takes it. What is held stays held. */
  unload(target: UnloadTarget, reason: UnloadReason): void {
    if (this.of(target.uid)?.kind === 'held') return
    this.#note(withReason(target, reason))
  }

  /** As {@link unload}. */
  end(uid: string): void {
    this.#note(without(uid))
  }

  /** Where the agent has to look whether what is kept is still of an object that is there. */
  placesIn(cluster: string): readonly Place[] {
    return [...this.#value.absences, ...this.#value.protected].filter((place) => place.cluster === cluster)
  }

  /**
   * A complete list has this object in that place, or none. An object that is gone takes its unload reason and its protection with it: one
   * re-created under its name starts over.
   */
  listed(uid: string | undefined, place: Place): void {
    const isGone = (other: UnloadTarget) => other.uid !== uid && isAt(other, place)
    const { absences: kept, protected: spared } = this.#value
    for (const other of kept) if (isGone(other)) this.end(other.uid)
    for (const other of spared) if (isGone(other)) this.forget(other.uid)
  }

  /** The object is gone: nothing is remembered of it. */
  forget(uid: string): void {
    this.end(uid)
    this.#note((value) => {
      const others = value.protected.filter((one) => one.uid !== uid)
      if (others.length === value.protected.length && !(uid in value.evictions)) return value
      const { [uid]: _gone, ...evictions } = value.evictions
      return { ...value, protected: others, evictions }
    })
  }

  get pausedSince(): string | undefined {
    return this.#value.pausedSince ?? undefined
  }

  /** Undefined = resumed. Throws StateFileError. */
  pause(since: string | undefined): Promise<void> {
    return this.#change((value) => ({ ...value, pausedSince: since ?? null }))
  }

  isProtected(uid: string): boolean {
    return this.#value.protected.some((one) => one.uid === uid)
  }

  /** Throws StateFileError. */
  protect({ uid, namespace, name, cluster }: UnloadTarget, isProtected: boolean): Promise<void> {
    return this.#change((value) => {
      const others = value.protected.filter((one) => one.uid !== uid)
      const own = isProtected ? [{ uid, namespace, name, cluster }] : []
      return { ...value, protected: [...others, ...own].slice(-mostProtected) }
    })
  }

  /** How often memory pressure evicted it lately. */
  eviction(uid: string): EvictionRecord | undefined {
    return this.#value.evictions[uid]
  }

  /** At once, as {@link unload}. */
  remember(uid: string, record: EvictionRecord): void {
    this.#note((value) => {
      const forgottenBefore = record.evictedAt - rememberedMs
      const recent = Object.entries(value.evictions).filter(([, { evictedAt }]) => evictedAt > forgottenBefore)
      return { ...value, evictions: { ...Object.fromEntries(recent), [uid]: record } }
    })
  }

  /** Resolves when all of it is on disk, or cannot be. */
  async flush(): Promise<void> {
    await this.#file.update((value) => value)
    if (this.#isUnwritten) await this.#write()
  }

  async #change(change: (value: ReasonFile) => ReasonFile): Promise<void> {
    await this.#file.update(() => change(this.#value))
    this.#value = change(this.#value)
  }

  #note(change: (value: ReasonFile) => ReasonFile): void {
    const next = change(this.#value)
    if (next === this.#value) return
    this.#value = next
    void this.#write()
  }

  /** Never rejects: what the disk does not take is written with the next change, or at the end. */
  async #write(): Promise<void> {
    try {
      await this.#file.update(() => this.#value)
      this.#isUnwritten = false
    } catch (error) {
      if (!this.#isUnwritten) this.#log.warn('unload reasons not written', { error })
      this.#isUnwritten = true
    }
  }
}

const withReason =
  (target: UnloadTarget, reason: UnloadReason) =>
  (value: ReasonFile): ReasonFile => {
    const { uid, namespace, name, cluster } = target
    const others = value.absences.filter((one) => one.uid !== uid)
    return { ...value, absences: [...others, { uid, namespace, name, cluster, absence: reason }] }
  }

const without =
  (uid: string) =>
  (value: ReasonFile): ReasonFile =>
    value.absences.some((one) => one.uid === uid)
      ? { ...value, absences: value.absences.filter((one) => one.uid !== uid) }
      : value

const isAt = (a: Place, b: Place): boolean =>
  a.name === b.name && a.namespace === b.namespace && a.cluster === b.cluster
