import { join } from 'node:path'
import type { Cluster } from '../kube/cluster.ts'
import type { EvictionRecord } from '../memory/eviction.ts'
import type { Logger } from '../observability/logger.ts'
import { StateFile } from '../state/state-file.ts'
import type { Absence, Displaced, KeptAbsence } from './absence.ts'
import { absenceFile, earlierFiles, nothingAbsent, removeEarlierFiles, type AbsenceFile } from './absence-file.ts'

interface Place {
  readonly namespace: string
  readonly name: string
  /** URL of the API server. */
  readonly cluster: string
}

/** One InferenceService of one cluster. */
export interface AbsenceTarget extends Place {
  readonly uid: string
}

export const absenceTarget = (
  { api }: Pick<Cluster, 'api'>,
  { uid, namespace, name }: Pick<AbsenceTarget, 'uid' | 'namespace' | 'name'>,
): AbsenceTarget => ({ uid, namespace, name, cluster: api.context.server })

/** A disk that took nothing is asked again after so long. */
const defaultRetryMs = 30_000

/** Records of services that nothing evicted for so long say nothing any more. */
const rememberedMs = 24 * 3_600_000

/** Services of clusters and namespaces that are not looked at again may be gone without a word: the earliest are given up first. */
const mostProtected = 1_000

export interface AbsencesOptions {
  readonly stateDir: string
  readonly log: Logger
  readonly retryMs?: number
}

/**
 * Which services are out of memory on this machine and why, which are protected, and whether the machine is paused; kept over restarts
 * of the agent in one file. What a person asks for is on disk before it counts, so that the answer is true; what memory or idleness ask
 * for counts at once, also where the disk takes nothing.
 */
export class Absences {
  readonly notices: readonly string[]
  /** No agent wrote the file before: what the cluster was told of idle services is all there is. */
  readonly isNew: boolean
  readonly #file: StateFile<AbsenceFile>
  readonly #log: Logger
  #value: AbsenceFile
  /** By uid. A new agent decides anew which services fit, so these end with the agent. */
  readonly #displaced = new Map<string, Displaced>()
  readonly #retryMs: number
  #isUnwritten = false
  #retry: NodeJS.Timeout | undefined

  private constructor(
    file: StateFile<AbsenceFile>,
    notices: readonly string[],
    isNew: boolean,
    { log, retryMs = defaultRetryMs }: Pick<AbsencesOptions, 'log' | 'retryMs'>,
  ) {
    this.#file = file
    this.#retryMs = retryMs
    this.#value = file.value
    this.notices = notices
    this.isNew = isNew
    this.#log = log
  }

  /** Throws StateFileError. */
  static async open(options: AbsencesOptions): Promise<Absences> {
    const { stateDir } = options
    const file = await StateFile.open<AbsenceFile>({
      file: join(stateDir, 'absences.json'),
      schema: absenceFile,
      initial: nothingAbsent,
      keeps: 'what was stopped, evicted, protected or paused only on this machine',
    })
    const isNew = file.value === nothingAbsent
    const earlier = isNew ? await earlierFiles(stateDir) : undefined
    if (earlier) {
      await file.update(() => earlier.found)
      await removeEarlierFiles(stateDir)
    }
    const notices = [...(file.notice === undefined ? [] : [file.notice]), ...(earlier?.notices ?? [])]
    return new Absences(file, notices, isNew, options)
  }

  of(uid: string | undefined): Absence | undefined {
    if (uid === undefined) return undefined
    return this.#displaced.get(uid) ?? this.#value.absences.find((one) => one.uid === uid)?.absence
  }

  /** Services of a cluster that are absent, those that are displaced left out. */
  in(cluster: string): readonly (AbsenceTarget & { readonly absence: KeptAbsence })[] {
    return this.#value.absences.filter((one) => one.cluster === cluster)
  }

  /** As a person asks. Throws StateFileError; then nothing has changed. */
  async hold(target: AbsenceTarget, absence: Extract<KeptAbsence, { kind: 'held' }>): Promise<void> {
    await this.#change(withAbsence(target, absence))
    this.#displaced.delete(target.uid)
  }

  /** As {@link hold}. `now` by the wall clock, in milliseconds. */
  bringBack(uid: string, now = Date.now()): Promise<void> {
    return this.#change((value) => {
      const record = value.evictions[uid]
      const evictions = record ? { ...value.evictions, [uid]: { ...record, broughtBackAt: now } } : value.evictions
      return { ...without(uid)(value), evictions }
    })
  }

  /** At once; on disk as soon as the disk takes it. What is held stays held. */
  leave(target: AbsenceTarget, absence: Absence): void {
    if (this.of(target.uid)?.kind === 'held') return
    if (absence.kind === 'displaced') this.#displaced.set(target.uid, absence)
    else this.#note(withAbsence(target, absence))
  }

  /** As {@link leave}. */
  end(uid: string): void {
    this.#displaced.delete(uid)
    this.#note(without(uid))
  }

  /** Where the agent has to look whether what is kept is still of an object that is there. */
  placesIn(cluster: string): readonly Place[] {
    const { absences, protectedAt = {} } = this.#value
    return [...absences, ...Object.values(protectedAt)].filter((place) => place.cluster === cluster)
  }

  /**
   * A complete list has this object in that place, or none. An object that is gone takes its absence and its protection with it: one
   * re-created under its name starts over.
   */
  listed(uid: string | undefined, place: Place): void {
    const { absences, protectedAt = {} } = this.#value
    for (const other of absences) if (other.uid !== uid && isAt(other, place)) this.end(other.uid)
    for (const [other, at] of Object.entries(protectedAt)) if (other !== uid && isAt(at, place)) this.forget(other)
    // Earlier versions put down no place.
    if (uid === undefined || !this.isProtected(uid) || uid in protectedAt) return
    this.#note((value) => ({ ...value, protectedAt: { ...value.protectedAt, [uid]: place } }))
  }

  /** The object is gone: nothing is remembered of it. */
  forget(uid: string): void {
    this.end(uid)
    this.#note((value) => {
      if (!value.protected.includes(uid) && !(uid in value.evictions)) return value
      const { [uid]: _gone, ...evictions } = value.evictions
      return {
        ...withProtected(
          value,
          value.protected.filter((one) => one !== uid),
        ),
        evictions,
      }
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
    return this.#value.protected.includes(uid)
  }

  /** Throws StateFileError. */
  protect({ uid, namespace, name, cluster }: AbsenceTarget, isProtected: boolean): Promise<void> {
    return this.#change((value) => {
      const others = value.protected.filter((one) => one !== uid)
      if (!isProtected) return withProtected(value, others)
      const protectedAt = { ...value.protectedAt, [uid]: { namespace, name, cluster } }
      return withProtected({ ...value, protectedAt }, [...others, uid].slice(-mostProtected))
    })
  }

  /** How often memory pressure evicted it lately. */
  eviction(uid: string): EvictionRecord | undefined {
    const record = this.#value.evictions[uid]
    if (!record) return undefined
    const { broughtBackAt, ...rest } = record
    return { ...rest, ...(broughtBackAt !== undefined && { broughtBackAt }) }
  }

  /** At once, as {@link leave}. */
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
    clearTimeout(this.#retry)
  }

  async #change(change: (value: AbsenceFile) => AbsenceFile): Promise<void> {
    await this.#file.update(() => change(this.#value))
    this.#value = change(this.#value)
  }

  #note(change: (value: AbsenceFile) => AbsenceFile): void {
    const next = change(this.#value)
    if (next === this.#value) return
    this.#value = next
    void this.#write()
  }

  /** Never rejects: what the disk does not take is tried again. */
  async #write(): Promise<void> {
    clearTimeout(this.#retry)
    try {
      await this.#file.update(() => this.#value)
      this.#isUnwritten = false
    } catch (error) {
      if (!this.#isUnwritten) this.#log.warn('absences not written', { error })
      this.#isUnwritten = true
      clearTimeout(this.#retry)
      this.#retry = setTimeout(() => void this.#write(), this.#retryMs)
      this.#retry.unref()
    }
  }
}

const withAbsence =
  (target: AbsenceTarget, absence: KeptAbsence) =>
  (value: AbsenceFile): AbsenceFile => {
    const { uid, namespace, name, cluster } = target
    const others = value.absences.filter((one) => one.uid !== uid)
    return { ...value, absences: [...others, { uid, namespace, name, cluster, absence }] }
  }

const without =
  (uid: string) =>
  (value: AbsenceFile): AbsenceFile =>
    value.absences.some((one) => one.uid === uid)
      ? { ...value, absences: value.absences.filter((one) => one.uid !== uid) }
      : value

/** With the places of these and of no others. */
function withProtected(value: AbsenceFile, uids: readonly string[]): AbsenceFile {
  const places = Object.entries(value.protectedAt ?? {}).filter(([uid]) => uids.includes(uid))
  return { ...value, protected: [...uids], protectedAt: Object.fromEntries(places) }
}

const isAt = (a: Place, b: Place): boolean =>
  a.name === b.name && a.namespace === b.namespace && a.cluster === b.cluster
