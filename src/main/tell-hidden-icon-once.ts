import type { Logger } from '../agent-core/observability/logger.ts'
import type { AgentView, AgentViewStore } from './agent-view.ts'
import { onceKnown } from './once-known.ts'
import type { ShellPreferences } from './preferences.ts'
import { tellHiddenIcon } from './questions.ts'

export interface TellOnceOptions {
  readonly view: AgentViewStore
  readonly log: Logger
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
}

/** Where macOS shows no icon, a person is told why a window opened, and never again. */
export function tellHiddenIconOnce({ view, log, prefer }: TellOnceOptions): void {
  const preferences = (now: AgentView) => now.preferences
  // A login shell that is slow holds them up for longer than the menu bar.
  onceKnown(view, preferences, ({ hiddenIconTold }) => {
    if (hiddenIconTold) return
    tellHiddenIcon()
      .then(() => prefer({ hiddenIconTold: true }))
      .catch((error: unknown) => log.warn('not remembered that the hidden icon was told', { error }))
  })
}
