import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { hold } from '../../contract/service.ts'
import { StateFile } from '../state/state-file.ts'
import { keptAbsence, type KeptAbsence } from './absence.ts'

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

export const absenceFile = z.object({
  schema: z.literal(1),
  /** Since when this machine is paused; null = it is not. */
  pausedSince: z.iso.datetime().nullable(),
  absences: z.array(z.object({ ...target, absence: keptAbsence })),
  /** Uids of services that a person protects from eviction on this machine. */
  protected: z.array(z.string()),
  /** Where these services are, by uid; earlier versions did not put it down. */
  protectedAt: z.record(z.string(), z.object(place)).optional(),
  /** By uid. */
  evictions: z.record(z.string(), evictionRecord),
})
export type AbsenceFile = z.infer<typeof absenceFile>

export const nothingAbsent: AbsenceFile = {
  schema: 1,
  pausedSince: null,
  absences: [],
  protected: [],
  evictions: {},
}

/** `holds.json` and `memory.json`, which held the same before. */
const holdsFile = z.object({
  schema: z.literal(1),
  pausedSince: z.iso.datetime().nullable(),
  holds: z.array(z.object({ ...target, hold })),
})
const memoryFile = z.object({
  schema: z.literal(1),
  protected: z.array(z.string()),
  evictions: z.record(z.string(), evictionRecord),
})

/** What an agent before this file wrote in the state folder; undefined where there is nothing. Throws StateFileError. */
export async function earlierFiles(
  stateDir: string,
): Promise<{ readonly found: AbsenceFile; readonly notices: readonly string[] } | undefined> {
  const holds = await StateFile.open<z.infer<typeof holdsFile> | undefined>({
    file: join(stateDir, 'holds.json'),
    schema: holdsFile,
    initial: undefined,
    keeps: 'what was stopped, evicted or paused only on this machine',
  })
  const memory = await StateFile.open<z.infer<typeof memoryFile> | undefined>({
    file: join(stateDir, 'memory.json'),
    schema: memoryFile,
    initial: undefined,
    keeps: 'which services are protected from eviction, and how often each was evicted',
  })
  const notices = [holds.notice, memory.notice].filter((notice) => notice !== undefined)
  if (!holds.value && !memory.value && notices.length === 0) return undefined
  const found = {
    ...nothingAbsent,
    pausedSince: holds.value?.pausedSince ?? null,
    absences: (holds.value?.holds ?? []).map(({ hold: before, ...rest }) => ({ ...rest, absence: absenceOf(before) })),
    protected: memory.value?.protected ?? [],
    evictions: memory.value?.evictions ?? {},
  }
  return { found, notices }
}

/** To be called once their content is written elsewhere. */
export async function removeEarlierFiles(stateDir: string): Promise<void> {
  for (const file of ['holds.json', 'memory.json']) await rm(join(stateDir, file), { force: true })
}

const absenceOf = ({ cause, since, message, by }: z.infer<typeof hold>): KeptAbsence =>
  by === 'pressure' ? { kind: 'evicted', since, message } : { kind: 'held', cause, since, message }
