import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import { PersonSettings } from '../../agent-core/settings/person-settings.ts'
import { notInStartFile } from '../../agent-core/settings/start-rows.ts'
import { agentSettings, allRows, type AgentSettings } from '../../agent-core/settings/settings.ts'
import { settingNames, settingsPatch } from '../../contract/settings.ts'
import { readOwnFile } from '../system/own-file.ts'
import { machineWords } from '../words.ts'

const { shape } = agentSettings

/** What `preferences.json` of an earlier build said to the app's agent; null for `namespace` means all. */
export const agentKeys = z.object({
  kubeconfig: shape.kubeconfig,
  context: shape.context,
  namespace: shape.namespace.nullable(),
  inferenceServiceAllowlist: shape.inferenceServiceAllowlist,
  modelStore: shape.modelStore,
  allowedModelRoots: shape.allowedModelRoots,
  allowUnsafeExtraArgs: shape.allowUnsafeExtraArgs,
  allowedEnv: shape.allowedEnv,
  allowedDownloadHosts: shape.allowedDownloadHosts,
  hubLoginNamespaces: shape.hubLoginNamespaces,
  llamaServer: shape.llamaServer,
  llamaServerStartupTimeoutMs: shape.startupStallMs,
  hostIp: shape.hostIp,
  port: shape.port,
  logLevel: shape.logLevel,
})
export type AgentKeys = z.infer<typeof agentKeys>

/** Settings that were moved out of preferences.json. */
export type MovedKeys = readonly (keyof AgentKeys)[]

export const keyNames = (keys: Partial<AgentKeys>): (keyof AgentKeys)[] =>
  agentKeys.keyof().options.filter((name) => name in keys)

const startKeys = z
  .strictObject({ ...shape, givenByFlags: z.undefined(), flagsNotInEffect: z.undefined(), startFile: z.undefined() })
  .omit(notInStartFile)
  .partial()
type StartKeys = z.infer<typeof startKeys>

const startFileIn = (stateDir: string): string => path.join(stateDir, 'start-settings.json')

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
  const file = startFileIn(stateDir)
  const read = await readOwnFile(file, machineWords.files.start, startKeys)
  if (!read.ok) return read
  const settings = agentSettings.parse({
    namespace: allRows.namespace.startsAs,
    modelStore: defaultModelStore(platform, env, homeDir),
    ...read.value,
    stateDir,
    logFormat: 'json',
    startFile: { path: file, states: read.keys },
  })
  return { ok: true, settings }
}

export interface MoveOptions {
  readonly keys: Partial<AgentKeys>
  readonly settings: AgentSettings
  /** Only one of these may be chosen by a person; any other, as behind a NAT, is stated as by a flag. */
  readonly ownAddresses: readonly string[]
}

/**
 * Keys of an earlier build's preferences go where they belong, which says the same to the agent: what a person may change while it runs to
 * the settings of the person, all else to what it is started with. Only while no agent uses the state folder. Throws what the disk answers.
 */
export async function moveAgentKeys(stateDir: string, { keys, settings, ownAddresses }: MoveOptions): Promise<void> {
  const { context, hostIp, llamaServerStartupTimeoutMs: startupStallMs, ...others } = keys
  const isOwn = hostIp !== undefined && ownAddresses.includes(hostIp)
  const stated = { ...others, ...(startupStallMs !== undefined && { startupStallMs }), ...(!isOwn && { hostIp }) }
  const named = Object.entries(stated).filter(([, value]) => value !== undefined)
  const persons = named.filter(([name, value]) => isPersons(name, value))
  const started = named.filter(([name, value]) => !isPersons(name, value))
  if (started.length > 0) await addToStart(stateDir, Object.fromEntries(started))
  const file = await PersonSettings.open(settings, path.join(stateDir, 'settings.json'))
  await file.update(settingsPatch.parse(Object.fromEntries(persons)))
  if (context !== undefined) await file.chooseContext(context)
  if (isOwn) await file.chooseHostAddress(hostIp)
}

/** A flag takes some values that a person may not set. */
function isPersons(name: string, value: unknown): boolean {
  return settingNames.some((one) => one === name) && settingsPatch.safeParse({ [name]: value }).success
}

async function addToStart(stateDir: string, keys: StartKeys): Promise<void> {
  const read = await readOwnFile(startFileIn(stateDir), machineWords.files.start, z.record(z.string(), z.unknown()))
  const content = { ...(read.ok ? read.value : {}), ...keys }
  await writeFileAtomic(startFileIn(stateDir), `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
}
