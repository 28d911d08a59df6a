import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { AppPreferences } from '../contract/app-bridge.ts'
import { readOwnFile } from './system/own-file.ts'
import { machineWords } from './words.ts'

const { files, wants } = machineWords
const yesOrNo = z.boolean({ error: wants.trueOrFalse })

/** What a person sets. */
export const preferenceKeys = {
  showTitle: yesOrNo,
  onQuit: z.enum(['ask', 'drain', 'keep'], { error: wants.onQuit }),
  notifications: yesOrNo,
  looksForUpdates: yesOrNo,
  updateChannel: z.enum(['latest', 'beta'], { error: wants.channel }),
} satisfies { readonly [K in keyof AppPreferences]: z.ZodType<AppPreferences[K]> }

const shellKeys = z.strictObject({
  showTitle: preferenceKeys.showTitle.default(false),
  onQuit: preferenceKeys.onQuit.default('ask'),
  notifications: preferenceKeys.notifications.default(true),
  looksForUpdates: preferenceKeys.looksForUpdates.default(false),
  updateChannel: preferenceKeys.updateChannel.default('latest'),
  /** A person was asked once whether the app is to be opened at login. */
  loginItemOffered: yesOrNo.default(false),
  /** A person was told once that macOS shows no icon. */
  hiddenIconTold: yesOrNo.default(false),
})

/** What concerns the icon, its menu and the window alone; all that concerns the agent is in the agent's settings. */
export type ShellPreferences = z.infer<typeof shellKeys>

export const defaultPreferences: ShellPreferences = shellKeys.parse({})

/** Those of them that a person sets. */
export const setByPerson = ({
  showTitle,
  onQuit,
  notifications,
  looksForUpdates,
  updateChannel,
}: ShellPreferences): AppPreferences => ({ showTitle, onQuit, notifications, looksForUpdates, updateChannel })

export type ReadPreferences =
  | { readonly ok: true; readonly preferences: ShellPreferences }
  | { readonly ok: false; readonly file: string; readonly message: string }

export async function readPreferences(stateDir: string): Promise<ReadPreferences> {
  const read = await readOwnFile(fileIn(stateDir), files.preferences, shellKeys)
  return read.ok ? { ok: true, preferences: read.value } : read
}

/** Throws what the disk answers. */
export async function writePreferences(stateDir: string, preferences: ShellPreferences): Promise<void> {
  await writeFileAtomic(fileIn(stateDir), `${JSON.stringify(preferences, null, 2)}\n`, { mode: 0o600 })
}

const fileIn = (stateDir: string): string => path.join(stateDir, 'preferences.json')
