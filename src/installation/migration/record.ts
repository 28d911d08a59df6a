import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { parseJson, readIfThere, syncFolder } from '../../agent-core/util/files.ts'
import { StateFile } from '../../agent-core/state/state-file.ts'

const movedFile = z.object({ path: z.string(), isCopy: z.boolean() })
export type MovedFile = z.infer<typeof movedFile>

/** What was done, so that it can be gone on with and taken back. */
const migration = z.object({
  startedAt: z.iso.datetime(),
  /** `begun`: some of it is done; `undoing`: some of it is taken back. */
  phase: z.enum(['begun', 'done', 'undoing', 'undone']),
  /** Absent where the Go agent was started by hand. */
  job: z
    .object({ file: z.string(), label: z.string(), domain: z.string(), kept: z.string(), program: z.string() })
    .optional(),
  /** What a person types to start it again. */
  byHand: z.string().optional(),
  flags: z.array(z.string()),
  namespace: z.string().optional(),
  kubeconfig: z.string().optional(),
  context: z.string().optional(),
  store: z.object({ from: z.string(), to: z.string(), moved: z.array(movedFile) }),
  isInstalled: z.boolean(),
  /** Keys of services that our agent serves by now. */
  transferred: z.array(z.string()),
})
export type Migration = z.infer<typeof migration>

const file = z.object({ schema: z.literal(1), migration: migration.nullable() })

export const migrationFolder = (stateDir: string): string => path.join(stateDir, 'migration')
const recordIn = (stateDir: string): string => path.join(migrationFolder(stateDir), 'migration.json')

/** What the record says, without one being made; undefined where there is none that can be understood. */
export async function readMigration(stateDir: string): Promise<Migration | undefined> {
  return file.safeParse(parseJson((await readIfThere(recordIn(stateDir))) ?? '')).data?.migration ?? undefined
}

/** Whether the Go agent's plist is kept there and nowhere else: it was moved, and neither taken back nor confirmed. */
export async function keepsGoPlist(stateDir: string): Promise<boolean> {
  const found = await readMigration(stateDir)
  return found?.job !== undefined && found.phase !== 'undone'
}

/** The record of a migration in our state folder. Throws StateFileError. */
export class MigrationRecord {
  readonly #file: StateFile<z.infer<typeof file>>
  readonly #folder: string

  private constructor(opened: StateFile<z.infer<typeof file>>, folder: string) {
    this.#file = opened
    this.#folder = folder
  }

  static async open(stateDir: string): Promise<MigrationRecord> {
    await mkdir(migrationFolder(stateDir), { recursive: true, mode: 0o700 })
    return new MigrationRecord(
      await StateFile.open<z.infer<typeof file>>({
        file: recordIn(stateDir),
        schema: file,
        initial: { schema: 1, migration: null },
        keeps: 'what the migration has done',
      }),
      migrationFolder(stateDir),
    )
  }

  get value(): Migration | undefined {
    return this.#file.value.migration ?? undefined
  }

  /** Resolves when the record is on the disk: a power cut after it leaves known what is to be taken back. */
  async begin(begun: Migration): Promise<void> {
    await this.#file.update(() => ({ schema: 1, migration: begun }))
    await syncFolder(this.#folder)
  }

  note(change: Partial<Migration>): Promise<void> {
    return this.#file.update((now) => (now.migration ? { schema: 1, migration: { ...now.migration, ...change } } : now))
  }

  clear(): Promise<void> {
    return this.#file.update(() => ({ schema: 1, migration: null }))
  }
}
