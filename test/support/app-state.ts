import { tmpdir } from 'node:os'
import { agentKeys, moveAgentKeys, readStartSettings } from '../../src/main/agent/agent-keys.ts'
import { defaultPreferences, writePreferences } from '../../src/main/preferences.ts'

/** The files of an app in which a person has set this: its own preferences, the settings of its agent, what that is started with. */
export async function writeAppState(stateDir: string, set: Readonly<Record<string, unknown>>): Promise<void> {
  const entries = Object.entries(set)
  const isOfAgent = (name: string) => name in agentKeys.shape
  const own = Object.fromEntries(entries.filter(([name]) => !isOfAgent(name)))
  const keys = Object.fromEntries(entries.filter(([name]) => isOfAgent(name)))
  const start = await readStartSettings({ stateDir, platform: process.platform, env: {}, homeDir: tmpdir() })
  if (!start.ok) throw new Error(start.message)
  await writePreferences(stateDir, { ...defaultPreferences, ...own })
  // No address of a test is one of this machine.
  await moveAgentKeys(stateDir, { keys, settings: start.settings, ownAddresses: [] })
}
