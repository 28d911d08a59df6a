import path from 'node:path'
import { z } from 'zod'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import { notInStartFile } from '../../agent-core/settings/start-rows.ts'
import { agentSettings, allRows, type AgentSettings } from '../../agent-core/settings/settings.ts'
import { readOwnFile } from '../system/own-file.ts'
import { machineWords } from '../words.ts'

const startKeys = z
  .strictObject({
    ...agentSettings.shape,
    givenByFlags: z.undefined(),
    flagsNotInEffect: z.undefined(),
    startFile: z.undefined(),
  })
  .omit(notInStartFile)
  .partial()

/** The app's standard error is not read by anyone, so what `metal-agent` writes there goes to this file. */
export const appLogIn = (stateDir: string): string => path.join(stateDir, 'metalbar.log')

export interface AppPlaces {
  readonly stateDir: string
  readonly platform: NodeJS.Platform
  readonly env: NodeJS.ProcessEnv
  readonly homeDir: string
}

export type ReadStart =
  | { readonly ok: true; readonly settings: AgentSettings }
  | { readonly ok: false; readonly file: string; readonly message: string }

/** What the app's agent is started with: as `metal-agent` without flags, and what `start-settings.json` says in place of flags. */
export async function readStartSettings({ stateDir, platform, env, homeDir }: AppPlaces): Promise<ReadStart> {
  const file = path.join(stateDir, 'start-settings.json')
  const read = await readOwnFile(file, machineWords.files.start, startKeys)
  if (!read.ok) return read
  const settings = agentSettings.parse({
    namespace: allRows.namespace.startsAs,
    modelStore: defaultModelStore(platform, env, homeDir),
    ...read.value,
    stateDir,
    logFormat: 'json',
    logFile: appLogIn(stateDir),
    startFile: { path: file, states: read.keys },
  })
  return { ok: true, settings }
}
