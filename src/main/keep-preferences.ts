import { LinkError } from '../contract/client.ts'
import type { AgentViewStore } from './agent-view.ts'
import { readPreferences, writePreferences, type ShellPreferences } from './preferences.ts'

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
