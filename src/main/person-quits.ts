import { app } from 'electron'
import { messageOf } from '../agent-core/util/message-of.ts'
import { answer, type AgentViewStore } from './agent-view.ts'
import type { ShellPreferences } from './preferences.ts'
import { askToQuit } from './questions.ts'
import { hurtsModels } from './quit.ts'

export interface PersonQuitsOptions {
  readonly view: AgentViewStore
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
  readonly hide: () => void
}

/** A quit that would take models away is asked about first, where a person wants that. */
export const personQuits =
  ({ view, prefer, hide }: PersonQuitsOptions) =>
  async (): Promise<void> => {
    const state = view.getState()
    if (state.preferences?.onQuit !== 'ask' || !hurtsModels(state)) {
      app.quit()
      return
    }
    const wanted = await askToQuit()
    if (!wanted) return
    const { quits, remembered } = wanted
    if (quits) app.quit()
    else hide()
    if (!remembered) return
    await answer(view, () =>
      prefer({ onQuit: quits ? 'drain' : 'keep' }).then(
        () => undefined,
        (error: unknown) => ({ outcome: 'failed', message: `Done, but not remembered: ${messageOf(error)}` }),
      ),
    )
  }
