import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { StateFile } from '../../agent-core/state/state-file.ts'
import { parseJson, readIfThere, syncFolder } from '../../agent-core/util/files.ts'
import { findGoAgents } from './go-agent.ts'

/** What was done, so that it can be continued and taken back. */
const migration = z.object({
  startedAt: z.iso.datetime(),
  /** `begun`: some of it is done; `undoing`: some of it is taken back. */
  phase: z.enum(['begun', 'done', 'undoing', 'undone']),
  /** The Go agent's plist, and where its copy is kept. Absent where the Go agent was started by hand. */
  job: z.object({ file: z.string(), kept: z.string(), program: z.string() }).optional(),
  /** What a person types to start it again. */
  byHand: z.string().optional(),
  store: z.object({ from: z.string(), to: z.string(), moved: z.array(z.object({ path: z.string() })) }),
  /** The folder whose identity became this agent's: that of a Go agent in relay mode. */
  identity: z.string().optional(),
  isInstalled: z.boolean(),
  /** Keys of the services that our agent serves already. */
  transferred: z.array(z.string()),
})
export type Migration = z.infer<typeof migration>

const file = z.object({ schema: z.literal(1), migration: migration.nullable() })

export const migrationFolder = (stateDir: string): string => path.join(stateDir, 'migration')
const recordIn = (stateDir: string): string => path.join(migrationFolder(stateDir), 'migration.json')

/** What the record says; undefined where there is none that can be understood. Creates no file. */
async function readMigration(stateDir: string): Promise<Migration | undefined> {
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
    const folder = migrationFolder(stateDir)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const initial = { schema: 1, migration: null } as const
    const keeps = 'what the migration has done'
    return new MigrationRecord(await StateFile.open({ file: recordIn(stateDir), schema: file, initial, keeps }), folder)
  }

  get value(): Migration | undefined {
    return this.#file.value.migration ?? undefined
  }

  /** Resolves when the record is on the disk, so that after a power cut it is known what is to be taken back. */
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

/** Where a move stands that was left in the middle, and what to do; undefined where there is none. */
export async function standingOf(stateDir: string, platform: Pick<Platform, 'processes'>): Promise<string | undefined> {
  const found = await readMigration(stateDir)
  if (found?.phase !== 'begun' && found?.phase !== 'undoing') return undefined
  const { phase, startedAt, isInstalled, transferred, job } = found
  const agents = await findGoAgents(platform, job ? [job.program] : [], undefined)
  const [agent] = agents.toSorted((one, other) => Number(other.suspended) - Number(one.suspended))
  const where = [
    `This agent is ${isInstalled ? '' : 'not '}installed${phase === 'begun' ? `, and serves ${transferred.join(', ') || 'nothing yet'}` : ''}.`,
    agent === undefined
      ? 'The Go agent does not run.'
      : `The Go agent (process ${agent.pid}) ${agent.suspended ? 'is paused: it manages nothing, and counts as gone after three minutes' : 'runs'}.`,
  ].join(' ')
  return phase === 'begun'
    ? `A move from the Go agent was started on ${startedAt} and is not finished. ${where} "metal-agent migrate" continues, "metal-agent migrate --undo" goes back.`
    : `A move from the Go agent that was started on ${startedAt} is being undone, which is not finished. ${where} "metal-agent migrate --undo" continues that.`
}
