import { z } from 'zod'
import type { EvictionRecord } from '../memory/come-back.ts'
import { StateFile } from '../state/state-file.ts'

const evictionRecord = z.object({
  evictions: z.int().positive(),
  evictedAt: z.number(),
  broughtBackAt: z.number().optional(),
})

const memoryFile = z.object({
  schema: z.literal(1),
  /** Uids of services that a person protects from eviction on this machine. */
  protected: z.array(z.string()),
  /** By uid. */
  evictions: z.record(z.string(), evictionRecord),
})

/** Records of services that nobody evicted for so long say nothing any more. */
const rememberedMs = 24 * 3_600_000

/** What is remembered of memory over restarts of the agent. Writing throws StateFileError. */
export class MemoryState {
  readonly #file: StateFile<z.infer<typeof memoryFile>>

  private constructor(file: StateFile<z.infer<typeof memoryFile>>) {
    this.#file = file
  }

  /** Throws StateFileError. */
  static async open(file: string): Promise<MemoryState> {
    return new MemoryState(
      await StateFile.open({
        file,
        schema: memoryFile,
        initial: { schema: 1, protected: [], evictions: {} },
        keeps: 'which services are protected from eviction, and how often each was evicted',
      }),
    )
  }

  get notice(): string | undefined {
    return this.#file.notice
  }

  isProtected(uid: string): boolean {
    return this.#file.value.protected.includes(uid)
  }

  async protect(uid: string, isProtected: boolean): Promise<void> {
    await this.#file.update((value) => ({
      ...value,
      protected: [...value.protected.filter((one) => one !== uid), ...(isProtected ? [uid] : [])],
    }))
  }

  eviction(uid: string): EvictionRecord | undefined {
    const record = this.#file.value.evictions[uid]
    if (!record) return undefined
    const { broughtBackAt, ...rest } = record
    return { ...rest, ...(broughtBackAt !== undefined && { broughtBackAt }) }
  }

  async remember(uid: string, record: EvictionRecord): Promise<void> {
    await this.#file.update((value) => {
      const isRecent = ([, { evictedAt }]: [string, EvictionRecordKept]) => evictedAt > record.evictedAt - rememberedMs
      const kept = Object.fromEntries(Object.entries(value.evictions).filter(isRecent))
      return { ...value, evictions: { ...kept, [uid]: record } }
    })
  }
}

type EvictionRecordKept = z.infer<typeof evictionRecord>
