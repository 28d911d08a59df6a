import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { AppPreferences } from '../contract/app-bridge.ts'
import { sentence } from '../contract/clean-text.ts'
import { LinkError } from '../contract/client.ts'
import { agentKeys, type AgentKeys } from './agent/agent-keys.ts'
import type { AgentViewStore } from './agent/agent-view.ts'
import { maxBodyBytes, type News } from './notifications/news.ts'
import { readOwnFile } from './system/own-file.ts'

const yesOrNo = z.boolean({ error: 'must be true or false' })

/** What a person sets. */
export const preferenceKeys = {
  showTitle: yesOrNo,
  onQuit: z.enum(['ask', 'drain', 'keep'], { error: 'must be ask, drain or keep' }),
  notifications: yesOrNo,
  looksForUpdates: yesOrNo,
  updateChannel: z.enum(['latest', 'beta'], { error: 'must be latest or beta' }),
} satisfies { readonly [K in keyof AppPreferences]: z.ZodType<AppPreferences[K]> }

const shellKeys = z.object({
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

/** An earlier build kept there what its agent was started with. */
const content = z.strictObject({ ...shellKeys.shape, ...agentKeys.partial().shape })

export type ReadPreferences =
  /** `agent`: keys of an earlier build, which are to be moved to the agent's settings. */
  | { readonly ok: true; readonly preferences: ShellPreferences; readonly agent: Partial<AgentKeys> }
  | { readonly ok: false; readonly file: string; readonly message: string }

export async function readPreferences(stateDir: string): Promise<ReadPreferences> {
  const read = await readOwnFile(fileIn(stateDir), 'preferences', content)
  if (!read.ok) return read
  const entries = Object.entries(read.value)
  const agent = entries.filter(([name]) => !(name in shellKeys.shape) && read.keys.includes(name))
  return { ok: true, preferences: shellKeys.parse(read.value), agent: Object.fromEntries(agent) }
}

/** Without `agent` no key of an earlier build is left in the file. Throws what the disk answers. */
export async function writePreferences(
  stateDir: string,
  preferences: ShellPreferences,
  agent: Partial<AgentKeys> = {},
): Promise<void> {
  await writeFileAtomic(fileIn(stateDir), `${JSON.stringify({ ...agent, ...preferences }, null, 2)}\n`, { mode: 0o600 })
}

const fileIn = (stateDir: string): string => path.join(stateDir, 'preferences.json')

type Changes = { readonly [K in keyof ShellPreferences]?: ShellPreferences[K] | undefined }

/** Changes some of them, on the disk and in the view. Throws what the disk answers, and a LinkError while their file cannot be used. */
export function keepPreferences(stateDir: string, view: AgentViewStore, onChange: () => void) {
  let last: Promise<void> = Promise.resolve()
  const write = async (changes: Changes) => {
    const { preferences: before } = view.getState()
    if (!before) {
      throw new LinkError('refused', 'preferences.json cannot be used: choose Reset preferences in the menu first.')
    }
    const stated = Object.entries(changes).filter(([, value]) => value !== undefined)
    const preferences = { ...before, ...Object.fromEntries(stated) }
    // While another program runs the agent, what an earlier build kept there waits for the app's own to take it over.
    const there = await readPreferences(stateDir)
    await writePreferences(stateDir, preferences, there.ok ? there.agent : {})
    view.setState({ preferences })
    onChange()
  }
  // One after the other, so that none is lost.
  return (changes: Changes): Promise<void> => {
    const done = last.then(() => write(changes))
    last = done.catch(() => undefined)
    return done
  }
}

/** What the window calls each key that an earlier build kept in `preferences.json`. */
export const movedTitles: Readonly<Record<keyof AgentKeys, string>> = {
  kubeconfig: 'Kubeconfig',
  context: 'Context',
  namespace: 'Namespace',
  inferenceServiceAllowlist: 'Services this machine may claim',
  modelStore: 'Folder of models',
  allowedModelRoots: 'Folders a Model may name',
  allowUnsafeExtraArgs: 'Pass on unsafe arguments',
  allowedEnv: 'Variables a service may set',
  allowedDownloadHosts: 'Private hosts to download from',
  hubLoginNamespaces: 'Namespaces that share the Hugging Face token',
  llamaServer: 'Path of llama-server',
  llamaServerStartupTimeoutMs: 'Longest wait for a model that loads',
  hostIp: 'Host address',
  port: 'Port of health and metrics',
  logLevel: "Detail of the agent's log",
}

export type MovedKeys = readonly (keyof AgentKeys)[]

const titlesOf = (keys: MovedKeys): string => keys.map((key) => movedTitles[key]).join(', ')

/** In the menu, the window and `metal-agent status`, until the app ends. */
export const movedNotice = (keys: MovedKeys): string =>
  `Moved from preferences.json to Settings, the same as before: ${titlesOf(keys)}.`

/** Where a person looks at none of them meanwhile. */
export const movedNews = (keys: MovedKeys): News => {
  const settings = { kind: 'open', at: { view: 'settings' } } as const
  return {
    id: 'settings moved',
    title: 'Your settings moved',
    body: sentence(
      `They say the same as before, and Settings shows them from now on: ${titlesOf(keys)}.`,
      maxBodyBytes,
    ),
    click: settings,
    action: { label: 'Open Settings', deed: settings },
  }
}
