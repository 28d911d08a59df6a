import { z } from 'zod'
import { command, serviceRef } from './commands.ts'
import { settingsPatch } from './settings.ts'

export const historyKinds = [
  'added',
  'deleted',
  'started',
  'ready',
  'crashed',
  'stopped',
  'evicted',
  'broughtBack',
  'refused',
  'addressChanged',
  'settingsChanged',
  'agentStarted',
  'agentStopped',
  'machineEnded',
] as const

/** Something that happened here and that a person may ask about later. */
export const historyEntry = z.object({
  /** Rises by one with each entry, over restarts of the agent too. */
  id: z.int().positive(),
  at: z.iso.datetime(),
  kind: z.enum(historyKinds),
  /** Absent for what concerns the whole agent. */
  service: serviceRef.optional(),
  /** One sentence: what happened, and why or on whose request. */
  message: z.string(),
  /** What a person set, as it may be shown; the message says it to who reads no data. */
  settings: settingsPatch.optional().catch(undefined),
  /** What sets back what a person changed, as long as nothing else has changed it since. */
  undo: command.optional().catch(undefined),
})
export type HistoryEntry = z.infer<typeof historyEntry>
