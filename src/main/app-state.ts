import { app } from 'electron'
import type { AppState, CommandLinkState } from '../contract/app-bridge.ts'
import type { AgentViewStore } from './agent-view.ts'
import type { KeptToken } from './kept-token.ts'
import { loginItemState } from './login-item.ts'
import { setByPerson } from './preferences.ts'

/** What the app's own window is told of the app; never the token. */
export async function appState(
  view: AgentViewStore,
  token: Pick<KeptToken, 'state'>,
  commandLink: () => Promise<CommandLinkState>,
  isTornOff: () => boolean,
): Promise<AppState> {
  const hubToken = await token.state()
  const link = await commandLink()
  const { preferences, isHere, update, lastUpdate, misplaced } = view.getState()
  return {
    hubToken,
    loginItem: loginItemState(misplaced),
    isHere,
    isTornOff: isTornOff(),
    version: app.getVersion(),
    update,
    commandLink: link,
    ...(lastUpdate && { lastUpdate }),
    ...(misplaced && { misplaced }),
    ...(preferences && { preferences: setByPerson(preferences) }),
  }
}
