import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { type AppPreferences, appPreferences } from '../contract/app-state.ts'
import { readOwnFile } from './system/own-file.ts'
import { machineWords } from './words.ts'

const { showTitle, onQuit, notifications, looksForUpdates } = appPreferences.shape

const shellKeys = z.strictObject({
  showTitle: showTitle.default(false),
  onQuit: onQuit.default('ask'),
  notifications: notifications.default(true),
  looksForUpdates: looksForUpdates.default(false),
  /** A person was asked once whether the app is to be opened at login. */
  loginItemOffered: showTitle.default(false),
  /** A person was told once that macOS shows no icon. */
  hiddenIconTold: showTitle.default(false),
})

/** What concerns the icon, its menu and the window alone; all that concerns the agent is in the agent's settings. */
export type ShellPreferences = z.infer<typeof shellKeys>

export const defaultPreferences: ShellPreferences = shellKeys.parse({})

/** Those of them that a person sets. */
export const setByPerson = (preferences: ShellPreferences): AppPreferences => appPreferences.strip().parse(preferences)

export type ReadPreferences =
  | { readonly ok: true; readonly preferences: ShellPreferences }
  | { readonly ok: false; readonly file: string; readonly message: string }

export async function readPreferences(stateDir: string): Promise<ReadPreferences> {
  const read = await readOwnFile(fileIn(stateDir), machineWords.files.preferences, shellKeys)
  return read.ok ? { ok: true, preferences: read.value } : read
}

/** Throws what the disk answers. */
export async function writePreferences(stateDir: string, preferences: ShellPreferences): Promise<void> {
  await writeFileAtomic(fileIn(stateDir), `${JSON.stringify(preferences, null, 2)}\n`, { mode: 0o600 })
}

const fileIn = (stateDir: string): string => path.join(stateDir, 'preferences.json')
